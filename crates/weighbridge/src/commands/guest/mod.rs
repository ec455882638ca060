//! `weighbridge guest`: a kernel booted in an emulated machine that counts instructions, and measured there.

mod bisect;
mod code_size;
mod compare;
mod doctor;
mod explain;
mod machine;
mod patch_report;
mod run;
mod suite;

use crate::guest_args::{Command, Guest};
use crate::{Exit, Failure, output};

pub fn guest(args: &Guest) -> Result<Exit, Failure> {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Compare(args) => compare::compare(args),
        Command::Explain(args) => explain::explain(args),
        Command::Suite(args) => suite::suite(args),
        Command::Bisect(args) => bisect::bisect(args),
        Command::Doctor => doctor::doctor(),
    }
}

/// The sentence for the user, below the last lines of the guest's console.
fn failure(error: &weighbridge_guest::Error) -> Failure {
    if !error.console.is_empty() {
        output::say("last lines of the guest's console:");
        error.console.iter().for_each(|line| output::say(&format!("  {line}")));
    }
    Failure::of(error)
}
