//! The first message waits for those who came first.
//!
//! A subscriber that comes before all publishers is there waits for them. When the last of them has mapped the log, these subscribers still
//! have to find their places in it, and what was published meanwhile they would not get. So this publisher is told to begin when they have:
//! when each is placed or gone, and after [`HOLD_TIME`] in any case, as it must not wait for one that was stopped.

use std::time::{Duration, Instant};

use super::connections::Role;
use super::state::State;
use crate::wire::{Message, Op};

/// As long as a visitor has for a request: a subscriber makes two. Less than a publisher waits for an answer.
const HOLD_TIME: Duration = Duration::from_secs(2);

/// Until it is tried again where the publisher has not read yet what was sent before.
const AGAIN_TIME: Duration = Duration::from_millis(10);

/// A publisher that waits for its first message, and for whom.
#[derive(Debug)]
pub struct Held {
    publisher: u64,
    /// Connections of subscribers that are not placed yet, as far as is known.
    subscribers: Vec<u64>,
    until: Instant,
}

impl State {
    /// Has a publisher wait for these subscribers.
    pub fn hold(&mut self, publisher: u64, subscribers: Vec<u64>) {
        let until = Instant::now() + HOLD_TIME;
        self.publishers.held = Some(Held { publisher, subscribers, until });
        self.release_held();
    }

    /// When the publisher is released at the latest.
    pub fn hold_ends(&self) -> Option<Instant> {
        self.publishers.held.as_ref().map(|held| held.until)
    }

    /// Lets the publisher begin, if there is nobody left for whom it waits or its time is over.
    pub fn release_held(&mut self) {
        let Some(mut held) = self.publishers.held.take() else { return };
        held.subscribers.retain(|token| self.is_on_its_way(*token));
        if held.subscribers.is_empty() || held.until <= Instant::now() {
            // Notices of those that joined may still fill its socket. One that leaves is no connection any more.
            let Ok(publisher) = self.connections.get(held.publisher) else { return };
            if publisher.send(Message::new(Op::Granted, &[]), &[]).is_ok() {
                return;
            }
            held.until = Instant::now() + AGAIN_TIME;
        }
        self.publishers.held = Some(held);
    }

    fn is_on_its_way(&self, token: u64) -> bool {
        match self.connections.get(token).map(|connection| connection.role) {
            Ok(Role::Joining { .. }) => true,
            Ok(Role::Subscriber { slot }) => {
                self.subscribers.present.get(slot).is_some_and(|one| !one.placed)
            }
            _ => false,
        }
    }
}
