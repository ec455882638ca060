//! `org.freedesktop.DBus.Debug.Stats`

use std::time::Duration;

use causeway_bus::name_of;
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Growing, Marshal, OpenArray};

use super::request::{Answer, Request, no_owner};
use crate::bus::{About, Action, Bus, StatisticsCall};
use crate::error;
use crate::member::MemberId;
use crate::quota::{RESOURCES, Resource};
use crate::report::{FACTS, Line};

/// A number that does not fit a `u` is the greatest.
fn entry(out: &mut Marshal, name: &str, number: u64) {
    out.entry(name, "u", |out| out.u32(u32::try_from(number).unwrap_or(u32::MAX)));
}

pub fn of_bus(bus: &mut Bus, _: Request<'_>) -> Answer {
    let mut out = Marshal::default();
    let entries = numbers(bus);
    out.array(8, |out| {
        entries.iter().for_each(|(name, number)| entry(out, name, *number));
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
pub fn numbers(bus: &Bus) -> [(&'static str, u64); 20] {
    // Those that have not said Hello have the highest numbers, or are few.
    let new = bus.members.range(MemberId::FIRST_UNNAMED..).count() as u64;
    let monitors = bus.monitor_count as u64;
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let quota = &bus.quota;
    [
        ("Serial", u64::from(bus.serial)),
        ("ActiveConnections", (bus.members.len() as u64).saturating_sub(new + monitors)),
        ("IncompleteConnections", new),
        ("Monitors", monitors),
        ("BusNames", quota.held_by_all(Resource::Names)),
        ("PeakBusNames", quota.peak_of_all(Resource::Names)),
        ("PeakBusNamesPerConnection", quota.member_peak(Resource::Names)),
        ("MatchRules", quota.held_by_all(Resource::Matches)),
        ("PeakMatchRules", quota.peak_of_all(Resource::Matches)),
        ("PeakMatchRulesPerConnection", quota.member_peak(Resource::Matches)),
        ("OutgoingBytes", quota.held_by_all(Resource::Bytes)),
        ("OutgoingFDs", quota.held_by_all(Resource::Descriptors)),
        ("PendingReplies", quota.held_by_all(Resource::Calls)),
        ("ServicesStarting", bus.starts.len() as u64),
        ("MessagesAccepted", bus.counters.accepted),
        ("MessagesDelivered", bus.counters.delivered),
        ("ConnectionsEndedForNotReading", bus.counters.stalled),
        ("PeakTurnMicroseconds", microseconds(bus.counters.longest_turn)),
        ("PeakTurnCPUMicroseconds", microseconds(bus.counters.longest_turn_cpu)),
        ("PeakTurnSteps", bus.most_steps() as u64),
    ]
}

/// The first facts, which dbus-daemon calls by the same names, and the resources that they are.
const OF_DBUS: [Resource; RESOURCES] = [
    Resource::Matches,
    Resource::Names,
    Resource::Incoming,
    Resource::Bytes,
    Resource::Descriptors,
    Resource::Calls,
];

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
        bus.act(Action::Report(StatisticsCall { caller: from, serial: header.serial, about }));
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
    for (index, fact) in FACTS.iter().enumerate() {
        match OF_DBUS.get(index) {
            Some(resource) => {
                entry(out, fact.key, (fact.of)(line));
                entry(out, &format!("Peak{}", fact.key), line.peak[*resource as usize]);
            }
            None => out.entry(fact.key, "t", |out| out.u64((fact.of)(line))),
        }
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
