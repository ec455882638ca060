//! One end of round trips between two processes, each of which publishes in the group that the other one reads.
//!
//! `round_trip echo READ WRITE` sends back what comes; `round_trip time READ WRITE` reads numbers of round trips of 64
//! bytes from standard input, and prints how long one of them took, in nanoseconds. `bindings/python/cost.py` has the
//! same in Python, and takes turns with it.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::time::Instant;

use causeway::{Group, Policy, Publisher, Received, Subscriber};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, read, write] = &arguments[..] else { return Err("round_trip echo|time READ WRITE".into()) };
    // The publisher first: a group admits a subscriber when its one publisher is there.
    let publisher = Group::join(write)?.publisher()?;
    let subscriber = Group::join(read)?.subscribe(Policy::Reliable)?;
    match what.as_str() {
        "echo" => echo(subscriber, publisher),
        "time" => time(subscriber, publisher),
        other => Err(format!("{other} is neither echo nor time").into()),
    }
}

fn echo(mut subscriber: Subscriber, mut publisher: Publisher) -> Result<(), Box<dyn std::error::Error>> {
    loop {
        match subscriber.recv() {
            Ok(Received::Message(message)) => publisher.publish(message.bytes)?,
            Err(causeway::Error::Disconnected) => return Ok(()),
            other => return Err(format!("{other:?} in place of a message").into()),
        };
    }
}

fn time(mut subscriber: Subscriber, mut publisher: Publisher) -> Result<(), Box<dyn std::error::Error>> {
    let _ = publisher.wait_for_subscribers(1, None)?;
    for line in std::io::stdin().lines() {
        let count: u32 = line?.parse()?;
        let start = Instant::now();
        for _ in 0..count {
            publisher.publish(&[7; 64])?;
            let Received::Message(message) = subscriber.recv()? else { return Err("no message".into()) };
            assert_eq!(message.bytes.len(), 64);
        }
        println!("{}", start.elapsed().as_nanos() as f64 / f64::from(count));
    }
    Ok(())
}
