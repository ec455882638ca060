//! How the records of MCAP are laid out, as far as their lengths go (<https://mcap.dev/spec>).

use mcap::records::op;

/// A field, or several of fixed length next to each other.
enum Field {
    Fixed(u64),
    /// As long as the number of 32 bits before it: strings, maps, arrays.
    Short,
    /// As long as the number of 64 bits before it.
    Long,
    /// Keys and values, each of which is `Short`, in a `Short`.
    Texts,
}
use Field::{Fixed, Long, Short, Texts};

struct Kind {
    opcode: u8,
    name: &'static str,
    fields: &'static [Field],
    /// Do bytes follow that no field counts?
    is_open: bool,
}

const fn kind(opcode: u8, name: &'static str, fields: &'static [Field]) -> Kind {
    Kind { opcode, name, fields, is_open: opcode == op::MESSAGE }
}

const KINDS: [Kind; 15] = [
    kind(op::HEADER, "Header", &[Short, Short]),
    kind(op::FOOTER, "Footer", &[Fixed(20)]),
    kind(op::SCHEMA, "Schema", &[Fixed(2), Short, Short, Short]),
    kind(op::CHANNEL, "Channel", &[Fixed(4), Short, Short, Texts]),
    kind(op::MESSAGE, "Message", &[Fixed(22)]),
    kind(op::CHUNK, "Chunk", &[Fixed(28), Short, Long]),
    kind(op::MESSAGE_INDEX, "MessageIndex", &[Fixed(2), Short]),
    kind(op::CHUNK_INDEX, "ChunkIndex", &[Fixed(32), Short, Fixed(8), Short, Fixed(16)]),
    kind(op::ATTACHMENT, "Attachment", &[Fixed(16), Short, Short, Long, Fixed(4)]),
    kind(op::ATTACHMENT_INDEX, "AttachmentIndex", &[Fixed(40), Short, Short]),
    kind(op::STATISTICS, "Statistics", &[Fixed(42), Short]),
    kind(op::METADATA, "Metadata", &[Short, Texts]),
    kind(op::METADATA_INDEX, "MetadataIndex", &[Fixed(16), Short]),
    kind(op::SUMMARY_OFFSET, "SummaryOffset", &[Fixed(17)]),
    kind(op::DATA_END, "DataEnd", &[Fixed(4)]),
];

fn of(opcode: u8) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.opcode == opcode)
}

/// The name of a kind of record in the specification.
pub fn name(opcode: u8) -> &'static str {
    of(opcode).map_or("record of an unknown kind", |kind| kind.name)
}

/// Does the specification define this kind?
pub fn is_known(opcode: u8) -> bool {
    of(opcode).is_some()
}

/// Compares the length of a record with those of its fields. `body` is what the file has of its `length` bytes. With `is_exact`, bytes
/// beyond the fields, which later versions of the format may have, are a fault.
pub fn check(opcode: u8, length: u64, body: &[u8], is_exact: bool) -> Result<(), String> {
    let Some(kind) = of(opcode) else {
        return if is_exact {
            Err(format!("causeway-record writes no records of kind {opcode:#04x}"))
        } else {
            Ok(())
        };
    };
    let is_whole = body.len() as u64 == length;
    let (mut bytes, mut is_complete) = (0_u64, true);
    for field in kind.fields {
        let counted = match field {
            Fixed(bytes) => Some(*bytes),
            Short | Texts => prefix::<4>(body, bytes),
            Long => prefix::<8>(body, bytes),
        };
        let Some(counted) = counted else {
            is_complete = false;
            break;
        };
        let end = bytes.saturating_add(counted);
        if matches!(field, Texts)
            && let Some(map) = part(body, bytes, end)
        {
            check_texts(map)?;
        }
        bytes = end;
    }
    if bytes > length || is_whole && !is_complete {
        Err(format!("its {length} bytes are too few for its fields"))
    } else if is_exact && is_complete && bytes < length && !kind.is_open {
        Err(format!("it has {length} bytes, and its fields have {bytes}"))
    } else {
        Ok(())
    }
}

fn part(body: &[u8], start: u64, end: u64) -> Option<&[u8]> {
    body.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

/// Checks the lengths in a map, which has its own before it: the library of MCAP reserves memory for a text before it reads it.
fn check_texts(map: &[u8]) -> Result<(), String> {
    let length = map.len() as u64;
    let mut bytes = 4;
    while bytes < length {
        bytes = prefix::<4>(map, bytes).map_or(u64::MAX, |counted| bytes.saturating_add(counted));
    }
    if bytes > length {
        Err(format!("the {length} bytes of its map are too few for its texts"))
    } else {
        Ok(())
    }
}

/// The bytes of a field with its length before it; `None` where that is not there.
fn prefix<const BYTES: usize>(body: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let prefix = body.get(at..at.checked_add(BYTES)?)?;
    let length = prefix.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte));
    Some(length.saturating_add(BYTES as u64))
}
