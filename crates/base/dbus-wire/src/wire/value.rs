//! Values of any type as a tree: for programs that print what they receive, and for variants of any type.

use std::borrow::Cow;
use std::fmt;

use super::cursor::Cursor;
use super::{Fault, Header, Marshal, body, names, signature};

/// A value of any type. What is read borrows its texts from the message.
///
/// As an argument ([`Decode`](super::Decode), [`Encode`](super::Encode)) it is a variant that holds the value.
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
    Text(Cow<'a, str>),
    Path(Cow<'a, str>),
    Signature(Cow<'a, str>),
    /// An array of bytes.
    Bytes(Cow<'a, [u8]>),
    /// Any other array but a dictionary: the type of its elements, and the elements.
    Array(Cow<'a, str>, Vec<Value<'a>>),
    /// An array of dictionary entries: the types of key and value, one behind the other, and the entries.
    Dictionary(Cow<'a, str>, Vec<(Value<'a>, Value<'a>)>),
    Struct(Vec<Value<'a>>),
    /// A variant with this value.
    Variant(Box<Value<'a>>),
}

/// All arguments of a message, which is checked as [`walk`](super::walk) does. Fails if the body is cut or breaks the
/// specification, or bytes are left over.
pub fn values<'a>(header: &Header<'a>, body: &'a [u8]) -> Result<Vec<Value<'a>>, Fault> {
    // Lengths and depths hold from here on.
    body::walk(header, body, &mut |_, _| {})?;
    let mut cursor = Cursor::new(body, 0, header.endian);
    signature::types(header.signature).map(|types| read_one(&mut cursor, types)).collect()
}

/// Reads a value of this one type. What has parts was checked before: its lengths and depths hold.
pub(super) fn read_one<'a>(cursor: &mut Cursor<'a>, types: &'a str) -> Result<Value<'a>, Fault> {
    Ok(read(cursor, types)?.0)
}

/// Reads a value of the first of these types; also returns what follows the type, so that none is looked for twice.
fn read<'a>(cursor: &mut Cursor<'a>, types: &'a str) -> Result<(Value<'a>, &'a str), Fault> {
    let value = match types.as_bytes()[0] {
        b'y' => Value::Byte(cursor.u8()?),
        b'b' => Value::Bool(cursor.bool()?),
        b'n' => Value::I16(cursor.u16()?.cast_signed()),
        b'q' => Value::U16(cursor.u16()?),
        b'i' => Value::I32(cursor.u32()?.cast_signed()),
        b'u' => Value::U32(cursor.u32()?),
        b'x' => Value::I64(cursor.u64()?.cast_signed()),
        b't' => Value::U64(cursor.u64()?),
        b'd' => Value::F64(f64::from_bits(cursor.u64()?)),
        b'h' => Value::Descriptor(cursor.u32()?),
        b's' => Value::Text(cursor.text()?.into()),
        b'o' => Value::Path(cursor.path()?.into()),
        b'g' => Value::Signature(cursor.signature()?.into()),
        b'v' => {
            let inner = cursor.signature()?;
            Value::Variant(Box::new(read_one(cursor, inner)?))
        }
        b'(' => {
            cursor.align(8)?;
            let (mut fields, mut rest) = (Vec::new(), &types[1..]);
            while !rest.starts_with(')') {
                let (field, other) = read(cursor, rest)?;
                fields.push(field);
                rest = other;
            }
            return Ok((Value::Struct(fields), &rest[1..]));
        }
        b'a' => return array(cursor, &types[1..]),
        _ => return Err(Fault::Invalid("a signature has a letter that is not a type")),
    };
    Ok((value, &types[1..]))
}

/// Reads an array whose elements have the first of these types.
fn array<'a>(cursor: &mut Cursor<'a>, types: &'a str) -> Result<(Value<'a>, &'a str), Fault> {
    let bytes = cursor.u32()? as usize;
    cursor.align(signature::alignment(types.as_bytes()[0]))?;
    if let Some(rest) = types.strip_prefix('y') {
        return Ok((Value::Bytes(cursor.take(bytes)?.into()), rest));
    }
    let end = cursor.at + bytes;
    let Some(entry) = types.strip_prefix('{') else {
        let (element, rest) = split(types);
        let mut elements = Vec::new();
        while cursor.at < end {
            elements.push(read_one(cursor, element)?);
        }
        return Ok((Value::Array(element.into(), elements), rest));
    };
    let rest = split(&entry[1..]).1;
    let types = &entry[..entry.len() - rest.len()];
    let mut entries = Vec::new();
    while cursor.at < end {
        cursor.align(8)?;
        let (key, value) = types.split_at(1);
        entries.push((read_one(cursor, key)?, read_one(cursor, value)?));
    }
    // Behind the bracket.
    Ok((Value::Dictionary(types.into(), entries), &rest[1..]))
}

fn split(types: &str) -> (&str, &str) {
    signature::split(types).expect("the signature was checked")
}

const NOT_ITS_TYPE: Fault = Fault::Invalid("an element of an array has another type than the array says");

impl Value<'_> {
    /// Its type. That of a value that was read is valid.
    pub fn signature(&self) -> String {
        let mut types = String::new();
        self.add_signature(&mut types);
        types
    }

    fn add_signature(&self, types: &mut String) {
        match self {
            Value::Array(element, _) => types.extend(["a", element]),
            Value::Dictionary(entry, _) => types.extend(["a{", entry, "}"]),
            Value::Struct(fields) => {
                types.push('(');
                fields.iter().for_each(|field| field.add_signature(types));
                types.push(')');
            }
            Value::Bytes(_) => types.push_str("ay"),
            Value::Variant(_) => types.push('v'),
            basic => types.push(basic.letter()),
        }
    }

    /// The type of a value without parts.
    fn letter(&self) -> char {
        match self {
            Value::Byte(_) => 'y',
            Value::Bool(_) => 'b',
            Value::I16(_) => 'n',
            Value::U16(_) => 'q',
            Value::I32(_) => 'i',
            Value::U32(_) => 'u',
            Value::I64(_) => 'x',
            Value::U64(_) => 't',
            Value::F64(_) => 'd',
            Value::Descriptor(_) => 'h',
            Value::Text(_) => 's',
            Value::Path(_) => 'o',
            Value::Signature(_) => 'g',
            Value::Variant(_) => 'v',
            Value::Bytes(_) | Value::Array(..) | Value::Dictionary(..) => 'a',
            Value::Struct(_) => '(',
        }
    }

    /// Writes a variant that holds this value.
    pub(super) fn encode_variant(&self, out: &mut Marshal) -> Result<(), Fault> {
        let types = self.signature();
        signature::check(&types).map_err(Fault::Invalid)?;
        out.variant(&types, |out| self.encode_inner(&types, out))
    }

    /// Writes this value, whose type must be this.
    pub(super) fn encode_inner(&self, types: &str, out: &mut Marshal) -> Result<(), Fault> {
        if self.encode_as(types, out)?.is_empty() { Ok(()) } else { Err(NOT_ITS_TYPE) }
    }

    /// Writes this value, whose type must be the first of these; returns the others.
    fn encode_as<'t>(&self, types: &'t str, out: &mut Marshal) -> Result<&'t str, Fault> {
        let rest = types.strip_prefix(self.letter()).ok_or(NOT_ITS_TYPE)?;
        match self {
            Value::Byte(number) => out.byte(*number),
            Value::Bool(value) => out.u32(u32::from(*value)),
            Value::I16(number) => out.u16(number.cast_unsigned()),
            Value::U16(number) => out.u16(*number),
            Value::I32(number) => out.u32(number.cast_unsigned()),
            Value::U32(number) | Value::Descriptor(number) => out.u32(*number),
            Value::I64(number) => out.u64(number.cast_unsigned()),
            Value::U64(number) => out.u64(*number),
            Value::F64(number) => out.u64(number.to_bits()),
            Value::Text(text) => out.checked_text(text)?,
            Value::Path(path) if !names::is_path(path) => {
                return Err(Fault::Invalid("an argument is not an object path"));
            }
            Value::Path(path) => out.text(path),
            Value::Signature(text) => {
                signature::check(text).map_err(Fault::Invalid)?;
                out.signature(text);
            }
            Value::Variant(value) => value.encode_variant(out)?,
            Value::Bytes(bytes) => {
                let rest = rest.strip_prefix('y').ok_or(NOT_ITS_TYPE)?;
                out.try_array(1, |out| {
                    out.all_fixed(bytes.iter().map(|byte| [*byte]));
                    Ok(())
                })?;
                return Ok(rest);
            }
            Value::Array(element, elements) => {
                let rest = rest.strip_prefix(&**element).ok_or(NOT_ITS_TYPE)?;
                let (Some((_, "")), [code, ..]) = (signature::split(element), element.as_bytes()) else {
                    return Err(Fault::Invalid("the elements of an array have not exactly one type"));
                };
                out.try_array(signature::alignment(*code), |out| {
                    elements.iter().try_for_each(|value| value.encode_inner(element, out))
                })?;
                return Ok(rest);
            }
            Value::Dictionary(types, entries) => {
                let rest = rest.strip_prefix('{').and_then(|rest| rest.strip_prefix(&**types));
                let rest = rest.and_then(|rest| rest.strip_prefix('}')).ok_or(NOT_ITS_TYPE)?;
                out.try_array(8, |out| {
                    entries.iter().try_for_each(|(key, value)| {
                        out.structure(|out| value.encode_inner(key.encode_as(types, out)?, out))
                    })
                })?;
                return Ok(rest);
            }
            Value::Struct(fields) => {
                let mut rest = rest;
                out.structure(|out| {
                    fields.iter().try_for_each(|field| {
                        rest = field.encode_as(rest, out)?;
                        Ok(())
                    })
                })?;
                return rest.strip_prefix(')').ok_or(NOT_ITS_TYPE);
            }
        }
        Ok(rest)
    }

    /// The same with copies of what it borrows.
    pub fn into_owned(self) -> Value<'static> {
        let text = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let all = |values: Vec<Value<'_>>| values.into_iter().map(Value::into_owned).collect();
        match self {
            Value::Byte(number) => Value::Byte(number),
            Value::Bool(value) => Value::Bool(value),
            Value::I16(number) => Value::I16(number),
            Value::U16(number) => Value::U16(number),
            Value::I32(number) => Value::I32(number),
            Value::U32(number) => Value::U32(number),
            Value::I64(number) => Value::I64(number),
            Value::U64(number) => Value::U64(number),
            Value::F64(number) => Value::F64(number),
            Value::Descriptor(index) => Value::Descriptor(index),
            Value::Text(it) => Value::Text(text(it)),
            Value::Path(it) => Value::Path(text(it)),
            Value::Signature(it) => Value::Signature(text(it)),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Array(element, elements) => Value::Array(text(element), all(elements)),
            Value::Dictionary(types, entries) => {
                let entries = entries.into_iter().map(|(key, value)| (key.into_owned(), value.into_owned()));
                Value::Dictionary(text(types), entries.collect())
            }
            Value::Struct(fields) => Value::Struct(all(fields)),
            Value::Variant(value) => Value::Variant(Box::new(value.into_owned())),
        }
    }
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
            Value::Array(_, elements) => counted(f, elements),
            Value::Dictionary(_, entries) => {
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
            Value::Variant(value) => write!(f, "{} {value}", value.signature()),
        }
    }
}
