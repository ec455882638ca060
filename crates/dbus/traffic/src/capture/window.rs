//! A view of the next bytes of a source.

use std::io::{self, Read};

use super::Problems;

const CHUNK_BYTES: usize = 256 << 10;

/// Bytes that were read and not yet consumed.
#[derive(Debug)]
pub(super) struct Window<R> {
    source: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    is_at_end: bool,
    pub problems: Problems,
}

impl<R: Read> Window<R> {
    pub fn new(source: R) -> Window<R> {
        let problems = Problems::default();
        Window { source, bytes: Vec::new(), start: 0, end: 0, is_at_end: false, problems }
    }

    /// The next `count` bytes without consuming them; fewer at the end of the source.
    pub fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.end - self.start < count && !self.is_at_end {
            self.fill()?;
        }
        let end = self.end.min(self.start + count);
        Ok(&self.bytes[self.start..end])
    }

    /// What precedes the next record, without consuming it; nothing at the end of the source, which is early where bytes are left.
    pub fn record_header(&mut self, count: usize) -> io::Result<Option<&[u8]>> {
        let left = self.peek(count)?.len();
        if left < count {
            if left > 0 {
                self.end_early();
            }
            return Ok(None);
        }
        self.peek(count).map(Some)
    }

    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "only what was peeked at is consumed");
        self.start += count;
    }

    /// Takes and returns bytes that were peeked at.
    pub fn take(&mut self, count: usize) -> &[u8] {
        let start = self.start;
        self.consume(count);
        &self.bytes[start..start + count]
    }

    /// The next line, of `most` bytes at most; `None` at the end. One that is longer, or that the source ends in, is counted and skipped.
    pub fn line(&mut self, most: usize) -> io::Result<Option<&[u8]>> {
        loop {
            // Most lines are short; a long look would copy the window for each of them.
            let mut look = 512;
            let line = loop {
                let seen = self.peek(look)?;
                match seen.iter().position(|byte| *byte == b'\n') {
                    Some(end) => break Some(end),
                    None if seen.len() < look || look > most => break None,
                    None => look *= 2,
                }
            };
            if let Some(length) = line {
                return Ok(Some(&self.take(length + 1)[..length]));
            }
            let rest = self.peek(look)?.len();
            if rest == 0 {
                return Ok(None);
            }
            self.consume(rest);
            if rest < look {
                (self.problems.ends_early, self.problems.left) = (true, rest as u64);
            } else {
                self.problems.damaged += 1;
                self.problems.skipped += 1;
            }
        }
    }

    /// A line that is not what it should be.
    pub fn note_bad_line(&mut self) {
        self.problems.damaged += 1;
        self.problems.skipped += 1;
    }

    /// Skips a damaged place: bytes, `step` at a time and at least once, until those that follow are recognized or the source ends.
    pub fn skip_damage(&mut self, step: usize, need: usize, is_it: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        self.problems.damaged += 1;
        loop {
            self.consume(step);
            self.problems.skipped += step as u64;
            let there = self.peek(need)?;
            let left = there.len();
            if left < need {
                self.consume(left);
                self.problems.skipped += left as u64;
                return Ok(());
            }
            if is_it(there) {
                return Ok(());
            }
        }
    }

    /// The source ended inside of a packet: what is left of that goes.
    pub fn end_early(&mut self) {
        self.problems.ends_early = true;
        self.problems.left += (self.end - self.start) as u64;
        self.start = self.end;
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        // A length from the file is no reason for memory; only bytes that are there are.
        let room = self.end + CHUNK_BYTES;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        match self.source.read(&mut self.bytes[self.end..]) {
            Ok(0) => self.is_at_end = true,
            Ok(count) => self.end += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
