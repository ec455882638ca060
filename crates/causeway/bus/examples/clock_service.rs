//! A service: `com.example.Clock` tells the time since it started. `clock_service SOCKET`, or with `CAUSEWAY_BUS` set.
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use causeway_bus::wire::Body;
use causeway_bus::{Connection, DO_NOT_QUEUE, Error, NameReply, Refusal, name};

const CLOCK: &str = "com.example.Clock";
/// What tools such as `causeway bus tree` and `busctl introspect` show.
const INTERFACE: &str = r#"
  <interface name="com.example.Clock">
    <method name="Seconds"><arg name="seconds" type="u" direction="out"/></method>
  </interface>"#;

fn main() -> Result<(), Error> {
    let mut bus = match std::env::args().nth(1) {
        Some(path) => Connection::open(path)?,
        None => Connection::session()?,
    };
    bus.describe("/", INTERFACE)?;
    if bus.request_name(CLOCK, DO_NOT_QUEUE)? != NameReply::PrimaryOwner {
        return Err(Error::Refused(format!("another connection has the name {CLOCK}")));
    }
    println!("{} is {CLOCK}", bus.unique_name());
    let (start, never) = (Instant::now(), AtomicBool::new(false));
    bus.serve(&never, |_, call| match call.header().member {
        Some("Seconds") => Ok(Body::of(&(start.elapsed().as_secs() as u32))?),
        _ => Err(Refusal::new(name::UNKNOWN_METHOD, "the clock has one method: Seconds")),
    })
}
