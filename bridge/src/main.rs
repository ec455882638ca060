//! `causeway-bridge`: the bus across machines. What it does is in the library beside it.

use std::process::ExitCode;

use causeway_bridge::args::{Arguments, Command};
use causeway_bridge::failure::Failure;
use causeway_bridge::status::log;
use causeway_bridge::{demo, run, tls};
use clap::Parser;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        None => run::bridge(arguments.bridge),
        Some(Command::Stat(arguments)) => run::stat(&arguments),
        Some(Command::Demo(arguments)) => demo::run(&arguments),
        Some(Command::Tls(arguments)) => tls::make(&arguments),
        Some(Command::Man) => run::man(),
        Some(Command::Router(arguments)) => run::router(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log(&failure.to_string());
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { 2 } else { 3 })
        }
    }
}
