//! What was typed after `weighbridge bisect`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::values::{self, TextOrJson};

/// What stands below the commands.
pub const AFTER_HELP: &str = "\
For figures that differ from boot to boot. `start` takes the line of commits between a good and a bad one; `next` says which commit to measure, \
and `tell` what that came to, in any order and as often as you like, from any machines of one kind. Each figure must be of a boot of its own. \
Where commits repeat to a part of a per cent, as counts of instructions do, `weighbridge guest bisect` does all of it with a boot of each.

Levels, noise and place of the step are estimated together: a posterior over commits, of which the next measurement halves what is left. It ends \
at 95 %; that the ends do not differ, or that there are two steps, is an answer too. With an effect of 4, 2, 1 or 0.5 standard deviations of a \
boot, 1,024 commits take about 11, 25, 80 or 280 boots where both ends are known from earlier boots, which may be told first, and twice as many where \
nothing is known.

Exit code of next: 0 a commit to measure, 1 the first bad commit is named, 2 a mistake, 4 no single commit can be named.

Examples:
  weighbridge bisect start state.json --good v6.11 --bad v6.12 --noise 0.7%
  weighbridge bisect next state.json
  weighbridge bisect tell state.json 1a2b3c4 --value 5321
  weighbridge bisect tell state.json 1a2b3c4 --record boot-7.jsonl --case roundtrip/pipe/1/same-cpu
  weighbridge bisect tell state.json 1a2b3c4 --skip";

#[derive(Debug, Args)]
pub struct Bisect {
    #[command(subcommand)]
    pub command: Command,
}

/// A step of a search.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Begin a search over the commits of a repository
    Start(Start),
    /// Say which commit to measure next, or which one it is
    Next(Next),
    /// Tell what a commit came to
    Tell(Tell),
}

#[derive(Debug, Args)]
pub struct Start {
    /// The file of the search, which does not exist yet
    #[arg(value_name = "STATE")]
    pub state: PathBuf,
    /// A commit before the change
    #[arg(long, value_name = "REF")]
    pub good: String,
    /// A commit after it
    #[arg(long, value_name = "REF")]
    pub bad: String,
    /// The repository; of merges the first parents are followed
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub repository: PathBuf,
    /// How much two boots of one commit differ: the standard deviation, as a share; without it, the ends are measured three times each to learn it
    #[arg(long, value_name = "SHARE", value_parser = values::precision)]
    pub noise: Option<f64>,
}

#[derive(Debug, Args)]
pub struct Next {
    /// The file of the search
    #[arg(value_name = "STATE")]
    pub state: PathBuf,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
}

#[derive(Debug, Args)]
pub struct Tell {
    /// The file of the search
    #[arg(value_name = "STATE")]
    pub state: PathBuf,
    /// The commit, or the beginning of its name
    #[arg(value_name = "COMMIT")]
    pub commit: String,
    /// Its figure, more than zero
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["record", "skip"])]
    pub value: Option<f64>,
    /// A record that has its figure: that of --case, as a multiple of its hub's where it has one
    #[arg(long, value_name = "FILE", requires = "case", conflicts_with = "skip")]
    pub record: Option<PathBuf>,
    /// The case, by its whole id
    #[arg(long, value_name = "CASE", requires = "record")]
    pub case: Option<String>,
    /// It cannot be measured: it does not build or does not boot
    #[arg(long)]
    pub skip: bool,
}
