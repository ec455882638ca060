//! What participants send: kinds and sizes of a recorded trace.

use std::fs::File;

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Header, Kind};
use weighbridge_dbus_traffic::capture::Reader;

/// What a participant does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask the bus something.
    Ask,
    /// Call another participant, with a body of so many bytes.
    Call(usize),
    /// Emit a signal with a body of so many bytes.
    Signal(usize),
}

/// A capture, `CAUSEWAY_DAY_TRACE`, or the proportions of a desktop session (`docs/figures/dbus-session.txt`): of ten messages that
/// programs send of themselves, five ask the bus, three call each other, two are signals.
pub fn steps() -> Vec<Step> {
    let Ok(path) = std::env::var("CAUSEWAY_DAY_TRACE") else {
        use Step::{Ask, Call, Signal};
        return vec![Ask, Call(80), Signal(120), Ask, Call(600), Ask, Ask, Signal(40), Call(12_000), Ask];
    };
    let mut reader =
        Reader::new(File::open(&path).unwrap()).unwrap_or_else(|_| panic!("{path} is no capture"));
    let mut steps = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        let Ok(header) = Header::parse(packet.bytes) else { continue };
        let body = packet.bytes.len().saturating_sub(header.header_bytes);
        steps.extend(match header.kind {
            Kind::MethodCall if header.destination == Some(DRIVER) => Some(Step::Ask),
            Kind::MethodCall => Some(Step::Call(body)),
            Kind::Signal if header.sender != Some(DRIVER) => Some(Step::Signal(body)),
            _ => None,
        });
    }
    assert!(!steps.is_empty(), "no messages in {path}");
    steps
}

/// Numbers that look random; the same each time (splitmix64, Steele, Lea and Flood, 2014).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
