//! Messages, values and tables, as text and as JSON. A terminal gets no control characters.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway_bus::wire::{Fault, Header, Kind, Value, signature, values};
use causeway_os::clock::monotonic_ns;
use serde_json::{Map, json};

/// Most bytes of arguments that a monitor prints.
pub const PRINTED_BYTES_MAX: usize = 1 << 20;

/// When and where a message was seen.
#[derive(Clone, Copy)]
pub struct Stamp {
    /// Since the beginning of 1970 by the clock of the system: when it was sent at a native socket, when it came at a D-Bus socket.
    pub time: Duration,
    /// In the order of a native bus: its position, and when it was sent, in nanoseconds of `CLOCK_MONOTONIC`.
    pub order: Option<(u64, u64)>,
}

impl Stamp {
    /// Of a message that has just come.
    pub fn now() -> Stamp {
        Stamp { time: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), order: None }
    }

    /// Of a message in the order log.
    pub fn in_order(position: u64, sent_ns: u64) -> Stamp {
        let age = Duration::from_nanos(monotonic_ns().saturating_sub(sent_ns));
        Stamp { time: Stamp::now().time.saturating_sub(age), order: Some((position, sent_ns)) }
    }
}

/// A value in the form of busctl's JSON: a variant has its type with it, a dictionary is an object.
pub fn as_json(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Byte(number) => json!(number),
        Value::Bool(value) => json!(value),
        Value::I16(number) => json!(number),
        Value::U16(number) => json!(number),
        Value::I32(number) => json!(number),
        Value::U32(number) | Value::Descriptor(number) => json!(number),
        Value::I64(number) => json!(number),
        Value::U64(number) => json!(number),
        // JSON has no numbers that are none.
        Value::F64(number) if !number.is_finite() => json!(number.to_string()),
        Value::F64(number) => json!(number),
        Value::Text(text) | Value::Path(text) | Value::Signature(text) => json!(text),
        Value::Bytes(bytes) => json!(bytes),
        Value::Array(_, elements) | Value::Struct(elements) => elements.iter().map(as_json).collect(),
        Value::Dictionary(_, entries) => {
            let key = |key: &Value<'_>| match as_json(key) {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            entries.iter().map(|(name, value)| (key(name), as_json(value))).collect::<Map<_, _>>().into()
        }
        Value::Variant(value) => json!({ "type": value.signature(), "data": as_json(value) }),
    }
}

/// The types and values of all arguments.
pub fn arguments_as_json(message: &[u8]) -> Result<serde_json::Value, Fault> {
    let header = Header::parse(message)?;
    let values = values(&header, &message[header.header_bytes..])?;
    Ok(json!({ "type": header.signature, "data": values.iter().map(as_json).collect::<Vec<_>>() }))
}

/// Each argument as type and value.
pub fn arguments(message: &[u8]) -> Result<Vec<String>, Fault> {
    let header = Header::parse(message)?;
    let values = values(&header, &message[header.header_bytes..])?;
    let types = signature::types(header.signature);
    Ok(types.zip(&values).map(|(types, value)| format!("{types} {value}").trim_end().to_owned()).collect())
}

/// Prints a message as a line, or as a JSON object in a line.
pub fn message(out: &mut impl Write, message: &[u8], stamp: Option<Stamp>, json: bool) -> io::Result<()> {
    let header = match Header::parse(message) {
        Ok(header) => header,
        Err(fault) => return writeln!(out, "invalid message: {fault}"),
    };
    if json {
        writeln!(out, "{}", message_as_json(&header, message, stamp))?;
    } else {
        line(out, &header, message, stamp)?;
    }
    out.flush()
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::MethodCall => "call",
        Kind::MethodReturn => "reply",
        Kind::Error => "error",
        Kind::Signal => "signal",
        Kind::Other(_) => "other",
    }
}

fn line(out: &mut impl Write, header: &Header<'_>, message: &[u8], stamp: Option<Stamp>) -> io::Result<()> {
    if let Some(Stamp { time, order }) = stamp {
        write!(out, "{}.{:06} ", time.as_secs(), time.subsec_micros())?;
        if let Some((position, _)) = order {
            write!(out, "{position} ")?;
        }
    }
    let (sender, destination) = (header.sender.unwrap_or("?"), header.destination.unwrap_or("all"));
    write!(out, "{} {sender} -> {destination} serial {}", word(header.kind), header.serial)?;
    if let Some(serial) = header.reply_serial {
        write!(out, " to {serial}")?;
    }
    for text in [header.path, header.interface, header.member, header.error_name].into_iter().flatten() {
        write!(out, " {text}")?;
    }
    if left_out(header, message).is_some() {
        return writeln!(out, " {} with {} bytes", header.signature, header.body_bytes);
    }
    match arguments(message) {
        Ok(arguments) => arguments.iter().try_for_each(|argument| write!(out, " {argument}"))?,
        Err(fault) => write!(out, " (invalid arguments: {fault})")?,
    }
    writeln!(out)
}

