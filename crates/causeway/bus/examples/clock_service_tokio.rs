//! The service of `clock_service` in a tokio program; it also emits a signal each second.
//!
//! `cargo run -p causeway-bus --features tokio --example clock_service_tokio -- SOCKET`
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::time::{Duration, Instant};

use causeway_bus::wire::Body;
use causeway_bus::{AsyncConnection, DO_NOT_QUEUE, Error, NameReply, name};

const CLOCK: &str = "com.example.Clock";
/// What tools such as `causeway bus tree` and `busctl introspect` show.
const INTERFACE: &str = r#"
  <interface name="com.example.Clock">
    <method name="Seconds"><arg name="seconds" type="u" direction="out"/></method>
    <signal name="Tick"><arg name="seconds" type="u"/></signal>
  </interface>"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let bus = match std::env::args().nth(1) {
        Some(path) => AsyncConnection::open(path).await?,
        None => AsyncConnection::session().await?,
    };
    let (start, mut calls) = (Instant::now(), bus.calls());
    let seconds = || Body::of(&(start.elapsed().as_secs() as u32));
    bus.describe("/", INTERFACE)?;
    if bus.request_name(CLOCK, DO_NOT_QUEUE).await? != NameReply::PrimaryOwner {
        return Err(Error::Refused(format!("another connection has the name {CLOCK}")));
    }
    println!("{} is {CLOCK}", bus.unique_name());
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            call = calls.next() => match call {
                Some(Ok(call)) if call.header().member == Some("Seconds") => bus.reply(&call, seconds()?).await?,
                Some(Ok(call)) => bus.reply_error(&call, name::UNKNOWN_METHOD, "the clock has one method: Seconds").await?,
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            _ = ticks.tick() => bus.emit("/", CLOCK, "Tick", seconds()?).await?,
        }
    }
}
