//! `org.freedesktop.DBus.Debug.Stats`

use std::time::Duration;

use causeway_bus::name_of;
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Growing, Marshal, OpenArray};

use super::request::{Answer, Request, no_owner};
use crate::bus::{About, Action, Bus, StatisticsCall};
use crate::error;
use crate::member::MemberId;
use crate::quota::Resource;
use crate::report::Kind::{Counter, Gauge};
use crate::report::{BusNumber, FACTS, Line};

/// A number that does not fit a `u` is the greatest.
fn entry(out: &mut Marshal, name: &str, number: u64) {
    out.entry(name, "u", |out| out.u32(u32::try_from(number).unwrap_or(u32::MAX)));
}

pub fn of_bus(bus: &mut Bus, _: Request<'_>) -> Answer {
    let mut out = Marshal::default();
    let entries = numbers(bus);
    out.array(8, |out| {
        entries.iter().for_each(|number| entry(out, number.key, number.value));
        out.entry("Evictions", "a{st}", |out| {
            out.array(8, |out| {
                for (reason, count) in &bus.counters.evictions {
                    out.align(8);
                    out.text(reason);
                    out.u64(*count);
                }
            });
        });
    });
    Ok(Some(out.into_body("a{sv}")))
}

/// What is counted of the bus as a whole.
pub fn numbers(bus: &Bus) -> [BusNumber; 20] {
    // Those that have not said Hello have the highest numbers, or are few.
    let new = bus.members.range(MemberId::FIRST_UNNAMED..).count() as u64;
    let monitors = bus.monitor_count as u64;
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let quota = &bus.quota;
    let (of, metric) = (BusNumber::of, BusNumber::metric);
    [
        of("Serial", u64::from(bus.serial)),
        metric(
            "ActiveConnections",
            (bus.members.len() as u64).saturating_sub(new + monitors),
            "connections",
            Gauge,
            "Connections that take part.",
        ),
        metric(
            "IncompleteConnections",
            new,
            "incomplete_connections",
            Gauge,
            "Connections that have not said Hello.",
        ),
        metric("Monitors", monitors, "monitors", Gauge, "Monitors at the D-Bus sockets."),
        metric(
            "BusNames",
            quota.held_by_all(Resource::Names),
            "names",
            Gauge,
            "Names, unique ones included.",
        ),
        of("PeakBusNames", quota.peak_of_all(Resource::Names)),
        of("PeakBusNamesPerConnection", quota.member_peak(Resource::Names)),
        metric("MatchRules", quota.held_by_all(Resource::Matches), "match_rules", Gauge, "Match rules."),
        of("PeakMatchRules", quota.peak_of_all(Resource::Matches)),
        of("PeakMatchRulesPerConnection", quota.member_peak(Resource::Matches)),
        metric(
            "OutgoingBytes",
            quota.held_by_all(Resource::Bytes),
            "outgoing_bytes",
            Gauge,
            "Bytes of messages that wait for clients.",
        ),
        metric(
            "OutgoingFDs",
            quota.held_by_all(Resource::Descriptors),
            "outgoing_fds",
            Gauge,
            "File descriptors of these messages.",
        ),
        metric(
            "PendingReplies",
            quota.held_by_all(Resource::Calls),
            "open_calls",
            Gauge,
            "Calls without a reply that pass through the bus.",
        ),
        metric(
            "ServicesStarting",
            bus.starts.len() as u64,
            "starting_services",
            Gauge,
            "Services that are being started.",
        ),
        metric(
            "MessagesAccepted",
            bus.counters.accepted,
            "accepted_messages",
            Counter,
            "Messages that the bus has accepted.",
        ),
        metric(
            "MessagesDelivered",
            bus.counters.delivered,
            "delivered_messages",
            Counter,
            "Deliveries, of each message to each receiver.",
        ),
        of("ConnectionsEndedForNotReading", bus.counters.stalled),
        metric(
            "PeakTurnMicroseconds",
            microseconds(bus.counters.longest_turn),
            "longest_turn_seconds",
            Gauge,
            "The longest turn of the loop, by the clock.",
        ),
        metric(
            "PeakTurnCPUMicroseconds",
            microseconds(bus.counters.longest_turn_cpu),
            "longest_turn_cpu_seconds",
            Gauge,
            "The same by CPU time of the thread.",
        ),
        of("PeakTurnSteps", bus.most_steps() as u64),
    ]
}

