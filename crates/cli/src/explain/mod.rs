//! What is typed for `weighbridge explain`; the command is in [`commands::explain`](crate::commands).

pub mod timeline;

use std::path::PathBuf;

use clap::Args;

use crate::values::{self, Page, RunFormat};
use timeline::TimelineArgs;

/// `weighbridge explain`
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// Complete ids of cases, as `weighbridge plan` shows them
    #[arg(value_name = "CASE", required = true)]
    pub cases: Vec<String>,
    #[command(flatten)]
    pub timeline: TimelineArgs,
    /// File for the record, which must not exist yet [default: a file in ~/.local/state/weighbridge, see `weighbridge history`]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// File for the HTML page, which must not exist yet, or `none` [default: the record's name with .html]
    #[arg(long, value_name = "FILE", value_parser = values::page, help_heading = "Output")]
    pub html: Option<Page>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = RunFormat::Table, help_heading = "Output")]
    pub format: RunFormat,
}
