//! The commands, one file or folder each.

mod advise;
mod bisect;
mod bloat;
mod check;
mod compare;
mod completions;
mod coverage;
mod dbus;
mod env;
mod explain;
mod guest;
mod history;
mod import;
mod kernel_results;
mod kernel_slab;
mod list;
mod man;
mod measuring;
mod plan;
mod planned;
mod record;
mod recording;
mod report;
mod run;
mod series;

use weighbridge_targets::own;

pub use compare::{PROTOCOL_ARGUMENT, protocol_answer};

use crate::args::{Command, KERNEL_SLAB, Report};
use crate::{Exit, Failure, labels, output, store};

/// Even when the file was replaced while it runs, this is the program that runs.
const THIS_PROGRAM: &str = "/proc/self/exe";

pub fn execute(command: Command) -> Result<Exit, Failure> {
    // Before anything looks a name up.
    own::load(command.targets()).map_err(Failure::mistake)?;
    labels::keep(command.labels())?;
    match command {
        Command::Run(args) if args.selection.suite.as_deref() == Some(KERNEL_SLAB) => kernel_slab::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Plan(args) => plan::plan(&args),
        Command::List(args) => list::list(&args),
        Command::Env(args) => env::env(&args),
        Command::Advise(args) => advise::advise(&args),
        Command::Report(args) => report::report(&with_record(args)?),
        Command::History(args) => history::history(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Import(args) => import::import(&args),
        Command::Check(args) => check::check(&args),
        Command::Bisect(args) => bisect::bisect(&args),
        Command::Record(args) => record::record(&args),
        Command::Bloat(args) => bloat::bloat(&args),
        Command::Guest(args) => guest::guest(&args),
        Command::Dbus(args) => dbus::dbus(&args),
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => man::man(&args),
    }
}

/// Where no record is named, the last of the store is meant.
fn with_record(mut args: Report) -> Result<Report, Failure> {
    if args.records.is_empty() {
        let last = store::last().map_err(Failure::new)?;
        output::say(&format!("record: {}", last.display()));
        args.records.push(last);
    }
    Ok(args)
}

/// The machine, as far as the laboratory must know it.
fn look_at_host() -> Result<weighbridge_harness::host::Host, Failure> {
    weighbridge_harness::host::Host::look()
        .map_err(|error| Failure::new(format!("the description of this machine cannot be read: {error}")))
}
