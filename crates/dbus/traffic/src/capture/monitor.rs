//! The text of `dbus-monitor` as it is: a line for each message, then its arguments, indented.
//!
//! Each message becomes the bytes of one with the same header. Its body is kept where all arguments are texts and numbers of 32 bits, as
//! those of the driver are by which names, rules and recipients are known; others have none. So its size is not that of the message that was
//! recorded. What dbus-monitor wrote before it had times (until 2015) is read too; all its messages have the same time.

use std::io::{self, Read};

use causeway_dbus_wire::wire::{Body, Builder, Kind, names};

use super::Packet;
use super::profile::time_ns;
use super::window::Window;

/// An argument may be a long text; one that is longer is skipped.
const MOST_LINE_BYTES: usize = 1 << 20;
/// What dbus-monitor indents arguments by.
const INDENT: &str = "   ";
/// With which line a message begins.
const KINDS: [(&str, Kind); 4] = [
    ("method call ", Kind::MethodCall),
    ("method return ", Kind::MethodReturn),
    ("signal ", Kind::Signal),
    ("error ", Kind::Error),
];

#[derive(Debug, Default)]
pub(super) struct Monitor {
    /// The first line of a message whose arguments come next.
    first: Option<String>,
    message: Vec<u8>,
}

/// Arguments as far as they can be kept.
#[derive(Default)]
enum Arguments {
    #[default]
    None,
    Kept(Body),
    NotKept,
}

impl Monitor {
    pub fn is_start(start: &[u8]) -> bool {
        KINDS.iter().any(|(word, _)| start.starts_with(word.as_bytes()))
    }

    pub fn next<'p, R: Read>(&'p mut self, window: &mut Window<R>) -> io::Result<Option<Packet<'p>>> {
        loop {
            let mut arguments = Arguments::None;
            // Up to the first line of the next message.
            let next = loop {
                let Some(line) = window.line(MOST_LINE_BYTES)? else { break None };
                if Monitor::is_start(line) {
                    break Some(String::from_utf8_lossy(line).into_owned());
                }
                match std::str::from_utf8(line) {
                    Ok(line) if self.first.is_some() => arguments = arguments.and(line),
                    _ => window.note_bad_line(),
                }
            };
            let is_end = next.is_none();
            if let Some(first) = std::mem::replace(&mut self.first, next) {
                if let Some((time_ns, bytes)) = message(&first, arguments) {
                    self.message = bytes;
                    let original_bytes = self.message.len();
                    return Ok(Some(Packet { time_ns, original_bytes, bytes: &self.message }));
                }
                window.note_bad_line();
            }
            if is_end {
                return Ok(None);
            }
        }
    }
}

impl Arguments {
    /// With the one of another line. A text of several lines, an array, and what lies in one is not kept.
    fn and(self, line: &str) -> Arguments {
        let body = match self {
            Arguments::None => Body::default(),
            Arguments::Kept(body) => body,
            Arguments::NotKept => return self,
        };
        let Some(argument) = line.strip_prefix(INDENT) else { return Arguments::NotKept };
        let text = argument.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"'));
        let number = argument.strip_prefix("uint32 ").and_then(|rest| rest.parse().ok());
        match (text, number) {
            (Some(text), _) => Arguments::Kept(body.text(text)),
            (_, Some(number)) => Arguments::Kept(body.u32(number)),
            _ => Arguments::NotKept,
        }
    }
}

/// Time and bytes of a message.
fn message(first: &str, arguments: Arguments) -> Option<(u64, Vec<u8>)> {
    let (word, kind) = KINDS.into_iter().find(|(word, _)| first.starts_with(word))?;
    let fields = || first[word.len()..].split([' ', ';']).filter_map(|field| field.split_once('='));
    // A name that nobody has is `(null destination)` or `(null)`, of which a space cuts off the end.
    let field = |wanted: &str| fields().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    let named = |wanted: &str, is_valid: fn(&str) -> bool| match field(wanted) {
        None => Some(None),
        Some(value) if value.starts_with("(null") || value.is_empty() => Some(None),
        Some(value) => is_valid(value).then_some(Some(value)),
    };
    let number = |wanted: &str| -> Option<u32> { field(wanted)?.parse().ok().filter(|number| *number > 0) };
    let time_ns = field("time").map_or(Some(0), time_ns)?;
    let mut builder = match kind {
        Kind::MethodReturn => Builder::reply(number("reply_serial")?),
        Kind::Error => Builder::error(number("reply_serial")?, named("error_name", names::is_interface)??),
        _ => Builder::new(kind)
            .path(named("path", names::is_path)??)
            .member(named("member", names::is_member)??),
    };
    if let Some(interface) = named("interface", names::is_interface)? {
        builder = builder.interface(interface);
    }
    if let Some(sender) = named("sender", names::is_bus_name)? {
        builder = builder.sender(sender);
    }
    let destination = named("destination", names::is_bus_name)?.or(named("dest", names::is_bus_name)?);
    if let Some(destination) = destination {
        builder = builder.destination(destination);
    }
    if let Arguments::Kept(body) = arguments {
        builder = builder.body(body);
    }
    // An error has no serial there, and before times a reply had none either. Nothing answers these.
    Some((time_ns, builder.build(number("serial").unwrap_or(1)).ok()?))
}
