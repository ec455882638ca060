//! The messages of a capture in memory, and which of them answers which.

use std::collections::BTreeMap;
use std::ops::Range;

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Arg, Args, Header, Kind, names, walk};
use rustc_hash::{FxHashMap, FxHashSet};
use weighbridge_dbus_traffic::capture::Packet;

use crate::body;

/// What the driver answers to `RequestName` when the caller has the name: now, or already.
pub const HAS_NAME: [u32; 2] = [1, 4];

/// What can be used of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Whole,
    /// The header; the body is one of the same size.
    Filled,
    Cut,
}

#[derive(Clone, Debug)]
pub struct Recorded {
    pub number: u64,
    pub time_ns: u64,
    pub at: Range<usize>,
    pub state: State,
}

#[derive(Debug, Default)]
pub struct Tape {
    pub bytes: Vec<u8>,
    pub messages: Vec<Recorded>,
    /// Packets, of which some are no valid messages.
    pub packets: u64,
}

impl Tape {
    pub fn push(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        let Ok(header) = Header::parse(packet.bytes) else { return };
        let body = &packet.bytes[header.header_bytes..];
        let (state, body) = match body.get(..header.body_bytes) {
            Some(body) if walk(&header, body, &mut |_, _| {}).is_err() => return,
            Some(body) => (State::Whole, body.to_vec()),
            None => match body::of_size(header.signature, header.body_bytes, header.endian) {
                Some(body) => (State::Filled, body),
                None => (State::Cut, Vec::new()),
            },
        };
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&packet.bytes[..header.header_bytes]);
        self.bytes.extend(body);
        let at = start..self.bytes.len();
        self.messages.push(Recorded { number: self.packets, time_ns: packet.time_ns, at, state });
    }

    pub fn headers(&self) -> Vec<Header<'_>> {
        let parse = |message: &Recorded| Header::parse(&self.bytes[message.at.clone()]);
        self.messages.iter().map(|message| parse(message).expect("it was parsed before")).collect()
    }

    /// The body of a message; nothing of one that the capture has not whole.
    pub fn body(&self, index: usize, header: &Header<'_>) -> &[u8] {
        let message = &self.messages[index];
        match message.state {
            State::Whole => &self.bytes[message.at.start + header.header_bytes..message.at.end],
            State::Filled | State::Cut => &[],
        }
    }

    /// The strings at the front of a body.
    pub fn texts<'a>(&'a self, index: usize, header: &Header<'a>) -> Vec<&'a str> {
        let args = Args::new(header, self.body(index, header)).map_while(Result::ok);
        args.map_while(|arg| if let Arg::Text(text) = arg { Some(text) } else { None }).collect()
    }

    /// The number that a body begins with.
    pub fn number(&self, index: usize, header: &Header<'_>) -> Option<u32> {
        Args::new(header, self.body(index, header)).first_u32()
    }
}

/// What a first pass over a capture finds, by indices of messages.
#[derive(Debug, Default)]
pub struct Index<'a> {
    /// Of a call, its first answer.
    pub answer: FxHashMap<usize, usize>,
    /// Of an answer, its call.
    pub call: FxHashMap<usize, usize>,
    /// When which connection became the owner of a name.
    pub acquisitions: FxHashMap<&'a str, Vec<(usize, &'a str)>>,
    /// Owners of names from before the capture.
    pub first_owners: BTreeMap<&'a str, &'a str>,
    /// Connections whose beginning the capture has.
    pub begun: FxHashSet<&'a str>,
}

impl<'a> Index<'a> {
    pub fn new(tape: &'a Tape, headers: &[Header<'a>]) -> Index<'a> {
        let mut index = Index::default();
        let mut open: FxHashMap<(&str, u32), usize> = FxHashMap::default();
        for (at, header) in headers.iter().enumerate() {
            match header.kind {
                Kind::MethodCall => {
                    let Some(sender) = header.sender else { continue };
                    open.insert((sender, header.serial), at);
                    if (header.destination, header.member) == (Some(DRIVER), Some("Hello")) {
                        index.begun.insert(sender);
                    }
                }
                Kind::MethodReturn | Kind::Error => {
                    let key = header.destination.zip(header.reply_serial);
                    let call = key.and_then(|key| open.get(&key)).copied();
                    if let Some(call) = call {
                        index.answer.entry(call).or_insert(at);
                        index.call.insert(at, call);
                    }
                    index.answered(tape, headers, at, call);
                }
                Kind::Signal if header.sender == Some(DRIVER) => index.driver_signal(tape, header, at),
                _ => {}
            }
        }
        let begun = &index.begun;
        index.first_owners.retain(|_, owner| !begun.contains(owner));
        index
    }

    fn answered(&mut self, tape: &'a Tape, headers: &[Header<'a>], at: usize, call: Option<usize>) {
        let header = &headers[at];
        let (Some(sender), Some(caller)) = (header.sender, header.destination) else { return };
        let Some(call) = call else {
            // Hello is called before the caller has a name.
            let is_name = || header.signature == "s" && tape.texts(at, header).first() == Some(&caller);
            if sender == DRIVER && is_name() {
                self.begun.insert(caller);
            }
            return;
        };
        let asked = &headers[call];
        if sender != DRIVER {
            if let Some(name) = asked.destination.filter(|name| names::is_well_known(name)) {
                self.had_owner(name, sender);
            }
            return;
        }
        let name = tape.texts(call, asked).first().copied();
        let Some(name) = name.filter(|name| names::is_well_known(name)) else { return };
        match (asked.member, tape.number(at, header)) {
            (Some("RequestName"), Some(4)) | (Some("ReleaseName"), Some(1)) => self.had_owner(name, caller),
            (Some("RequestName"), Some(1)) => self.acquired(name, at, caller),
            (Some("GetNameOwner"), _) => {
                tape.texts(at, header).first().iter().for_each(|owner| self.had_owner(name, owner));
            }
            _ => {}
        }
    }

    fn driver_signal(&mut self, tape: &'a Tape, header: &Header<'a>, at: usize) {
        match (header.member, tape.texts(at, header).as_slice()) {
            (Some("NameOwnerChanged"), &[name, "", new]) if name.starts_with(':') => {
                self.begun.insert(new);
            }
            (Some("NameOwnerChanged"), &[name, old, new]) if !name.starts_with(':') => {
                if !old.is_empty() {
                    self.had_owner(name, old);
                }
                if !new.is_empty() {
                    self.acquired(name, at, new);
                }
            }
            (Some("NameAcquired"), &[name]) if Some(name) == header.destination => {
                self.begun.insert(name);
            }
            _ => {}
        }
    }

    fn acquired(&mut self, name: &'a str, at: usize, owner: &'a str) {
        self.acquisitions.entry(name).or_default().push((at, owner));
    }

    /// If nothing was known of the name up to now, it was so from the beginning.
    fn had_owner(&mut self, name: &'a str, owner: &'a str) {
        if names::is_unique(owner) && name != DRIVER && !self.acquisitions.contains_key(name) {
            self.first_owners.entry(name).or_insert(owner);
        }
    }
}
