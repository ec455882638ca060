//! A property of a bus: a question, why the answer matters, and what was seen.

use std::time::Duration;

use causeway_bus::ConnectionOptions;
use causeway_bus::client::{self, Error, native_path};
use serde::Serialize;
use weighbridge_dbus_client::Notes;

/// The bus that is examined.
#[derive(Clone, Copy, Debug)]
pub struct Bus<'a> {
    /// Where it listens.
    pub address: &'a str,
    /// Its process, if the bus is private: it may then be stopped for moments, moved to one CPU, filled up to its limits, and looked
    /// at while it works.
    pub private_pid: Option<u32>,
    /// How long nothing may come before a message counts as lost.
    pub quiet: Duration,
    /// How experiments connect to its address.
    pub connect: fn(&str) -> Result<client::Bus, Error>,
    /// Where the messages of an experiment are noted, if they are.
    pub notes: Option<&'a Notes>,
}

impl<'a> Bus<'a> {
    /// The bus at an address, with experiments that are connected by sockets or as native members, whichever the address says.
    #[must_use]
    pub fn new(address: &'a str, private_pid: Option<u32>) -> Bus<'a> {
        Bus { address, private_pid, quiet: QUIET, connect, notes: None }
    }

    pub(crate) fn is_native(&self) -> bool {
        native_path(self.address).is_some()
    }
}

/// Connects to the bus at an address: as a native member where it is one of a bus of those, else by a socket.
///
/// # Errors
/// No bus answers there, or it does not let this process in.
pub fn connect(address: &str) -> Result<client::Bus, Error> {
    // Of a native member: its messages that others have not read yet. Longer ones than a quarter go another way.
    let outbox_bytes = 32 << 20;
    client::Bus::open_with(address, ConnectionOptions { outbox_bytes, ..ConnectionOptions::default() })
}

/// What says that a bus must behave in a certain way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "basis", content = "text")]
pub enum Basis {
    /// A section of the D-Bus Specification.
    Specification(&'static str),
    /// Programs rely on it, and the specification says nothing.
    Practice(&'static str),
    /// Nothing: brokers may differ.
    Nothing,
}

/// Bytes that a private bus is to queue for a receiver, at most: a quarter of what experiments send to one that does not read.
pub const QUEUED_BYTES: u64 = 16 << 20;
/// Match rules that a private bus is to allow: more than experiments of other things need, fewer than that of the limit adds.
pub const MATCH_RULES: u32 = 10_000;
/// A good [`Bus::quiet`].
pub const QUIET: Duration = Duration::from_secs(1);

/// A question to a bus.
#[derive(Debug)]
pub struct Property {
    /// Its word, which is in no other's.
    pub id: &'static str,
    /// What it belongs to.
    pub group: &'static str,
    /// The question.
    pub question: &'static str,
    /// Why the answer matters.
    pub basis: Basis,
    /// It fills queues or tables, or looks at the process: only for a private bus.
    pub needs_private: bool,
    /// Why it is not examined with native members, where it is not.
    pub not_native: Option<&'static str>,
    pub(crate) run: Experiment,
}

/// What a bus did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// In a word or two; the same in each examination of the same bus.
    pub answer: String,
    /// It breaks what [`Property::basis`] says.
    pub is_violation: bool,
    /// What was done and seen, with figures.
    pub evidence: String,
}

impl Seen {
    pub(crate) fn fine(answer: impl Into<String>, evidence: impl Into<String>) -> Seen {
        Seen { answer: answer.into(), is_violation: false, evidence: evidence.into() }
    }

    pub(crate) fn broken(answer: impl Into<String>, evidence: impl Into<String>) -> Seen {
        Seen { answer: answer.into(), is_violation: true, evidence: evidence.into() }
    }

    /// `kept` with the second text, or `broken` with what was found.
    pub(crate) fn unless(violation: Option<String>, otherwise: impl Into<String>) -> Seen {
        match violation {
            None => Seen::fine("kept", otherwise),
            Some(found) => Seen::broken("broken", found),
        }
    }

    /// What became of a message that a bus should not pass on, of which so many came, and of its sender.
    pub(crate) fn fate(came: usize, is_connected: bool, evidence: impl Into<String>) -> Seen {
        match (came, is_connected) {
            (1.., _) => Seen::broken("delivered", evidence),
            (0, false) => Seen::fine("disconnected", evidence),
            (0, true) => Seen::fine("discarded", evidence),
        }
    }
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The bus answered by what it did.
    Seen(Seen),
    /// The experiment could not be made to its end, and why.
    Failed(String),
    /// It was not made, and why.
    Skipped(&'static str),
}

impl Outcome {
    /// The answer as a cell of a table.
    #[must_use]
    pub fn cell(&self) -> &str {
        match self {
            Outcome::Seen(seen) => &seen.answer,
            Outcome::Failed(_) => "failed",
            Outcome::Skipped(_) => "–",
        }
    }

    /// Does it break a promise?
    #[must_use]
    pub fn is_violation(&self) -> bool {
        matches!(self, Outcome::Seen(seen) if seen.is_violation)
    }

    /// What was seen, or why nothing was.
    #[must_use]
    pub fn evidence(&self) -> &str {
        match self {
            Outcome::Seen(seen) => &seen.evidence,
            Outcome::Failed(why) => why,
            Outcome::Skipped(why) => why,
        }
    }
}

/// What an experiment ends with.
pub(crate) type Answer = Result<Seen, Error>;
type Experiment = fn(&Bus<'_>) -> Answer;

impl Property {
    /// A property of a group, where brokers may differ.
    pub(crate) const fn new(group: &'static str, id: &'static str, run: Experiment) -> Property {
        let (question, basis, needs_private, not_native) = ("", Basis::Nothing, false, None);
        Property { id, group, question, basis, needs_private, not_native, run }
    }

    pub(crate) const fn asks(self, question: &'static str) -> Property {
        Property { question, ..self }
    }

    pub(crate) const fn specification(self, section: &'static str) -> Property {
        Property { basis: Basis::Specification(section), ..self }
    }

    pub(crate) const fn practice(self, why: &'static str) -> Property {
        Property { basis: Basis::Practice(why), ..self }
    }

    pub(crate) const fn private(self) -> Property {
        Property { needs_private: true, ..self }
    }

    pub(crate) const fn not_native(self, why: &'static str) -> Property {
        Property { not_native: Some(why), ..self }
    }

    /// Makes the experiment. All its connections are closed when this returns.
    #[must_use]
    pub fn examine(&self, bus: &Bus<'_>) -> Outcome {
        if self.needs_private && bus.private_pid.is_none() {
            return Outcome::Skipped(
                "this experiment can harm a bus that others use; it is made with private brokers only",
            );
        }
        if let Some(why) = self.not_native.filter(|_| bus.is_native()) {
            return Outcome::Skipped(why);
        }
        (self.run)(bus).map_or_else(|error| Outcome::Failed(error.to_string()), Outcome::Seen)
    }
}
