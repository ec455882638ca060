//! What is wrong with match rules: each costs every message of the bus a look, and each match a wake-up.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use crate::bus::{Bus, RuleId, Use};
use crate::symbols::Sym;
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::rule::MatchRule;
use causeway_dbus_wire::wire::Kind;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Costs something without need.
    Warning,
    /// Grows without end, or concerns every message.
    Error,
}

impl Level {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// One finding about one rule of one connection, or about all rules of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// `duplicate`, `subsumed`, `growth`, `name-owner-changed-without-arg0`, `no-sender`, `matched-nothing`,
    /// `matches-everything`, `invalid` or `unreadable`.
    pub kind: &'static str,
    /// The connection's unique name.
    pub connection: String,
    /// Its first well-known name, if it had one.
    pub name: String,
    /// Its process, where somebody asked the driver for it.
    pub pid: Option<u32>,
    /// The program of that process; filled in by a caller that can read `/proc`.
    pub process: Option<String>,
    /// The rule; empty where all rules of the connection are meant.
    pub rule: String,
    /// How many rules, or additions, are meant.
    pub count: u64,
    /// One sentence: what it is, and what to do.
    pub text: String,
}

/// Additions without a single removal that are growth, if they go on.
const GROWTH: u64 = 64;
/// Rules of a connection whose past is not known that are worth a look.
const MANY: u64 = 500;
/// Broadcasts that must have passed before a rule that matched none of them is worth a word.
const FEW_BROADCASTS: u64 = 100;
/// Connections with more rules are not searched for pairs that subsume each other.
const MOST_COMPARED: usize = 2_000;

/// All findings about the rules that a bus has or had, the worst first. `messages` of rules are those that it saw.
#[must_use]
pub fn rules(bus: &Bus) -> Vec<Finding> {
    let mut by_connection: HashMap<Sym, Vec<Held<'_>>> = HashMap::new();
    for (connection, id, seen, matched) in bus.rules.uses().filter(|(_, _, seen, _)| seen.added > 0) {
        let held = Held { id, rule: bus.rules.rule(id), seen, matched };
        by_connection.entry(connection).or_default().push(held);
    }
    let mut found = Vec::new();
    for (connection, mut held) in by_connection {
        if bus.is_capture(connection) {
            continue;
        }
        held.sort_by_key(|held| held.id);
        let mut findings = Findings { bus, connection, held: &held, found: &mut found };
        findings.each();
        findings.growth();
        findings.subsumed();
    }
    let mut add = |connection: Sym, kind, rule: &str, count, text| {
        if !bus.is_capture(connection) {
            let mut findings = Findings { bus, connection, held: &[], found: &mut found };
            findings.add(Level::Warning, kind, rule, count, text);
        }
    };
    let fault = |rule: &str| rule.parse::<MatchRule>().err().map_or(String::new(), |why| format!(": {why}"));
    for ((connection, rule, error), count) in &bus.refused {
        let (rule, error) = (bus.names.symbols.text(*rule), bus.names.symbols.text(*error));
        add(*connection, "invalid", rule, *count, format!("the bus refuses it ({error}){}", fault(rule)));
    }
    for ((connection, rule), seen) in &bus.unreadable {
        // Of a rule without a text nothing can be said but that it is there.
        let rule = bus.names.symbols.text(*rule);
        for (count, text) in [
            (
                seen.accepted,
                "the bus accepted it, and it is no rule of the specification, so other brokers may refuse it",
            ),
            (
                seen.unanswered,
                "it is no rule of the specification, and the capture does not show whether the bus accepted it",
            ),
        ] {
            if count > 0 && !rule.is_empty() {
                add(*connection, "unreadable", rule, count, format!("{text}{}", fault(rule)));
            }
        }
    }
    found.sort_by(|a, b| {
        let key = |finding: &Finding| (Reverse(finding.level), Reverse(finding.count), finding.kind);
        key(a).cmp(&key(b)).then_with(|| (&a.connection, &a.rule).cmp(&(&b.connection, &b.rule)))
    });
    found
}

/// A rule as one connection has, or had, it.
struct Held<'a> {
    id: RuleId,
    rule: &'a MatchRule,
    seen: Use,
    matched: u64,
}

/// What is found about the rules of one connection.
struct Findings<'a> {
    bus: &'a Bus,
    connection: Sym,
    held: &'a [Held<'a>],
    found: &'a mut Vec<Finding>,
}

