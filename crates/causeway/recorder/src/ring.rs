//! Batches of messages on their way from the thread that reads the log to the one that writes the file.
//!
//! Bounded in bytes. While it is full, the reading thread waits here, and what the log overwrites meanwhile is a loss
//! that the log counts: publishers wait for nothing.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use causeway_os::lock::lock;

use crate::frames::Frame;

/// One step of a recording. Its payload lies in its [`Batch`].
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Message {
        stamp: Stamp,
        frame: Frame,
        sequence: u32,
        topic: u32,
        bytes: usize,
    },
    /// So many messages were lost, in so many bytes of log.
    Lost {
        stamp: Stamp,
        messages: u64,
        bytes: u64,
    },
    /// From here on CLOCK_REALTIME is ahead of CLOCK_MONOTONIC by another number of nanoseconds.
    Clock {
        offset_ns: i64,
    },
}

/// When something happened, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was recorded; never less than that before it.
    pub log_ns: u64,
    /// When it was sent.
    pub publish_ns: u64,
}

#[derive(Debug, Default)]
pub struct Batch {
    pub steps: Vec<Step>,
    pub payloads: Vec<u8>,
}

impl Batch {
    pub fn bytes(&self) -> usize {
        self.steps.len() * size_of::<Step>() + self.payloads.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// What the writing thread finds.
pub enum Next {
    Batch(Batch),
    TimedOut,
    /// Nothing comes any more.
    Ended,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Batch>,
    spare: Vec<Batch>,
    /// Of the batches in the queue.
    bytes: usize,
    reader_is_gone: bool,
    writer_is_gone: bool,
}

#[derive(Debug)]
pub struct Ring {
    bytes_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// Batches whose memory is kept.
const SPARES: usize = 4;
/// Memory of a batch that is kept; one long message must not hold that of all.
const SPARE_BYTES: usize = 1 << 20;

impl Ring {
    pub fn new(bytes_max: usize) -> Ring {
        Ring { bytes_max, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Puts a batch into the ring and returns an empty one. Waits while the ring is full; `None` once nobody writes any
    /// more.
    pub fn push(&self, batch: Batch) -> Option<Batch> {
        let bytes = batch.bytes();
        let mut state = lock(&self.state);
        // A batch that is longer than the ring is alone in it.
        while !state.writer_is_gone && state.bytes > 0 && state.bytes + bytes > self.bytes_max {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        if state.writer_is_gone {
            return None;
        }
        state.bytes += bytes;
        state.queue.push_back(batch);
        let spare = state.spare.pop().unwrap_or_default();
        drop(state);
        self.changed.notify_all();
        Some(spare)
    }

    /// The next batch, at most until `end`.
    pub fn pop(&self, end: Option<Instant>) -> Next {
        let mut state = lock(&self.state);
        loop {
            if let Some(batch) = state.queue.pop_front() {
                state.bytes -= batch.bytes();
                drop(state);
                self.changed.notify_all();
                return Next::Batch(batch);
            }
            if state.reader_is_gone {
                return Next::Ended;
            }
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Next::TimedOut;
            }
            // Longer than a day is for ever; not every clock can count further.
            let left = left.min(Duration::from_secs(86_400));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Gives the memory of a batch back.
    pub fn recycle(&self, mut batch: Batch) {
        batch.steps.clear();
        batch.payloads.clear();
        let mut state = lock(&self.state);
        if state.spare.len() < SPARES && batch.payloads.capacity() <= SPARE_BYTES {
            state.spare.push(batch);
        }
    }

    pub fn end_of_reader(&self) {
        lock(&self.state).reader_is_gone = true;
        self.changed.notify_all();
    }

    pub fn end_of_writer(&self) {
        lock(&self.state).writer_is_gone = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bytes: usize) -> Batch {
        Batch { payloads: vec![7; bytes], steps: Vec::new() }
    }

    #[test]
    fn a_full_ring_keeps_its_reader_waiting_and_a_failed_writer_lets_it_go() {
        let ring = Ring::new(100);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let pushed = [60, 60, 500].map(|bytes| ring.push(batch(bytes)).is_some());
                (pushed, ring.push(batch(1)).is_some())
            });
            let taken = |bytes: usize| match ring.pop(None) {
                Next::Batch(batch) => assert_eq!(batch.bytes(), bytes),
                Next::TimedOut | Next::Ended => panic!("there is no end"),
            };
            taken(60);
            taken(60);
            // It is alone in the ring, and the next one waits behind it.
            causeway_testkit::eventually("the long one is not there", || lock(&ring.state).bytes == 500);
            ring.end_of_writer();
            assert_eq!(reader.join().unwrap(), ([true; 3], false));
        });
    }

    #[test]
    fn a_ring_that_is_empty_ends_with_its_reader_and_not_before() {
        let ring = Ring::new(100);
        assert!(matches!(ring.pop(Some(Instant::now())), Next::TimedOut));
        assert!(ring.push(batch(3)).is_some());
        ring.end_of_reader();
        assert!(matches!(ring.pop(None), Next::Batch(_)));
        assert!(matches!(ring.pop(None), Next::Ended));
    }
}