pub fn of_connection(bus: &mut Bus, request: Request<'_>) -> Answer {
    let Some(id) = bus.resolve(request.text(0)) else { return no_owner(request.text(0)) };
    ask(bus, request, About::One(id))
}

pub fn of_connections(bus: &mut Bus, request: Request<'_>) -> Answer {
    let most = request.number(0) as usize;
    ask(bus, request, About::Most(most))
}

/// The loop knows what waits in sockets and in the order log: the answer comes when it has looked.
fn ask(bus: &mut Bus, Request { from, routed }: Request<'_>, about: About) -> Answer {
    let header = routed.header;
    if header.flags & FLAG_NO_REPLY_EXPECTED == 0 {
        bus.push_action(Action::Report(StatisticsCall { caller: from, serial: header.serial, about }));
    }
    Ok(None)
}

/// The answer to a call for statistics of several connections, which grows by one after the other.
#[derive(Debug)]
pub struct StatisticsReply {
    reply: Growing,
    array: OpenArray,
}

impl StatisticsReply {
    /// Appends a connection. What would be too long does not grow any further.
    pub fn add(&mut self, line: &Line) {
        if self.reply.is_too_long() {
            return;
        }
        let out = self.reply.out();
        out.align(8);
        out.text(&MemberId(line.id).label());
        out.array(8, |out| facts(out, line));
    }
}

impl Bus {
    /// Answers a call for statistics of one connection, if it is there.
    pub fn answer_statistics(&mut self, call: StatisticsCall, line: Option<&Line>) {
        let answer = match line {
            Some(line) => {
                let mut out = Marshal::default();
                out.array(8, |out| facts(out, line));
                Builder::reply(call.serial).body(out.into_body("a{sv}"))
            }
            None => {
                let error = Builder::error(call.serial, error::NAME_HAS_NO_OWNER);
                error.body(Body::default().text("this name has no owner any more"))
            }
        };
        self.send(call.caller, answer);
        self.settle();
    }

    /// Begins the answer to a call for statistics of several connections.
    pub fn begin_statistics(&self, call: StatisticsCall) -> StatisticsReply {
        let mut reply = self.growing_reply(call.caller, call.serial, "a{sa{sv}}");
        let array = reply.begin_array(8);
        StatisticsReply { reply, array }
    }

    /// Sends it.
    pub fn finish_statistics(
        &mut self,
        call: StatisticsCall,
        StatisticsReply { reply, array }: StatisticsReply,
    ) {
        self.send_grown(call.caller, call.serial, reply, array);
        self.settle();
    }
}

fn facts(out: &mut Marshal, line: &Line) {
    out.entry("UniqueName", "s", |out| out.text(&MemberId(line.id).label()));
    out.entry("WellKnownNames", "as", |out| out.texts(line.names.iter().map(String::as_str)));
    entry(out, "ProcessID", line.pid.into());
    entry(out, "UnixUserID", line.uid.into());
    entry(out, "IsMember", line.member.is_some().into());
    for (fact, value) in FACTS.iter().filter_map(|fact| Some((fact, fact.value(line)?))) {
        match fact.resource {
            Some(resource) => {
                entry(out, fact.key, value);
                entry(out, &format!("Peak{}", fact.key), line.peak[resource as usize]);
            }
            None => out.entry(fact.key, "t", |out| out.u64(value)),
        }
    }
    if let Some(member) = line.member {
        out.entry("EndSeenBy", "s", |out| out.text(member.liveness.name()));
    }
    if let Some(unread) = line.member.and_then(|member| member.unread) {
        let sender = name_of(unread.sender);
        out.entry("OldestSender", "s", |out| out.text(&sender));
    }
}

pub fn all_match_rules(bus: &mut Bus, Request { from, routed }: Request<'_>) -> Answer {
    if routed.header.flags & FLAG_NO_REPLY_EXPECTED == 0 {
        bus.list_rules(from, routed.header.serial);
    }
    Ok(None)
}
