//! The exam of native members finds what they or their bus would do wrong: what a member receives or is called is falsified between it and
//! the experiment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use causeway_bus::client::{self, Error, Layer};
use causeway_dbus_wire::wire::{Body, Builder, Header, Kind};
use weighbridge_dbus_client::brokers::{Broker, Error as BrokerError, Limits, Program};
use weighbridge_dbus_exam::{Bus, MATCH_RULES, Outcome, Property, QUEUED_BYTES, connect, properties};

const INTERFACE: &str = "org.weighbridge.Exam";
/// Every so many messages something is wrong.
const EVERY: usize = 20;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Now and then a message comes before the one that it followed.
    Reorders,
    /// As that, where the two are of different senders, at every second member.
    ReordersBetweenSenders,
    /// A reply comes before the broadcast that it followed.
    ReplyOvertakes,
    /// What another member sent last comes after its departure.
    HoldsLastWords,
    Drops,
    Duplicates,
    /// Large bodies have one wrong byte.
    Damages,
    Delays,
    /// Now and then a message names another member as its sender.
    ForgesSender,
    LosesReplies,
    ReusesUniqueNames,
}

/// A fault, and the property that finds it.
const FOUND_BY: &[(Fault, &str)] = &[
    (Fault::Reorders, "order-of-one-sender"),
    (Fault::ReordersBetweenSenders, "order-of-all"),
    (Fault::ReordersBetweenSenders, "order-at-a-monitor"),
    (Fault::ReordersBetweenSenders, "order-of-causes"),
    (Fault::ReplyOvertakes, "signal-before-reply"),
    (Fault::HoldsLastWords, "last-words"),
    (Fault::Drops, "loss"),
    (Fault::Drops, "missed-matches"),
    (Fault::Duplicates, "duplication"),
    (Fault::Damages, "content"),
    (Fault::Delays, "promptness"),
    (Fault::ForgesSender, "true-sender"),
    (Fault::LosesReplies, "pipelined-calls"),
    (Fault::ReusesUniqueNames, "unique-names"),
];

const FAULTS: &[Fault] = &[
    Fault::None,
    Fault::Reorders,
    Fault::ReordersBetweenSenders,
    Fault::ReplyOvertakes,
    Fault::HoldsLastWords,
    Fault::Drops,
    Fault::Duplicates,
    Fault::Damages,
    Fault::Delays,
    Fault::ForgesSender,
    Fault::LosesReplies,
    Fault::ReusesUniqueNames,
];

/// A link with a fault.
#[derive(Debug)]
struct Faulty {
    bus: client::Bus,
    fault: Fault,
    /// Every second one has faults that only show where two members differ.
    is_even: bool,
    received: usize,
    /// Held back until the next message has come.
    held: Option<Vec<u8>>,
    /// To be received next.
    ready: VecDeque<Vec<u8>>,
}

/// The address names the fault: `fault=Drops;causeway:path=…`.
fn connect_with_fault(address: &str) -> Result<client::Bus, Error> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (name, address) = address.strip_prefix("fault=").unwrap().split_once(';').unwrap();
    let fault = *FAULTS.iter().find(|fault| format!("{fault:?}") == name).unwrap();
    let is_even = NEXT.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
    let bus = connect(address)?;
    let name = if fault == Fault::ReusesUniqueNames { ":1.5" } else { bus.unique_name() }.to_owned();
    let faulty = Faulty { bus, fault, is_even, received: 0, held: None, ready: VecDeque::new() };
    Ok(client::Bus::layered(Box::new(faulty), &name))
}

