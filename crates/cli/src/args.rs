//! What was typed. Values are checked for their form here; whether they make sense together, [`scope`](crate::scope) decides.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use weighbridge_lab::axis::{self, Values};
use weighbridge_lab::{placement, plan};
use weighbridge_record::CaseId;

use crate::values::{self, AxisValues, Cpus, Page, Sizes};
use crate::{mistakes, output};

const AFTER_HELP: &str = "\
Examples:
  weighbridge run                            every mechanism, a few sizes, within two minutes
  weighbridge run 'roundtrip/pipe/*'         only round trips over pipes
  weighbridge list                           what can be measured here
  weighbridge report weighbridge-*.jsonl     the tables of earlier records

Results go to standard output, progress and warnings to standard error.
Exit code: 0 fine, 1 a ratio outside its band (check) or findings (dbus lint), 2 a mistake or a failure, 130 interrupted with a valid partial record.";

const AFTER_RUN_HELP: &str = "\
A case is named pattern/mechanism/payload bytes/placement, then axes that are not at their default:
  roundtrip/pipe/4096/same-cpu/wait=poll

A GLOB selects cases of the suite. `*` also crosses slashes. A path selects everything below it. A word without a \
slash is held against each part, so `pipe` selects the mechanism and `stream` the pattern. Without --suite, a GLOB \
that selects nothing in `quick` is tried on the other suites. A complete id is measured whether or not a suite has it.

Examples:
  weighbridge run                                        suite quick
  weighbridge run pipe tcp --sizes 1..64K                two mechanisms over powers of two
  weighbridge run 'roundtrip/ring-*' --place two-cpus    rings between two CPUs
  weighbridge run --suite ipc --wait poll --budget 10m   as a main loop would read
  weighbridge run --suite akbench                        what akbench measures, beside its published figures
  weighbridge run stream/tcp/131072/two-cpus --format json --html none";

// A line is as wide as the reader's terminal: paragraphs are one line each here.
const AFTER_CHECK_HELP: &str = "\
Each turn runs the other tool and our case alternately, one to five times, on the same CPUs. The result is the median over \
the turns of the ratio ours/theirs. It is inside or outside the band in which it is expected when its whole 95 % interval is, \
and inconclusive when the interval reaches over an end of the band. Tools that are missing are listed with their package.

A tool runs in a session of its own, on given CPUs, with a deadline; whatever it started ends with it, and with us.

Exit code: 0 when no ratio is outside its band, also when tools are missing or a verdict is inconclusive; 1 when one is \
outside; 2 when a tool or a case of ours failed, the budget ended before the first turn of a check, or nothing could be \
compared; 130 interrupted.

Examples:
  weighbridge check                        everything that is installed
  weighbridge check perf                   the checks of one tool
  weighbridge check 'perf-sched-*' iperf3 --turns 13 --format json";

/// Weighs what it costs to move messages, wake-ups and memory between Linux processes.
#[derive(Debug, Parser)]
#[command(name = "weighbridge", bin_name = "weighbridge", version, long_version = long_version(), after_help = AFTER_HELP, max_term_width = 110)]
struct Typed {
    #[command(subcommand)]
    command: Command,
}

/// Something to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure cases; print a table, write a record and a page
    #[command(after_help = AFTER_RUN_HELP)]
    Run(Box<Run>),
    /// Show what run would measure, what it would skip and why, and how long it takes
    #[command(after_help = "Takes the same selection as `weighbridge run`; see `weighbridge run --help`.")]
    Plan(Box<Plan>),
    /// Show what can be measured: patterns, mechanisms, axes, placements, suites
    List(List),
    /// Show this machine as a record describes it, and what it lacks
    Env(Env),
    /// Show records in any format
    #[command(after_help = "\
A record that was cut off or is not one is shown as far as it is valid; standard error says which lines are not, and why.

Examples:
  weighbridge report weighbridge-20260102-030405.jsonl
  weighbridge report before.jsonl after.jsonl --format markdown
  weighbridge report record.jsonl --against roundtrip/pipe/64/same-cpu
  weighbridge report - --format html --out page.html < record.jsonl")]
    Report(Report),
    /// Hold our numbers against those of other tools, measured now in turn
    #[command(after_help = AFTER_CHECK_HELP)]
    Check(Check),
    /// Record and analyse the traffic of a D-Bus; find costly match rules
    Dbus(crate::commands::dbus::Dbus),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  weighbridge completions bash > ~/.local/share/bash-completion/completions/weighbridge"
    )]
    Completions(Completions),
    /// Print the manual page, of the program or of one command
    #[command(after_help = "Example:\n  weighbridge man run | man -l -")]
    Man(Man),
}

/// Which cases.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which cases")]
pub struct Selection {
    /// Cases: globs on case ids, single words, or complete ids; all of the suite when there is none
    #[arg(value_name = "GLOB")]
    pub globs: Vec<String>,
    /// List of cases to select from [default: quick]
    #[arg(long, value_name = "NAME", value_parser = suites())]
    pub suite: Option<String>,
    /// Payload sizes in bytes in place of those of the suite: 0,1,64,4K,1M or a range by powers of two, 1..4M
    #[arg(long, value_name = "LIST", value_parser = values::sizes)]
    pub sizes: Option<Sizes>,
    /// Placements of the peers in place of those of the suite
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = placements())]
    pub place: Vec<String>,
    /// Ways to wait; the same as --set wait=LIST
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = waits())]
    pub wait: Vec<String>,
    /// Values of any other axis, as in touch=none,all; every combination is measured (`weighbridge list` has them all)
    #[arg(long, value_name = "AXIS=V1,V2", value_parser = values::axis_values)]
    pub set: Vec<AxisValues>,
    /// CPUs that peers may run on, the preferred first, as in 2,0-1 [default: all that this process may use]
    #[arg(long, value_name = "LIST", value_parser = values::cpus)]
    pub cpus: Option<Cpus>,
}

