//! What the loop says of connections to those who look after the bus.

use super::Server;
use crate::bus::Eviction;
use crate::log::log;
use crate::member::MemberId;

impl Server {
    /// Counts and logs the end of a connection that is still in its table, with what waits for it. `who` describes it.
    pub(super) fn log_eviction(&mut self, id: MemberId, who: &str, Eviction { reason, why }: &Eviction) {
        *self.bus.counters.evictions.entry(reason).or_default() += 1;
        let queued = self.clients.table.get(&id).map(|client| client.connection.queued());
        let waits = match queued {
            Some((count, Some(since))) => {
                let age = self.now.saturating_duration_since(since).as_millis();
                format!("; {count} messages wait for it, the oldest for {age} ms")
            }
            _ => String::new(),
        };
        log(&format!("{who} is disconnected: {why}{waits}"));
    }
}
