//! What was typed after `weighbridge compare`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::output_args::OutputWithPage;
use crate::selection_args::Selection;
use crate::values::{self, CompareFormat};

/// What stands below the options.
pub const AFTER_HELP: &str = "\
Answers whether B costs more than A, with a verdict. By how much the cases of one run differ, `weighbridge report --baseline` says; since \
when, `weighbridge history --changes`; why, `weighbridge explain --a --b`; on another kernel, `weighbridge guest compare`.

A side is settings, or another build of weighbridge whose peers are measured, or both, each with a --a or --b of its own: \
AXIS=VALUE (`weighbridge list` shows all axes, nice and sched among them), env:NAME=VALUE, preload:LIBRARY, cgroup:FOLDER \
(the control group of the peers), sysctl:NAME=VALUE, or a path. Two builds differ in the layout of their code whatever else they \
differ in; a path that is a folder of builds of one source (`dist/relink` makes it) takes them in turn, and a pair of builds is then \
what an interval rests on. The side that is left out is this program as it is. A sysctl is \
set before each run of its side, which needs root, and is put back at the end, even if the program is killed; the sides then run \
one after the other. With --with, the words before it are the old records.

A set is fresh peers of A and B that take turns in slices of some milliseconds, in some sets beside a second A: A against \
itself is what this machine cannot tell apart. The margin that counts is at least twice that. Sets are looked at when there \
are 10, 15, 22 and 40 of them, and a case ends when its verdict is clear. Regressed is what surely costs more by more than the \
margin. Of records, the boot is the unit: one boot a side is always inconclusive, four allow a verdict, six where many cases are compared.

Exit code: 0 no case regressed, 1 a case regressed or changed its shape, 2 a usage mistake, 3 nothing measured, or half of the \
sets of a case failed, 4 A against itself differed, so the verdict is void, or a case is inconclusive and --strict was given, \
130 interrupted.

Examples:
  weighbridge compare --a wait=block --b wait=epoll 'roundtrip/pipe/64/*'
  weighbridge compare --a ./weighbridge-old --b ./weighbridge-new roundtrip/causeway-sw stream/pipe
  weighbridge compare --a builds/old --b builds/new roundtrip/causeway-sw    # folders of relinked builds
  git bisect run sh -c 'make || exit 125; weighbridge compare --a ./good --b ./new --bisect roundtrip/pipe'
  weighbridge compare --b env:MALLOC_ARENA_MAX=1 solo/malloc-free
  weighbridge compare before-*.jsonl --with after-*.jsonl --format markdown
  weighbridge compare --a ./old --b ./new 'roundtrip/*/64/*' --budget 3m --format junit > results.xml";

/// Who reads an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExitMeaning {
    /// `git bisect run`
    Bisect,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    #[command(flatten)]
    pub selection: Selection,
    /// A setting or the program of side A; may be given several times [default: this program as it is]
    #[arg(long, value_name = "SETTING|PROGRAM", help_heading = "What is compared")]
    pub a: Vec<String>,
    /// A setting or the program of side B; may be given several times [default: this program as it is]
    #[arg(long, value_name = "SETTING|PROGRAM", help_heading = "What is compared")]
    pub b: Vec<String>,
    /// The new records; the words before are then the old ones
    #[arg(long, value_name = "RECORD", num_args = 1.., help_heading = "What is compared")]
    pub with: Vec<PathBuf>,
    /// Name what a difference is made of by the price list of this record, which `weighbridge explain` wrote
    #[arg(long, value_name = "RECORD", conflicts_with = "with", help_heading = "What is compared")]
    pub prices: Option<PathBuf>,
    /// Compare records of different machines too
    #[arg(long, requires = "with", help_heading = "What is compared")]
    pub across_machines: bool,
    /// Costs that differ by no more than this share are the same
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = values::precision, help_heading = "Precision and time")]
    pub margin: f64,
    /// Claim any difference that is sure, also one that may be smaller than the margin
    #[arg(long, help_heading = "Precision and time")]
    pub any_difference: bool,
    /// Largest share of the claimed differences that may be chance
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = values::precision, help_heading = "Precision and time")]
    pub fdr: f64,
    /// Time for all sets together, as in 90s, 3m or 1h30m
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = values::duration, help_heading = "Precision and time")]
    pub budget: Duration,
    /// Fewest and most sets of a case [default: 12 to as many as the budget allows, between 40 and 1000]
    #[arg(long, value_name = "N..M", value_parser = values::units, help_heading = "Precision and time")]
    pub runs: Option<RangeInclusive<usize>>,
    /// Count no system calls, which takes one more run of each case and side, with a tracer (ptrace)
    #[arg(long, help_heading = "Precision and time")]
    pub no_system_calls: bool,
    /// End with code 4 where a case is inconclusive
    #[arg(long, help_heading = "Precision and time")]
    pub strict: bool,
    /// End as `git bisect run` expects: 0 good, 1 regressed, 125 no verdict about this commit, 128 a mistake, which ends the bisection
    #[arg(long, conflicts_with = "strict", help_heading = "Precision and time")]
    pub bisect: bool,
    /// Who reads the exit code; `--exit bisect` is another word for --bisect
    #[arg(
        long,
        value_enum,
        value_name = "READER",
        conflicts_with = "strict",
        help_heading = "Precision and time"
    )]
    pub exit: Option<ExitMeaning>,
    /// Seed of the order of sets [default: a random one, kept in the record]
    #[arg(long, value_name = "N", help_heading = "Precision and time")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub output: OutputWithPage<CompareFormat>,
}
