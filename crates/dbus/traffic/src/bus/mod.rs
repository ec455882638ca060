//! The bus as its driver sees it: which connections there are, who owns which name, who has which match rules, at any
//! moment of a sequence of messages.
//!
//! Learned from what passes: `Hello`, `NameOwnerChanged`, `RequestName`, `GetNameOwner`, `AddMatch`, `RemoveMatch`,
//! `BecomeMonitor`, `GetConnectionUnixProcessID`, `GetConnectionCredentials`, `ListNames` and
//! `org.freedesktop.DBus.Debug.Stats.GetAllMatchRules`. What happened before the first message is known only where one of
//! the last three tells it; [`Coverage`] says how much is.

mod driver;
mod rulebook;

pub use driver::listed_rules;
pub use rulebook::Unmatched;
pub(crate) use rulebook::{Found, RuleId, Rulebook, Use};

use causeway_dbus_wire::driver::DRIVER;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::symbols::{Sym, Symbols};
use causeway_dbus_wire::rule::Owners;
use causeway_dbus_wire::wire::{Arg, Args, Header, names};
use driver::Question;

#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// The first well-known name that it owned.
    pub name: Sym,
    pub pid: Option<u32>,
    /// All its rules are known: it was seen from its beginning, or the driver listed them.
    pub rules_known: bool,
    pub is_gone: bool,
    pub has_sent: bool,
    pub was_listed: bool,
    /// It recorded this capture: its own messages are no traffic of the bus.
    pub is_capture: bool,
}

/// For how many connections all rules are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Connections that were seen.
    pub connections: usize,
    /// Those of them all of whose rules are known.
    pub rules_known: usize,
}

impl Coverage {
    /// Are the rules of all connections known?
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.rules_known == self.connections
    }
}

/// Names, which change, and their owners.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub symbols: Symbols,
    owners: FxHashMap<Sym, Sym>,
}

impl Owners for Names {
    fn owns(&self, connection: &str, name: &str) -> bool {
        let (Some(connection), Some(name)) = (self.symbols.get(connection), self.symbols.get(name)) else {
            return false;
        };
        self.owners.get(&name) == Some(&connection)
    }
}

/// The state of a bus.
#[derive(Debug, Default)]
pub struct Bus {
    pub(crate) names: Names,
    pub(crate) connections: FxHashMap<Sym, Connection>,
    pub(crate) rules: Rulebook,
    questions: FxHashMap<(Sym, u32), Question>,
    /// Texts that a connection gave for a rule and that are none.
    pub(crate) bad_rules: FxHashMap<(Sym, Sym), u64>,
    broadcasts: u64,
}

impl Bus {
    /// A bus of which nothing is known.
    #[must_use]
    pub fn new() -> Bus {
        Bus::default()
    }

    /// Takes in one message; they come in the order in which the bus dispatched them. The body may be cut.
    pub fn observe(&mut self, header: &Header<'_>, body: &[u8]) {
        self.rules.seen += 1;
        if let Some(sender) = header.sender.filter(|sender| names::is_unique(sender)) {
            self.meet(sender).has_sent = true;
        }
        if let Some(destination) = header.destination.filter(|name| names::is_unique(name)) {
            self.meet(destination);
        }
        driver::observe(self, header, body);
    }

    /// The connections whose rules give them this message, by their unique names in no particular order: of a broadcast,
    /// those with a matching rule; of any other message, those that eavesdrop. Its destination is not among them for being
    /// the destination. Call it after [`observe`](Bus::observe) of the same message.
    pub fn recipients(&mut self, header: &Header<'_>, body: &[u8]) -> Vec<&str> {
        let found = self.found(header, body);
        found.connections.into_iter().map(|sym| self.names.symbols.text(sym)).collect()
    }

