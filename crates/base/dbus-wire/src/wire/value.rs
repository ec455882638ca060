//! Values of any type as a tree: for programs that print what they receive.

use std::fmt;

use super::cursor::Cursor;
use super::{Fault, Header, body, signature};

/// A value of any type. Text is borrowed from the message.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "most are called as their types")]
pub enum Value<'a> {
    Byte(u8),
    Bool(bool),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F64(f64),
    /// Which of the descriptors that travel with the message.
    Descriptor(u32),
    Text(&'a str),
    Path(&'a str),
    Signature(&'a str),
    /// An array of bytes.
    Bytes(&'a [u8]),
    /// Any other array but a dictionary.
    Array(Vec<Value<'a>>),
    /// An array of dictionary entries: keys and values.
    Dictionary(Vec<(Value<'a>, Value<'a>)>),
    Struct(Vec<Value<'a>>),
    /// The type of its value, and the value.
    Variant(&'a str, Box<Value<'a>>),
}

/// All arguments of a message, which is checked as [`walk`](super::walk) does. Fails if the body is cut or breaks the
/// specification, or bytes are left over.
pub fn values<'a>(header: &Header<'a>, body: &'a [u8]) -> Result<Vec<Value<'a>>, Fault> {
    // Lengths and depths hold from here on.
    body::walk(header, body, &mut |_, _| {})?;
    let mut cursor = Cursor::new(body, 0, header.endian);
    signature::types(header.signature).map(|types| read(&mut cursor, types)).collect()
}

fn read<'a>(cursor: &mut Cursor<'a>, types: &'a str) -> Result<Value<'a>, Fault> {
    Ok(match types.as_bytes()[0] {
        b'y' => Value::Byte(cursor.u8()?),
        b'b' => Value::Bool(cursor.u32()? != 0),
        b'n' => Value::I16(cursor.u16()?.cast_signed()),
        b'q' => Value::U16(cursor.u16()?),
        b'i' => Value::I32(cursor.u32()?.cast_signed()),
        b'u' => Value::U32(cursor.u32()?),
        b'x' => Value::I64(cursor.u64()?.cast_signed()),
        b't' => Value::U64(cursor.u64()?),
        b'd' => Value::F64(f64::from_bits(cursor.u64()?)),
        b'h' => Value::Descriptor(cursor.u32()?),
        b's' => Value::Text(cursor.text()?),
        b'o' => Value::Path(cursor.text()?),
        b'g' => Value::Signature(cursor.signature()?),
        b'v' => {
            let inner = cursor.signature()?;
            Value::Variant(inner, Box::new(read(cursor, inner)?))
        }
        b'(' => {
            cursor.align(8)?;
            let fields = signature::types(&types[1..types.len() - 1]);
            Value::Struct(fields.map(|field| read(cursor, field)).collect::<Result<_, _>>()?)
        }
        b'a' => array(cursor, &types[1..])?,
        _ => return Err(Fault::Invalid("a signature has a letter that is not a type")),
    })
}

fn array<'a>(cursor: &mut Cursor<'a>, element: &'a str) -> Result<Value<'a>, Fault> {
    let bytes = cursor.u32()? as usize;
    cursor.align(signature::alignment(element.as_bytes()[0]))?;
    if element == "y" {
        return Ok(Value::Bytes(cursor.take(bytes)?));
    }
    let end = cursor.at + bytes;
    if let Some(entry) = element.strip_prefix('{') {
        let (key, value) = entry.strip_suffix('}').unwrap_or(entry).split_at(1);
        let mut entries = Vec::new();
        while cursor.at < end {
            cursor.align(8)?;
            entries.push((read(cursor, key)?, read(cursor, value)?));
        }
        return Ok(Value::Dictionary(entries));
    }
    let mut elements = Vec::new();
    while cursor.at < end {
        elements.push(read(cursor, element)?);
    }
    Ok(Value::Array(elements))
}

/// How many there are, and each.
fn counted(f: &mut fmt::Formatter<'_>, elements: &[impl fmt::Display]) -> fmt::Result {
    write!(f, "{}", elements.len())?;
    elements.iter().try_for_each(|element| write!(f, " {element}"))
}

/// As [`text::marshalled`](super::text::marshalled) reads it again: text is quoted and its control characters are escaped, an array
/// begins with the number of its elements, a variant with its type.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Byte(number) => write!(f, "{number}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::I16(number) => write!(f, "{number}"),
            Value::U16(number) => write!(f, "{number}"),
            Value::I32(number) => write!(f, "{number}"),
            Value::U32(number) | Value::Descriptor(number) => write!(f, "{number}"),
            Value::I64(number) => write!(f, "{number}"),
            Value::U64(number) => write!(f, "{number}"),
            Value::F64(number) => write!(f, "{number}"),
            Value::Text(text) | Value::Path(text) | Value::Signature(text) => write!(f, "{text:?}"),
            Value::Bytes(bytes) => counted(f, bytes),
            Value::Array(elements) => counted(f, elements),
            Value::Dictionary(entries) => {
                write!(f, "{}", entries.len())?;
                entries.iter().try_for_each(|(key, value)| write!(f, " {key} {value}"))
            }
            Value::Struct(fields) => {
                let mut separator = "";
                fields.iter().try_for_each(|field| {
                    write!(f, "{separator}{field}")?;
                    separator = " ";
                    Ok(())
                })
            }
            Value::Variant(types, value) => write!(f, "{types} {value}"),
        }
    }
}
