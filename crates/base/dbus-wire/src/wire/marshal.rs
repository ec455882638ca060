//! Values of any type, written one after the other: for bodies that [`Body`] has no method for.

use super::{Body, Endian};

/// Marshalled values in native byte order. Nothing compares them with the signature that the caller gives at the end.
#[derive(Clone, Debug, Default)]
pub struct Marshal(Vec<u8>);

impl Marshal {
    /// The body whose types these values have.
    ///
    /// # Panics
    /// The signature is not valid.
    pub fn into_body(self, signature: &str) -> Body {
        Body::marshalled(Endian::NATIVE, signature, &self.0)
    }

    /// Pads to a boundary: that of a struct or dict entry is 8.
    pub fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    /// Writes a `y`.
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Writes a `q` or `n`.
    pub fn u16(&mut self, number: u16) {
        self.align(2);
        self.0.extend(number.to_ne_bytes());
    }

    /// Writes a `u`, `i`, `h` or `b`.
    pub fn u32(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_ne_bytes());
    }

    /// Writes a `t` or `x`, or the bits of a `d`.
    pub fn u64(&mut self, number: u64) {
        self.align(8);
        self.0.extend(number.to_ne_bytes());
    }

    /// Writes an `s` or `o`.
    pub fn text(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).expect("a text below the limit of a message"));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    /// Writes a `g`.
    pub fn signature(&mut self, signature: &str) {
        self.0.push(u8::try_from(signature.len()).expect("a signature has at most 255 bytes"));
        self.0.extend(signature.as_bytes());
        self.0.push(0);
    }

    /// Writes an array; its elements, which `elements` writes, begin on this boundary.
    pub fn array(&mut self, element_alignment: usize, elements: impl FnOnce(&mut Marshal)) {
        self.u32(0);
        let length_at = self.0.len() - 4;
        self.align(element_alignment);
        let start = self.0.len();
        elements(self);
        let bytes = u32::try_from(self.0.len() - start).expect("an array below the limit of a message");
        self.0[length_at..length_at + 4].copy_from_slice(&bytes.to_ne_bytes());
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
