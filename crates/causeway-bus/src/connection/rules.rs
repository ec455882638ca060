//! Match rules of a connection, and which signals they want.

use weighbridge_dbus::rule::{MatchRule, Owners};
use weighbridge_dbus::wire::{Arg, Body, Header};

use super::{Connection, Message};
use crate::authority::{DRIVER, unique_name};
use crate::error::{Error, Result, name};
use crate::port::AUTHORITY_ID;
use crate::shared::filter::unique_number;

/// A rule of this connection, and who owns the name of its sender, as the log says up to here.
#[derive(Debug)]
pub(super) struct Rule {
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

impl Rule {
    /// The bus itself owns its name, whatever the directory says.
    fn is_of_driver(&self, header: &Header<'_>, args: &[Arg<'_>]) -> bool {
        self.rule.sender.as_deref() == Some(DRIVER) && self.rule.matches(header, args, &())
    }
}

impl Connection {
    /// From the return of this call on, signals that the rule matches are received ([`Connection::next`]).
    ///
    /// # Errors
    /// As [`Connection::call`], with `MatchRuleInvalid`.
    pub fn add_match(&mut self, rule: &str) -> Result<()> {
        let parsed: MatchRule = rule.parse().map_err(|error| {
            Error::method(name::MATCH_RULE_INVALID, format!("{rule:?} is no match rule: {error}"))
        })?;
        // First the rule, then its registration: a signal between both is received.
        self.keep_rule(parsed);
        let added = self.call_driver("AddMatch", Body::default().text(rule));
        if added.is_err() {
            self.rules.pop();
            self.port.wants_signals = !self.rules.is_empty();
        }
        added.map(drop)
    }

    /// Removes a rule that was added.
    ///
    /// # Errors
    /// As [`Connection::call`], with `MatchRuleNotFound`.
    pub fn remove_match(&mut self, rule: &str) -> Result<()> {
        self.call_driver("RemoveMatch", Body::default().text(rule))?;
        let parsed: Option<MatchRule> = rule.parse().ok();
        if let Some(at) = self.rules.iter().position(|known| Some(&known.rule) == parsed.as_ref()) {
            self.rules.remove(at);
        }
        self.port.wants_signals = !self.rules.is_empty();
        Ok(())
    }

    /// Matches signals that come into the log from now on against this rule. The owner of its sender is what the directory says now.
    pub(super) fn keep_rule(&mut self, rule: MatchRule) {
        let owner = match rule.sender.as_deref() {
            None => None,
            Some(DRIVER) => Some(AUTHORITY_ID),
            Some(name) => {
                unique_number(name).or_else(|| self.port.directory().owner(name).map(|owner| owner.id))
            }
        };
        let from = self.port.find_end();
        self.rules.push(Rule { rule, owner, from });
        self.port.wants_signals = true;
    }

    pub(super) fn wants(&self, message: &Message) -> bool {
        let args = message.args();
        let header = message.header();
        self.rules
            .iter()
            .filter(|rule| rule.from <= message.position())
            .any(|rule| rule.rule.matches(&header, &args, rule) || rule.is_of_driver(&header, &args))
    }

    /// As [`Connection::wants`], as far as the header tells, without its sender.
    pub(super) fn may_want(&self, header: &Header<'_>) -> bool {
        self.rules.iter().any(|Rule { rule, .. }| {
            let coarse = MatchRule { sender: None, args: Vec::new(), ..rule.clone() };
            coarse.matches(header, &[], &())
        })
    }

    /// A name has another owner: rules for it follow, and calls of a connection that is gone end.
    pub(super) fn follow_owner(&mut self, message: &Message) {
        let args = message.args();
        let [Arg::Text(name), _, Arg::Text(new)] = args[..] else { return };
        for rule in &mut self.rules {
            if rule.rule.sender.as_deref() == Some(name) {
                rule.owner = unique_number(new);
            }
        }
        if let (Some(id), true) = (unique_number(name), new.is_empty()) {
            self.known.remove(&id);
            self.port.forget_member(id);
            let position = message.position();
            self.end_calls(|pending| pending.callee == id, "the callee left without a reply", position);
        }
    }
}
