//! How a publisher goes on in the next log of its group.
//!
//! It does so before it claims space, and so between two messages. It looks when the counter of changes in the status pages, which it
//! loads after each commit anyway, has changed; when it finds no space; and when it finds the end of its log.

use std::sync::Arc;
use std::time::Duration;

use super::Publisher;
use crate::error::{Error, Result};
use crate::log::Kind;

/// How long one wait for the next log lasts at most.
const SLICE: Duration = Duration::from_millis(5);
/// The same for its beginning, which no event announces: the server is about to begin it.
const SHORT_SLICE: Duration = Duration::from_micros(50);

/// What a publisher that looked for another log has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    /// Its log is the present one.
    Present,
    /// It goes on in a newer log.
    Moved,
    /// There is, or will be, a newer log, in which it cannot go on yet.
    NotYet,
}

impl Publisher {
    /// Goes on in the present log of the group, if that is another. To be called without a claim.
    #[cold]
    #[inline(never)]
    pub(super) fn follow(&mut self) -> Result<Followed> {
        let (own, present) = (self.log.epoch(), self.subscribers.present_epoch());
        if present == own {
            return Ok(Followed::Present);
        }
        let next = match (&self.host, &self.next_logs) {
            (Some(host), _) if self.log.kind() == Kind::Single => Some(host.begin_next(&mut self.writer)?),
            (Some(host), _) => Some(host.log()),
            (None, Some(logs)) => logs.newest(own),
            (None, None) => {
                let why = "another log, for which this publisher is not prepared";
                return Err(Error::invalid("notice", why));
            }
        };
        if let Some(log) = next.filter(|log| log.epoch() > own) {
            self.writer.continue_in(Arc::clone(&log));
            self.subscribers.continue_in(&log);
            self.log = log;
            return Ok(Followed::Moved);
        }
        if self.next_logs.as_ref().is_some_and(|logs| !logs.has(present)) {
            self.subscribers.ask_for_log();
        }
        self.subscribers.why_out().map_or(Ok(Followed::NotYet), Err)
    }

    /// Sleeps until the next log may be there, for a short time at most.
    #[cold]
    pub(super) fn wait_for_log(&mut self) {
        let present = self.subscribers.present_epoch();
        match &self.next_logs {
            Some(logs) if !logs.has(present) => logs.wait_for(present, SLICE),
            _ => std::thread::sleep(SHORT_SLICE),
        }
    }
}
