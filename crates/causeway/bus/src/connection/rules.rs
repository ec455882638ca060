//! Match rules of a connection, and which signals they want.

use causeway_dbus_wire::rule::{MatchRule, Owners};
use causeway_dbus_wire::wire::{Arg, Body, Header};

use super::message::CacheIndex;
use super::{Connection, Message};
use crate::authority::{DRIVER, unique_name};
use crate::error::{Error, Result, name};
use crate::port::AUTHORITY_ID;
use crate::shared::directory::Directory;
use crate::shared::unique_name::unique_number;

/// Why a call ends without a reply.
const CALLEE_GONE: &str = "the callee disconnected without replying";

/// A rule of this connection, and who owns the name of its sender, as the log says up to here.
#[derive(Debug)]
pub(super) struct Rule {
    /// Tells it from others of this connection, also equal ones.
    pub(super) key: u64,
    pub(super) rule: MatchRule,
    owner: Option<u64>,
    /// It matches nothing that stood in the log before it was added.
    from: u64,
}

impl Owners for Rule {
    fn owns(&self, connection: &str, name: &str) -> bool {
        self.rule.sender.as_deref() == Some(name)
            && self.owner.is_some_and(|id| connection == unique_name(id))
    }
}

/// The rules of a connection.
#[derive(Debug, Default)]
pub(super) struct Rules {
    all: Vec<Rule>,
    next_key: u64,
    /// Counts changes of rules and of the owners of their senders.
    change: u64,
    /// From this position on, all of them hold.
    all_from: u64,
}

impl Rules {
    /// The rules that were there when this position was taken.
    fn at(&self, position: u64) -> impl Iterator<Item = &Rule> {
        self.all.iter().filter(move |rule| rule.from <= position)
    }

    fn change(&mut self) -> &mut Vec<Rule> {
        self.change += 1;
        &mut self.all
    }
}

impl Rule {
    fn matches(&self, header: &Header<'_>, args: &[Arg<'_>]) -> bool {
        self.rule.matches(header, args, self) || self.is_of_driver() && self.rule.matches(header, args, &())
    }

    fn matches_header(&self, header: &Header<'_>) -> bool {
        self.rule.matches_header(header, self) || self.is_of_driver() && self.rule.matches_header(header, &())
    }

    /// The bus itself owns its name, whatever the directory says.
    fn is_of_driver(&self) -> bool {
        self.rule.sender.as_deref() == Some(DRIVER)
    }
}

/// Whose messages a rule is for, as the directory says.
fn owner_of(rule: &MatchRule, directory: &Directory) -> Option<u64> {
    match rule.sender.as_deref()? {
        DRIVER => Some(AUTHORITY_ID),
        name => unique_number(name).or_else(|| directory.owner(name).map(|owner| owner.id)),
    }
}

impl Connection {
    /// From the return of this call on, signals that the rule matches are received ([`Connection::next`]). Fails as
    /// [`Connection::call`], also with `MatchRuleInvalid`.
    pub fn add_match(&mut self, rule: &str) -> Result<()> {
        // First the rule, then its registration: a signal between both is received.
        let key = self.insert_rule(rule)?;
        let added = self.call_driver("AddMatch", Body::default().text(rule));
        if added.is_err() {
            self.remove_rule(key);
        }
        added.map(drop)
    }

    /// Removes a rule that was added. Fails as [`Connection::call`], also with `MatchRuleNotFound`.
    pub fn remove_match(&mut self, rule: &str) -> Result<()> {
        self.call_driver("RemoveMatch", Body::default().text(rule))?;
        if let Ok(rule) = rule.parse() {
            self.remove_equal_rule(&rule);
        }
        Ok(())
    }

    /// Adds a rule to those that this connection matches itself; returns its key. The authority does not know it yet.
    pub(crate) fn insert_rule(&mut self, rule: &str) -> Result<u64> {
        let parsed = rule.parse().map_err(|error: String| {
            Error::method(name::MATCH_RULE_INVALID, format!("invalid match rule {rule:?}: {error}"))
        })?;
        Ok(self.keep_rule(parsed))
    }

    /// Matches signals that come into the log from now on against this rule; returns its key. The owner of its sender
    /// is what the directory says now.
    pub(super) fn keep_rule(&mut self, rule: MatchRule) -> u64 {
        let owner = owner_of(&rule, self.port.directory());
        let key = self.rules.next_key;
        self.rules.next_key += 1;
        let from = self.port.find_end();
        self.rules.all_from = from;
        self.rules.change().push(Rule { key, rule, owner, from });
        self.port.wants_signals = true;
        key
    }

