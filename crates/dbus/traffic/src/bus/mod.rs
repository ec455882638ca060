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
use driver::{Change, Question};

#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// The first well-known name that it owned.
    pub name: Sym,
    pub pid: Option<u32>,
    /// All its rules are known: it was seen from its beginning, or the driver listed them.
    pub rules_known: bool,
    /// … but one cannot be read here, or the bus and what was seen disagree on them.
    pub is_doubtful: bool,
    /// Changes of its rules whose serial it used again before an answer came.
    pub unanswered: u64,
    pub is_gone: bool,
    pub has_sent: bool,
    pub was_listed: bool,
    /// It recorded this capture: its own messages are no traffic of the bus.
    pub is_capture: bool,
}

/// How much is known of the match rules of all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Connections that were seen.
    pub connections: usize,
    /// Those of them all of whose rules are known.
    pub rules_known: usize,
    /// Connections that were there before the capture, and whose rules nobody listed.
    pub from_before: usize,
    /// Rules that the bus has and that cannot be read here: of another syntax, or with a text that the capture does not have.
    pub unreadable_rules: u64,
    /// Changes of rules of which the capture does not show what the bus answered, while broadcasts passed.
    pub unanswered_changes: u64,
}

impl Coverage {
    /// Are the rules of all connections known?
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.rules_known == self.connections
    }

    /// What is not known, in sentences.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let gap = |count: u64, one: &str, several: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}.")),
            count => Some(format!("{count} {several}.")),
        };
        let mut gaps = vec![
            gap(
                self.from_before as u64,
                "connection was there before the capture, and its rules are not listed",
                "connections were there before the capture, and their rules are not listed",
            ),
            gap(
                self.unreadable_rules,
                "match rule that the bus has cannot be read here",
                "match rules that the bus has cannot be read here",
            ),
            gap(
                self.unanswered_changes,
                "change of match rules has no answer of the bus in the capture",
                "changes of match rules have no answer of the bus in the capture",
            ),
        ];
        let is_explained = gaps.iter().any(Option::is_some);
        let contradictions = (self.connections - self.rules_known) as u64;
        gaps.push(gap(
            if is_explained { 0 } else { contradictions },
            "connection has rules that contradict the answers of the bus",
            "connections have rules that contradict the answers of the bus",
        ));
        gaps.into_iter().flatten().collect()
    }
}

