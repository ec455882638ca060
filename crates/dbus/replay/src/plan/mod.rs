//! What is sent by which connection, and what it waits for.

mod build;
mod names;
mod route;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use causeway_dbus_wire::wire::Header;
use serde::Serialize;
use weighbridge_dbus_traffic::capture::Packet;

use crate::tape::Tape;

/// Why messages of a capture are not sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// Packets that are not valid messages.
    Invalid,
    /// What they say is cut, and matters or cannot be replaced by a body of the same size.
    Cut,
    /// They carry descriptors.
    Descriptors,
    /// Their destination, or who sent them, is not in the capture.
    Stranger,
    /// They answer a call that is not sent again, or one from before the capture.
    WithoutCall,
    /// The bus refused them when they were recorded.
    Refused,
    /// They start programs, change the settings of the bus, or make a monitor.
    Administration,
    /// They were sent before Hello.
    BeforeHello,
    /// They say Hello, and no connection begins with them.
    Hello,
    /// Their type is one that the specification leaves to the future.
    UnknownType,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::Invalid => "are not valid messages",
            LeftOut::Cut => "are cut by the limit of the capture on packet size",
            LeftOut::Descriptors => "carry file descriptors",
            LeftOut::Stranger => "have a destination or sender that the capture does not show",
            LeftOut::WithoutCall => "answer calls that are not sent again or are older than the capture",
            LeftOut::Refused => "were refused by the bus when they were recorded",
            LeftOut::Administration => "start programs, change settings of the bus, or make a monitor",
            LeftOut::BeforeHello => "were sent before Hello",
            LeftOut::Hello => "say Hello, and no connection begins with them in the capture",
            LeftOut::UnknownType => "have a type that the specification does not define",
        })
    }
}

/// A connection of the capture, for which the player makes one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its unique name in the capture.
    pub name: String,
    /// It was there before the first message.
    pub is_from_before: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Connect,
    Leave,
    Send { flags: u8, to: Destination, answers: Option<usize> },
}

/// Whose name the header has as destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// That of the captured header: a well-known name, the driver, or nothing.
    AsCaptured,
    /// The new unique name of a connection.
    Connection(usize),
}

/// What must have happened before a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The first so many items of this connection's inbox are there.
    Inbox(usize, usize),
    /// The driver has answered the first so many changes of rules.
    Rules(usize),
    /// The first so many broadcasts have arrived at all their recipients.
    Broadcasts(usize),
    /// The first so many steps are taken.
    Steps(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Number of the message in the capture, from 1.
    pub number: u64,
    pub due_ns: u64,
    pub from: usize,
    pub action: Action,
    /// The message in the bytes of the plan.
    pub at: Range<usize>,
    pub waits: Vec<Wait>,
    /// Where it arrives: connection and place in its inbox.
    pub deliveries: Vec<(usize, usize)>,
    /// The place of the driver's answer in the inbox of the sender.
    pub reply: Option<usize>,
    /// The step that answers it.
    pub answered_by: Option<usize>,
    /// In the capture the driver did what it asks for, and did not answer with an error.
    pub is_granted: bool,
    /// Its caller must be the owner of the name afterwards.
    pub owns: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Item {
    /// The step that causes it; nothing for a connection from before, which is made at once.
    pub step: Option<usize>,
    /// A bus may rightly not deliver it, or deliver it by rules that brokers take differently.
    pub is_soft: bool,
}

/// What is to be done before the first message: names and rules from before the capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub names: Vec<(usize, String)>,
    pub rules: Vec<(usize, String)>,
}

/// How many messages of a capture become what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets in the capture.
    pub captured: u64,
    /// Messages of the driver, which the bus makes again itself.
    pub of_driver: u64,
    /// Messages that are sent again, and the Hello of each connection that begins, whether the capture has it or not.
    pub sent: u64,
    /// Of these, messages with a body of the same size in place of their own, which is cut.
    pub filled: u64,
    /// Of these, calls that started their destination; they are sent when it has its name.
    pub starting: u64,
    /// Of these, changes of rules and names that ask for a reply which they did not ask for, so that their moment is known.
    pub confirmed: u64,
    /// Deliveries of broadcasts that follow from the rules of the capture.
    pub broadcast_deliveries: u64,
    /// Rules that the bus of the capture has and that cannot be read here; what arrives because of them is not planned.
    pub unreadable_rules: u64,
    /// Messages that are not sent again, and why.
    pub left_out: BTreeMap<LeftOut, u64>,
}

/// A capture as something to do.
#[derive(Debug, Default)]
pub struct Plan {
    pub(crate) connections: Vec<Connection>,
    pub(crate) setup: Setup,
    pub(crate) steps: Vec<Step>,
    /// Of each connection, its steps in order.
    pub(crate) queues: Vec<Vec<usize>>,
    /// Of each connection, what it receives, in the order of the capture.
    pub(crate) inboxes: Vec<Vec<Item>>,
    /// Answers of the driver to changes of rules: connection and place in its inbox.
    pub(crate) rule_changes: Vec<(usize, usize)>,
    /// The steps that are broadcasts.
    pub(crate) broadcasts: Vec<usize>,
    /// Well-known names that messages need, as owner or destination.
    pub(crate) names: Vec<String>,
    bytes: Vec<u8>,
    counts: Counts,
}

/// Reads packets for a plan.
#[derive(Debug, Default)]
pub struct Planner {
    tape: Tape,
}

impl Planner {
    /// Takes in the next packet of a capture.
    pub fn push(&mut self, packet: &Packet<'_>) {
        self.tape.push(packet);
    }

    /// The plan of all packets.
    #[must_use]
    pub fn finish(self) -> Plan {
        build::plan(self.tape)
    }
}

impl Plan {
    /// How many messages of the capture become what.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The connections of the capture, in order of appearance.
    #[must_use]
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    pub(crate) fn message(&self, step: &Step) -> &[u8] {
        &self.bytes[step.at.clone()]
    }

    pub(crate) fn title(&self, step: &Step) -> String {
        let from = &self.connections[step.from].name;
        format!("message {} of the capture ({} of {from})", step.number, self.words(step))
    }

    /// What each message is, by its number in the capture: kind, interface and member.
    pub fn titles(&self) -> BTreeMap<u64, String> {
        let sent = self.steps.iter().filter(|step| matches!(step.action, Action::Send { .. }));
        sent.map(|step| (step.number, format!("{} (message {})", self.words(step), step.number))).collect()
    }

    fn words(&self, step: &Step) -> String {
        match (step.action, Header::parse(self.message(step))) {
            (Action::Connect, _) => "the beginning".to_owned(),
            (Action::Leave, _) => "the end".to_owned(),
            (_, Ok(header)) => header.title(),
            (_, Err(_)) => "a message".to_owned(),
        }
    }
}
