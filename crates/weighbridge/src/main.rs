//! Measures the cost of moving messages, wake-ups and memory between Linux processes.
//!
//! The way of a command through this program: [`args`] is what was typed · [`scope`] turns that into cases with the help
//! of [`select`] · [`commands`] has one file or folder for each command · [`output`] is the only way to standard output and standard
//! error. Everything that goes wrong comes back here as a [`Failure`], is printed once, and decides the exit code.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod advise_args;
mod args;
mod bisect_args;
mod check;
mod commands;
mod compare_args;
mod dbus_args;
mod destination;
mod explain_args;
mod guest_args;
mod harness;
mod identity;
mod labels;
mod nearest;
mod output;
mod output_args;
mod plans;
mod progress;
mod record_args;
mod recorder;
mod redact;
mod repository;
mod scope;
mod select;
mod selection_args;
mod store;
mod values;

use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;

use weighbridge_guest::{init, kernel_bench, net_bench};
use weighbridge_harness::compare::machine;
use weighbridge_harness::peer;
use weighbridge_targets::own;

use check::supervisor;

/// How a command ended: the exit code. Those of `causeway` mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done as asked.
    Fine = 0,
    /// A verdict against: a figure is not where it is expected.
    Outside = 1,
    /// What was typed has no meaning here; nothing was done.
    Mistaken = 2,
    /// Something failed or is missing, and that has been said.
    Failed = 3,
    /// There is no verdict: the control moved, a law of the record is broken, or a case is inconclusive where that was to be an error.
    Undecided = 4,
    /// For who starts the program again: another time it may work.
    Later = 75,
    /// For `git bisect run`: nothing can be said of this commit.
    Skipped = 125,
    /// For `git bisect run`: no commit can be judged this way.
    Unjudged = 128,
    /// Ctrl-C or SIGTERM; what there is was kept.
    Interrupted = 130,
}

impl Exit {
    /// As `git bisect run` reads it, for which 1 to 124 are a verdict against the commit.
    pub fn of_bisection(self) -> Exit {
        match self {
            Exit::Fine | Exit::Outside | Exit::Interrupted => self,
            Exit::Mistaken | Exit::Unjudged => Exit::Unjudged,
            Exit::Failed | Exit::Undecided | Exit::Later | Exit::Skipped => Exit::Skipped,
        }
    }

    /// As a scheduler reads it, which starts a job again or gives it up: of a plan, what was typed wrongly never works, and whatever else went
    /// wrong may go well another time.
    pub fn of_job(self) -> Exit {
        match self {
            Exit::Fine | Exit::Mistaken | Exit::Interrupted => self,
            _ => Exit::Later,
        }
    }
}

/// Why a command did not do what it was asked: one sentence for the user. All errors of this program are such sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    sentence: String,
    exit: Exit,
}

impl Failure {
    /// With this sentence.
    pub fn new(sentence: impl Into<String>) -> Failure {
        Failure { sentence: sentence.into(), exit: Exit::Failed }
    }

    /// What was typed has no meaning here.
    pub fn mistake(sentence: impl Into<String>) -> Failure {
        Failure { sentence: sentence.into(), exit: Exit::Mistaken }
    }

    /// With the sentence of an error that needs no further words.
    pub fn of(error: impl fmt::Display) -> Failure {
        Failure::new(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

fn main() -> ExitCode {
    register();
    if init::is_wanted() {
        init::main();
    }
    // A peer is this program too. It must come to its work before anything else is set up.
    let mut typed = std::env::args_os();
    match typed.nth(1) {
        Some(first) if first == peer::ARGUMENT => return run_peer(typed.next()),
        Some(first) if first == own::ARGUMENT => return run_target(typed.next()),
        Some(first) if first == machine::ARGUMENT => return machine::guard(),
        Some(first) if first == supervisor::ARGUMENT => return supervisor::main(typed),
        Some(first) if first == supervisor::CHILD_ARGUMENT => return supervisor::child(typed),
        Some(first) if first == commands::PROTOCOL_ARGUMENT => {
            return ended(output::print(commands::protocol_answer()).map(|()| Exit::Fine));
        }
        Some(first) if first == kernel_bench::ARGUMENT => {
            return run_kernel_test(typed.next(), kernel_bench::run);
        }
        Some(first) if first == net_bench::ARGUMENT => {
            let (results, packets) = (typed.next(), typed.next());
            let packets = packets.and_then(|text| text.to_str()?.parse().ok()).unwrap_or_default();
            return run_kernel_test(results, |results| net_bench::run(results, packets));
        }
        _ => {}
    }
    let exit = match args::parse() {
        Ok(command) => {
            let read_as = match (command.bisects(), command.is_job()) {
                (true, _) => Exit::of_bisection,
                (_, true) => Exit::of_job,
                _ => |exit| exit,
            };
            read_as(told(commands::execute(command)))
        }
        Err(exit) if args::typed_for_bisection() => exit.of_bisection(),
        Err(exit) => exit,
    };
    ExitCode::from(exit as u8)
}

fn ended(ended: Result<Exit, Failure>) -> ExitCode {
    ExitCode::from(told(ended) as u8)
}

fn told(ended: Result<Exit, Failure>) -> Exit {
    ended.unwrap_or_else(|failure| {
        output::say(&format!("error: {failure}"));
        failure.exit
    })
}

/// Hands all targets and suites to the laboratory.
fn register() {
    weighbridge_dbus_bench::register();
}

/// Runs tests of the kernel in which this is the only program; the argument is the file for their results.
fn run_kernel_test(results: Option<OsString>, run: impl Fn(&Path) -> Result<(), String>) -> ExitCode {
    ended(run(Path::new(&results.unwrap_or_default())).map(|()| Exit::Fine).map_err(Failure::new))
}

/// A role of a case, which may be one of a target that is not compiled in.
fn run_peer(parent: Option<OsString>) -> ExitCode {
    own::register_for_peer();
    run_with_control(peer::ARGUMENT, parent, peer::main)
}

/// What looks at a shared object for the coordinator.
fn run_target(parent: Option<OsString>) -> ExitCode {
    run_with_control(own::ARGUMENT, parent, own::main)
}

/// Descriptor 3 is the socket to the coordinator, whose process id is the only argument.
fn run_with_control(
    argument: &str,
    parent: Option<OsString>,
    run: impl FnOnce(u32, OwnedFd) -> ExitCode,
) -> ExitCode {
    let parent = parent.and_then(|parent| parent.to_str()?.parse().ok());
    match (parent, causeway_os::process::inherited_fd(3)) {
        (Some(parent), Ok(control)) => run(parent, control),
        _ => ended(Err(Failure::mistake(format!("{argument} is for this program itself")))),
    }
}
