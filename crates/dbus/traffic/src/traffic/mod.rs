//! A capture as facts: an [`Analyzer`] takes packets one by one and keeps sums, not messages.

mod calls;
mod facts;
mod habits;
mod recipients;
mod tally;
mod work;

pub use facts::*;
pub use work::{Handled, Load, Work};

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::bus::{Bus, Found, Unmatched};
use crate::capture::Packet;
use crate::lint::{self, Finding};
use crate::symbols::Sym;
use calls::{Calls as CallTable, MethodKey};
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Arg, Args, Fault, Header, Kind};
use habits::{Call, Habits as HabitTable};
use recipients::Recipients as RecipientTable;
use tally::{Buckets, Loads, Sizes, Tally, greatest};

/// Most messages of the window that [`Facts::sequence`] shows.
pub const MOST_STEPS: usize = 300;
/// Bytes of arguments by which two calls are told apart; what follows them rarely differs alone.
const HASHED_BYTES: usize = 256;

/// Which facts are wanted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Does the capture tell the sizes of messages? That of `dbus-monitor --profile` does not.
    pub has_sizes: bool,
    /// The window that is shown message by message: nanoseconds from the first packet. At most [`MOST_STEPS`] are kept.
    pub window_ns: Range<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { has_sizes: true, window_ns: 0..u64::MAX }
    }
}

/// What an analysis found.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Counts, times, habits, recipients.
    pub facts: Facts,
    /// What is wrong with the match rules.
    pub findings: Vec<Finding>,
}

/// Takes packets and keeps sums.
///
/// ```
/// use weighbridge_dbus_traffic::capture::Packet;
/// use weighbridge_dbus_traffic::traffic::{Analyzer, Options};
/// use causeway_dbus_wire::wire::Builder;
///
/// let mut analyzer = Analyzer::new(Options::default());
/// let bytes = Builder::signal("/a", "a.B", "C").sender(":1.1").build(1)?;
/// analyzer.push(&Packet { time_ns: 0, original_bytes: bytes.len(), bytes: &bytes });
/// let analysis = analyzer.finish();
/// assert_eq!(analysis.facts.totals.signals, 1);
/// // The rules of its sender, which was there before, are not known.
/// assert_eq!(analysis.facts.recipients.unwanted, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Analyzer {
    options: Options,
    bus: Bus,
    driver: Sym,
    totals: Totals,
    bytes: u64,
    capture: CaptureFacts,
    first_ns: Option<u64>,
    last_ns: u64,
    invalid: HashMap<Fault, u64>,
    interfaces: Tally<Sym>,
    members: Tally<(Kind, Sym, Sym)>,
    senders: Tally<Sym>,
    destinations: Tally<Sym>,
    errors: Tally<Sym>,
    sizes: Sizes,
    calls: CallTable,
    habits: HabitTable,
    recipients: RecipientTable,
    loads: Loads,
    receivers: Vec<u32>,
    buckets: Buckets,
    steps: Vec<RawStep>,
}

#[derive(Debug)]
struct RawStep {
    time_ns: u64,
    kind: Kind,
    from: Sym,
    to: Sym,
    what: [Sym; 2],
    recipients: usize,
}

/// One message, with its names as numbers.
struct Seen<'p> {
    header: Header<'p>,
    body: &'p [u8],
    time_ns: u64,
    bytes: u64,
    sender: Sym,
    /// The connection, if the name has an owner.
    destination: Sym,
    interface: Sym,
    member: Sym,
}

impl Analyzer {
    /// An analyzer that has seen nothing.
    #[must_use]
    pub fn new(options: Options) -> Analyzer {
        let mut bus = Bus::new();
        let driver = bus.names.symbols.add(DRIVER);
        Analyzer { options, bus, driver, ..Analyzer::default() }
    }