/// Why the arguments of a message are not printed, if they are not.
fn left_out(header: &Header<'_>, message: &[u8]) -> Option<&'static str> {
    if header.body_bytes > PRINTED_BYTES_MAX {
        return Some("more than 1 MiB");
    }
    // A monitor of a native bus has only the header of a message that is in a file of its own.
    (header.body_bytes > 0 && message.len() == header.header_bytes)
        .then_some("longer than a quarter of the sender's outbox, so not in the memory of the bus")
}

fn message_as_json(header: &Header<'_>, message: &[u8], stamp: Option<Stamp>) -> serde_json::Value {
    let mut object = json!({
        "kind": word(header.kind), "serial": header.serial, "flags": header.flags, "type": header.signature,
        "body_bytes": header.body_bytes,
    });
    let mut set = |name: &str, value: serde_json::Value| object[name] = value;
    let texts = [
        ("sender", header.sender),
        ("destination", header.destination),
        ("path", header.path),
        ("interface", header.interface),
        ("member", header.member),
        ("error", header.error_name),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            set(name, json!(text));
        }
    }
    if let Some(serial) = header.reply_serial {
        set("reply_serial", json!(serial));
    }
    if let Some(Stamp { time, order }) = stamp {
        set("time_s", json!(time.as_micros() as f64 / 1e6));
        if let Some((position, sent_ns)) = order {
            set("position", json!(position));
            set("sent_ns", json!(sent_ns));
        }
    }
    match left_out(header, message) {
        Some(why) => set("left_out", json!(why)),
        None => match values(header, &message[header.header_bytes..]) {
            Ok(values) => set("data", values.iter().map(as_json).collect()),
            Err(fault) => set("left_out", json!(format!("invalid arguments: {fault}"))),
        },
    }
    object
}

/// The number of a process in a table. One in a namespace that the bus does not see has a user there, and no number.
pub fn process(pid: Option<u32>, uid: Option<u32>) -> String {
    match pid.filter(|pid| *pid > 0) {
        Some(pid) => pid.to_string(),
        None if uid.is_some() => "(another namespace)".into(),
        None => "-".into(),
    }
}

/// Prints rows below their headings; the last column is not padded, and columns of numbers stand on the right.
pub fn table(out: &mut impl Write, headings: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let is_number: Vec<bool> = (0..headings.len())
        .map(|column| !rows.is_empty() && rows.iter().all(|row| row[column].parse::<u64>().is_ok()))
        .collect();
    let headings: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    for row in std::iter::once(&headings).chain(rows) {
        let cells = row.iter().zip(&widths).zip(&is_number).map(|((cell, &width), is_number)| {
            if *is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_bus::wire::{Builder, text};

    fn signal(types: &str, words: &str) -> Vec<u8> {
        let words: Vec<String> =
            words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let body = text::marshalled(types, &words).unwrap();
        Builder::signal("/a", "a.B", "C").sender(":1.1").body(body).build(7).unwrap()
    }

    fn printed(bytes: &[u8], stamp: Option<Stamp>, json: bool) -> String {
        let mut out = Vec::new();
        message(&mut out, bytes, stamp, json).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_message_is_a_line() {
        let bytes = signal("sa{sv}", "x 1 k v ay 2 1 2");
        let stamp = Stamp { time: Duration::from_micros(7_000_008), order: Some((9, 5)) };
        assert_eq!(
            printed(&bytes, Some(stamp), false),
            "7.000008 9 signal :1.1 -> all serial 7 /a a.B C s \"x\" a{sv} 1 \"k\" v ay 2 1 2\n"
        );
        let object: serde_json::Value = serde_json::from_str(&printed(&bytes, None, true)).unwrap();
        let value = json!({"type": "v", "data": {"type": "ay", "data": [1, 2]}});
        assert_eq!(object["data"], json!(["x", { "k": value }]));
        assert_eq!((object["member"].as_str(), object.get("position")), (Some("C"), None));
    }

    #[test]
    fn what_json_cannot_say_is_text_and_what_is_large_is_counted() {
        let bytes = signal("da{ub}", "inf 1 7 true");
        assert_eq!(
            arguments_as_json(&bytes).unwrap(),
            json!({"type": "da{ub}", "data": ["inf", {"7": true}]})
        );
        let body = causeway_bus::wire::Body::default().blob(&vec![0; PRINTED_BYTES_MAX]);
        let large = Builder::signal("/a", "a.B", "C").body(body).build(1).unwrap();
        assert!(printed(&large, None, false).ends_with(" ay with 1048580 bytes\n"));
        assert!(printed(&large, None, true).contains("\"left_out\":\"more than 1 MiB\""));
        // As a monitor gets a message that is in a file of its own.
        let long = signal("s", &"x".repeat(70_000));
        let header_bytes = Header::parse(&long).unwrap().header_bytes;
        assert!(printed(&long[..header_bytes], None, false).ends_with(" C s with 70005 bytes\n"));
        assert!(printed(&long[..header_bytes], None, true).contains("\"left_out\":\"longer than a quarter"));
    }

    #[test]
    fn a_table_has_numbers_on_the_right() {
        let mut out = Vec::new();
        let rows = [vec!["a".to_owned(), "7".into()], vec!["long".into(), "1234".into()]];
        table(&mut out, &["NAME", "PID"], &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME   PID\na        7\nlong  1234\n");
    }
}
