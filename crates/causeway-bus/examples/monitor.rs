//! Prints the messages of a bus that a match rule wants, and disturbs nobody.
//!
//! `cargo run -p causeway-bus --example monitor -- SOCKET "interface='com.example.Clock'"`
#![allow(clippy::print_stdout, reason = "this is a command")]

use causeway_bus::{Error, Monitor, Observed};

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else { panic!("usage: monitor SOCKET [RULE]") };
    let mut monitor = Monitor::open(path)?;
    if let Some(rule) = args.next() {
        monitor = monitor.filter(rule.parse().map_err(|why| Error::Invalid(format!("{rule:?}: {why}")))?);
    }
    while let Some(observed) = monitor.next(None)? {
        match observed {
            Observed::Message(message) => {
                let header = message.header();
                let [from, to, member] =
                    [header.sender, header.destination, header.member].map(Option::unwrap_or_default);
                println!("{} {from} > {to} {member} {:?}", header.kind.word(), message.args());
            }
            Observed::Lost { messages } => println!("{messages} messages lost"),
        }
    }
    Ok(())
}
