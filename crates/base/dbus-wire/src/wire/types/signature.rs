//! Signatures of Rust types, computed while they are compiled.

use std::fmt;

use super::super::signature::{NESTING_MAX, SIGNATURE_BYTES_MAX};

/// The signature of a Rust type. One that is too long or too deep is an error of compilation.
#[derive(Clone, Copy)]
pub struct TypeSignature {
    bytes: [u8; SIGNATURE_BYTES_MAX],
    length: usize,
    /// Arrays inside each other, and structs.
    arrays: u32,
    structs: u32,
}

impl TypeSignature {
    /// That of nothing, which no array and no struct has.
    pub(super) const EMPTY: TypeSignature =
        TypeSignature { bytes: [0; SIGNATURE_BYTES_MAX], length: 0, arrays: 0, structs: 0 };

    /// That of a letter.
    pub(super) const fn letter(code: u8) -> TypeSignature {
        TypeSignature::EMPTY.and_byte(code)
    }

    const fn and_byte(mut self, byte: u8) -> TypeSignature {
        assert!(self.length < SIGNATURE_BYTES_MAX, "a signature is longer than 255 bytes");
        self.bytes[self.length] = byte;
        self.length += 1;
        self
    }

    /// This one and another behind it: fields of a struct that is made of them with [`TypeSignature::in_struct`].
    pub(super) const fn and(mut self, other: &TypeSignature) -> TypeSignature {
        let mut at = 0;
        while at < other.length {
            self = self.and_byte(other.bytes[at]);
            at += 1;
        }
        self.arrays = if self.arrays > other.arrays { self.arrays } else { other.arrays };
        self.structs = if self.structs > other.structs { self.structs } else { other.structs };
        self
    }

    const fn between(self, open: u8, close: u8) -> TypeSignature {
        assert!(self.length > 0, "a struct has no fields");
        assert!(self.structs < NESTING_MAX, "more than 32 structs are inside each other");
        let mut all = TypeSignature::letter(open).and(&self).and_byte(close);
        all.structs += 1;
        all
    }

    /// A struct of these fields.
    pub(super) const fn in_struct(self) -> TypeSignature {
        self.between(b'(', b')')
    }

    /// An array of these.
    pub(super) const fn in_array(self) -> TypeSignature {
        assert!(self.length > 0, "an array has elements of no type");
        assert!(self.arrays < NESTING_MAX, "more than 32 arrays are inside each other");
        let mut all = TypeSignature::letter(b'a').and(&self);
        all.arrays += 1;
        all
    }

    /// A dictionary of these keys and values.
    pub(super) const fn dict(key: &TypeSignature, value: &TypeSignature) -> TypeSignature {
        assert!(value.length > 0, "a dictionary has values of no type");
        key.and(value).between(b'{', b'}').in_array()
    }

    /// The signature.
    pub const fn as_str(&self) -> &str {
        text(self.bytes.split_at(self.length).0)
    }

    /// The signature, where there must be one type.
    pub(super) const fn of_one(&self) -> &str {
        assert!(self.length > 0, "a variant has a value of no type");
        self.as_str()
    }

    /// What a message with these arguments has: that of the fields of a struct, otherwise of one argument.
    pub const fn arguments(&self) -> &str {
        match self.bytes[0] {
            b'(' => text(self.bytes.split_at(self.length - 1).0.split_at(1).1),
            _ => self.as_str(),
        }
    }

    /// The boundary on which values begin.
    pub(super) const fn alignment(&self) -> usize {
        super::super::signature::alignment(self.bytes[0])
    }
}

const fn text(letters: &[u8]) -> &str {
    match std::str::from_utf8(letters) {
        Ok(text) => text,
        Err(_) => panic!("letters and brackets"),
    }
}

impl fmt::Debug for TypeSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for TypeSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
