//! All rules of all connections, and a way to the few that a message can match.
//!
//! Equal rules are kept once, with those who hold them. Rules are grouped by which of four conditions they have (interface,
//! member, path, first argument); in a group, one look-up by the message's own values finds all candidates.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::symbols::{Sym, Symbols};
use causeway_dbus_wire::rule::{ArgMatch, MatchRule, PathMatch};
use causeway_dbus_wire::wire::{Arg, Header};

use super::Names;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RuleId(u32);

/// Interface, member, path and first argument; absent where there is no such condition.
type Key = [Sym; 4];
const INTERFACE: usize = 0;

#[derive(Debug)]
struct Entry {
    rule: MatchRule,
    key: Key,
    /// Who has it now, and how many times.
    holders: Vec<(Sym, u32)>,
    matched: u64,
}

impl Entry {
    /// 1 where a broker has to read the body to compare, else 0.
    fn class(&self) -> usize {
        usize::from(!self.rule.args.is_empty())
    }
}

/// What one connection did with one rule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    pub now: u32,
    pub peak: u32,
    pub added: u64,
    pub removed: u64,
    /// Messages that the bus had seen when the first instance was added, and when the last was.
    pub first_at: u64,
    pub last_at: u64,
    /// Messages that it matched while this connection had it.
    matched: u64,
    matched_before: u64,
}

/// Whom rules give a message, and how many rules do.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Each once, in order.
    pub connections: Vec<Sym>,
    /// Rules that match, each as many times as it is held: without and with conditions on arguments.
    pub matched: [u64; 2],
}

/// Match rules in force that a broadcast does not match. A connection that has a rule twice has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// They name the broadcast's interface or none, and ask for no argument: another path, member or sender.
    pub without_arguments: u64,
    /// They name the broadcast's interface or none, and ask for an argument, so that a broker has to read the body.
    pub with_arguments: u64,
    /// They name another interface.
    pub other_interface: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Rulebook {
    ids: HashMap<MatchRule, RuleId>,
    entries: Vec<Entry>,
    uses: FxHashMap<(Sym, RuleId), Use>,
    by_connection: FxHashMap<Sym, Vec<RuleId>>,
    groups: Vec<(u8, FxHashMap<Key, Vec<RuleId>>)>,
    arg_count: usize,
    pub seen: u64,
    eavesdroppers: usize,
    /// Rules in force by the interface that they name, each as many times as it is held: without and with conditions on arguments.
    by_interface: FxHashMap<Sym, [u64; 2]>,
    in_force: u64,
}

impl Rulebook {
    pub fn rule(&self, id: RuleId) -> &MatchRule {
        &self.entries[id.0 as usize].rule
    }

    /// How many arguments of a message rules look at.
    pub fn arg_count(&self) -> usize {
        self.arg_count
    }

    pub fn has_eavesdroppers(&self) -> bool {
        self.eavesdroppers > 0
    }

