//! Settings of a connection, and what it counts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::shared::order::{OrderLog, Statistic};

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// Bytes of the outbox, a power of two. A message above a quarter goes into a file of its own.
    pub outbox_bytes: u64,
    /// How long a call waits for its reply.
    pub call_timeout: Duration,
    /// A member that blocks a message for this long is evicted; `None` is the deadline of the bus.
    pub laggard_deadline: Option<Duration>,
    /// How long to poll before sleeping, at most. Nothing on a machine or a process with one CPU.
    pub spin: Duration,
    /// Bytes of messages that may wait until the program takes them; beyond, the connection fails. One message always may.
    pub inbox_bytes: usize,
    /// May the bus start a service for a call to a name without owner? Otherwise such a call fails without a system call.
    pub auto_start: bool,
    /// Calls without a reply that may be under way; one more fails with `LimitsExceeded`.
    pub pending_calls: usize,
}

impl Default for ConnectionOptions {
    fn default() -> ConnectionOptions {
        ConnectionOptions {
            outbox_bytes: 1 << 18,
            call_timeout: Duration::from_secs(25),
            laggard_deadline: None,
            spin: Duration::from_micros(30),
            inbox_bytes: 256 << 20,
            auto_start: true,
            pending_calls: 50_000,
        }
    }
}

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
    pub(crate) fn of(order: &OrderLog, slot: u16, end: u64) -> Statistics {
        let count = |which| order.statistic(slot, which);
        let cursor = order.load_in_line(slot, crate::shared::order::line::CURSOR).load(Ordering::Relaxed);
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
