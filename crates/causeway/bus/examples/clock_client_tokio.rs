//! The client of `clock_service` and `clock_service_tokio` in a tokio program: several calls at once, then the signals.
//!
//! `cargo run -p causeway-bus --features tokio --example clock_client_tokio -- SOCKET`
#![allow(clippy::print_stdout, reason = "this is a command")]

use causeway_bus::wire::Body;
use causeway_bus::{AsyncConnection, Error};

const CLOCK: &str = "com.example.Clock";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let bus = match std::env::args().nth(1) {
        Some(path) => AsyncConnection::open(path).await?,
        None => AsyncConnection::session().await?,
    };
    let ask = |member| bus.call(CLOCK, "/", CLOCK, member, Body::default());
    let (one, other, wrong) = tokio::join!(ask("Seconds"), ask("Seconds"), ask("Minutes"));
    println!("seconds: {} {}", one?.args::<u32>()?, other?.args::<u32>()?);
    println!(
        "minutes: {}",
        wrong.map_or_else(|error| error.to_string(), |reply| format!("{:?}", reply.values()))
    );
    let mut ticks = bus.add_match(&format!("type='signal',sender='{CLOCK}',member='Tick'")).await?;
    while let Some(tick) = ticks.next().await {
        println!("tick: {}", tick?.args::<u32>()?);
    }
    Ok(())
}