impl Faulty {
    /// Passes a message on, with the fault.
    fn falsify(&mut self, bytes: Vec<u8>) {
        let header = Header::parse(&bytes).unwrap();
        let is_signal = header.kind == Kind::Signal;
        let is_ours = header.interface == Some(INTERFACE);
        let is_reply = header.kind == Kind::MethodReturn && header.sender != Some("org.freedesktop.DBus");
        let is_departure = header.member == Some("NameOwnerChanged");
        self.received += usize::from(is_ours || is_reply);
        let is_turn = self.received.is_multiple_of(EVERY);
        if let Some(held) = self.held.take() {
            let other = Header::parse(&held).unwrap();
            let goes_first = match self.fault {
                Fault::ReordersBetweenSenders => other.sender != header.sender,
                Fault::ReplyOvertakes => is_reply,
                Fault::HoldsLastWords => is_departure,
                _ => true,
            };
            match goes_first {
                true => self.ready.extend([bytes, held]),
                // The last word is known when something else comes.
                false if self.fault == Fault::HoldsLastWords && is_ours => {
                    self.ready.push_back(held);
                    self.held = Some(bytes);
                }
                false => self.ready.extend([held, bytes]),
            }
            return;
        }
        let is_large = bytes.len() > 1_000;
        match self.fault {
            Fault::Reorders if is_ours && is_signal && is_turn => self.held = Some(bytes),
            Fault::ReordersBetweenSenders if is_ours && is_signal && self.is_even => self.held = Some(bytes),
            Fault::ReplyOvertakes | Fault::HoldsLastWords if is_ours && is_signal => self.held = Some(bytes),
            Fault::Drops if is_ours && is_signal && is_turn => {}
            Fault::LosesReplies if is_reply && is_turn => {}
            Fault::Duplicates if is_ours && is_signal && is_turn => self.ready.extend([bytes.clone(), bytes]),
            Fault::Damages if is_large => {
                let mut bytes = bytes;
                *bytes.last_mut().unwrap() ^= 1;
                self.ready.push_back(bytes);
            }
            Fault::Delays if is_ours => {
                std::thread::sleep(Duration::from_millis(300));
                self.ready.push_back(bytes);
            }
            Fault::ForgesSender if is_ours && is_signal && is_turn => {
                let body = Body::marshalled(header.endian, header.signature, &bytes[header.header_bytes..]);
                let forged = Builder::like(&header).sender(":1.987654").body(body);
                self.ready.push_back(forged.build(header.serial).unwrap());
            }
            _ => self.ready.push_back(bytes),
        }
    }
}

impl Layer for Faulty {
    fn below(&mut self) -> &mut client::Bus {
        &mut self.bus
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Ok(Some(bytes));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.bus.receive(left)? {
                Some(bytes) => self.falsify(bytes),
                // What is held comes at the end at the latest: it is late and not lost.
                None => return Ok(self.held.take()),
            }
        }
    }
}

fn property(id: &str) -> &'static Property {
    properties().find(|property| property.id == id).unwrap()
}

/// A bus for the whole test, if it can be served here.
fn start() -> Option<Broker> {
    match Broker::start(
        Program::CausewayBus,
        &Limits { queued_bytes: QUEUED_BYTES, match_rules: MATCH_RULES },
    ) {
        Err(error @ BrokerError::Missing(_)) => {
            println!("skipped: {error}");
            None
        }
        started => Some(started.unwrap()),
    }
}

fn examined(broker: &Broker, fault: Fault, id: &str) -> Outcome {
    let address = format!("fault={fault:?};{}", broker.address());
    let quiet = Duration::from_millis(500);
    property(id).examine(&Bus { quiet, connect: connect_with_fault, ..Bus::new(&address, None) })
}

#[test]
fn each_fault_of_native_members_is_found_by_its_property() {
    let Some(broker) = start() else { return };
    for (fault, id) in FOUND_BY {
        // Senders whose messages a fault mixes must run at once, which a loaded machine does not always let them.
        let mut outcomes = (0..10).map(|_| examined(&broker, *fault, id));
        let outcome = outcomes.find(Outcome::is_violation);
        assert!(outcome.is_some(), "{fault:?} {id}: kept ten times");
    }
}

#[test]
fn native_members_without_fault_break_none_of_these() {
    let Some(broker) = start() else { return };
    for (_, id) in FOUND_BY {
        let outcome = examined(&broker, Fault::None, id);
        assert!(matches!(outcome, Outcome::Seen(_)) && !outcome.is_violation(), "{id}: {outcome:?}");
    }
}
