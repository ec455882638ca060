//! What a member counts in its line of the order log.

use std::sync::atomic::Ordering;

use super::order::{OrderLog, Statistic};

/// What a connection has done and what it waits for; see [`Connection::statistics`](crate::Connection::statistics) and `causeway bus stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Entries of the order log that it has not looked at.
    pub lag: u64,
    /// Messages received, those among them that were not wanted after all included.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// Sleeps that a wake-up ended.
    pub wakes: u64,
    /// Of these, those after which there was nothing for it. Of the bus itself: neither a message to carry, nor a member to evict.
    pub empty_wakes: u64,
    /// Of these, those that freed space for others.
    pub space_wakes: u64,
    /// Calls without a reply yet.
    pub calls_open: u64,
    /// Messages that were not delivered, because their descriptors or their file could not be had.
    pub incomplete: u64,
    /// Signals that its filter did not ask for and that were overwritten, and messages out of reach since the authority is
    /// gone.
    pub gone: u64,
}

impl Statistics {
    /// Those of the member in a slot, of an order log that ends there.
    pub fn of(order: &OrderLog, slot: u16, end: u64) -> Statistics {
        let count = |which| order.statistic(slot, which);
        let cursor = order.load_in_line(slot, super::order::line::CURSOR).load(Ordering::Relaxed);
        Statistics {
            lag: end.saturating_sub(cursor),
            received: count(Statistic::Received),
            sent: count(Statistic::Sent),
            sent_bytes: count(Statistic::SentBytes),
            wakes: count(Statistic::Wakes),
            empty_wakes: count(Statistic::EmptyWakes),
            space_wakes: count(Statistic::SpaceWakes),
            calls_open: count(Statistic::CallsOpen),
            incomplete: count(Statistic::Incomplete),
            gone: count(Statistic::Gone),
        }
    }
}
