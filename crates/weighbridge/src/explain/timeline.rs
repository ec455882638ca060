//! What is typed for a time line, with `explain` and with `run`; the command is in [`commands::timeline`](crate::commands).

use std::path::PathBuf;

use clap::Args;

/// What of the time line is wanted.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Time line")]
pub struct TimelineArgs {
    /// Show when each thing happens: the phases of an operation, and a picture of a few operations in the page
    #[arg(long)]
    pub timeline: bool,
    /// File for the time line in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open; for one case
    #[arg(long, value_name = "FILE.json", requires = "timeline")]
    pub trace_out: Option<PathBuf>,
}
