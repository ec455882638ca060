//! Prints the messages of a bus that a match rule wants; nobody waits for it.
//!
//! `cargo run -p causeway-bus --example monitor -- SOCKET "interface='com.example.Clock'"`, or without arguments and with `CAUSEWAY_BUS` set.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command")]

use causeway_bus::{Error, Monitor, Observed};

fn main() {
    if let Err(error) = run() {
        eprintln!("monitor: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let mut monitor = match args.next() {
        Some(path) => Monitor::open(path)?,
        None => Monitor::session()?,
    };
    if let Some(rule) = args.next() {
        monitor = monitor.filter(rule.parse().map_err(|why| Error::Invalid(format!("{rule:?}: {why}")))?);
    }
    while let Some(observed) = monitor.next(None)? {
        match observed {
            Observed::Message(message) => {
                let header = message.header();
                let [from, to, member] =
                    [header.sender, header.destination, header.member].map(Option::unwrap_or_default);
                let values = message.values().unwrap_or_default();
                println!("{} {from} > {to} {member} {values:?}", header.kind.word());
            }
            Observed::Lost { messages } => println!("messages lost: {messages}"),
        }
    }
    Ok(())
}