    /// Removes a rule from those that this connection matches itself.
    pub(crate) fn remove_rule(&mut self, key: u64) {
        self.rules.change().retain(|rule| rule.key != key);
        self.port.wants_signals = !self.rules.all.is_empty();
    }

    /// The same for one that is equal; others that are equal stay.
    pub(super) fn remove_equal_rule(&mut self, rule: &MatchRule) {
        if let Some(Rule { key, .. }) = self.rules.all.iter().find(|known| known.rule == *rule) {
            self.remove_rule(*key);
        }
    }

    /// Keys of the rules that a signal matches which was taken just now.
    #[cfg(feature = "tokio")]
    pub(crate) fn matching_rules(&self, signal: &Message) -> Vec<u64> {
        let (header, args) = (signal.header(), signal.rule_args());
        let rules = self.rules.at(signal.position());
        rules.filter(|rule| rule.matches(&header, &args)).map(|rule| rule.key).collect()
    }

    /// Does a rule want a signal, of whose header more may be remembered at this place?
    #[inline]
    pub(super) fn wants(&mut self, signal: &Message, place: CacheIndex) -> bool {
        let has_all = signal.position() >= self.rules.all_from;
        match self.headers.wanted(place, self.rules.change) {
            Some(wanted) if has_all => wanted,
            _ => self.find_wanted(signal, place, has_all),
        }
    }

    /// As [`Connection::wants`]; remembers what the header alone decides.
    fn find_wanted(&mut self, signal: &Message, place: CacheIndex, has_all: bool) -> bool {
        let header = signal.header();
        let by_header = self.rules.at(signal.position()).filter(|rule| rule.matches_header(&header));
        let (on_args, on_header): (Vec<&Rule>, Vec<&Rule>) =
            by_header.partition(|rule| !rule.rule.args.is_empty());
        if on_header.is_empty() && !on_args.is_empty() {
            let args = signal.rule_args();
            return on_args.iter().any(|rule| rule.matches(&header, &args));
        }
        let wanted = !on_header.is_empty();
        if has_all {
            self.headers.set_wanted(place, self.rules.change, wanted);
        }
        wanted
    }

    /// As [`Connection::wants`], as far as the header tells, without its sender.
    pub(super) fn may_want(&self, header: &Header<'_>, position: u64) -> bool {
        self.rules.at(position).any(|Rule { rule, .. }| {
            let coarse = MatchRule { sender: None, args: Vec::new(), ..rule.clone() };
            coarse.matches(header, &[], &())
        })
    }

    /// Announcements of the bus were overwritten before this member had read them: what they said stands in the
    /// directory.
    #[cold]
    pub(super) fn catch_up(&mut self) {
        self.port.has_missed_bus = false;
        let directory = self.port.directory();
        for rule in self.rules.change() {
            rule.owner = owner_of(&rule.rule, directory);
        }
        self.may_miss_ends = true;
    }

    /// Where the log is read to its end, and the end of a callee may have been overwritten: ends the calls of those
    /// that the directory shows no more, unless a reply has come meanwhile.
    #[cold]
    pub(super) fn end_missed_calls(&mut self) {
        let directory = self.port.directory();
        if directory.is_partial() {
            self.may_miss_ends = false;
            return;
        }
        let is_gone = |callee: &u64| *callee != AUTHORITY_ID && directory.find(*callee).is_none();
        let gone: Vec<u64> = self.pending.callees().filter(is_gone).collect();
        if !self.port.has_entry() {
            self.may_miss_ends = false;
            let position = self.port.cursor();
            self.end_calls(|pending| gone.contains(&pending.callee), CALLEE_GONE, position);
        }
    }

    /// A name has another owner: rules for it follow, and calls of a connection that is gone end.
    pub(super) fn follow_owner(&mut self, message: &Message) {
        let args = message.rule_args();
        let [Arg::Text(name), _, Arg::Text(new)] = args[..] else { return };
        let of_name = |rule: &Rule| rule.rule.sender.as_deref() == Some(name);
        if self.rules.all.iter().any(of_name) {
            for rule in self.rules.change().iter_mut().filter(|rule| of_name(rule)) {
                rule.owner = unique_number(new);
            }
        }
        if let (Some(id), true) = (unique_number(name), new.is_empty()) {
            self.port.forget_member(id);
            self.end_calls(|pending| pending.callee == id, CALLEE_GONE, message.position());
        }
    }
}
