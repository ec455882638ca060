//! The records of an MCAP file in their order, each with its place.
//!
//! Of our own, because the readers of the library `mcap` do not tell where a record stands, and accept what follows from no
//! field of it: another length, another end.

use std::fmt;
use std::io::{self, BufReader, Read};

use crc32fast::Hasher;
use mcap::MAGIC;
use mcap::records::op;

use crate::layout;

/// The longest record that is read into memory: the longest payload of a log is a quarter of 1 GiB.
pub const RECORD_BYTES_MAX: u64 = 1 << 30;
/// The file is read in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;
/// Kind and length of a record.
const HEAD_BYTES: usize = 9;
/// The last record of a file without its checksum, which does not cover itself.
const FOOTER_BYTES: usize = HEAD_BYTES + 20;
const COVERED_FOOTER_BYTES: usize = FOOTER_BYTES - 4;

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// Where it begins: in the file, or in its chunk.
    pub offset: u64,
    pub opcode: u8,
    pub body: &'a [u8],
    /// Of DataEnd and Footer: the checksum of the section that ends here.
    pub checksum: u32,
}

impl Raw<'_> {
    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        (HEAD_BYTES + self.body.len()) as u64
    }

    /// A fault of it.
    pub fn damage(&self, fault: impl Into<String>) -> Error {
        Error::damage(self.offset, layout::name(self.opcode), fault)
    }
}

/// What comes next in a file.
#[derive(Debug)]
pub enum Next<'a> {
    Record(Raw<'a>),
    /// The file ends before its end mark.
    Cut {
        /// Where the record begins, or would, that is not whole.
        offset: u64,
        /// Its kind, where one byte of it is there.
        opcode: Option<u8>,
    },
    /// The file ends with its end mark.
    End,
}

/// Why a file is not read to its end.
#[derive(Debug)]
pub enum Error {
    Unreadable(io::Error),
    Empty,
    /// It begins with other bytes than an MCAP file.
    OtherFormat(Vec<u8>),
    /// It is not what the format, or another part of it, says.
    Damage {
        offset: u64,
        kind: &'static str,
        fault: String,
    },
}

impl Error {
    pub fn damage(offset: u64, kind: &'static str, fault: impl Into<String>) -> Error {
        Error::Damage { offset, kind, fault: fault.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable(error) => error.fmt(f),
            Error::Empty => f.write_str("it is empty: nothing was recorded into it"),
            Error::OtherFormat(bytes) => write!(
                f,
                "it is no MCAP file, or its first bytes are damaged: they are `{}`, not `{}`",
                bytes.escape_ascii(),
                MAGIC.escape_ascii()
            ),
            Error::Damage { offset, kind, fault } => write!(f, "damaged: {kind} at byte {offset}: {fault}"),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Unreadable(error)
    }
}

/// Reads the records of a file.
pub struct Records {
    source: BufReader<Box<dyn Read>>,
    /// Bytes of the file before the record that is read.
    offset: u64,
    record: Vec<u8>,
    /// The last bytes before it.
    before: Vec<u8>,
    /// Over the section, up to the record that is read.
    hasher: Hasher,
    has_footer: bool,
    /// Are lengths exactly those of their fields? The program that wrote the file does not exceed them.
    pub is_exact: bool,
}

impl Records {
    pub fn new(source: Box<dyn Read>) -> Records {
        Records {
            source: BufReader::with_capacity(PIECE_BYTES, source),
            offset: 0,
            record: Vec::new(),
            before: Vec::new(),
            hasher: Hasher::new(),
            has_footer: false,
            is_exact: false,
        }
    }

