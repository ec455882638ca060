//! What a type does to be written and read, and from what it is read.

use std::borrow::Cow;
use std::fmt;

use super::super::cursor::Cursor;
use super::super::value::{Value, read_one};
use super::super::{ARRAY_BYTES_MAX, Checker, DEPTH_MAX, Endian, Fault, Marshal, signature};
use super::signature::TypeSignature;

/// A Rust type that stands for a type of D-Bus.
pub trait Type {
    /// Its signature: one complete type.
    const SIGNATURE: TypeSignature;
}

/// The types that keys of dictionaries have: numbers, booleans, texts, descriptors.
pub trait Basic: Type {}

/// A type whose values are written.
pub trait Encode: Type {
    /// Writes a value, of [`Type::SIGNATURE`].
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault>;

    /// Writes the elements of an array, which begin where the first does.
    #[doc(hidden)]
    fn encode_all(elements: &[Self], out: &mut Marshal) -> Result<(), Fault>
    where
        Self: Sized,
    {
        elements.iter().try_for_each(|element| element.encode(out))
    }
}

/// A type whose values are read from bytes that live for `'a`.
pub trait Decode<'a>: Type + Sized {
    /// Reads a value, of [`Type::SIGNATURE`].
    fn decode(from: &mut Unmarshal<'a>) -> Result<Self, Unreadable>;

    /// Reads the elements of an array, which have so many bytes.
    #[doc(hidden)]
    fn decode_all(from: &mut Unmarshal<'a>, bytes: usize) -> Result<Vec<Self>, Unreadable> {
        let (mut elements, end) = (Vec::new(), from.end_of(bytes)?);
        while from.cursor.at < end {
            elements.push(Self::decode(from)?);
        }
        from.array_ends(end)?;
        Ok(elements)
    }
}

/// Why arguments cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// They have other types than those that are asked for.
    Mistyped(Box<Mistyped>),
    /// They break the specification, or end too early.
    Fault(Fault),
}

/// Types that are not those that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistyped {
    /// The signature that was asked for.
    pub expected: Cow<'static, str>,
    /// That of the message, or of the variant.
    pub found: String,
}

impl Unreadable {
    /// These types are not those that were asked for.
    #[cold]
    pub fn mistyped(expected: impl Into<Cow<'static, str>>, found: &str) -> Unreadable {
        Unreadable::Mistyped(Box::new(Mistyped { expected: expected.into(), found: found.to_owned() }))
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Mistyped(types) => {
                write!(f, "expected {:?}, found {:?}", types.expected, types.found)
            }
            Unreadable::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for Unreadable {}

impl From<Fault> for Unreadable {
    fn from(fault: Fault) -> Unreadable {
        Unreadable::Fault(fault)
    }
}

/// Marshalled values that are read one after another.
#[derive(Clone, Debug)]
pub struct Unmarshal<'a> {
    pub(super) cursor: Cursor<'a>,
    /// Containers around what is read next.
    depth: u32,
}

impl<'a> Unmarshal<'a> {
    pub(super) fn new(bytes: &'a [u8], endian: Endian) -> Unmarshal<'a> {
        Unmarshal { cursor: Cursor::new(bytes, 0, endian), depth: 0 }
    }

    /// All must have been read: so many bytes, and no more must there be.
    pub(super) fn end(self, bytes: usize) -> Result<(), Fault> {
        if self.cursor.at == bytes && self.cursor.bytes().len() == bytes {
            return Ok(());
        }
        Err(Fault::Invalid("the body is longer than its types"))
    }

    /// Reads what is inside a container.
    #[inline]
    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Unreadable>) -> Result<T, Unreadable> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::Invalid("more than 64 containers are inside each other").into());
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Reads the fields of a struct, or key and value of an entry.
    #[inline]
    pub(super) fn structure<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        self.cursor.align(8)?;
        self.inside(read)
    }

    /// Reads the elements of an array, which have so many bytes.
    #[inline]
    pub(super) fn array<T>(
        &mut self,
        alignment: usize,
        read: impl FnOnce(&mut Self, usize) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        let bytes = self.cursor.u32()? as usize;
        if bytes > ARRAY_BYTES_MAX {
            return Err(Fault::Invalid("an array is larger than 64 MiB").into());
        }
        self.cursor.align(alignment)?;
        self.inside(|from| read(from, bytes))
    }

    /// Where an array ends whose elements have so many bytes.
    pub(super) fn end_of(&self, bytes: usize) -> Result<usize, Fault> {
        let end = self.cursor.at + bytes;
        if end > self.cursor.bytes().len() { Err(Fault::Cut) } else { Ok(end) }
    }

    /// An array that ends here must have been read to its end.
    pub(super) fn array_ends(&self, end: usize) -> Result<(), Fault> {
        if self.cursor.at == end {
            return Ok(());
        }
        Err(Fault::Invalid("an array ends inside an element"))
    }

    /// Reads a variant whose value has this type.
    pub(super) fn variant<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        let found = self.variant_type()?;
        if found != expected {
            return Err(Unreadable::mistyped(expected, found));
        }
        self.inside(read)
    }

    /// Reads a variant of any type.
    pub(super) fn any_variant(&mut self) -> Result<Value<'a>, Unreadable> {
        let types = self.variant_type()?;
        self.inside(|from| Ok(from.value_of(types)?))
    }

    fn variant_type(&mut self) -> Result<&'a str, Fault> {
        let types = self.cursor.signature()?;
        match signature::split(types) {
            Some((_, "")) => Ok(types),
            _ => Err(Fault::Invalid("a variant has not exactly one type")),
        }
    }

    /// Reads a value of this type, which is valid. Before anything is made of what has parts, the compiled check has been over it, which takes
    /// as long as its bytes.
    pub(super) fn value_of(&mut self, types: &'a str) -> Result<Value<'a>, Fault> {
        if types.len() > 1 || types == "v" {
            Checker::check_value(&mut self.cursor.clone(), types, self.depth)?;
        }
        read_one(&mut self.cursor, types)
    }
}
