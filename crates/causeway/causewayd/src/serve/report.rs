//! What the loop says of connections to those who look after the bus.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use causeway_bus::PeerId;
use causeway_os::socket::Credentials;
use rustix::event::epoll::{self, EventFlags};

use super::{Server, Slice, Token};
use crate::bus::{About, Bus, StatisticsCall};
use crate::connection::Connection;
use crate::driver::stats::{StatisticsReply, numbers};
use crate::end::End;
use crate::log::log;
use crate::member::MemberId;
use crate::metrics::{Endpoint, Metrics, Snapshot};
use crate::report::Line;

/// Names of one connection that are looked at: the first ones. How many it has is said in any case.
const NAMES_MAX: usize = 1_000;

/// Descriptors and bytes by the number of their sender.
pub(super) type InFlight = HashMap<PeerId, (usize, u64)>;

impl Server {
    /// Counts and logs the end of a connection that is still in its table, with what waits for it. `who` describes it.
    pub(super) fn log_eviction(&mut self, id: MemberId, who: &str, end: &End) {
        *self.bus.counters.evictions.entry(end.reason()).or_default() += 1;
        let queued = self.clients.table.get(&id).map(|client| client.connection.queued());
        let waits = match queued {
            Some((count, Some(since))) => {
                let age = self.now.saturating_duration_since(since).as_millis();
                format!("; {count} messages wait for it, the oldest for {age} ms")
            }
            _ => String::new(),
        };
        log(&format!("{who} is disconnected: {end}{waits}"));
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
        let names = self.bus.names.of(id).iter().take(NAMES_MAX);
        let owned = names.filter(|name| self.bus.names.owner(name) == Some(id));
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

    /// Answers a call for statistics, of all connections when all have been looked at.
    pub(super) fn report(&mut self, call: StatisticsCall) {
        let in_flight = self.in_flight();
        match call.about {
            About::One(id) => {
                let line = self.line(id, &in_flight);
                self.bus.answer_statistics(call, line.as_ref());
            }
            About::Most(most) => {
                let answer = Purpose::Answer { call, most, heaviest: BTreeMap::new(), reply: None };
                self.passes.push_back(Pass { after: MemberId(0), in_flight, purpose: answer });
            }
        }
    }

    /// Serves metrics there from now on.
    ///
    /// # Errors
    /// In a sentence: it cannot be used, or the kernel lacks something.
    pub fn serve_metrics(&mut self, endpoint: Endpoint) -> Result<(), String> {
        let metrics = Metrics::serve(endpoint)?;
        epoll::add(&self.epoll, &metrics, Token::Metrics.data(), EventFlags::IN)
            .map_err(|error| error.to_string())?;
        self.metrics = Some(metrics);
        Ok(())
    }

    pub(super) fn is_collecting(&self) -> bool {
        !self.passes.is_empty()
    }

    pub(super) fn begin_collecting(&mut self) {
        let is_under_way = self.passes.iter().any(|pass| matches!(pass.purpose, Purpose::Metrics(_)));
        let in_flight = self.in_flight();
        if let Some(metrics) = &self.metrics
            && metrics.is_wanted()
            && !is_under_way
        {
            let purpose = Purpose::Metrics(Vec::new());
            self.passes.push_back(Pass { after: MemberId(0), in_flight, purpose });
        }
    }

    /// Looks at further connections as long as the slice lasts. After the last one the answer or the metrics are there.
    pub(super) fn collect(&mut self) {
        let Some(mut pass) = self.passes.pop_front() else { return };
        let mut slice = Slice::default();
        let is_done = loop {
            let further = (Bound::Excluded(pass.after), Bound::Unbounded);
            let next = self.bus.members.range(further).next().map(|(id, _)| *id);
            if let Some(id) = next {
                pass.after = id;
                if let Some(line) = self.line(id, &pass.in_flight) {
                    pass.purpose.add(line);
                }
            } else if pass.purpose.is_written(&self.bus) {
                break true;
            }
            if slice.is_over() {
                break false;
            }
        };
        if !is_done {
            return self.passes.push_back(pass);
        }
        match pass.purpose {
            Purpose::Metrics(lines) => {
                let fill = self.native.as_mut().map(|native| native.authority.fill());
                let (bus, evictions) = (numbers(&self.bus).into(), self.bus.counters.evictions.clone());
                if let Some(metrics) = &self.metrics {
                    metrics.give(Snapshot { lines, bus, evictions, fill });
                }
            }
            Purpose::Answer { call, reply: Some(reply), .. } => {
                self.bus.finish_statistics(call, reply);
                self.run_actions();
            }
            Purpose::Answer { .. } => unreachable!("it is written"),
        }
    }
}

/// A pass over all connections, some of them each turn.
pub struct Pass {
    after: MemberId,
    in_flight: InFlight,
    purpose: Purpose,
}

/// What lines are collected for.
enum Purpose {
    Metrics(Vec<Line>),
    Answer {
        call: StatisticsCall,
        most: usize,
        /// The heaviest first, no more than are wanted.
        heaviest: BTreeMap<(Reverse<u64>, u64), Line>,
        reply: Option<StatisticsReply>,
    },
}

impl Purpose {
    fn add(&mut self, line: Line) {
        match self {
            Purpose::Metrics(lines) => lines.push(line),
            Purpose::Answer { most, heaviest, .. } => {
                heaviest.insert((Reverse(line.weight()), line.id), line);
                if heaviest.len() > *most {
                    heaviest.pop_last();
                }
            }
        }
    }

    /// Writes a further line of an answer; true when there is none left.
    fn is_written(&mut self, bus: &Bus) -> bool {
        let Purpose::Answer { call, heaviest, reply, .. } = self else { return true };
        let reply = reply.get_or_insert_with(|| bus.begin_statistics(*call));
        let next = heaviest.pop_first();
        next.as_ref().inspect(|(_, line)| reply.add(line)).is_none()
    }
}
