//! What is typed for `weighbridge explain`; the command is in [`commands::explain`](crate::commands).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weighbridge_explain::Asked;

use crate::values::{self, Page};

/// What stands below the options.
pub const AFTER_HELP: &str = "\
A round trip is measured in turns with what it is made of: the same mechanism with both ends in one process, which never waits, trivial system \
calls, copies, switches. Its cost is then a count times a price for each part, and what is left: the unexplained part, with its interval. \
What cannot be measured alone (to block and to be woken) is fitted from other mechanisms, never from the one that is explained. A case whose \
unexplained share is surely above 15 % is `not explained`.

A what-if question is a part and how many more or fewer (switches-1, system-calls+2; spaces are `-`, a beginning is enough), payload=BYTES, or \
prices=RECORD, the price list of another machine's explanation.

Examples:
  weighbridge explain roundtrip/pipe/64/same-cpu
  weighbridge explain roundtrip/pipe/1/two-cpus                    the halt of idle CPUs is a part of its own
  weighbridge explain roundtrip/unix-stream/64/same-cpu --what-if switches-1 --what-if payload=65536
  weighbridge explain --suite quick --place same-cpu               every mechanism, each predicted from the others";

/// What `weighbridge explain` takes besides the cases.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Answer by the same prices what a case would cost otherwise: PART±N, payload=BYTES or prices=RECORD; may be given several times
    #[arg(long, value_name = "QUESTION", value_parser = question, help_heading = "What is explained", allow_hyphen_values = true)]
    pub what_if: Vec<Question>,
    /// Sets of each case at most, 6 to 60; fewer than 5 measured give no intervals
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(6..=60), help_heading = "Precision and time")]
    pub sets: u16,
    /// Time for all sets together, as in 30s or 2m [default: 18s, or 5s for each case where that is more]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Precision and time")]
    pub budget: Option<Duration>,
    /// Count no system calls, which takes one more run of each case, with a tracer (ptrace)
    #[arg(long, help_heading = "Precision and time")]
    pub no_system_calls: bool,
    /// Seed of the order of sets [default: a random one, kept in the record]
    #[arg(long, value_name = "N", help_heading = "Precision and time")]
    pub seed: Option<u64>,
    /// The record, a file that does not exist yet [default: a file in ~/.local/state/weighbridge]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// The HTML page, a file that does not exist yet, or `none` [default: the record's name with .html]
    #[arg(long, value_name = "FILE", value_parser = values::page, help_heading = "Output")]
    pub html: Option<Page>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = ExplainFormat::Table, help_heading = "Output")]
    pub format: ExplainFormat,
    /// Write only warnings to standard error, no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// What standard output shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExplainFormat {
    /// Tables and bars for a terminal
    Table,
    /// Markdown
    Markdown,
    /// One JSON document
    Json,
}

/// A what-if question as it was typed and as it was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// As it was typed.
    pub text: String,
    /// As it was understood.
    pub asked: Asked,
}

fn question(text: &str) -> Result<Question, String> {
    Ok(Question { text: text.into(), asked: Asked::parse(text)? })
}
