//! Where answers go: options that several commands have.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};

use crate::destination::{cannot_create, write_new};
use crate::labels::{self, Label};
use crate::values::{self, Page};
use crate::{Failure, output};

/// Of a command that measures: the record, and what is shown of it. `F` is what standard output can show.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Output<F: ValueEnum + Send + Sync + 'static> {
    /// The record, a file that does not exist yet, or --force [default: a file in ~/.local/state/weighbridge, see `weighbridge history`]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// What standard output shows
    #[arg(long, value_enum, default_value = "table")]
    pub format: F,
    /// Write only warnings to standard error, no progress
    #[arg(long, short, env = "WEIGHBRIDGE_QUIET", value_parser = FalseyValueParser::new())]
    pub quiet: bool,
    /// Say this of the session in its record, as in rack=r7; several, or with commas. Labels are public. `machine` names the machine, `campaign` what the session is part of
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = labels::parse, env = "WEIGHBRIDGE_LABEL", hide_env_values = true)]
    pub label: Vec<Label>,
}

/// The same with a page.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputWithPage<F: ValueEnum + Send + Sync + 'static> {
    #[command(flatten)]
    pub of: Output<F>,
    /// The HTML page, a file that does not exist yet, or `none` [default: the record's name with .html]
    #[arg(long, value_name = "FILE", value_parser = values::page)]
    pub html: Option<Page>,
}

/// Of a command that reads: one answer in one place.
#[derive(Debug, Args)]
pub struct Answer<F: ValueEnum + Send + Sync + 'static> {
    /// The form of the answer
    #[arg(long, value_enum, default_value = "table")]
    pub format: F,
    /// Write to this file, which does not exist yet, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl<F: ValueEnum + Send + Sync> Answer<F> {
    /// Refuses a page on a terminal before anything is read for it.
    pub fn check(&self, is_page: bool) -> Result<(), Failure> {
        if is_page && self.out.is_none() && io::stdout().is_terminal() {
            return Err(Failure::mistake("an HTML page is not written to a terminal; give --out FILE"));
        }
        Ok(())
    }

    /// Prints the answer or writes the file.
    pub fn write(&self, text: String) -> Result<(), Failure> {
        match &self.out {
            None => output::print(text),
            Some(out) => write_new(out, text.as_bytes()).map_err(|error| cannot_create(out, "--out", &error)),
        }
    }
}