impl Findings<'_> {
    fn each(&mut self) {
        let broadcasts = self.bus.broadcasts();
        for Held { rule, seen: Use { peak, .. }, matched, .. } in self.held {
            let mut add =
                |level, kind, count, text: &str| self.add(level, kind, rule, count, text.to_owned());
            if *peak > 1 {
                let text =
                    format!("it was there {peak} times at once; one is enough, keep a count in the client");
                add(Level::Warning, "duplicate", u64::from(*peak), &text);
            }
            if rule.matches_every_signal() {
                let text = "it has no condition, so every broadcast wakes this connection; name interface and sender";
                add(Level::Error, "matches-everything", 1, text);
            } else if rule.sender.is_none() && rule.destination.is_none() {
                let text = "it names no sender, so the bus compares it with the broadcasts of all connections; add sender=";
                add(Level::Info, "no-sender", 1, text);
            }
            if is_owner_changed(rule) && rule.args.iter().all(|(index, _)| *index != 0) {
                let text = "it wakes this connection for every connection that comes or goes; add arg0= or arg0namespace=";
                add(Level::Warning, "name-owner-changed-without-arg0", 1, text);
            }
            if *matched == 0 && broadcasts >= FEW_BROADCASTS {
                let text = format!(
                    "none of the {broadcasts} broadcasts of the capture matched it while it was there"
                );
                add(Level::Info, "matched-nothing", 1, &text);
            }
        }
    }

    fn growth(&mut self) {
        let sum = |of: fn(&Use) -> u64| self.held.iter().map(|held| of(&held.seen)).sum::<u64>();
        let distinct = self.held.len();
        if self.bus.was_listed(self.connection) {
            let now = sum(|seen| u64::from(seen.now));
            if now >= MANY {
                let text = format!(
                    "it has {now} rules, {distinct} of them distinct; look whether it removes those of objects that went"
                );
                self.add(Level::Warning, "growth", "", now, text);
            }
            return;
        }
        // Rules that are added at the start only are preparation.
        let first = self.held.iter().map(|held| held.seen.first_at).min().unwrap_or(0);
        let last = self.held.iter().map(|held| held.seen.last_at).max().unwrap_or(0);
        let all = self.bus.rules.seen;
        let goes_on = last > all / 2 && last - first > all / 4;
        let added = sum(|seen| seen.added);
        if added >= GROWTH && sum(|seen| seen.removed) == 0 && goes_on {
            let text = format!(
                "it added {added} rules, {distinct} of them distinct, all the time, and removed none; remove a rule when its object goes"
            );
            self.add(Level::Error, "growth", "", added, text);
        }
    }

    fn subsumed(&mut self) {
        if self.held.len() > MOST_COMPARED {
            return;
        }
        // Rules that are there at the same time, as far as the last state tells.
        let at_once = |a: &Held<'_>, b: &Held<'_>| (a.seen.now > 0) == (b.seen.now > 0);
        // A rule that subsumes another has the same interface or none, so only those are compared.
        let mut by_interface: HashMap<Option<&str>, Vec<&Held<'_>>> = HashMap::new();
        for held in self.held {
            by_interface.entry(held.rule.interface.as_deref()).or_default().push(held);
        }
        for narrow in self.held {
            let interface = narrow.rule.interface.as_deref();
            let same = by_interface.get(&interface).into_iter().flatten();
            let any = by_interface.get(&None).filter(|_| interface.is_some()).into_iter().flatten();
            let wide = same.chain(any).find(|wide| {
                wide.id != narrow.id && at_once(wide, narrow) && wide.rule.subsumes(narrow.rule)
            });
            if let Some(wide) = wide {
                let text =
                    format!("its messages come anyway because of `{}` of the same connection", wide.rule);
                self.add(Level::Warning, "subsumed", narrow.rule, 1, text);
            }
        }
    }

    fn add(&mut self, level: Level, kind: &'static str, rule: impl ToString, count: u64, text: String) {
        let seen = self.bus.connections.get(&self.connection);
        let symbols = &self.bus.names.symbols;
        self.found.push(Finding {
            level,
            kind,
            connection: symbols.text(self.connection).into(),
            name: seen.map_or(String::new(), |seen| symbols.text(seen.name).into()),
            pid: seen.and_then(|seen| seen.pid),
            process: None,
            rule: rule.to_string(),
            count,
            text,
        });
    }
}

/// Does the rule ask for changes of all names' owners?
fn is_owner_changed(rule: &MatchRule) -> bool {
    let is_or_any = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    rule.member.as_deref() == Some("NameOwnerChanged")
        && rule.kind.is_none_or(|kind| kind == Kind::Signal)
        && is_or_any(&rule.interface, DRIVER)
        && is_or_any(&rule.sender, DRIVER)
}
