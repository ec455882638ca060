//! Settings of a connection.

use std::time::Duration;

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// Bytes of the outbox, a power of two. A message above a quarter goes into a file of its own.
    pub outbox_bytes: u64,
    /// How long a call waits for its reply: from when it was sent, and with `AsyncConnection` from when it was made, so that
    /// waiting for space counts there, too. [`Connection::finish_call`](crate::Connection::finish_call) has a time of its own.
    pub call_timeout: Duration,
    /// A member for which messages of this connection have waited for so long in all is evicted; `None` is the deadline of the bus. No step of
    /// its own renews that: each entry that it passes takes 0.1 ms off. Time in which this process was stopped does not count.
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
