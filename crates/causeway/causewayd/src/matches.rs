//! Which members want which messages. No sockets.
//!
//! Every rule stands in one bucket: that of its most selective condition. A message looks into the few buckets that it can
//! belong to, so that rules for other members, paths or first arguments cost it nothing.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use causeway_dbus_wire::rule::{MatchRule, Owners, PathMatch};
use causeway_dbus_wire::wire::{Arg, Header, names};
use rustc_hash::{FxHashMap, FxHasher};

use crate::member::MemberId;

#[derive(Debug)]
struct Entry {
    member: MemberId,
    rule: Rc<MatchRule>,
}

/// How often a member has added a rule, and where the rule stands in its bucket: so that one of very many is taken out at once.
#[derive(Debug)]
struct Added {
    count: u32,
    at: usize,
}

#[derive(Debug, Default)]
pub struct Matches {
    buckets: FxHashMap<u64, Vec<Entry>>,
    of_member: FxHashMap<MemberId, FxHashMap<Rc<MatchRule>, Added>>,
    /// How many rules of whom ask for messages to others.
    eavesdropping: FxHashMap<MemberId, usize>,
    /// How often that was another set of members.
    eavesdropping_changes: u64,
}

/// The first argument of a message, looked at only if a rule asks for arguments.
pub type LazyArgs<'a> = dyn Fn() -> &'a [Arg<'a>] + 'a;

/// A bucket's key: a hash of a condition. Two conditions with the same hash share a bucket, which costs time and nothing else.
#[derive(Hash)]
enum Key<'a> {
    Arg0(&'a str),
    Path(&'a str),
    Member(&'a str),
    Interface(&'a str),
    Sender(&'a str),
    Any,
}

impl Key<'_> {
    fn bucket(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn of(rule: &MatchRule) -> Key<'_> {
        let path = match &rule.path {
            Some(PathMatch::Exact(path)) => Some(path.as_str()),
            _ => None,
        };
        match (rule.arg0(), path, &rule.member, &rule.interface, &rule.sender) {
            (Some(text), ..) => Key::Arg0(text),
            (_, Some(path), ..) => Key::Path(path),
            (_, _, Some(member), ..) => Key::Member(member),
            (_, _, _, Some(interface), _) => Key::Interface(interface),
            (.., Some(sender)) if names::is_unique(sender) => Key::Sender(sender),
            _ => Key::Any,
        }
    }
}

impl Matches {
    /// Adds a rule, once more if the member has it already.
    pub fn add(&mut self, member: MemberId, rule: MatchRule) {
        let rules = self.of_member.entry(member).or_default();
        if let Some(added) = rules.get_mut(&rule) {
            added.count += 1;
            return;
        }
        let rule = Rc::new(rule);
        let bucket = self.buckets.entry(Key::of(&rule).bucket()).or_default();
        rules.insert(Rc::clone(&rule), Added { count: 1, at: bucket.len() });
        if rule.eavesdrop {
            let count = self.eavesdropping.entry(member).or_default();
            *count += 1;
            self.eavesdropping_changes += u64::from(*count == 1);
        }
        bucket.push(Entry { member, rule });
    }

    /// Takes back one addition of a rule; false if the member has no such rule.
    pub fn remove(&mut self, member: MemberId, rule: &MatchRule) -> bool {
        let Some(rules) = self.of_member.get_mut(&member) else { return false };
        let Some(added) = rules.get_mut(rule) else { return false };
        added.count -= 1;
        if added.count == 0 {
            self.take_out(member, rule);
        }
        true
    }

    pub fn remove_all(&mut self, member: MemberId) {
        let rules: Vec<Rc<MatchRule>> =
            self.of_member.get(&member).into_iter().flat_map(FxHashMap::keys).cloned().collect();
        rules.into_iter().for_each(|rule| self.take_out(member, &rule));
    }

    fn take_out(&mut self, member: MemberId, rule: &MatchRule) {
        let Some(rules) = self.of_member.get_mut(&member) else { return };
        let Some(Added { at, .. }) = rules.remove(rule) else { return };
        if rules.is_empty() {
            self.of_member.remove(&member);
        }
        if rule.eavesdrop
            && let std::collections::hash_map::Entry::Occupied(mut count) = self.eavesdropping.entry(member)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
                self.eavesdropping_changes += 1;
            }
        }
        let key = Key::of(rule).bucket();
        let bucket = self.buckets.get_mut(&key).expect("a rule stands in its bucket");
        bucket.swap_remove(at);
        if let Some(Entry { member, rule }) = bucket.get(at) {
            // What was the last one stands there now.
            let moved = self.of_member.get_mut(member).and_then(|rules| rules.get_mut(rule));
            moved.expect("a rule in a bucket is one of its member").at = at;
        } else if bucket.is_empty() {
            self.buckets.remove(&key);
        }
    }

    /// The members with a rule for a message, each once, in order of their numbers. Of a message for one destination only rules
    /// with `eavesdrop` count, because the destination has it anyway.
    pub fn recipients<'a>(
        &self,
        header: &Header<'a>,
        args: &LazyArgs<'a>,
        owners: &dyn Owners,
    ) -> Vec<MemberId> {
        let is_unicast = header.destination.is_some();
        let mut found = Vec::new();
        if self.buckets.is_empty() || (is_unicast && self.eavesdropping.is_empty()) {
            return found;
        }
        let mut look = |key: Key<'_>| {
            for Entry { member, rule } in self.buckets.get(&key.bucket()).into_iter().flatten() {
                let seen: &[Arg<'_>] = if rule.args.is_empty() { &[] } else { args() };
                if (!is_unicast || rule.eavesdrop) && rule.matches(header, seen, owners) {
                    found.push(*member);
                }
            }
        };
        if header.signature.starts_with('s')
            && let Some(Arg::Text(text)) = args().first()
        {
            look(Key::Arg0(text));
        }
        header.path.into_iter().for_each(|path| look(Key::Path(path)));
        header.member.into_iter().for_each(|member| look(Key::Member(member)));
        header.interface.into_iter().for_each(|interface| look(Key::Interface(interface)));
        header.sender.into_iter().for_each(|sender| look(Key::Sender(sender)));
        look(Key::Any);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Members with a rule for messages of the owner of this name, in no order.
    pub fn members_that_name(&self, sender: &str) -> impl Iterator<Item = MemberId> {
        let names = |rules: &FxHashMap<Rc<MatchRule>, Added>| {
            rules.keys().any(|rule| rule.sender.as_deref() == Some(sender))
        };
        self.of_member.iter().filter(move |(_, rules)| names(rules)).map(|(member, _)| *member)
    }

    /// The members with a rule for messages to others, in no order.
    pub fn eavesdroppers(&self) -> impl Iterator<Item = MemberId> {
        self.eavesdropping.keys().copied()
    }

    /// A number that is another one when these members are.
    pub fn eavesdropping_changes(&self) -> u64 {
        self.eavesdropping_changes
    }

    /// The rules of a member with the number of their additions, in no order.
    pub fn of(&self, member: MemberId) -> impl Iterator<Item = (&MatchRule, u32)> {
        self.of_member.get(&member).into_iter().flatten().map(|(rule, added)| (&**rule, added.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_dbus_wire::wire::{Args, Body, Builder};

    fn rule(text: &str) -> MatchRule {
        text.parse().unwrap()
    }

    fn recipients(matches: &Matches, message: &Builder<'_>) -> Vec<u64> {
        let bytes = message.build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let args: Vec<Arg<'_>> =
            Args::new(&header, &bytes[header.header_bytes..]).map_while(Result::ok).collect();
        matches.recipients(&header, &|| &args, &()).into_iter().map(|member| member.0).collect()
    }

    #[test]
    fn duplicates_are_counted() {
        let (mut matches, one) = (Matches::default(), MemberId(1));
        matches.add(one, rule("type='signal',member='M'"));
        matches.add(one, rule("member='M',type='signal'"));
        for left in [&[1][..], &[1], &[]] {
            assert_eq!(recipients(&matches, &Builder::signal("/", "a.B", "M")), left);
            assert_eq!(matches.remove(one, &rule("type='signal',member='M'")), !left.is_empty());
        }
        assert!(matches.buckets.is_empty() && matches.of_member.is_empty());
    }

    #[test]
    fn a_rule_is_found_whichever_condition_it_stands_under() {
        let rules = [
            "arg0='x'",
            "path='/p'",
            "member='M'",
            "interface='a.B'",
            "sender=':1.9'",
            "",
            "path_namespace='/'",
            "arg1path='/q/'",
            "arg0namespace='x'",
        ];
        let mut matches = Matches::default();
        for (number, text) in (1..).zip(rules) {
            matches.add(MemberId(number), rule(text));
        }
        let body = Body::default().text("x").object("/q/r");
        let signal = Builder::signal("/p", "a.B", "M").sender(":1.9").body(body);
        assert_eq!(recipients(&matches, &signal), (1..=rules.len() as u64).collect::<Vec<_>>());
        assert!(recipients(&matches, &signal.destination(":1.1")).is_empty());
        for number in 1..=rules.len() as u64 {
            matches.remove_all(MemberId(number));
        }
        assert!(matches.buckets.is_empty());
    }

    #[test]
    fn rules_of_one_bucket_go_in_any_order() {
        let mut matches = Matches::default();
        for (member, number) in (0..40).flat_map(|number| [(MemberId(1), number), (MemberId(2), number)]) {
            matches.add(member, rule(&format!("member='M',arg1='{number}'")));
        }
        let signal = |text| Builder::signal("/", "a.B", "M").body(Body::default().text("").text(text));
        for number in [7, 0, 39] {
            assert!(matches.remove(MemberId(1), &rule(&format!("member='M',arg1='{number}'"))));
        }
        assert_eq!(recipients(&matches, &signal("39")), [2]);
        assert_eq!(recipients(&matches, &signal("38")), [1, 2]);
        matches.remove_all(MemberId(1));
        assert_eq!(recipients(&matches, &signal("38")), [2]);
        matches.remove_all(MemberId(2));
        assert!(matches.buckets.is_empty() && matches.of_member.is_empty());
    }

    #[test]
    fn only_rules_that_eavesdrop_see_messages_to_others() {
        let mut matches = Matches::default();
        matches.add(MemberId(1), rule("eavesdrop='true'"));
        matches.add(MemberId(2), rule(""));
        let call = Builder::call("/", "M").destination(":1.5");
        assert_eq!(recipients(&matches, &call), [1]);
        matches.remove_all(MemberId(1));
        assert_eq!((matches.eavesdroppers().count(), matches.eavesdropping_changes()), (0, 2));
    }
}