    /// Every pair of connection and rule that there ever was, with the messages that matched meanwhile.
    pub fn uses(&self) -> impl Iterator<Item = (Sym, RuleId, Use, u64)> + '_ {
        self.uses.iter().map(|((connection, rule), seen)| {
            let since = self.entries[rule.0 as usize].matched - seen.matched_before;
            (*connection, *rule, *seen, seen.matched + if seen.now > 0 { since } else { 0 })
        })
    }

    pub fn add(&mut self, connection: Sym, rule: MatchRule, symbols: &mut Symbols) -> RuleId {
        let id = self.id(rule, symbols);
        let entry = &mut self.entries[id.0 as usize];
        let seen = self.uses.entry((connection, id)).or_default();
        if seen.added == 0 {
            seen.first_at = self.seen;
        }
        seen.last_at = self.seen;
        seen.added += 1;
        seen.now += 1;
        seen.peak = seen.peak.max(seen.now);
        self.in_force += 1;
        self.by_interface.entry(entry.key[INTERFACE]).or_default()[entry.class()] += 1;
        if seen.now > 1 {
            let held = entry.holders.iter_mut().find(|(holder, _)| *holder == connection);
            held.expect("a rule in use has its holder").1 += 1;
            return id;
        }
        seen.matched_before = entry.matched;
        entry.holders.push((connection, 1));
        self.by_connection.entry(connection).or_default().push(id);
        if entry.holders.len() == 1 {
            self.eavesdroppers += usize::from(entry.rule.eavesdrop);
            let key = entry.key;
            self.group(mask(&key)).entry(key).or_default().push(id);
        }
        id
    }

    /// Takes one instance away; nothing if the connection has none.
    pub fn remove(&mut self, connection: Sym, rule: &MatchRule) -> Option<RuleId> {
        let id = *self.ids.get(rule)?;
        let seen = self.uses.get_mut(&(connection, id)).filter(|seen| seen.now > 0)?;
        seen.removed += 1;
        self.release(connection, id, 1);
        Some(id)
    }

    /// Undoes an addition that was refused.
    pub fn take_back(&mut self, connection: Sym, id: RuleId) {
        if let Some(seen) = self.uses.get_mut(&(connection, id)).filter(|seen| seen.now > 0) {
            seen.added -= 1;
            self.release(connection, id, 1);
        }
    }

    /// Undoes a removal that was refused.
    pub fn put_back(&mut self, connection: Sym, id: RuleId, symbols: &mut Symbols) {
        let rule = self.rule(id).clone();
        self.add(connection, rule, symbols);
        if let Some(seen) = self.uses.get_mut(&(connection, id)) {
            seen.added -= 1;
            seen.removed -= 1;
        }
    }

    pub fn remove_connection(&mut self, connection: Sym) {
        for id in self.by_connection.remove(&connection).unwrap_or_default() {
            self.release(connection, id, u32::MAX);
        }
    }

    pub fn recipients(&mut self, header: &Header<'_>, args: &[Arg<'_>], names: &Names) -> Found {
        let arg0 = args.first().and_then(|arg| if let Arg::Text(text) = arg { Some(*text) } else { None });
        let parts = [header.interface, header.member, header.path, arg0];
        let message = parts.map(|text| text.and_then(|text| names.symbols.get(text)).unwrap_or(Sym::NONE));
        let mut found = Found::default();
        for (conditions, rules) in &self.groups {
            let key =
                std::array::from_fn(|at| if conditions & 1 << at == 0 { Sym::NONE } else { message[at] });
            for id in rules.get(&key).into_iter().flatten() {
                let entry = &mut self.entries[id.0 as usize];
                let is_meant = header.is_broadcast() || entry.rule.eavesdrop;
                if is_meant && entry.rule.matches(header, args, names) {
                    entry.matched += 1;
                    let class = entry.class();
                    for (holder, times) in &entry.holders {
                        found.connections.push(*holder);
                        found.matched[class] += u64::from(*times);
                    }
                }
            }
        }
        found.connections.sort_unstable();
        found.connections.dedup();
        found
    }

    /// Rules in force that a broadcast of this interface does not match, by what they ask for; `matched` are those that it does.
    pub fn unmatched(&self, interface: Sym, matched: [u64; 2]) -> Unmatched {
        let of = |interface| self.by_interface.get(&interface).copied().unwrap_or([0; 2]);
        let same = if interface == Sym::NONE { [0; 2] } else { of(interface) };
        let any = of(Sym::NONE);
        let [without, with] = [any[0] + same[0], any[1] + same[1]];
        Unmatched {
            // A rule that matches names this interface or none, so it is among them.
            without_arguments: without - matched[0],
            with_arguments: with - matched[1],
            other_interface: self.in_force - without - with,
        }
    }

    fn release(&mut self, connection: Sym, id: RuleId, count: u32) {
        let entry = &mut self.entries[id.0 as usize];
        let seen = self.uses.get_mut(&(connection, id)).expect("a rule that is held is in use");
        let at = entry.holders.iter().position(|(holder, _)| *holder == connection);
        let at = at.expect("a rule in use has its holder");
        let taken = seen.now.min(count);
        seen.now -= taken;
        self.in_force -= u64::from(taken);
        let of_interface = self.by_interface.get_mut(&entry.key[INTERFACE]).expect("it was added");
        of_interface[entry.class()] -= u64::from(taken);
        entry.holders[at].1 = seen.now;
        if seen.now > 0 {
            return;
        }
        seen.matched += entry.matched - seen.matched_before;
        entry.holders.swap_remove(at);
        if let Some(rules) = self.by_connection.get_mut(&connection) {
            rules.retain(|rule| *rule != id);
        }
        if entry.holders.is_empty() {
            self.eavesdroppers -= usize::from(entry.rule.eavesdrop);
            let key = entry.key;
            self.group(mask(&key)).entry(key).or_default().retain(|rule| *rule != id);
        }
    }

    fn id(&mut self, rule: MatchRule, symbols: &mut Symbols) -> RuleId {
        if let Some(id) = self.ids.get(&rule) {
            return *id;
        }
        let path = match &rule.path {
            Some(PathMatch::Exact(path)) => Some(path.as_str()),
            _ => None,
        };
        let arg0 = match rule.args.first() {
            Some((0, ArgMatch::Text(text))) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        };
        let parts = [rule.interface.as_deref(), rule.member.as_deref(), path, arg0];
        let key = parts.map(|part| symbols.add_optional(part));
        if let Some((last, _)) = rule.args.last() {
            self.arg_count = self.arg_count.max(usize::from(*last) + 1);
        }
        let id = RuleId(u32::try_from(self.entries.len()).expect("memory ends before four billion rules"));
        self.entries.push(Entry { rule: rule.clone(), key, holders: Vec::new(), matched: 0 });
        self.ids.insert(rule, id);
        id
    }

    fn group(&mut self, conditions: u8) -> &mut FxHashMap<Key, Vec<RuleId>> {
        let at = self.groups.iter().position(|(known, _)| *known == conditions).unwrap_or_else(|| {
            self.groups.push((conditions, FxHashMap::default()));
            self.groups.len() - 1
        });
        &mut self.groups[at].1
    }
}

/// A bit for each condition that is there.
fn mask(key: &Key) -> u8 {
    key.iter().enumerate().map(|(at, part)| u8::from(*part != Sym::NONE) << at).sum()
}