    /// The next record.
    pub fn next(&mut self) -> Result<Next<'_>, Error> {
        self.begin();
        if self.offset == 0 {
            let is_whole = self.fill(MAGIC.len())?;
            if self.record.is_empty() {
                return Err(Error::Empty);
            }
            if !MAGIC.starts_with(&self.record) {
                return Err(Error::OtherFormat(std::mem::take(&mut self.record)));
            }
            if !is_whole {
                return Ok(Next::Cut { offset: 0, opcode: None });
            }
            self.hasher.update(MAGIC);
            self.begin();
            // These are not its end mark.
            self.before.clear();
        }
        if self.has_footer {
            return self.end();
        }
        if !self.fill(HEAD_BYTES)? {
            return self.cut("the file ends before its length");
        }
        let (opcode, length) = (self.record[0], length_of(&self.record));
        if opcode == 0 {
            return Err(self.damage("a record of kind 0 does not exist"));
        }
        if length > RECORD_BYTES_MAX {
            return Err(self.damage(format!("its length is {length}, above the limit of {RECORD_BYTES_MAX}")));
        }
        let is_whole = self.fill(HEAD_BYTES + length as usize)?;
        let body = &self.record[HEAD_BYTES..];
        layout::check(opcode, length, body, self.is_exact).map_err(|fault| self.damage(fault))?;
        if !is_whole {
            let there = body.len();
            return self.cut(&format!("its length is {length}, and the file ends {there} bytes later"));
        }
        let checksum = match opcode {
            op::DATA_END => std::mem::take(&mut self.hasher).finalize(),
            op::FOOTER => {
                self.has_footer = true;
                self.hasher.update(&self.record[..COVERED_FOOTER_BYTES]);
                std::mem::take(&mut self.hasher).finalize()
            }
            _ => {
                self.hasher.update(&self.record);
                0
            }
        };
        Ok(Next::Record(Raw { offset: self.offset, opcode, body: &self.record[HEAD_BYTES..], checksum }))
    }

    fn end(&mut self) -> Result<Next<'_>, Error> {
        let is_whole = self.fill(MAGIC.len())?;
        if !MAGIC.starts_with(&self.record) {
            let fault = format!("it is `{}`, not `{}`", self.record.escape_ascii(), MAGIC.escape_ascii());
            return Err(Error::damage(self.offset, "end mark", fault));
        }
        if !is_whole {
            return Ok(Next::Cut { offset: self.offset, opcode: None });
        }
        if self.fill(MAGIC.len() + 1)? {
            return Err(Error::damage(self.offset + MAGIC.len() as u64, "end", "bytes follow the end mark"));
        }
        Ok(Next::End)
    }

    /// Begins with the record after the one that was read.
    fn begin(&mut self) {
        self.offset += self.record.len() as u64;
        self.before.extend_from_slice(&self.record[self.record.len().saturating_sub(MAGIC.len())..]);
        self.before.drain(..self.before.len().saturating_sub(MAGIC.len()));
        self.record.clear();
    }

    /// Reads on until the record has so many bytes. False if the file ends before.
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        // A length from the file is no reason for memory; only bytes that are there are.
        let missing = bytes - self.record.len();
        Ok((&mut self.source).take(missing as u64).read_to_end(&mut self.record)? == missing)
    }

    /// The file ends within this record. One that has its end mark all the same was not cut off: `fault` is one of the record.
    fn cut(&self, fault: &str) -> Result<Next<'static>, Error> {
        let end: Vec<u8> = self.before.iter().chain(&self.record).copied().collect();
        if end.ends_with(MAGIC) {
            let kind = self.record.first().map_or("end", |opcode| layout::name(*opcode));
            return Err(Error::damage(self.offset, kind, fault));
        }
        Ok(Next::Cut { offset: self.offset, opcode: self.record.first().copied() })
    }

    fn damage(&self, fault: impl Into<String>) -> Error {
        Error::damage(self.offset, layout::name(self.record[0]), fault)
    }
}

/// The records of a chunk, each with its place in it.
pub fn in_chunk(bytes: &[u8]) -> impl Iterator<Item = Result<Raw<'_>, String>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(offset..).filter(|rest| !rest.is_empty())?;
        let body = rest.get(HEAD_BYTES..).and_then(|body| body.get(..usize::try_from(length_of(rest)).ok()?));
        let Some(body) = body else {
            let fault = format!("the record at byte {offset} of its contents is longer than they are");
            offset = bytes.len();
            return Some(Err(fault));
        };
        let raw = Raw { offset: offset as u64, opcode: rest[0], body, checksum: 0 };
        offset += HEAD_BYTES + body.len();
        Some(Ok(raw))
    })
}

fn length_of(head: &[u8]) -> u64 {
    head[1..HEAD_BYTES].iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte))
}
