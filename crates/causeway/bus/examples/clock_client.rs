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
    bus.add_match("interface='org.freedesktop.DBus',member='NameOwnerChanged'")?;
    let reply = bus.call(CLOCK, "/", CLOCK, "Seconds", Body::default())?;
    println!("seconds: {}", reply.args::<u32>()?);
    while let Some(incoming) = bus.next(None)? {
        match incoming {
            // Other signals are for this program alone, such as `NameAcquired`.
            Incoming::Signal(signal) => match signal.args::<(&str, &str, &str)>() {
                Ok((name, _, "")) => println!("{name} leaves"),
                Ok((name, _, owner)) => println!("{name} is {owner}"),
                Err(_) => {}
            },
            Incoming::AuthorityGone => break,
            _ => {}
        }
    }
    Ok(())
}
