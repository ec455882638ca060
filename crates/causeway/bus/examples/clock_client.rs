//! A client: asks `com.example.Clock` and then prints who comes and goes. `clock_client SOCKET`, or with `CAUSEWAY_BUS` set.
#![allow(clippy::print_stdout, reason = "this is a command")]

use causeway_bus::wire::{Arg, Body};
use causeway_bus::{Connection, Error, Incoming};

const CLOCK: &str = "com.example.Clock";

fn main() -> Result<(), Error> {
    let mut bus = match std::env::args().nth(1) {
        Some(path) => Connection::open(path)?,
        None => Connection::session()?,
    };
    bus.add_match("interface='org.freedesktop.DBus',member='NameOwnerChanged'")?;
    let reply = bus.call(CLOCK, "/", CLOCK, "Seconds", Body::default())?;
    match reply.args()[..] {
        [Arg::U32(seconds)] => println!("seconds: {seconds}"),
        ref other => println!("no number of seconds, but {other:?}"),
    }
    while let Some(incoming) = bus.next(None)? {
        match incoming {
            Incoming::Signal(signal) => match signal.args()[..] {
                [Arg::Text(name), _, Arg::Text("")] => println!("{name} leaves"),
                [Arg::Text(name), _, Arg::Text(owner)] => println!("{name} is {owner}"),
                _ => {}
            },
            Incoming::AuthorityGone => break,
            _ => {}
        }
    }
    Ok(())
}
