//! A client: asks `com.example.Clock` and then prints who comes and goes. `clock_client SOCKET`, or with `CAUSEWAY_BUS` set.
#![allow(clippy::print_stdout, reason = "this is a command")]

use causeway_bus::wire::Body;
use causeway_bus::{Connection, Error, Incoming};

const CLOCK: &str = "com.example.Clock";

fn main() -> Result<(), Error> {
    let mut bus = match std::env::args().nth(1) {
        Some(path) => Connection::open(path)?,
        None => Connection::session()?,
    };
    bus.add_match("member='NameOwnerChanged'")?;
    println!("seconds: {:?}", bus.call(CLOCK, "/", CLOCK, "Seconds", Body::default())?.args());
    while let Some(incoming) = bus.next(None)? {
        match incoming {
            Incoming::Signal(signal) => println!("{:?}", signal.args()),
            Incoming::AuthorityGone => break,
            _ => {}
        }
    }
    Ok(())
}
