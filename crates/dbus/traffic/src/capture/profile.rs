//! The text of `dbus-monitor --profile`: a line for each message, fields between tabs, without flags and bodies.
//!
//! Each line becomes the bytes of a message with the same header, so that nothing downstream knows the difference; its size
//! is not that of the message that was recorded.

use std::io::{self, Read};

use super::Packet;
use super::window::Window;
use causeway_dbus_wire::wire::{Builder, Kind, names};

/// A line cannot be longer than a few names and a path.
const MOST_LINE_BYTES: usize = 16 << 10;
/// The text does not have the names of errors.
const UNKNOWN_ERROR: &str = "name.not.recorded";

#[derive(Debug, Default)]
pub(super) struct Profile {
    message: Vec<u8>,
}

impl Profile {
    pub fn is_start(start: &[u8]) -> bool {
        ["#type\t", "mc\t", "mr\t", "sig\t", "err\t"].iter().any(|word| start.starts_with(word.as_bytes()))
    }

    pub fn next<'p, R: Read>(&'p mut self, window: &mut Window<R>) -> io::Result<Option<Packet<'p>>> {
        loop {
            let Some(text) = window.line(MOST_LINE_BYTES)? else { return Ok(None) };
            if text.first() == Some(&b'#') {
                continue;
            }
            let parsed = std::str::from_utf8(text).ok().and_then(message);
            let Some((time_ns, bytes)) = parsed else {
                window.note_bad_line();
                continue;
            };
            self.message = bytes;
            return Ok(Some(Packet { time_ns, original_bytes: self.message.len(), bytes: &self.message }));
        }
    }
}

/// Time and bytes of the message in a line.
fn message(line: &str) -> Option<(u64, Vec<u8>)> {
    let mut fields = line.trim_end_matches('\r').split('\t');
    let kind = match fields.next()? {
        "mc" => Kind::MethodCall,
        "mr" => Kind::MethodReturn,
        "err" => Kind::Error,
        "sig" => Kind::Signal,
        _ => return None,
    };
    let time_ns = time_ns(fields.next()?)?;
    let serial: u32 = fields.next()?.parse().ok().filter(|serial| *serial > 0)?;
    let mut field = |is_valid: fn(&str) -> bool| match fields.next()? {
        "<none>" | "(null)" | "" => Some(None),
        field => is_valid(field).then_some(Some(field)),
    };
    let mut builder = Builder::new(kind);
    if let Some(sender) = field(names::is_bus_name)? {
        builder = builder.sender(sender);
    }
    if let Some(destination) = field(names::is_bus_name)? {
        builder = builder.destination(destination);
    }
    match kind {
        Kind::MethodReturn | Kind::Error => {
            let call: u32 = fields.next()?.parse().ok().filter(|serial| *serial > 0)?;
            let answer =
                if kind == Kind::Error { Builder::error(call, UNKNOWN_ERROR) } else { Builder::reply(call) };
            builder = answer.addressed_like(&builder);
        }
        _ => {
            builder = builder.path(field(names::is_path)??);
            if let Some(interface) = field(names::is_interface)? {
                builder = builder.interface(interface);
            }
            builder = builder.member(field(names::is_member)??);
        }
    }
    Some((time_ns, builder.build(serial).ok()?))
}

/// Seconds with six decimals, which do not fit a float.
pub(super) fn time_ns(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.')?;
    let micros: u64 = (micros.len() == 6).then(|| micros.parse().ok())??;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(micros * 1_000)
}
