//! The manual page and completions, made from the same source as the help.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;

const NAME: &str = "causewayd";

/// The manual page, for `man -l -`.
pub fn manual() -> Result<String, String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command().name(NAME)).render(&mut page).map_err(|error| error.to_string())?;
    String::from_utf8(page).map_err(|error| error.to_string())
}

/// The script that completes options in a shell.
pub fn completions(shell: Shell) -> Result<String, String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), NAME, &mut script);
    String::from_utf8(script).map_err(|error| error.to_string())
}
