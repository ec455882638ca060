//! A service and a client of zbus on either transport: a path is the native socket of a bus, anything else the address of a D-Bus socket.
//!
//! ```text
//! cargo run -p causeway-bus --features zbus --example zbus_clock -- serve /tmp/bus &
//! cargo run -p causeway-bus --features zbus --example zbus_clock -- call /tmp/bus --count 10000
//! dbus-run-session sh -c 'zbus_clock serve $DBUS_SESSION_BUS_ADDRESS & sleep 1; zbus_clock call $DBUS_SESSION_BUS_ADDRESS --count 10000; kill $!'
//! ```
#![allow(clippy::print_stdout, reason = "this is a command")]
#![allow(missing_docs, reason = "the macro of zbus makes a public proxy")]

use std::error::Error;
use std::time::Instant;

use zbus::connection::Builder;

struct Clock(Instant);

#[zbus::interface(
    name = "com.example.Clock",
    proxy(default_service = "com.example.Clock", default_path = "/")
)]
impl Clock {
    fn seconds(&self) -> u32 {
        self.0.elapsed().as_secs() as u32
    }
}

/// The only line that knows the transport.
async fn bus(place: &str) -> Result<Builder<'_>, causeway_bus::Error> {
    if place.starts_with('/') {
        causeway_bus::zbus::builder(place).await
    } else {
        Ok(Builder::address(place))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (place, count) = match args[..] {
        ["serve", place] => {
            let clock = bus(place)
                .await?
                .serve_at("/", Clock(Instant::now()))
                .name("com.example.Clock")
                .build()
                .await?;
            println!("{:?} is com.example.Clock", clock.unique_name());
            clock.closed().await;
            return Ok(());
        }
        ["call", place] => (place, 1),
        ["call", place, "--count", count] => (place, count.parse::<u32>()?.max(1)),
        _ => return Err("usage: zbus_clock serve PLACE | call PLACE [--count N]".into()),
    };
    let connection = bus(place).await?.build().await?;
    let clock = ClockProxy::new(&connection).await?;
    println!("seconds: {}", clock.seconds().await?);
    let start = Instant::now();
    for _ in 0..count {
        clock.seconds().await?;
    }
    println!("{count} calls, {:.1} us each", start.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    Ok(())
}
