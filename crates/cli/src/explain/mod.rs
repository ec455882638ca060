//! What is typed for `weighbridge explain`; the command is in [`commands`](crate::commands).

pub mod observe;

use std::path::PathBuf;

use clap::Args;

use crate::values::{self, Page, RunFormat};

/// What stands below the options.
pub const AFTER_HELP: &str = "\
A case is observed in runs of its own: events of the CPUs of its roles are counted, and their time is sampled. Each means is used in a \
run by itself, in turns with runs that nobody observes, so that the cost of looking is known. Figures of observed runs are no results. \
What the kernel does not allow is left out, and named with the right or setting that would allow it.

Samples rank functions and are no exact times: one that falls where interrupts are off is taken where they come back on.

Exit code: 0 success, 2 a usage mistake or nothing observed, 130 interrupted.

Examples:
  weighbridge explain --means                        what can be used to look here
  weighbridge explain roundtrip/pipe/1/same-cpu
  weighbridge explain --a roundtrip/pipe/1/same-cpu --b roundtrip/unix-stream/1/same-cpu
  weighbridge explain roundtrip/pipe/1/two-cpus --folded stacks.txt";

/// What `weighbridge explain` takes besides the cases.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub observation: observe::ObserveArgs,
    /// Seed of the order of runs [default: a random one, kept in the record]
    #[arg(long, value_name = "N", help_heading = "Observation")]
    pub seed: Option<u64>,
    /// File for the record, which must not exist yet [default: a file in ~/.local/state/weighbridge, see `weighbridge history`]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// File for the HTML page, which must not exist yet, or `none` [default: the record's name with .html]
    #[arg(long, value_name = "FILE", value_parser = values::page, help_heading = "Output")]
    pub html: Option<Page>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = RunFormat::Table, help_heading = "Output")]
    pub format: RunFormat,
    /// Write only warnings to standard error, no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}
