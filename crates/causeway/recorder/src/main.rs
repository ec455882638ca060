//! `causeway-record`: what is published in a group or sent on a bus, in MCAP files, and back.
//!
//! Recording has two threads. [`record`] reads the log and stamps ([`source`]), [`mod@write`] makes chunks and files; between
//! them is [`ring`], which is bounded. The recorder is a lossy member: no publisher ever waits for it, and what it
//! misses is counted in the file. [`frames`] says what the file has beside the messages; [`verify`] and [`replay`] read
//! it through [`read`], which takes [`records`] and [`mod@chunk`]s apart; [`structure`] compares the parts of a file.
//! [`channels`] has what a file calls its messages.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command")]

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod args;
mod channels;
mod chunk;
mod failure;
mod file;
mod frames;
mod layout;
mod read;
mod record;
mod records;
mod replay;
mod ring;
mod source;
mod structure;
mod verify;
mod write;

use std::process::ExitCode;

use causeway_command_line::mistakes;
use clap::Parser;

use args::{Arguments, Command};
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    let Arguments { command, record } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(mistakes::tell(&error, "causeway-record", |_| None)),
    };
    let done = match command {
        None => record::record(&record),
        Some(Command::Verify(verify)) => verify::verify(&verify),
        Some(Command::Replay(replay)) => replay::replay(&replay),
    };
    match done {
        Ok(Outcome::Whole) => ExitCode::SUCCESS,
        Ok(Outcome::Lossy) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("causeway-record: {failure}");
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { 2 } else { 3 })
        }
    }
}
