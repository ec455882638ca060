//! Publishers that the server leaves out: one that the application names, or that publishes faster than the group allows.
//!
//! A process that has mapped a log for writing keeps it, and what it writes there cannot be told from what it may write. So a publisher
//! is disconnected by a roll ([`epochs`](super::epochs)): the next log is for all others, and the present one ends.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::connections::{Connection, Role};
use super::state::State;
use crate::error::{Error, Refusal, Result};
use crate::log::Memory;
use crate::wire::Message;

/// How long the server counts before it compares.
const WINDOW: Duration = Duration::from_secs(1);

impl State {
    /// Wants a log without this publisher; it is disconnected when that begins. Returns whether there is one.
    pub fn cast_out(&mut self, publisher: u8) -> Result<bool> {
        let Some(token) = self.connection_of_publisher(publisher) else { return Ok(false) };
        let is_local = self.connections.get(token).is_ok_and(|connection| connection.local);
        if is_local || !self.can_resize() {
            return Err(Error::invalid(
                "call",
                if is_local {
                    "this publisher is in the creating process, which ends it by dropping it"
                } else {
                    "publishers of this group are not prepared for another log; create it with GroupOptions::late_publishers"
                },
            ));
        }
        self.want_log(self.logs.present.capacity_bytes()).map_err(Error::Refused)?;
        self.publishers.outcasts |= 1 << publisher;
        Ok(true)
    }

    fn connection_of_publisher(&self, publisher: u8) -> Option<u64> {
        self.connections.find(|role| matches!(role, Role::Publisher { slot, .. } if slot == publisher))
    }

    /// The log that was made without these publishers has begun.
    pub fn end_outcasts(&mut self, outcasts: u64) {
        for slot in (0..u64::BITS as u8).filter(|slot| outcasts & 1 << slot != 0) {
            let Some(token) = self.connection_of_publisher(slot) else { continue };
            self.connections.send(token, Message::refusal(Refusal::Disconnected));
            // It was not killed.
            self.publishers.leaving.insert(token);
            self.disconnect(token);
        }
        self.publishers.outcasts &= !outcasts;
    }

    /// When the server has to compare what publishers have published with what they may.
    pub fn next_look_at_rates(&self) -> Option<Instant> {
        let is_limited = self.options.publisher_rate_max > 0;
        let has_remote = is_limited && self.pages.status.words().remote_publishers() != 0;
        has_remote.then(|| self.publishers.rates.looked.map_or_else(Instant::now, |looked| looked + WINDOW))
    }

    /// Casts out those that have published too much since the last look.
    pub fn check_rates(&mut self) {
        if self.next_look_at_rates().is_none_or(|at| Instant::now() < at) {
            return;
        }
        let now = Instant::now();
        let before = std::mem::take(&mut self.publishers.rates.published);
        let elapsed = self.publishers.rates.looked.replace(now).map_or(WINDOW, |looked| now - looked);
        let most = self.options.publisher_rate_max as f64 * elapsed.as_secs_f64();
        let counts = &self.logs.present.tail().publishers;
        let count = |(token, connection): (u64, &Connection)| match connection.role {
            Role::Publisher { slot, .. } if !connection.local => {
                Some((token, slot, counts[usize::from(slot)].published.load(Ordering::Relaxed)))
            }
            _ => None,
        };
        let published: Vec<_> = self.connections.with_tokens().filter_map(count).collect();
        for (token, slot, published) in published {
            self.publishers.rates.published.insert(token, published);
            let in_window = before.get(&token).map_or(0, |before| published.saturating_sub(*before));
            // One that cannot be left out now is looked at again.
            if in_window as f64 > most && self.logs.next.is_none() {
                let _ = self.cast_out(slot);
            }
        }
    }
}
