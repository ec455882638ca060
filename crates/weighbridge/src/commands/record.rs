//! `record`: hands over to `weighbridge-fleet`, which has the libraries of tables and object stores.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::record_args::Record;
use crate::{Exit, Failure};

const PROGRAM: &str = "weighbridge-fleet";

/// Does not return where it succeeds: this process is then the other program.
pub fn record(args: &Record) -> Result<Exit, Failure> {
    let error = Command::new(beside().unwrap_or_else(|| PROGRAM.into())).args(args.command.words()).exec();
    if error.kind() == ErrorKind::NotFound {
        return Err(Failure::mistake(format!(
            "{PROGRAM} is neither beside this program nor on PATH; build it in the folder fleet of the sources: cargo build --release"
        )));
    }
    Err(Failure::new(format!("{PROGRAM} does not start: {error}")))
}

fn beside() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    path.is_file().then_some(path)
}