/// How much effort.
#[derive(Debug, Args)]
#[command(next_help_heading = "How well, how long")]
pub struct Effort {
    /// Half-width of the interval that ends a case, as a share of its median [default: that of the suite]
    #[arg(long, value_name = "SHARE", value_parser = values::precision)]
    pub precision: Option<f64>,
    /// Time for all runs together, as in 90s, 2m or 1h30m [default: that of the suite]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub budget: Option<Duration>,
    /// Most runs of a case, 1 to 40; below 6 there is no interval
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=40))]
    pub max_runs: u16,
}

/// `weighbridge run`
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub effort: Effort,
    /// Seed of the order of runs [default: a random one, kept in the record]
    #[arg(long, value_name = "N", help_heading = "How well, how long")]
    pub seed: Option<u64>,
    /// The record, a file that does not exist yet [default: weighbridge-YYYYMMDD-HHMMSS.jsonl]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// The page, a file that does not exist yet, or `none` [default: the record's name with .html]
    #[arg(long, value_name = "FILE", value_parser = values::page, help_heading = "Output")]
    pub html: Option<Page>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = RunFormat::Table, help_heading = "Output")]
    pub format: RunFormat,
    /// Measure nothing and write nothing; show what would be measured
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// No progress on standard error, only warnings
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// `weighbridge plan`
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub effort: Effort,
}

/// `weighbridge list`
#[derive(Debug, Args)]
pub struct List {
    /// Tell everything about these: patterns, mechanisms, axes, placements, suites
    #[arg(value_name = "NAME", conflicts_with = "format")]
    pub names: Vec<String>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
}

/// `weighbridge env`
#[derive(Debug, Args)]
pub struct Env {
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
}

/// `weighbridge report`
#[derive(Debug, Args)]
pub struct Report {
    /// Records; several stand side by side; `-` is standard input
    #[arg(value_name = "RECORD", required = true)]
    pub records: Vec<PathBuf>,
    /// What to make of them
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// A table of how many times the figures of this case the others have, run by run of the same round: its own, messages
    /// as the reader counted them, CPU time and switches per operation, further series
    #[arg(long, value_name = "CASE", conflicts_with = "format")]
    pub against: Option<CaseId>,
    /// Write to this file, which does not exist yet, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `weighbridge check`
#[derive(Debug, Args)]
pub struct Check {
    /// Checks: globs on their names, or the names of tools [default: all]
    #[arg(value_name = "GLOB")]
    pub globs: Vec<String>,
    /// Turns of each check, theirs and ours; below 6 there is no interval, and so no verdict; from 9 on, the interval leaves
    /// out one disturbed turn on each side
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub turns: u16,
    /// Time for all turns together, as in 90s or 5m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::duration)]
    pub budget: Duration,
    /// Time for one run of a tool, after which it is killed and its check fails
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = values::duration)]
    pub limit: Duration,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
    /// No progress on standard error, only warnings
    #[arg(long, short)]
    pub quiet: bool,
}

/// `weighbridge completions`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `weighbridge man`
#[derive(Debug, Args)]
pub struct Man {
    /// The command whose page it is [default: the program]
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Formats at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunFormat {
    /// Tables as wide as the terminal
    #[value(alias = "text")]
    Table,
    /// Markdown with tables
    Markdown,
    /// A line per case
    Csv,
    /// One document with everything but the samples
    Json,
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Tables as wide as the terminal
    #[value(alias = "text")]
    Table,
    /// Markdown with tables
    Markdown,
    /// A line per case
    Csv,
    /// One document with everything but the samples
    Json,
    /// One page that works offline
    Html,
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    /// For people
    #[value(alias = "table")]
    Text,
    /// For programs
    Json,
}

/// Reads the command line. Help and mistakes have been printed when there is no command; the code is the program's.
///
/// # Errors
/// The exit code.
pub fn parse() -> Result<Command, u8> {
    Typed::try_parse().map(|typed| typed.command).map_err(|error| {
        use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
        match error.kind() {
            DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand => {
                // Nobody may be reading; that is no reason for another code.
                let _ = error.print();
            }
            _ => output::say(&format!("error: {}", mistakes::sentence(&error))),
        }
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

/// The command line as a whole, for completions and manual pages.
pub fn command() -> clap::Command {
    Typed::command()
}

/// The commit that the program was built from, where that was known.
pub const COMMIT: Option<&str> = option_env!("GIT_COMMIT");

/// How the program was built.
pub const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

fn long_version() -> String {
    let commit = COMMIT.map_or(String::new(), |commit| format!("commit {commit}, "));
    format!("{} ({commit}{PROFILE} build)", env!("CARGO_PKG_VERSION"))
}

fn suites() -> PossibleValuesParser {
    PossibleValuesParser::new(
        plan::SUITES.iter().map(|suite| PossibleValue::new(suite.name).help(suite.about)),
    )
}

fn placements() -> PossibleValuesParser {
    let value = |placement: &placement::Placement| PossibleValue::new(placement.name).help(placement.about);
    PossibleValuesParser::new(placement::ALL.iter().map(value))
}

fn waits() -> PossibleValuesParser {
    let Values::OneOf(words) = axis::WAIT.values else { unreachable!("ways to wait are words") };
    PossibleValuesParser::new(words.iter().filter(|word| **word != axis::WAIT.default).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_put_together_without_contradictions() {
        command().debug_assert();
    }
}
