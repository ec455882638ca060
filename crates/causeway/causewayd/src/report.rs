//! What connections hold and have done, as of one moment: for `org.freedesktop.DBus.Debug.Stats` and for metrics.

use std::time::Duration;

use causeway_bus::MemberReport;

use crate::quota::{RESOURCES, Resource};

/// What a connection has passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub sent: u64,
    pub sent_bytes: u64,
    pub received: u64,
    pub received_bytes: u64,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its number.
    pub id: u64,
    /// The well-known names that it owns.
    pub names: Vec<String>,
    pub pid: u32,
    pub uid: u32,
    /// Of each [`Resource`], what it holds now and has held at most.
    pub held: [u64; RESOURCES],
    pub peak: [u64; RESOURCES],
    /// Messages that wait for it to read, of a client.
    pub queued: u64,
    /// How long the oldest of them has waited.
    pub oldest: Option<Duration>,
    pub traffic: Traffic,
    pub member: Option<MemberReport>,
    /// Descriptors and bytes of messages that it has sent and no member has taken yet.
    pub in_flight: (usize, u64),
}

impl Line {
    /// What it makes the bus keep: by this the largest is the first.
    pub fn weight(&self) -> u64 {
        let held = |resource| self.held[resource as usize];
        let unread = self.member.map_or(0, |member| member.statistics.lag);
        let (fds, bytes) = self.in_flight;
        held(Resource::Bytes) + held(Resource::Incoming) + bytes + fds as u64 + unread + self.queued
    }

    /// How long the oldest message has waited for it.
    fn oldest_ms(&self) -> u64 {
        let unread = self.member.and_then(|member| member.unread).map(|unread| unread.age);
        self.oldest.or(unread).unwrap_or_default().as_millis() as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What it is now: of several connections the sum.
    Gauge,
    /// Milliseconds of waiting: of several connections the longest.
    Age,
    /// What there was since it has connected.
    Counter,
}

/// A number of a connection.
pub struct Fact {
    /// What it is held of, for those whose greatest value is reported, too: dbus-daemon has them under the same keys.
    pub resource: Option<Resource>,
    /// In D-Bus and JSON.
    pub key: &'static str,
    /// In metrics, without prefix and suffix. A time is in seconds there.
    pub metric: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    of: fn(&Line) -> u64,
    /// Is it counted of members, too?
    is_of_members: bool,
}

impl Fact {
    /// Its value, if it is counted of this connection.
    pub fn value(&self, line: &Line) -> Option<u64> {
        (self.is_of_members || line.member.is_none()).then(|| (self.of)(line))
    }
}

const fn fact(
    key: &'static str,
    metric: &'static str,
    kind: Kind,
    help: &'static str,
    of: fn(&Line) -> u64,
) -> Fact {
    Fact { resource: None, key, metric, kind, help, of, is_of_members: true }
}

/// What is held of a resource.
const fn held(
    resource: Resource,
    key: &'static str,
    metric: &'static str,
    help: &'static str,
    of: fn(&Line) -> u64,
) -> Fact {
    Fact { resource: Some(resource), ..fact(key, metric, Gauge, help, of) }
}

fn counted(line: &Line, of_member: fn(&causeway_bus::Statistics) -> u64, of_client: u64) -> u64 {
    line.member.map_or(of_client, |member| of_member(&member.statistics))
}

use Kind::{Age, Counter, Gauge};

pub const FACTS: [Fact; 18] = [
    held(Resource::Matches, "MatchRules", "match_rules", "Match rules.", |line| {
        line.held[Resource::Matches as usize]
    }),
    held(Resource::Names, "BusNames", "names", "Names, the unique one included.", |line| {
        line.held[Resource::Names as usize]
    }),
    held(
        Resource::Incoming,
        "IncomingBytes",
        "incoming_bytes",
        "Bytes of a message that has not arrived whole.",
        |line| line.held[Resource::Incoming as usize],
    ),
    held(
        Resource::Bytes,
        "OutgoingBytes",
        "outgoing_bytes",
        "Bytes of messages that wait for it to read.",
        |line| line.held[Resource::Bytes as usize],
    ),
    held(
        Resource::Descriptors,
        "OutgoingFDs",
        "outgoing_fds",
        "File descriptors of messages that wait.",
        |line| line.held[Resource::Descriptors as usize],
    ),
    held(Resource::Calls, "PendingReplies", "open_calls", "Its calls without a reply.", |line| {
        counted(line, |of| of.calls_open, 0).max(line.held[Resource::Calls as usize])
    }),
    fact("QueuedMessages", "queued_messages", Gauge, "Messages that wait for it to read.", |line| {
        line.queued
    }),
    fact(
        "UnreadEntries",
        "unread_entries",
        Gauge,
        "Entries of the order log that it has not looked at.",
        |line| counted(line, |of| of.lag, 0),
    ),
    fact(
        "OldestMilliseconds",
        "oldest_wait_seconds",
        Age,
        "Time that the oldest message has waited for it.",
        |line| line.oldest_ms(),
    ),
    fact("InFlightBytes", "in_flight_bytes", Gauge, "Bytes in files that no member has taken.", |line| {
        line.in_flight.1
    }),
    fact("InFlightFDs", "in_flight_fds", Gauge, "File descriptors that no member has taken.", |line| {
        line.in_flight.0 as u64
    }),
    fact("MessagesSent", "sent_messages", Counter, "Messages sent.", |line| {
        counted(line, |of| of.sent, line.traffic.sent)
    }),
    fact("BytesSent", "sent_bytes", Counter, "Bytes of messages sent.", |line| {
        counted(line, |of| of.sent_bytes, line.traffic.sent_bytes)
    }),
    fact("MessagesReceived", "received_messages", Counter, "Messages received.", |line| {
        counted(line, |of| of.received, line.traffic.received)
    }),
    Fact {
        is_of_members: false,
        ..fact(
            "BytesReceived",
            "received_bytes",
            Counter,
            "Bytes of messages received, by clients.",
            |line| line.traffic.received_bytes,
        )
    },
    fact("WakeUps", "wakeups", Counter, "Sleeps of a member that a wake-up ended.", |line| {
        counted(line, |of| of.wakes, 0)
    }),
    fact("EmptyWakeUps", "empty_wakeups", Counter, "Wake-ups of a member that brought it nothing.", |line| {
        counted(line, |of| of.empty_wakes, 0)
    }),
    fact("SpaceWakeUps", "space_wakeups", Counter, "Wake-ups that freed space for others.", |line| {
        counted(line, |of| of.space_wakes, 0)
    }),
];

/// A number of the bus as a whole.
#[derive(Clone, Copy, Debug)]
pub struct BusNumber {
    /// In D-Bus and JSON.
    pub key: &'static str,
    pub value: u64,
    /// For those that are metrics, too.
    pub metric: Option<Metric>,
}

/// What metrics say of a number.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Without prefix and suffix. A time is in seconds there.
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
}

impl BusNumber {
    /// One for D-Bus alone.
    pub fn of(key: &'static str, value: u64) -> BusNumber {
        BusNumber { key, value, metric: None }
    }

    /// One that is a metric, too.
    pub fn metric(
        key: &'static str,
        value: u64,
        name: &'static str,
        kind: Kind,
        help: &'static str,
    ) -> BusNumber {
        BusNumber { key, value, metric: Some(Metric { name, kind, help }) }
    }
}
