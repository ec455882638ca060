//! What an analysis says: plain data with units in its names. Lists begin with the greatest and end after [`MOST_ROWS`].

use serde::Serialize;

use super::work::Load;
use crate::bus::Coverage;

/// A broadcast that more connections get is a broad one, as in the document of 2011.
pub const BROAD: u64 = 3;

/// Most rows of a list.
pub const MOST_ROWS: usize = 200;

/// Everything that is known about a capture. It holds names and numbers, nothing of bodies.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// Sums over all messages.
    pub totals: Totals,
    /// What was read, and what of it could not be used.
    pub capture: CaptureFacts,
    /// Messages by interface.
    pub by_interface: Vec<Count>,
    /// Messages by type, interface and member. Replies count under the method that they answer.
    pub by_member: Vec<MemberCount>,
    /// Messages by sender.
    pub by_sender: Vec<Count>,
    /// Messages by destination; broadcasts have none and are not here.
    pub by_destination: Vec<Count>,
    /// Messages by size. Empty where the capture does not tell sizes.
    pub sizes: Vec<SizeClass>,
    /// Errors by name.
    pub errors: Vec<Count>,
    /// Calls and what became of them.
    pub calls: Calls,
    /// What costs round trips or wake-ups without need.
    pub habits: Habits,
    /// Who got the broadcasts.
    pub recipients: Recipients,
    /// What the broker had to do, in classes of messages that cost alike.
    pub loads: Vec<Load>,
    /// Connections by the messages that they sent.
    pub connections: Vec<ConnectionFacts>,
    /// Messages over time.
    pub timeline: Timeline,
    /// Messages of a window, one by one.
    pub sequence: Vec<Step>,
}

/// Sums over all messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// All messages.
    pub messages: u64,
    /// Calls.
    pub method_calls: u64,
    /// Replies without error.
    pub method_returns: u64,
    /// Replies with an error.
    pub errors: u64,
    /// Signals.
    pub signals: u64,
    /// Messages of types that the specification does not define.
    pub others: u64,
    /// Bytes of all messages as they were sent; nothing where the capture does not tell sizes.
    pub bytes: Option<u64>,
    /// Bytes of the largest message; nothing where the capture does not tell sizes.
    pub peak_message_bytes: Option<u64>,
    /// Messages to or from the driver, `org.freedesktop.DBus`.
    pub driver_messages: u64,
    /// Calls to the driver.
    pub driver_calls: u64,
    /// Calls of the driver's `AddMatch`.
    pub add_match_calls: u64,
    /// Messages from or to connections that became monitors or listed the match rules, as the recording program does; they
    /// are among all the others.
    pub of_capture: u64,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CaptureFacts {
    /// Time of the first message, nanoseconds since 1970.
    pub first_ns: u64,
    /// From the first message to the last.
    pub duration_ns: u64,
    /// Packets that hold no valid message, by reason.
    pub invalid: Vec<Count>,
    /// Messages whose body is cut by the capture's limit; their headers were used.
    pub cut: u64,
    /// Messages whose time is before that of an earlier one.
    pub back_in_time: u64,
    /// Messages whose numbers have the most significant byte first.
    pub big_endian: u64,
    /// Does the capture hold replies of the driver? Old versions of dbus-monitor did not record them.
    pub has_driver_replies: bool,
}

/// So many messages of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The name; for a connection its well-known name, if it had one.
    pub name: String,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// So many messages of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberCount {
    /// `method_call`, `method_return`, `error` or `signal`.
    pub kind: &'static str,
    /// The interface; empty where the call names none.
    pub interface: String,
    /// The method or signal; empty for a reply to a call that is not in the capture.
    pub member: String,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the largest.
    pub peak_bytes: u64,
}

/// Messages of about one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// Least bytes.
    pub from_bytes: u64,
    /// Most bytes.
    pub to_bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Calls and what became of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Calls {
    /// Calls whose caller wants a reply.
    pub expecting_reply: u64,
    /// From call to reply, over all of them, as the recording program saw both.
    pub latency: Latency,
    /// Methods by the time that callers waited for them, all calls together.
    pub methods: Vec<Method>,
    /// Calls without a reply after 25 s or more, or whose serial was used again. Calls to the driver do not count where the
    /// capture does not hold its replies.
    pub unanswered: u64,
    /// Calls without a reply in the last 25 s of the capture.
    pub open_at_end: u64,
    /// Replies to calls that are not in the capture.
    pub without_call: u64,
    /// Most calls inside each other: a connection calls while another waits for it.
    pub deepest_nesting: u32,
    /// Those calls from the outermost: the connections, the last of which serves the innermost call.
    pub deepest: Vec<String>,
}

/// A distribution of times between call and reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Calls with a reply.
    pub count: u64,
    /// Half of them took no longer; steps of at most one per cent, as for all percentiles.
    pub p50_us: u64,
    /// 90 % of them took no longer.
    pub p90_us: u64,
    /// 99 % of them took no longer.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
    /// All together.
    pub total_us: u64,
}

/// A method of one destination.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Method {
    /// Who is called.
    pub destination: String,
    /// The interface.
    pub interface: String,
    /// The method.
    pub member: String,
    /// All calls, also those that want no reply.
    pub calls: u64,
    /// Replies that are errors.
    pub errors: u64,
    /// Calls without a reply.
    pub unanswered: u64,
    /// From call to reply.
    pub latency: Latency,
}

