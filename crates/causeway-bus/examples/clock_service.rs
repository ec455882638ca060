//! A service: `com.example.Clock` tells the time since it started. `clock_service SOCKET`, or with `CAUSEWAY_BUS` set.
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use causeway_bus::wire::Body;
use causeway_bus::{Connection, Error, name};

fn main() -> Result<(), Error> {
    let mut bus = match std::env::args().nth(1) {
        Some(path) => Connection::open(path)?,
        None => Connection::session()?,
    };
    bus.request_name("com.example.Clock", 0)?;
    println!("{} is com.example.Clock", bus.unique_name());
    let (start, never) = (Instant::now(), AtomicBool::new(false));
    bus.serve(&never, |call| match call.header().member {
        Some("Seconds") => Ok(Body::default().u32(start.elapsed().as_secs() as u32)),
        _ => Err((name::UNKNOWN_METHOD.into(), "the clock has one method: Seconds".into())),
    })
}
