//! `weighbridge completions`: what a shell needs to complete commands, flags and their values.

use crate::args::{self, Completions};
use crate::{Exit, Failure, output};

pub fn completions(args: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), env!("CARGO_PKG_NAME"), &mut script);
    output::print(script)?;
    Ok(Exit::Fine)
}
