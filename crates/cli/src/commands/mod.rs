//! The commands, one file each.

mod check;
mod completions;
pub mod dbus;
mod env;
mod list;
mod man;
mod plan;
mod report;
mod run;

use crate::args::Command;
use crate::{Exit, Failure};

/// Even when the file was replaced while it runs, this is the program that runs.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Does what was asked.
///
/// # Errors
/// One sentence for the user.
pub fn execute(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Plan(args) => plan::plan(&args),
        Command::List(args) => list::list(&args),
        Command::Env(args) => env::env(&args),
        Command::Report(args) => report::report(&args),
        Command::Check(args) => check::check(&args),
        Command::Dbus(args) => dbus::dbus(&args),
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => man::man(&args),
    }
}

/// The machine, as far as the laboratory must know it.
fn look_at_host() -> Result<weighbridge_lab::host::Host, Failure> {
    weighbridge_lab::host::Host::look()
        .map_err(|error| Failure::new(format!("this machine cannot be looked at: {error}")))
}