    /// [`recipients`](Bus::recipients) as numbers, and how many rules match.
    pub(crate) fn found(&mut self, header: &Header<'_>, body: &[u8]) -> Found {
        self.broadcasts += u64::from(header.is_broadcast());
        if !header.is_broadcast() && !self.rules.has_eavesdroppers() {
            return Found::default();
        }
        let args: Vec<Arg<'_>> = match self.rules.arg_count() {
            0 => Vec::new(),
            count => Args::new(header, body).map_while(Result::ok).take(count).collect(),
        };
        self.rules.recipients(header, &args, &self.names)
    }

    /// The owner of a well-known name, or the name itself if it is unique.
    #[must_use]
    pub fn owner<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if name.starts_with(':') {
            return Some(name);
        }
        let owner = self.names.owners.get(&self.names.symbols.get(name)?)?;
        Some(self.names.symbols.text(*owner))
    }

    /// For how many connections all rules are known. Those that recorded the capture do not count.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let counted = self.connections.values().filter(|connection| !connection.is_capture);
        let known = counted.clone().filter(|connection| connection.rules_known);
        Coverage { connections: counted.count(), rules_known: known.count() }
    }

    /// The connection of a bus name: itself, or the owner.
    pub(crate) fn resolve(&self, name: Sym) -> Sym {
        self.names.owners.get(&name).copied().unwrap_or(name)
    }

    /// The word for a connection in reports: its first well-known name, or its unique one.
    pub(crate) fn title(&self, name: Sym) -> Sym {
        match self.connections.get(&self.resolve(name)) {
            Some(connection) if connection.name != Sym::NONE && name != Sym::NONE => connection.name,
            _ => name,
        }
    }

    /// Broadcasts for which recipients were asked.
    pub(crate) fn broadcasts(&self) -> u64 {
        self.broadcasts
    }

    /// Were its rules listed by the driver, so that when they were added is not known?
    pub(crate) fn was_listed(&self, name: Sym) -> bool {
        self.connections.get(&name).is_some_and(|connection| connection.was_listed)
    }

    pub(crate) fn is_capture(&self, name: Sym) -> bool {
        self.connections.get(&name).is_some_and(|connection| connection.is_capture)
    }

    /// A connection is there, for whatever reason one knows.
    fn meet(&mut self, unique: &str) -> &mut Connection {
        let sym = self.names.symbols.add(unique);
        self.connections.entry(sym).or_default()
    }

    fn set_owner(&mut self, name: &str, owner: &str) {
        let name = self.names.symbols.add(name);
        if owner.is_empty() {
            self.names.owners.remove(&name);
            return;
        }
        let connection = self.meet(owner);
        if connection.name == Sym::NONE {
            connection.name = name;
        }
        let owner = self.names.symbols.add(owner);
        self.names.owners.insert(name, owner);
    }

    /// A connection has left, or has given up everything to become a monitor.
    fn leave(&mut self, unique: &str) {
        let Some(sym) = self.names.symbols.get(unique) else { return };
        self.rules.remove_connection(sym);
        self.names.owners.retain(|_, owner| *owner != sym);
        if let Some(connection) = self.connections.get_mut(&sym) {
            connection.is_gone = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_dbus_wire::wire::{Body, Builder};

    fn say(bus: &mut Bus, message: &Builder<'_>) -> Vec<String> {
        let bytes = message.build(9).unwrap();
        let header = Header::parse(&bytes).unwrap();
        bus.observe(&header, &bytes[header.header_bytes..]);
        let recipients = bus.recipients(&header, &bytes[header.header_bytes..]);
        recipients.into_iter().map(String::from).collect()
    }

    fn to_driver<'a>(from: &'a str, member: &'a str, arg: &str) -> Builder<'a> {
        Builder::of_driver(member).sender(from).body(Body::default().text(arg))
    }

    fn owner_changed<'a>(name: &str, old: &str, new: &str) -> Builder<'a> {
        let body = Body::default().text(name).text(old).text(new);
        Builder::signal("/org/freedesktop/DBus", DRIVER, "NameOwnerChanged").sender(DRIVER).body(body)
    }

    #[test]
    fn a_refused_rule_is_taken_back() {
        let mut bus = Bus::new();
        say(&mut bus, &to_driver(":1.1", "AddMatch", "interface='a.B'"));
        let refusal =
            Builder::error(9, "org.freedesktop.DBus.Error.LimitsExceeded").sender(DRIVER).destination(":1.1");
        say(&mut bus, &refusal);
        assert!(say(&mut bus, &Builder::signal("/a", "a.B", "C").sender(":1.9")).is_empty());
    }

    #[test]
    fn a_name_in_a_rule_means_its_owner_at_that_moment() {
        let mut bus = Bus::new();
        say(&mut bus, &to_driver(":1.1", "AddMatch", "sender='org.x.Y'"));
        let signal = Builder::signal("/a", "a.B", "C").sender(":1.9");
        assert!(say(&mut bus, &signal).is_empty());
        say(&mut bus, &owner_changed("org.x.Y", "", ":1.9"));
        assert_eq!(say(&mut bus, &signal), [":1.1"]);
        assert_eq!(bus.owner("org.x.Y"), Some(":1.9"));
        say(&mut bus, &owner_changed("org.x.Y", ":1.9", ":1.8"));
        assert!(say(&mut bus, &signal).is_empty());
    }
}
