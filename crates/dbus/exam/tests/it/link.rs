//! A connection whose received messages are falsified between the bus and the experiment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use causeway_bus::client::{self, Error, Layer};
use causeway_dbus_wire::wire::{Body, Builder, Header, Kind};
use weighbridge_dbus_exam::connect;

const INTERFACE: &str = "org.weighbridge.Exam";
/// Every so many messages something is wrong.
const EVERY: usize = 20;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Now and then a message comes before the one that it followed.
    Reorders,
    /// As that, where the two are of different senders, at every second connection.
    ReordersBetweenSenders,
    /// A reply comes before the broadcast that it followed.
    ReplyOvertakes,
    /// A change of owner is told after the next message.
    HoldsOwnerChanges,
    /// What another connection sent last comes after its departure.
    HoldsLastWords,
    Drops,
    Duplicates,
    /// Large bodies have one wrong byte.
    Damages,
    Delays,
    /// Now and then a message names another connection as its sender.
    ForgesSender,
    LosesReplies,
    ReusesUniqueNames,
}

/// A fault, and the property that finds it.
pub const FOUND_BY: &[(Fault, &str)] = &[
    (Fault::Reorders, "order-of-one-sender"),
    (Fault::ReordersBetweenSenders, "order-of-all"),
    (Fault::ReordersBetweenSenders, "order-across-stops"),
    (Fault::ReordersBetweenSenders, "order-at-a-monitor"),
    (Fault::ReordersBetweenSenders, "order-of-causes"),
    (Fault::ReplyOvertakes, "signal-before-reply"),
    (Fault::HoldsOwnerChanges, "name-before-signal"),
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

/// A link with a fault.
#[derive(Debug)]
struct Faulty {
    bus: client::Bus,
    fault: Fault,
    /// Half of them have faults that only show where two connections differ.
    is_even: bool,
    received: usize,
    /// Held back until the next message has come.
    held: Option<Vec<u8>>,
    /// To be received next.
    ready: VecDeque<Vec<u8>>,
}

/// An address that names the fault: `fault=Drops;causeway:path=…`.
pub fn address(fault: Fault, address: &str) -> String {
    format!("fault={fault:?};{address}")
}

/// Connects to such an address.
pub fn connect_with_fault(address: &str) -> Result<client::Bus, Error> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (name, address) = address.strip_prefix("fault=").unwrap().split_once(';').unwrap();
    let mut faults = FOUND_BY.iter().map(|(fault, _)| *fault);
    let fault = faults.find(|fault| format!("{fault:?}") == name).unwrap_or(Fault::None);
    // Not every second one in turn: with an even number of connections to an examination, the same ones would have the fault in each attempt.
    let is_even = NEXT.fetch_add(1, Ordering::Relaxed).count_ones().is_multiple_of(2);
    let bus = connect(address)?;
    let name = if fault == Fault::ReusesUniqueNames { ":1.5" } else { bus.unique_name() }.to_owned();
    let faulty = Faulty { bus, fault, is_even, received: 0, held: None, ready: VecDeque::new() };
    Ok(client::Bus::layered(Box::new(faulty), &name))
}

impl Faulty {
    /// Passes a message on, with the fault.
    fn falsify(&mut self, mut bytes: Vec<u8>) {
        let header = Header::parse(&bytes).unwrap();
        let is_ours = header.interface == Some(INTERFACE);
        let is_signal = is_ours && header.kind == Kind::Signal;
        let is_reply = header.kind == Kind::MethodReturn && header.sender != Some("org.freedesktop.DBus");
        let is_change = header.member == Some("NameOwnerChanged");
        self.received += usize::from(is_ours || is_reply);
        let is_turn = self.received.is_multiple_of(EVERY);
        if let Some(held) = self.held.take() {
            let goes_first = match self.fault {
                Fault::ReordersBetweenSenders => Header::parse(&held).unwrap().sender != header.sender,
                Fault::ReplyOvertakes => is_reply,
                Fault::HoldsLastWords => is_change,
                _ => true,
            };
            if goes_first {
                self.ready.extend([bytes, held]);
            } else if self.fault == Fault::HoldsLastWords && is_ours {
                // The last word is known when something else comes.
                self.ready.push_back(held);
                self.held = Some(bytes);
            } else {
                self.ready.extend([held, bytes]);
            }
            return;
        }
        match self.fault {
            Fault::Reorders if is_signal && is_turn => self.held = Some(bytes),
            Fault::ReordersBetweenSenders if is_signal && self.is_even => self.held = Some(bytes),
            Fault::ReplyOvertakes | Fault::HoldsLastWords if is_signal => self.held = Some(bytes),
            Fault::HoldsOwnerChanges if is_change => self.held = Some(bytes),
            Fault::Drops if is_signal && is_turn => {}
            Fault::LosesReplies if is_reply && is_turn => {}
            Fault::Duplicates if is_signal && is_turn => self.ready.extend([bytes.clone(), bytes]),
            Fault::Damages if bytes.len() > 1_000 => {
                *bytes.last_mut().unwrap() ^= 1;
                self.ready.push_back(bytes);
            }
            Fault::Delays if is_ours => {
                std::thread::sleep(Duration::from_millis(300));
                self.ready.push_back(bytes);
            }
            Fault::ForgesSender if is_signal && is_turn => {
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