/// What costs round trips or wake-ups without need.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Habits {
    /// One call after the other, each sent after the reply of the one before.
    pub chains: Vec<Chain>,
    /// Properties that are fetched one by one.
    pub repeated_gets: Vec<RepeatedGets>,
    /// The same call again and again, at even intervals.
    pub polling: Vec<Polling>,
    /// What connections send in the first second of their life.
    pub starts: Vec<Start>,
}

/// One call after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Chain {
    /// The caller.
    pub caller: String,
    /// Calls.
    pub calls: u64,
    /// When it began, from the start of the capture.
    pub start_ns: u64,
    /// From first call to last reply.
    pub duration_ns: u64,
    /// The part of it in which a call was open.
    pub waiting_ns: u64,
    /// The methods that were called most.
    pub methods: Vec<Count>,
}

/// Properties that are fetched one by one.
#[derive(Clone, Debug, Serialize)]
pub struct RepeatedGets {
    /// The caller.
    pub caller: String,
    /// Whose properties.
    pub destination: String,
    /// Calls of `Properties.Get` with less than 100 ms between them.
    pub gets: u64,
    /// How many objects.
    pub objects: u64,
    /// How many interfaces.
    pub interfaces: u64,
    /// When it began, from the start of the capture.
    pub start_ns: u64,
    /// From first to last.
    pub duration_ns: u64,
}

/// The same call at even intervals.
#[derive(Clone, Debug, Serialize)]
pub struct Polling {
    /// The caller.
    pub caller: String,
    /// Who is called.
    pub destination: String,
    /// The object.
    pub path: String,
    /// The interface.
    pub interface: String,
    /// The method.
    pub member: String,
    /// Calls with the same arguments.
    pub calls: u64,
    /// Mean time between them.
    pub interval_ns: u64,
}

/// What a connection sends in the first second of its life.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Start {
    /// The connection.
    pub connection: String,
    /// When it said Hello, from the start of the capture.
    pub start_ns: u64,
    /// Messages that it sent.
    pub messages: u64,
    /// Calls to the driver among them.
    pub driver_calls: u64,
    /// `AddMatch` among those.
    pub add_match_calls: u64,
}

/// Who got the broadcasts, by the match rules that were known when they passed. Where the coverage is not complete, the numbers are those of
/// the known rules, and how many recipients there were is unknown.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recipients {
    /// How much is known of the rules.
    pub coverage: Coverage,
    /// Signals without a destination.
    pub broadcasts: u64,
    /// Copies of them that the bus sent.
    pub deliveries: u64,
    /// Broadcasts by the number of connections that got them.
    pub histogram: Vec<RecipientClass>,
    /// Most connections that got one broadcast.
    pub peak_recipients: u64,
    /// Broadcasts by member, most deliveries first.
    pub signals: Vec<SignalRecipients>,
    /// Those of which more than [`BROAD`] connections got one, the broadest first.
    pub broadest: Vec<SignalRecipients>,
    /// Broadcasts that no rule wanted; nothing where not all rules are known.
    pub unwanted: Option<u64>,
    /// Connections by the broadcasts that they got.
    pub woken: Vec<Count>,
    /// Most wake-ups that all messages together caused: the bus once for each, and each recipient. It is less where a
    /// process was awake already. Nothing where not all rules are known.
    pub wakeups_at_most: Option<u64>,
}

/// Broadcasts with one number of recipients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecipientClass {
    /// Connections that got each of them.
    pub recipients: u64,
    /// Broadcasts.
    pub signals: u64,
}

/// Broadcasts of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SignalRecipients {
    /// The interface.
    pub interface: String,
    /// The signal.
    pub member: String,
    /// Broadcasts.
    pub signals: u64,
    /// Copies of them that the bus sent.
    pub deliveries: u64,
    /// Most connections that got one of them.
    pub most_recipients: u64,
    /// Broadcasts that more than [`BROAD`] connections got.
    pub broad: u64,
    /// Broadcasts that no rule wanted; nothing where not all rules are known.
    pub unwanted: Option<u64>,
}

/// A connection.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionFacts {
    /// `:1.42`
    pub unique: String,
    /// Its first well-known name, if it had one.
    pub name: String,
    /// Its process, where somebody asked the driver for it.
    pub pid: Option<u32>,
    /// Messages that it sent.
    pub sent: u64,
    /// Messages for it alone.
    pub received: u64,
    /// Broadcasts that it got.
    pub broadcasts: u64,
    /// Are all its rules known?
    pub rules_known: bool,
}

/// Messages over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// Time that each row of `counts` stands for.
    pub bucket_ns: u64,
    /// Method calls, method returns, errors, signals.
    pub counts: Vec<[u64; 4]>,
}

/// One message of the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// From the start of the capture.
    pub time_ns: u64,
    /// `method_call`, `method_return`, `error` or `signal`.
    pub kind: &'static str,
    /// Who sent it.
    pub from: String,
    /// Whom it is for; empty for a broadcast.
    pub to: String,
    /// Interface and member, or the name of the error.
    pub what: String,
    /// Connections that got this broadcast.
    pub recipients: usize,
}
