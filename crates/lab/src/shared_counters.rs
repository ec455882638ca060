//! Words that the roles of a case share beside what they measure: counts of each role, and one to wait on.
//!
//! A line of 128 bytes for each writer of words, so that two of them never write to the same cache line, nor to a
//! neighbour that is fetched with it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

use causeway_os::memory::{self, Access, Mapping};

const LINE_BYTES: usize = 128;
/// Words in a line.
const WORDS: usize = LINE_BYTES / 8;

/// Lines of words in shared memory.
#[derive(Debug)]
pub struct SharedCounters {
    map: Mapping,
}

impl SharedCounters {
    /// Memory for so many lines, all zero.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(lines: usize) -> io::Result<OwnedFd> {
        Ok(memory::memfd("weighbridge-counters", (lines * LINE_BYTES) as u64)?)
    }

    /// Maps and touches it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(fd: impl AsFd, lines: usize) -> io::Result<SharedCounters> {
        let map = Mapping::shared(fd, lines * LINE_BYTES, Access::ReadWrite)?;
        map.prefault()?;
        Ok(SharedCounters { map })
    }

    /// Word `index` of a line.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn word(&self, line: usize, index: usize) -> &AtomicU64 {
        assert!(index < WORDS, "a line has {WORDS} words");
        self.map.atomic_u64(line * LINE_BYTES + index * 8)
    }

    /// The word of a line that holds nothing but a futex.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline]
    pub fn futex(&self, line: usize) -> &AtomicU32 {
        self.map.atomic_u32(line * LINE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn every_word_is_seen_through_every_mapping_and_stands_alone() {
        let fd = SharedCounters::create(3).unwrap();
        let (here, there) = (SharedCounters::open(&fd, 3).unwrap(), SharedCounters::open(&fd, 3).unwrap());
        let places: Vec<_> = (0..3).flat_map(|line| (0..WORDS).map(move |index| (line, index))).collect();
        for (number, &(line, index)) in places.iter().enumerate() {
            here.word(line, index).store(number as u64, Relaxed);
        }
        for (number, &(line, index)) in places.iter().enumerate() {
            assert_eq!(there.word(line, index).load(Relaxed), number as u64);
        }
    }
}
