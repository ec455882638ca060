//! Values of Rust types as arguments, written and read: the one door for all types of D-Bus.
//!
//! | D-Bus | Rust |
//! |---|---|
//! | `y` `n` `q` `i` `u` `x` `t` `d` `b` | [`u8`] [`i16`] [`u16`] [`i32`] [`u32`] [`i64`] [`u64`] [`f64`] [`bool`] |
//! | `s` | [`str`], [`String`], `Cow<str>`; read as `&str`, it is not copied |
//! | `o`, `g`, `h` | [`ObjectPath`], [`Signature`], [`DescriptorIndex`] |
//! | `aT` | slices, arrays, [`Vec`]; read as `&[u8]`, an `ay` is not copied |
//! | `(…)` | tuples of up to twelve fields |
//! | `a{KV}` | [`HashMap`](std::collections::HashMap), [`BTreeMap`](std::collections::BTreeMap), [`Dict`] |
//! | `v` | [`Variant`] of a type that is known, [`Value`] of any |
//!
//! A tuple stands for as many arguments, everything else for one, and `()` for none: `(f64, String)` are the arguments `ds`, `((f64, String),)`
//! is one struct.
//!
//! ```
//! use causeway_dbus_wire::wire::{Body, Builder, Header, arguments};
//!
//! let body = Body::of(&(21.5, "hall", [1u32, 2]))?;
//! let message = Builder::signal("/", "a.B", "C").body(body).build(1)?;
//! let header = Header::parse(&message)?;
//! let (celsius, place, counts): (f64, &str, Vec<u32>) = arguments(&header, &message[header.header_bytes..])?;
//! assert_eq!((celsius, place, counts), (21.5, "hall", vec![1, 2]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A type of a program's own has its signature, and is written and read, as the tuple of its fields:
//!
//! ```
//! use causeway_dbus_wire::wire::{Decode, Encode, Fault, Marshal, Type, TypeSignature, Unmarshal, Unreadable};
//!
//! struct Reading {
//!     celsius: f64,
//!     place: String,
//! }
//!
//! impl Type for Reading {
//!     const SIGNATURE: TypeSignature = <(f64, String)>::SIGNATURE;
//! }
//!
//! impl Encode for Reading {
//!     fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
//!         (self.celsius, &self.place).encode(out)
//!     }
//! }
//!
//! impl<'a> Decode<'a> for Reading {
//!     fn decode(from: &mut Unmarshal<'a>) -> Result<Reading, Unreadable> {
//!         let (celsius, place) = Decode::decode(from)?;
//!         Ok(Reading { celsius, place })
//!     }
//! }
//! ```
//!
//! A type that D-Bus does not have is an error of compilation, such as an array inside 32 others:
//!
//! ```compile_fail
//! use causeway_dbus_wire::wire::Body;
//!
//! type Eight<T> = Vec<Vec<Vec<Vec<Vec<Vec<Vec<Vec<T>>>>>>>>;
//! let _ = Body::of(&Vec::<Eight<Eight<Eight<Eight<u8>>>>>::new());
//! ```

mod basic;
mod containers;
mod signature;
#[cfg(test)]
mod tests;
mod traits;

pub use basic::{DescriptorIndex, ObjectPath, Signature};
pub use containers::{Dict, Variant};
pub use signature::TypeSignature;
pub use traits::{Basic, Decode, Encode, Mistyped, Type, Unmarshal, Unreadable};

use super::build::spare_bytes;
use super::{Body, Endian, Fault, Header, Marshal, Value};

impl Body {
    /// The arguments that a tuple has, or one that is not a tuple. Each has the D-Bus type of its Rust type, in the table above: a number
    /// of which nothing says the type is an [`i32`] or [`f64`] in Rust, and so `i` or `d` here.
    ///
    /// # Errors
    /// A text has a zero byte, an array is larger than 64 MiB, or a [`Value`] is not one of D-Bus.
    pub fn of<T: Encode + ?Sized>(arguments: &T) -> Result<Body, Fault> {
        let mut out = Marshal::in_memory(spare_bytes());
        arguments.encode(&mut out)?;
        Ok(out.into_body_of(const { &T::SIGNATURE }.arguments()))
    }
}

/// The arguments of a message, whose types must be these. All that is read is checked.
pub fn arguments<'a, T: Decode<'a>>(header: &Header<'a>, body: &'a [u8]) -> Result<T, Unreadable> {
    let expected = const { &T::SIGNATURE }.arguments();
    if header.signature != expected {
        return Err(Unreadable::mistyped(expected, header.signature));
    }
    if body.len() < header.body_bytes {
        return Err(Fault::Cut.into());
    }
    let mut from = Unmarshal::new(body, header.endian);
    let arguments = T::decode(&mut from)?;
    from.end(header.body_bytes)?;
    Ok(arguments)
}

/// The arguments of a whole message, as [`arguments`].
pub fn arguments_of<'a, T: Decode<'a>>(message: &'a [u8]) -> Result<T, Unreadable> {
    let header = Header::parse(message)?;
    arguments(&header, message.get(header.header_bytes..).unwrap_or_default())
}

impl Value<'_> {
    /// A value of a Rust type; a [`Value`] becomes a variant inside it. Fails as [`Body::of`].
    ///
    /// ```
    /// use causeway_dbus_wire::wire::Value;
    ///
    /// assert_eq!(Value::of(&2.5)?, Value::F64(2.5));
    /// assert_eq!(Value::of(&[("a", 1u8)][..])?.to_string(), "1 \"a\" 1");
    /// # Ok::<(), causeway_dbus_wire::wire::Fault>(())
    /// ```
    pub fn of<T: Encode + ?Sized>(value: &T) -> Result<Value<'static>, Fault> {
        let mut out = Marshal::default();
        value.encode(&mut out)?;
        let mut from = Unmarshal::new(out.bytes(), Endian::NATIVE);
        Ok(from.value_of(const { &T::SIGNATURE }.as_str())?.into_owned())
    }

    /// This value as one of a Rust type, which must be its type.
    ///
    /// ```
    /// use causeway_dbus_wire::wire::Value;
    ///
    /// assert_eq!(Value::F64(2.5).to::<f64>()?, 2.5);
    /// let refused = Value::F64(2.5).to::<u32>().unwrap_err().to_string();
    /// assert_eq!(refused, "expected \"u\", found \"d\"");
    /// # Ok::<(), causeway_dbus_wire::wire::Unreadable>(())
    /// ```
    pub fn to<T: for<'a> Decode<'a>>(&self) -> Result<T, Unreadable> {
        let (expected, found) = (const { &T::SIGNATURE }.as_str(), self.signature());
        if found != expected {
            return Err(Unreadable::mistyped(expected, &found));
        }
        let mut out = Marshal::default();
        self.encode_inner(&found, &mut out)?;
        T::decode(&mut Unmarshal::new(out.bytes(), Endian::NATIVE))
    }
}
