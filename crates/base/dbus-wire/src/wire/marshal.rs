//! Values of any type, written one after the other: for bodies that [`Body`] has no method for.

use std::borrow::Cow;

use super::{ARRAY_BYTES_MAX, Body, DEPTH_MAX, Endian, Fault, MESSAGE_BYTES_MAX};

/// Marshalled values in native byte order. Nothing compares them with the signature that the caller gives at the end.
#[derive(Clone, Debug, Default)]
pub struct Marshal {
    bytes: Vec<u8>,
    /// Containers around what is written next, as far as they are known here.
    depth: u32,
}

/// An array to which elements are added.
#[derive(Debug)]
#[must_use]
pub struct OpenArray {
    length_at: usize,
    start: usize,
}

impl Marshal {
    /// No values yet, to be written into this memory, in which nothing is.
    #[inline]
    pub(super) fn in_memory(bytes: Vec<u8>) -> Marshal {
        Marshal { bytes, depth: 0 }
    }

    /// The body whose types these values have.
    ///
    /// # Panics
    /// The signature is not valid.
    pub fn into_body(self, signature: &str) -> Body {
        Body::marshalled(Endian::NATIVE, signature, &self.bytes)
    }

    /// As [`Marshal::into_body`], with a signature that is known to be valid.
    pub(super) fn into_body_of(self, signature: &'static str) -> Body {
        Body { endian: Endian::NATIVE, signature: Cow::Borrowed(signature), bytes: self.bytes }
    }

    /// What is written stands behind these bytes, which end on a boundary of 8.
    pub(super) fn behind(bytes: Vec<u8>) -> Marshal {
        debug_assert!(bytes.len().is_multiple_of(8));
        Marshal { bytes, depth: 0 }
    }

    /// What was written, and stands before it.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What was written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Pads to a boundary: that of a struct or dict entry is 8.
    #[inline]
    pub fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    /// Writes the bytes of a number, which has so many.
    #[inline]
    pub(super) fn fixed<const BYTES: usize>(&mut self, number: [u8; BYTES]) {
        self.align(BYTES);
        self.bytes.extend_from_slice(&number);
    }

    /// Writes the elements of an array of numbers.
    pub(super) fn all_fixed<const BYTES: usize>(
        &mut self,
        numbers: impl ExactSizeIterator<Item = [u8; BYTES]>,
    ) {
        let start = self.bytes.len();
        self.bytes.resize(start + numbers.len() * BYTES, 0);
        let (places, _) = self.bytes[start..].as_chunks_mut();
        places.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
    }

    /// Writes a `y`.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Writes a `q` or `n`.
    pub fn u16(&mut self, number: u16) {
        self.fixed(number.to_ne_bytes());
    }

    /// Writes a `u`, `i`, `h` or `b`.
    #[inline]
    pub fn u32(&mut self, number: u32) {
        self.fixed(number.to_ne_bytes());
    }

    /// Writes a `t` or `x`, or the bits of a `d`.
    pub fn u64(&mut self, number: u64) {
        self.fixed(number.to_ne_bytes());
    }

    /// Writes an `s` or `o`.
    pub fn text(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).expect("a text below the limit of a message"));
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    /// Writes an `s`, if it can be one.
    pub(super) fn checked_text(&mut self, text: &str) -> Result<(), Fault> {
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(Fault::Invalid("a string is longer than a message may be"));
        }
        if text.as_bytes().contains(&0) {
            return Err(Fault::Invalid("a string contains a zero byte"));
        }
        self.text(text);
        Ok(())
    }

    /// Writes a `g`.
    pub fn signature(&mut self, signature: &str) {
        self.bytes.push(u8::try_from(signature.len()).expect("a signature has at most 255 bytes"));
        self.bytes.extend_from_slice(signature.as_bytes());
        self.bytes.push(0);
    }

    /// Writes what is inside a container.
    #[inline]
    fn inside(&mut self, write: impl FnOnce(&mut Marshal) -> Result<(), Fault>) -> Result<(), Fault> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::Invalid("more than 64 containers are inside each other"));
        }
        self.depth += 1;
        let written = write(self);
        self.depth -= 1;
        written
    }

    /// Writes the fields of a struct, or key and value of an entry.
    #[inline]
    pub(super) fn structure(
        &mut self,
        fields: impl FnOnce(&mut Marshal) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.align(8);
        self.inside(fields)
    }

    /// Writes a variant with a value of this type.
    pub(super) fn variant(
        &mut self,
        types: &str,
        value: impl FnOnce(&mut Marshal) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.signature(types);
        self.inside(value)
    }

    /// As [`Marshal::array`], of elements that may fail, and not larger than an array may be.
    pub(super) fn try_array(
        &mut self,
        element_alignment: usize,
        elements: impl FnOnce(&mut Marshal) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let array = self.begin_array(element_alignment);
        self.inside(elements)?;
        if self.bytes.len() - array.start > ARRAY_BYTES_MAX {
            return Err(Fault::Invalid("an array is larger than 64 MiB"));
        }
        self.end_array(array);
        Ok(())
    }

    /// Writes an array; its elements, which `elements` writes, begin on this boundary.
    pub fn array(&mut self, element_alignment: usize, elements: impl FnOnce(&mut Marshal)) {
        let array = self.begin_array(element_alignment);
        elements(self);
        self.end_array(array);
    }

    pub(super) fn begin_array(&mut self, element_alignment: usize) -> OpenArray {
        self.u32(0);
        let length_at = self.bytes.len() - 4;
        self.align(element_alignment);
        OpenArray { length_at, start: self.bytes.len() }
    }

    pub(super) fn end_array(&mut self, OpenArray { length_at, start }: OpenArray) {
        let bytes = u32::try_from(self.bytes.len() - start).expect("an array below the limit of a message");
        self.bytes[length_at..length_at + 4].copy_from_slice(&bytes.to_ne_bytes());
    }

    /// Writes an `as`.
    pub fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        self.array(4, |out| texts.into_iter().for_each(|text| out.text(text)));
    }

    /// Writes an entry of an `a{sv}`: the key, and a variant of this type.
    pub fn entry(&mut self, key: &str, value_type: &str, value: impl FnOnce(&mut Marshal)) {
        self.align(8);
        self.text(key);
        self.signature(value_type);
        value(self);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Builder, Header, Kind, walk};
    use super::*;

    #[test]
    fn what_is_marshalled_is_a_valid_body_of_its_signature() {
        let mut out = Marshal::default();
        out.byte(3);
        out.array(8, |out| {
            out.entry("number", "u", |out| out.u32(7));
            out.entry("many", "at", |out| out.array(8, |out| out.u64(9)));
            out.entry("texts", "as", |out| out.texts(["a", "b"]));
        });
        out.array(8, |_| {});
        let bytes = Builder::new(Kind::Other(9)).body(out.into_body("ya{sv}a(tt)")).build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        walk(&header, &bytes[header.header_bytes..], &mut |_, _| {}).unwrap();
    }
}
