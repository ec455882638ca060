//! A position in marshalled bytes: alignment, byte order, and the three kinds of text.

use super::{Fault, names, signature};

/// The order of bytes in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The order of this machine.
    pub const NATIVE: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

    /// The first byte of a message in this order.
    pub const fn mark(self) -> u8 {
        match self {
            Endian::Little => b'l',
            Endian::Big => b'B',
        }
    }

    /// The order that a message's first byte stands for.
    pub const fn from_mark(mark: u8) -> Option<Endian> {
        match mark {
            b'l' => Some(Endian::Little),
            b'B' => Some(Endian::Big),
            _ => None,
        }
    }

    /// A number of two bytes.
    pub const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        }
    }

    /// A number of four bytes.
    #[inline]
    pub const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }

    /// A number of eight bytes.
    pub const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The four bytes of a number.
    #[inline]
    pub const fn bytes(self, number: u32) -> [u8; 4] {
        match self {
            Endian::Little => number.to_le_bytes(),
            Endian::Big => number.to_be_bytes(),
        }
    }
}

/// Reads from the start of bytes that begin on a boundary of eight.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pub at: usize,
    pub endian: Endian,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], at: usize, endian: Endian) -> Cursor<'a> {
        Cursor { bytes, at, endian }
    }

    /// All that it reads, also what it has passed.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Skips padding, which must be zero, up to a multiple of a power of two.
    #[inline]
    pub fn align(&mut self, to: usize) -> Result<(), Fault> {
        let padding = self.at.wrapping_neg() & (to - 1);
        if padding == 0 {
            return Ok(());
        }
        if self.take(padding)?.iter().all(|byte| *byte == 0) {
            Ok(())
        } else {
            Err(Fault::Invalid("padding is not zero"))
        }
    }

    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(count).ok_or(Fault::Cut)?;
        let taken = self.bytes.get(self.at..end).ok_or(Fault::Cut)?;
        self.at = end;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> Result<u16, Fault> {
        self.aligned().map(|bytes| self.endian.u16(bytes))
    }

    pub fn u32(&mut self) -> Result<u32, Fault> {
        self.aligned().map(|bytes| self.endian.u32(bytes))
    }

    pub fn u64(&mut self) -> Result<u64, Fault> {
        self.aligned().map(|bytes| self.endian.u64(bytes))
    }

    /// A number of so many bytes.
    #[inline]
    pub fn aligned<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Fault> {
        self.align(BYTES)?;
        self.take(BYTES).map(|bytes| bytes.try_into().expect("as many bytes as were taken"))
    }

    pub fn bool(&mut self) -> Result<bool, Fault> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Fault::Invalid("a boolean is neither 0 nor 1")),
        }
    }

    /// An object path, checked.
    pub fn path(&mut self) -> Result<&'a str, Fault> {
        let path = self.text()?;
        if names::is_path(path) { Ok(path) } else { Err(Fault::Invalid("an argument is not an object path")) }
    }

    /// A string or an object path.
    pub fn text(&mut self) -> Result<&'a str, Fault> {
        let length = self.u32()? as usize;
        self.text_of(length)
    }

    /// A string or an object path, or the start of one that is longer than `most` bytes.
    pub fn text_up_to(&mut self, most: usize) -> Result<&'a str, Fault> {
        let length = self.u32()? as usize;
        if length <= most {
            return self.text_of(length);
        }
        let start = &self.take(length)?[..most];
        self.terminator()?;
        Ok(start.utf8_chunks().next().map_or("", |chunk| chunk.valid()))
    }

    /// A signature, checked.
    pub fn signature(&mut self) -> Result<&'a str, Fault> {
        let length = self.u8()?;
        // That of most header fields and variants.
        if let Some([code, 0]) = self.bytes.get(self.at..self.at + 2)
            && length == 1
            && signature::is_one_type(*code)
        {
            self.at += 2;
            return Ok(std::str::from_utf8(std::slice::from_ref(code)).expect("a letter"));
        }
        let text = self.text_of(length.into())?;
        signature::check(text).map_err(Fault::Invalid)?;
        Ok(text)
    }

    /// The zero byte behind a text.
    pub fn terminator(&mut self) -> Result<(), Fault> {
        if self.u8()? == 0 { Ok(()) } else { Err(Fault::Invalid("a string does not end in a zero byte")) }
    }

    /// A text of so many bytes, behind its length.
    pub fn text_of(&mut self, length: usize) -> Result<&'a str, Fault> {
        let bytes = self.take(length)?;
        self.terminator()?;
        let text = std::str::from_utf8(bytes).map_err(|_| Fault::Invalid("a string is not UTF-8"))?;
        if text.as_bytes().contains(&0) {
            Err(Fault::Invalid("a string contains a zero byte"))
        } else {
            Ok(text)
        }
    }
}