    /// Takes in the next packet, and says what the broker did for it. One that is no valid message is counted with the reason; what the
    /// broker did for an answer or a directed signal of the driver belongs to what it answers or follows from.
    pub fn push(&mut self, packet: &Packet<'_>) -> Option<Handled<'_>> {
        let header = match Header::parse(packet.bytes) {
            Ok(header) => header,
            Err(fault) => {
                *self.invalid.entry(fault).or_default() += 1;
                return None;
            }
        };
        let body = &packet.bytes[header.header_bytes..];
        let body = &body[..body.len().min(header.body_bytes)];
        self.capture.cut += u64::from(body.len() < header.body_bytes);
        self.capture.big_endian += u64::from(header.endian == causeway_dbus_wire::wire::Endian::Big);
        let first_ns = *self.first_ns.get_or_insert(packet.time_ns);
        self.capture.back_in_time += u64::from(packet.time_ns < self.last_ns);
        self.last_ns = self.last_ns.max(packet.time_ns);
        self.bus.observe(&header, body);
        let symbols = &mut self.bus.names.symbols;
        let sender = symbols.add_optional(header.sender);
        let destination = symbols.add_optional(header.destination);
        let interface = symbols.add_optional(header.interface);
        let member = symbols.add_optional(header.member);
        let destination = self.bus.resolve(destination);
        let bytes = if self.options.has_sizes { header.message_bytes() as u64 } else { 0 };
        let time_ns = packet.time_ns;
        let seen = Seen { header, body, time_ns, bytes, sender, destination, interface, member };
        self.count(&seen);
        let method = match header.kind {
            Kind::MethodCall => self.call(&seen),
            Kind::MethodReturn | Kind::Error => self.reply(&seen),
            _ => [Sym::NONE, interface, member],
        };
        self.interfaces.add(method[1], bytes);
        self.members.add((header.kind, method[1], method[2]), bytes);
        self.habits.sent(sender, seen.time_ns);
        let found = self.deliver(&seen);
        let since_start_ns = packet.time_ns.saturating_sub(first_ns);
        self.buckets.add(header.kind, since_start_ns);
        if self.options.window_ns.contains(&since_start_ns) && self.steps.len() < MOST_STEPS {
            self.step(&seen, method, since_start_ns, found.connections.len());
        }
        let work = Work::of(&header, sender == self.driver, destination == self.driver)?;
        self.receivers.clear();
        let unmatched = match work {
            Work::Broadcast | Work::DriverSignal => {
                self.receivers.extend(found.connections.iter().map(|sym| sym.0));
                self.bus.rules.unmatched(interface, found.matched)
            }
            _ => {
                self.receivers.push(if work == Work::Relay { destination.0 } else { sender.0 });
                Unmatched::default()
            }
        };
        let body_bytes = header.body_bytes as u64;
        self.loads.add(work, body_bytes, self.receivers.len() as u64);
        Some(Handled {
            time_ns: packet.time_ns,
            work,
            body_bytes,
            unmatched,
            sender: if work == Work::DriverSignal { 0 } else { sender.0 },
            receivers: &self.receivers,
        })
    }

    /// Everything that was found.
    #[must_use]
    pub fn finish(self) -> Analysis {
        let findings = lint::rules(&self.bus);
        let bus = &self.bus;
        let text = |sym: Sym| bus.names.symbols.text(sym).to_owned();
        let title = |sym: Sym| text(bus.title(sym));
        let first_ns = self.first_ns.unwrap_or(0);
        let has_driver_replies = self.capture.has_driver_replies;
        let ignored = (!has_driver_replies).then_some(self.driver);
        let mut totals = self.totals;
        totals.bytes = self.options.has_sizes.then_some(self.bytes);
        let peak_bytes = self.members.0.values().map(|sum| sum.peak_bytes).max();
        totals.peak_message_bytes = peak_bytes.filter(|_| self.options.has_sizes);
        let of_capture = bus.connections.iter().filter(|(_, connection)| connection.is_capture);
        totals.of_capture =
            of_capture.map(|(sym, _)| self.senders.messages(sym) + self.destinations.messages(sym)).sum();
        let members = self.members.0.iter().map(|((kind, interface, member), sum)| MemberCount {
            kind: kind.word(),
            interface: text(*interface),
            member: text(*member),
            messages: sum.messages,
            bytes: sum.bytes,
            peak_bytes: sum.peak_bytes,
        });
        let invalid = self.invalid.iter().map(|(fault, count)| Count {
            name: fault.to_string(),
            messages: *count,
            bytes: 0,
        });
        let capture = CaptureFacts {
            first_ns,
            duration_ns: self.last_ns.saturating_sub(first_ns),
            invalid: greatest(invalid, |row| row.messages, |row| row.name.clone()),
            ..self.capture
        };
        let steps = self.steps.iter().map(|step| Step {
            time_ns: step.time_ns,
            kind: step.kind.word(),
            from: title(step.from),
            to: title(step.to),
            what: step.what.map(text).join("."),
            recipients: step.recipients,
        });
        let connections = bus.connections.iter().map(|(sym, connection)| ConnectionFacts {
            unique: text(*sym),
            name: text(connection.name),
            pid: connection.pid,
            sent: self.senders.messages(sym),
            received: self.destinations.messages(sym),
            broadcasts: self.recipients.woken.messages(sym),
            rules_known: connection.rules_known && !connection.is_doubtful,
        });
        let connections = greatest(connections, |row| row.sent, |row| row.unique.clone());
        let facts = Facts {
            by_interface: self.interfaces.rows(text),
            by_member: greatest(
                members,
                |row| row.messages,
                |row| (row.kind, row.interface.clone(), row.member.clone()),
            ),
            by_sender: self.senders.rows(title),
            by_destination: self.destinations.rows(title),
            sizes: if self.options.has_sizes { self.sizes.rows() } else { Vec::new() },
            errors: self.errors.rows(text),
            recipients: self.recipients.finish(bus.coverage(), totals.messages, title),
            loads: self.loads.finish(),
            calls: self.calls.finish(self.last_ns, ignored, title),
            habits: self.habits.finish(first_ns, title),
            connections,
            timeline: self.buckets.finish(),
            sequence: steps.collect(),
            totals,
            capture,
        };
        Analysis { facts, findings }
    }

    fn count(&mut self, seen: &Seen<'_>) {
        let totals = &mut self.totals;
        totals.messages += 1;
        *match seen.header.kind {
            Kind::MethodCall => &mut totals.method_calls,
            Kind::MethodReturn => &mut totals.method_returns,
            Kind::Error => &mut totals.errors,
            Kind::Signal => &mut totals.signals,
            Kind::Other(_) => &mut totals.others,
        } += 1;
        totals.driver_messages += u64::from(seen.sender == self.driver || seen.destination == self.driver);
        self.bytes += seen.bytes;
        self.sizes.add(seen.bytes);
        self.senders.add(seen.sender, seen.bytes);
        if seen.destination != Sym::NONE {
            self.destinations.add(seen.destination, seen.bytes);
        }
    }

    fn call(&mut self, seen: &Seen<'_>) -> MethodKey {
        let header = &seen.header;
        let is_to_driver = seen.destination == self.driver;
        let is_add_match = is_to_driver && header.member == Some("AddMatch");
        self.totals.driver_calls += u64::from(is_to_driver);
        self.totals.add_match_calls += u64::from(is_add_match);
        let method = [seen.destination, seen.interface, seen.member];
        let key = (seen.sender, header.serial);
        self.calls.call(key, method, header.expects_reply(), is_to_driver, seen.time_ns);
        let is_get =
            header.interface == Some("org.freedesktop.DBus.Properties") && header.member == Some("Get");
        let property_interface = match is_get.then(|| Args::new(header, seen.body).next()) {
            Some(Some(Ok(Arg::Text(interface)))) => self.bus.names.symbols.add(interface),
            _ => Sym::NONE,
        };
        let mut args = rustc_hash::FxHasher::default();
        seen.body[..seen.body.len().min(HASHED_BYTES)].hash(&mut args);
        header.body_bytes.hash(&mut args);
        self.habits.call(&Call {
            caller: seen.sender,
            method,
            path: self.bus.names.symbols.add_optional(header.path),
            property_interface,
            args_hash: args.finish(),
            expects_reply: header.expects_reply(),
            is_to_driver,
            is_hello: is_to_driver && header.member == Some("Hello"),
            is_add_match,
            time_ns: seen.time_ns,
        });
        method
    }

    /// The method that was called, as far as the call is in the capture.
    fn reply(&mut self, seen: &Seen<'_>) -> MethodKey {
        let header = &seen.header;
        self.capture.has_driver_replies |= seen.sender == self.driver;
        if let Some(name) = header.error_name {
            self.errors.add(self.bus.names.symbols.add(name), seen.bytes);
        }
        let key = (seen.destination, header.reply_serial.unwrap_or(0));
        let is_error = header.kind == Kind::Error;
        let Some(answered) = self.calls.reply(key, is_error, seen.time_ns) else { return [Sym::NONE; 3] };
        self.habits.reply(seen.destination, answered, seen.time_ns);
        answered.method
    }

    /// The connections that got it because of their rules, and how many rules those are.
    fn deliver(&mut self, seen: &Seen<'_>) -> Found {
        let found = self.bus.found(&seen.header, seen.body);
        if seen.header.is_broadcast() {
            self.recipients.broadcast(seen.interface, seen.member, &found.connections, seen.bytes);
        } else {
            self.recipients.single(seen.destination == self.driver, found.connections.len());
        }
        found
    }

    fn step(&mut self, seen: &Seen<'_>, method: MethodKey, time_ns: u64, recipients: usize) {
        let what = match seen.header.error_name {
            Some(name) => [Sym::NONE, self.bus.names.symbols.add(name)],
            None => [method[1], method[2]],
        };
        let (kind, from, to) = (seen.header.kind, seen.sender, seen.destination);
        self.steps.push(RawStep { time_ns, kind, from, to, what, recipients });
    }
}
