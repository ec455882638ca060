//! Messages, values and tables, as text and as JSON. A terminal gets no control characters.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway_bus::wire::json::{self, left_out, word};
use causeway_bus::wire::{Fault, Header, Value, signature, values};
use causeway_os::clock::monotonic_ns;

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

/// A value among those of a table.
pub fn as_json(value: &Value<'_>) -> serde_json::Value {
    json::value(value).parse().unwrap_or_default()
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

fn message_as_json(header: &Header<'_>, message: &[u8], stamp: Option<Stamp>) -> String {
    let Some(Stamp { time, order }) = stamp else { return json::message(header, message, &[]) };
    let time_s = time.as_micros() as f64 / 1e6;
    match order {
        None => json::message(header, message, &[("time_s", &time_s)]),
        Some((position, sent_ns)) => {
            let order = [("time_s", &time_s as _), ("position", &position as _), ("sent_ns", &sent_ns as _)];
            json::message(header, message, &order)
        }
    }
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
    use causeway_bus::wire::{Body, Builder, Variant};
    use std::collections::BTreeMap;

    fn signal(body: Body) -> Vec<u8> {
        Builder::signal("/a", "a.B", "C").sender(":1.1").body(body).build(7).unwrap()
    }

    fn printed(bytes: &[u8], stamp: Option<Stamp>, json: bool) -> String {
        let mut out = Vec::new();
        message(&mut out, bytes, stamp, json).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_message_is_a_line() {
        let bytes =
            signal(Body::of(&("x", BTreeMap::from([("k", Variant(Variant(vec![1_u8, 2])))]))).unwrap());
        let stamp = Stamp { time: Duration::from_micros(7_000_008), order: Some((9, 5)) };
        assert_eq!(
            printed(&bytes, Some(stamp), false),
            "7.000008 9 signal :1.1 -> all serial 7 /a a.B C s \"x\" a{sv} 1 \"k\" v ay 2 1 2\n"
        );
        let object: serde_json::Value = serde_json::from_str(&printed(&bytes, None, true)).unwrap();
        assert_eq!((object["member"].as_str(), object.get("position")), (Some("C"), None));
    }

    #[test]
    fn what_is_large_is_counted() {
        let large = signal(Body::default().blob(&vec![0; json::SHOWN_BYTES_MAX]));
        assert!(printed(&large, None, false).ends_with(" ay with 1048580 bytes\n"));
        assert!(printed(&large, None, true).contains("\"left_out\":\"more than 1 MiB\""));
        // As a monitor gets a message that is in a file of its own.
        let long = signal(Body::default().text(&"x".repeat(70_000)));
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
