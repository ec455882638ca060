//! What the programs in a capture do of themselves, as lines `ask`, `call BYTES` and `signal BYTES`: the mix of the day of causewayd's tests.
//!
//! `cargo run -p weighbridge-dbus-traffic --example steps_of_capture -- session.pcap > session.steps`
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::fs::File;

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Header, Kind};
use weighbridge_dbus_traffic::capture::Reader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: steps_of_capture CAPTURE")?;
    let mut reader = Reader::new(File::open(&path)?)?;
    while let Some(packet) = reader.next_packet()? {
        let Ok(header) = Header::parse(packet.bytes) else { continue };
        let body_bytes = packet.bytes.len().saturating_sub(header.header_bytes);
        match header.kind {
            Kind::MethodCall if header.destination == Some(DRIVER) => println!("ask"),
            Kind::MethodCall => println!("call {body_bytes}"),
            Kind::Signal if header.sender != Some(DRIVER) => println!("signal {body_bytes}"),
            _ => {}
        }
    }
    Ok(())
}
