//! What the loop says of connections to those who look after the bus.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Bound;

use causeway_bus::PeerId;
use causeway_os::socket::Credentials;
use rustix::event::epoll::{self, EventFlags};

use super::{Server, Slice, Token};
use crate::bus::{About, Eviction, StatisticsCall};
use crate::connection::Connection;
use crate::driver::stats::numbers;
use crate::log::log;
use crate::member::MemberId;
use crate::metrics::{Metrics, Place, Snapshot};
use crate::report::Line;

/// Descriptors and bytes by the number of their sender.
pub(super) type InFlight = HashMap<PeerId, (usize, u64)>;

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

    /// One connection; nothing if it has gone.
    pub(super) fn line(&mut self, id: MemberId, in_flight: &InFlight) -> Option<Line> {
        let member = self.native.as_mut().and_then(|native| native.authority.report(id.0));
        let in_flight = in_flight.get(&id.0).copied().unwrap_or_default();
        Some(Line { member, in_flight, ..self.line_of_client(id)? })
    }

    fn line_of_client(&self, id: MemberId) -> Option<Line> {
        let member = self.bus.members.get(&id)?;
        let Credentials { pid, uid, .. } = member.identity.credentials;
        let owned = self.bus.names.of(id).iter().filter(|name| self.bus.names.owner(name) == Some(id));
        let names = owned.map(|name| name.to_string()).collect();
        let (held, peak) = self.bus.quota.all_of(id);
        let connection = self.clients.table.get(&id).map(|client| &client.connection);
        let (queued, since) = connection.map_or((0, None), Connection::queued);
        let oldest = since.map(|since| self.now.saturating_duration_since(since));
        let traffic = connection.map(Connection::traffic).unwrap_or_default();
        let (queued, member, in_flight) = (queued as u64, None, (0, 0));
        Some(Line { id: id.0, names, pid, uid, held, peak, queued, oldest, traffic, member, in_flight })
    }

    /// What connections have sent to members that these have not taken.
    pub(super) fn in_flight(&self) -> InFlight {
        self.native.as_ref().map(|native| native.authority.in_flight_of_each()).unwrap_or_default()
    }

    /// Answers a call for statistics.
    pub(super) fn report(&mut self, call: StatisticsCall) {
        let in_flight = self.in_flight();
        let lines: Vec<Line> = match call.about {
            About::One(id) => self.line(id, &in_flight).into_iter().collect(),
            About::Most(most) => {
                let ids: Vec<MemberId> = self.bus.members.keys().copied().collect();
                let mut lines: Vec<Line> =
                    ids.into_iter().filter_map(|id| self.line(id, &in_flight)).collect();
                lines.sort_by_key(|line| (Reverse(line.weight()), line.id));
                lines.truncate(most);
                lines
            }
        };
        self.bus.answer_statistics(call, &lines);
    }

    /// Serves metrics at a place from now on.
    ///
    /// # Errors
    /// In a sentence: the place cannot be used, or the kernel lacks something.
    pub fn serve_metrics(&mut self, place: Place) -> Result<(), String> {
        let metrics = Metrics::serve(place)?;
        epoll::add(&self.epoll, &metrics, Token::Metrics.data(), EventFlags::IN)
            .map_err(|error| error.to_string())?;
        self.metrics = Some(Collector { metrics, pass: None });
        Ok(())
    }

    pub(super) fn is_collecting(&self) -> bool {
        self.metrics.as_ref().is_some_and(|collector| collector.pass.is_some())
    }

    pub(super) fn begin_collecting(&mut self) {
        let in_flight = self.in_flight();
        if let Some(collector) = self.metrics.as_mut().filter(|collector| collector.metrics.is_wanted()) {
            collector.pass = Some(Pass { after: MemberId(0), lines: Vec::new(), in_flight });
        }
    }

    /// Looks at further connections as long as the slice lasts; after the last one the metrics are there.
    pub(super) fn collect(&mut self) {
        let Some(mut pass) = self.metrics.as_mut().and_then(|collector| collector.pass.take()) else {
            return;
        };
        let mut slice = Slice::default();
        let is_done = loop {
            let further = (Bound::Excluded(pass.after), Bound::Unbounded);
            let Some((&id, _)) = self.bus.members.range(further).next() else { break true };
            pass.after = id;
            pass.lines.extend(self.line(id, &pass.in_flight));
            if slice.is_over() {
                break false;
            }
        };
        let fill = self.native.as_mut().map(|native| native.authority.fill());
        let Some(collector) = &mut self.metrics else { return };
        if is_done {
            let (bus, evictions) = (numbers(&self.bus).into(), self.bus.counters.evictions.clone());
            collector.metrics.give(Snapshot { lines: pass.lines, bus, evictions, fill });
        } else {
            collector.pass = Some(pass);
        }
    }
}

/// Metrics, and what is collected for them.
pub struct Collector {
    metrics: Metrics,
    pass: Option<Pass>,
}

/// A pass over all connections.
struct Pass {
    after: MemberId,
    lines: Vec<Line>,
    in_flight: InFlight,
}