/// A rule that cannot be read here: how often the bus accepted it, and of how many times its answer is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unreadable {
    pub accepted: u64,
    pub unanswered: u64,
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
    /// By connection and text; without a text where the capture has none.
    pub(crate) unreadable: FxHashMap<(Sym, Sym), Unreadable>,
    /// Rules that the bus did not accept: connection, text, name of the error.
    pub(crate) refused: FxHashMap<(Sym, Sym, Sym), u64>,
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

    /// How much is known of all rules. Connections that recorded the capture do not count.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let is_open = |question: &Question| match question {
            // Those that cannot be read are counted with their rules.
            Question::Change(Change::AddUnreadable(_), _) => false,
            Question::Change(_, broadcasts) => *broadcasts < self.broadcasts,
            _ => false,
        };
        let open =
            self.questions.iter().filter(|(_, question)| is_open(question)).map(|((name, _), _)| (*name, 1));
        let unreadable = self.unreadable.iter().map(|((name, _), rule)| (*name, rule.unanswered));
        let lost = self.connections.iter().map(|(name, connection)| (*name, connection.unanswered));
        let mut unanswered: FxHashMap<Sym, u64> = FxHashMap::default();
        for (name, count) in
            open.chain(unreadable).chain(lost).filter(|(name, count)| *count > 0 && !self.is_capture(*name))
        {
            *unanswered.entry(name).or_default() += count;
        }
        let accepted = self.unreadable.iter().filter(|((name, _), _)| !self.is_capture(*name));
        let mut coverage = Coverage {
            unreadable_rules: accepted.map(|(_, rule)| rule.accepted).sum(),
            unanswered_changes: unanswered.values().sum(),
            ..Coverage::default()
        };
        for (name, connection) in self.connections.iter().filter(|(_, connection)| !connection.is_capture) {
            let is_known =
                connection.rules_known && !connection.is_doubtful && !unanswered.contains_key(name);
            coverage.connections += 1;
            coverage.rules_known += usize::from(is_known);
            coverage.from_before += usize::from(!connection.rules_known);
        }
        coverage
    }

    /// Which rules a connection has is not known any more.
    fn doubt(&mut self, connection: Sym) {
        self.connections.entry(connection).or_default().is_doubtful = true;
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

    /// Messages of a bus whose connection :1.1 is seen from its beginning, with the answer to each of its calls.
    #[derive(Default)]
    struct Talk {
        bus: Bus,
        serial: u32,
    }

    impl Talk {
        fn new() -> Talk {
            let mut talk = Talk::default();
            talk.pass(&owner_changed(":1.1", "", ":1.1"));
            talk.pass(&owner_changed(":1.9", "", ":1.9"));
            talk
        }

        fn pass(&mut self, message: &Builder<'_>) {
            self.serial += 1;
            let bytes = message.build(self.serial).unwrap();
            let header = Header::parse(&bytes).unwrap();
            self.bus.observe(&header, &bytes[header.header_bytes..]);
        }

        fn call(&mut self, member: &str, text: Option<&str>) -> u32 {
            let body = text.map_or(Body::default(), |text| Body::default().text(text));
            self.pass(&Builder::of_driver(member).sender(":1.1").body(body));
            self.serial
        }

        fn accept(&mut self, call: u32) {
            self.pass(&Builder::reply(call).sender(DRIVER).destination(":1.1"));
        }

        fn refuse(&mut self, call: u32, error: &str) {
            let error = format!("org.freedesktop.DBus.Error.{error}");
            self.pass(&Builder::error(call, &error).sender(DRIVER).destination(":1.1"));
        }

        /// Sends a broadcast, and returns how many get it by the known rules.
        fn broadcast(&mut self) -> usize {
            let bytes = Builder::signal("/a", "a.B", "C").sender(":1.9").build(7).unwrap();
            let header = Header::parse(&bytes).unwrap();
            self.bus.observe(&header, &[]);
            self.bus.recipients(&header, &[]).len()
        }
    }

    const READABLE: Option<&str> = Some("interface='a.B'");
    const UNREADABLE: Option<&str> = Some("bogus");

    /// What passes, and what is known then: recipients, rules that cannot be read, changes without an answer, is it complete?
    #[test]
    fn the_answer_of_the_bus_decides_which_rules_exist() {
        type Case = (&'static str, fn(&mut Talk), (usize, u64, u64, bool));
        let cases: [Case; 18] = [
            (
                "accepted",
                |talk| {
                    let add = talk.call("AddMatch", READABLE);
                    talk.accept(add);
                },
                (1, 0, 0, true),
            ),
            (
                "refused",
                |talk| {
                    let add = talk.call("AddMatch", READABLE);
                    talk.refuse(add, "LimitsExceeded");
                },
                (0, 0, 0, true),
            ),
            (
                "unanswered",
                |talk| {
                    talk.call("AddMatch", READABLE);
                },
                (1, 0, 1, false),
            ),
            (
                "serial used again",
                |talk| {
                    talk.call("AddMatch", READABLE);
                    talk.serial -= 1;
                    talk.call("GetId", None);
                    talk.serial -= 1;
                    let again = talk.call("AddMatch", READABLE);
                    talk.accept(again);
                },
                (1, 0, 1, false),
            ),
            (
                "no answer wanted",
                |talk| {
                    let add = to_driver(":1.1", "AddMatch", "interface='a.B'");
                    talk.pass(&add.flags(causeway_dbus_wire::wire::FLAG_NO_REPLY_EXPECTED));
                },
                (1, 0, 0, true),
            ),
            (
                "unreadable, accepted",
                |talk| {
                    let add = talk.call("AddMatch", UNREADABLE);
                    talk.accept(add);
                },
                (0, 1, 0, false),
            ),
            (
                "unreadable, refused",
                |talk| {
                    let add = talk.call("AddMatch", UNREADABLE);
                    talk.refuse(add, "MatchRuleInvalid");
                },
                (0, 0, 0, true),
            ),
            (
                "unreadable, unanswered",
                |talk| {
                    talk.call("AddMatch", UNREADABLE);
                },
                (0, 0, 1, false),
            ),
            (
                "unreadable, no answer wanted",
                |talk| {
                    let add = to_driver(":1.1", "AddMatch", "bogus");
                    talk.pass(&add.flags(causeway_dbus_wire::wire::FLAG_NO_REPLY_EXPECTED));
                },
                (0, 0, 1, false),
            ),
            (
                "a rule that the capture does not have",
                |talk| {
                    let add = talk.call("AddMatch", None);
                    talk.accept(add);
                },
                (0, 1, 0, false),
            ),
            (
                "removed",
                |talk| {
                    let add = talk.call("AddMatch", READABLE);
                    talk.accept(add);
                    let remove = talk.call("RemoveMatch", READABLE);
                    talk.accept(remove);
                },
                (0, 0, 0, true),
            ),
            (
                "removal refused",
                |talk| {
                    let add = talk.call("AddMatch", READABLE);
                    talk.accept(add);
                    let remove = talk.call("RemoveMatch", READABLE);
                    talk.refuse(remove, "LimitsExceeded");
                },
                (1, 0, 0, true),
            ),
            (
                "removal of what the bus does not have",
                |talk| {
                    let add = talk.call("AddMatch", READABLE);
                    talk.accept(add);
                    let remove = talk.call("RemoveMatch", READABLE);
                    talk.refuse(remove, "MatchRuleNotFound");
                },
                (0, 0, 0, false),
            ),
            (
                "removal of what was never added",
                |talk| {
                    let remove = talk.call("RemoveMatch", READABLE);
                    talk.accept(remove);
                },
                (0, 0, 0, false),
            ),
            (
                "futile removal",
                |talk| {
                    let remove = talk.call("RemoveMatch", UNREADABLE);
                    talk.refuse(remove, "MatchRuleInvalid");
                },
                (0, 0, 0, true),
            ),
            (
                "unreadable, of a connection that left",
                |talk| {
                    let add = talk.call("AddMatch", UNREADABLE);
                    talk.accept(add);
                    talk.pass(&owner_changed(":1.1", ":1.1", ""));
                },
                (0, 1, 0, false),
            ),
            (
                "a monitor that was refused",
                |talk| {
                    let add = talk.call("AddMatch", READABLE);
                    talk.accept(add);
                    let become_monitor = talk.call("BecomeMonitor", None);
                    talk.refuse(become_monitor, "AccessDenied");
                },
                (1, 0, 0, true),
            ),
            (
                "a monitor",
                |talk| {
                    let add = talk.call("AddMatch", READABLE);
                    talk.accept(add);
                    let become_monitor = talk.call("BecomeMonitor", None);
                    talk.accept(become_monitor);
                },
                (0, 0, 0, true),
            ),
        ];
        for (name, pass, expected) in cases {
            let mut talk = Talk::new();
            pass(&mut talk);
            let recipients = talk.broadcast();
            let coverage = talk.bus.coverage();
            let found =
                (recipients, coverage.unreadable_rules, coverage.unanswered_changes, coverage.is_complete());
            assert_eq!(found, expected, "{name}: {coverage:?}");
            assert_eq!(coverage.gaps().is_empty(), coverage.is_complete(), "{name}: {coverage:?}");
        }
    }

    #[test]
    fn a_change_that_no_broadcast_follows_needs_no_answer() {
        let mut talk = Talk::new();
        talk.broadcast();
        talk.call("AddMatch", READABLE);
        assert!(talk.bus.coverage().is_complete());
    }

    #[test]
    fn listed_rules_that_cannot_be_read_are_counted() {
        let mut talk = Talk::new();
        talk.pass(&Builder::signal("/a", "a.B", "C").sender(":1.5"));
        assert_eq!(talk.bus.coverage().from_before, 1);
        let asked = talk.call("GetAllMatchRules", None);
        let words = ["1", ":1.5", "2", "interface='a.B'", "bogus"].map(String::from);
        let body = causeway_dbus_wire::wire::text::marshalled("a{sas}", &words).unwrap();
        talk.pass(&Builder::reply(asked).sender(DRIVER).destination(":1.1").body(body));
        let coverage = talk.bus.coverage();
        assert_eq!((coverage.from_before, coverage.unreadable_rules, coverage.is_complete()), (0, 1, false));
        assert_eq!(talk.broadcast(), 1);
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
