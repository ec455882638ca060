//! When each message of a replay was sent and arrived, for a time line.

use std::ops::Range;
use std::time::Instant;

/// What a connection did with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The connection, by its place among those of the plan.
    pub connection: usize,
    /// The number of the message in the capture.
    pub number: u64,
    /// Did it send the message? Otherwise the message arrived there.
    pub is_sent: bool,
    /// From when to when the player dealt with it.
    pub at: Range<Instant>,
}

/// The notes of a replay that is watched.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub all: Vec<Note>,
    is_wanted: bool,
    /// When the last one was done: messages that were read together are dealt with one after the other.
    last: Option<Instant>,
}

impl Notes {
    pub fn new(is_wanted: bool) -> Notes {
        Notes { is_wanted, ..Notes::default() }
    }

    pub fn begin(&mut self) {
        if self.is_wanted {
            self.last = Some(Instant::now());
        }
    }

    pub fn end(&mut self, connection: usize, number: u64, is_sent: bool) {
        if let Some(last) = self.last {
            let now = Instant::now();
            self.all.push(Note { connection, number, is_sent, at: last..now });
            self.last = Some(now);
        }
    }
}
