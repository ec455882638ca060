//! Which members want which messages. No sockets.
//!
//! Every rule stands in one bucket: that of its most selective condition. A message looks into the few buckets that it
//! can belong to, so that rules for other members, paths or first arguments cost it nothing.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use causeway_dbus_wire::rule::{MatchRule, Owners, PathMatch};
use causeway_dbus_wire::wire::{Arg, Header, names};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHasher};

use crate::member::MemberId;

#[derive(Debug)]
struct Entry {
    member: MemberId,
    rule: Rc<MatchRule>,
}

/// How often a member has added a rule, and where the rule stands in its bucket: so that one of very many is taken out
/// at once.
#[derive(Debug)]
struct Added {
    count: u32,
    at: usize,
}

/// Remembers the hashes of its keys, so that growing does not read very many rules again.
type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// Buckets by the hashes of their conditions, in many tables: one alone grows at a time, and that of very many entries
/// would take milliseconds.
#[derive(Debug)]
struct Buckets([FxHashMap<u64, Vec<Entry>>; TABLES]);

const TABLES: usize = 64;

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets(std::array::from_fn(|_| FxHashMap::default()))
    }
}

impl Buckets {
    fn index(key: u64) -> usize {
        (key >> 58) as usize
    }

    fn get(&self, key: u64) -> &[Entry] {
        self.0[Buckets::index(key)].get(&key).map_or(&[], Vec::as_slice)
    }

    fn table(&mut self, key: u64) -> &mut FxHashMap<u64, Vec<Entry>> {
        &mut self.0[Buckets::index(key)]
    }
}

#[derive(Debug, Default)]
pub struct Matches {
    buckets: Buckets,
    of_member: FxHashMap<MemberId, FxIndexMap<Rc<MatchRule>, Added>>,
    /// How many rules of whom are for messages of the owner of a well-known name.
    by_owner: BTreeMap<Rc<str>, BTreeMap<MemberId, usize>>,
    /// How many rules of whom ask for messages to others.
    eavesdropping: FxHashMap<MemberId, usize>,
    /// How often that was another set of members.
    eavesdropping_changes: u64,
}

/// The well-known name whose owner must have sent what this rule matches.
fn owner_of(rule: &MatchRule) -> Option<&str> {
    rule.sender.as_deref().filter(|sender| !names::is_unique(sender))
}

/// The first argument of a message, looked at only if a rule asks for arguments.
pub type LazyArgs<'a> = dyn Fn() -> &'a [Arg<'a>] + 'a;

/// A bucket's key: a hash of a condition. Two conditions with the same hash share a bucket, which costs time and
/// nothing else.
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

impl<'a> Key<'a> {
    /// The keys under which rules for a message stand, one after the other; nothing behind the last one.
    fn of_message(index: usize, header: &Header<'a>, args: &LazyArgs<'a>) -> Option<Option<Key<'a>>> {
        let first = || match args().first() {
            Some(Arg::Text(text)) => Some(Key::Arg0(text)),
            _ => None,
        };
        Some(match index {
            0 if header.signature.starts_with('s') => first(),
            0 => None,
            1 => header.path.map(Key::Path),
            2 => header.member.map(Key::Member),
            3 => header.interface.map(Key::Interface),
            4 => header.sender.map(Key::Sender),
            5 => Some(Key::Any),
            _ => return None,
        })
    }
}

/// How far the rules were compared with a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// Which of its keys.
    key: usize,
    /// Which rule of the bucket of this key.
    at: usize,
}

impl Matches {
    /// Adds a rule, once more if the member has it already; otherwise it is returned.
    pub fn add(&mut self, member: MemberId, rule: MatchRule) -> Option<Rc<MatchRule>> {
        let rules = self.of_member.entry(member).or_default();
        if let Some(added) = rules.get_mut(&rule) {
            added.count += 1;
            return None;
        }
        let rule = Rc::new(rule);
        let key = Key::of(&rule).bucket();
        let bucket = self.buckets.table(key).entry(key).or_default();
        rules.insert(Rc::clone(&rule), Added { count: 1, at: bucket.len() });
        if let Some(name) = owner_of(&rule) {
            *self.by_owner.entry(name.into()).or_default().entry(member).or_default() += 1;
        }
        if rule.eavesdrop {
            let count = self.eavesdropping.entry(member).or_default();
            *count += 1;
            self.eavesdropping_changes += u64::from(*count == 1);
        }
        bucket.push(Entry { member, rule: Rc::clone(&rule) });
        Some(rule)
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

    /// Takes a rule of a member out, however often it was added; false if there is none.
    pub fn take_last(&mut self, member: MemberId) -> bool {
        let last = self.of_member.get(&member).and_then(FxIndexMap::last);
        let rule = last.map(|(rule, _)| Rc::clone(rule));
        rule.as_ref().inspect(|rule| self.take_out(member, rule)).is_some()
    }

    /// Takes a rule out, however often it was added.
    fn take_out(&mut self, member: MemberId, rule: &MatchRule) {
        let Some(rules) = self.of_member.get_mut(&member) else { return };
        let Some(Added { at, .. }) = rules.swap_remove(rule) else { return };
        if rules.is_empty() {
            self.of_member.remove(&member);
        }
        if let Some(name) = owner_of(rule)
            && let Some(members) = self.by_owner.get_mut(name)
            && let Some(count) = members.get_mut(&member)
        {
            *count -= 1;
            if *count == 0 {
                members.remove(&member);
            }
            if members.is_empty() {
                self.by_owner.remove(name);
            }
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
        let bucket = self.buckets.table(key).get_mut(&key).expect("a rule stands in its bucket");
        bucket.swap_remove(at);
        if let Some(Entry { member, rule }) = bucket.get(at) {
            // What was the last one stands there now.
            let moved = self.of_member.get_mut(member).and_then(|rules| rules.get_mut(rule));
            moved.expect("a rule in a bucket is one of its member").at = at;
        } else if bucket.is_empty() {
            self.buckets.table(key).remove(&key);
        }
    }

    /// Can any rule match a message with this header? Of a message for one destination only rules with `eavesdrop`
    /// count, because the destination has it anyway.
    pub fn may_match(&self, header: &Header<'_>) -> bool {
        !self.of_member.is_empty() && (header.destination.is_none() || !self.eavesdropping.is_empty())
    }

    /// Goes on with comparing rules with a message, for so many steps: the members whose rules match, some of them more
    /// than once, are added to `found`. True when all rules were compared. Between two calls for one message the rules
    /// stay as they are.
    pub fn compare<'a>(
        &self,
        cursor: &mut Cursor,
        header: &Header<'a>,
        args: &LazyArgs<'a>,
        owners: &dyn Owners,
        steps: &mut usize,
        found: &mut Vec<MemberId>,
    ) -> bool {
        let is_unicast = header.destination.is_some();
        while let Some(key) = Key::of_message(cursor.key, header, args) {
            let bucket = key.map_or(&[][..], |key| self.buckets.get(key.bucket()));
            for Entry { member, rule } in &bucket[cursor.at..] {
                if *steps == 0 {
                    return false;
                }
                cursor.at += 1;
                *steps = steps.saturating_sub(1 + rule.args.len());
                let seen: &[Arg<'_>] = if rule.args.is_empty() { &[] } else { args() };
                if (!is_unicast || rule.eavesdrop)
                    && found.last() != Some(member)
                    && rule.matches(header, seen, owners)
                {
                    found.push(*member);
                }
            }
            (cursor.key, cursor.at) = (cursor.key + 1, 0);
        }
        true
    }

    /// Members with a rule for messages of the owner of this name, in no order.
    pub fn members_that_name(&self, sender: &str) -> impl Iterator<Item = MemberId> {
        self.by_owner.get(sender).into_iter().flat_map(BTreeMap::keys).copied()
    }

    /// The members with a rule for messages to others, in no order.
    pub fn eavesdroppers(&self) -> impl Iterator<Item = MemberId> {
        self.eavesdropping.keys().copied()
    }

    /// A number that is another one when these members are.
    pub fn eavesdropping_changes(&self) -> u64 {
        self.eavesdropping_changes
    }

    /// The rules of a member.
    pub fn of(&self, member: MemberId) -> impl ExactSizeIterator<Item = &Rc<MatchRule>> {
        self.of_member.get(&member).map(FxIndexMap::keys).unwrap_or_default()
    }

    /// The rule of a member at this index of all that it has, with the number of its additions. One that is taken out
    /// leaves its place to the last: who goes from the last to the first misses none.
    pub fn at(&self, member: MemberId, index: usize) -> Option<(&Rc<MatchRule>, u32)> {
        let (rule, added) = self.of_member.get(&member)?.get_index(index)?;
        Some((rule, added.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_dbus_wire::wire::{Args, Body, Builder};

    /// The member `:1.9` owns `org.nine`.
    struct NineOwns;

    impl Owners for NineOwns {
        fn owns(&self, connection: &str, name: &str) -> bool {
            (connection, name) == (":1.9", "org.nine")
        }
    }

    fn rule(text: &str) -> MatchRule {
        text.parse().unwrap()
    }

    fn remove_all(matches: &mut Matches, member: u64) {
        while matches.take_last(MemberId(member)) {}
    }

    fn is_empty(matches: &Matches) -> bool {
        matches.buckets.0.iter().all(FxHashMap::is_empty)
    }

    fn recipients(matches: &Matches, message: &Builder<'_>) -> Vec<u64> {
        let bytes = message.build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let args: Vec<Arg<'_>> =
            Args::new(&header, &bytes[header.header_bytes..]).map_while(Result::ok).collect();
        if !matches.may_match(&header) {
            return Vec::new();
        }
        let compared = |steps: usize| {
            let (mut cursor, mut found, mut turns) = (Cursor::default(), Vec::new(), 1);
            while !matches.compare(&mut cursor, &header, &|| &args, &NineOwns, &mut { steps }, &mut found) {
                turns += 1;
            }
            found.sort_unstable();
            found.dedup();
            (found.into_iter().map(|member| member.0).collect::<Vec<_>>(), turns)
        };
        let (found, turns) = compared(usize::MAX);
        assert_eq!(turns, 1);
        // In as many parts as there can be.
        assert_eq!(compared(1).0, found);
        found
    }

    #[test]
    fn duplicates_are_counted() {
        let (mut matches, one) = (Matches::default(), MemberId(1));
        matches.add(one, rule("type='signal',member='M'"));
        matches.add(one, rule("member='M',type='signal'"));
        assert_eq!(matches.at(one, 0), Some((&Rc::new(rule("type='signal',member='M'")), 2)));
        assert_eq!((matches.of(one).len(), matches.at(one, 1), matches.at(MemberId(2), 0)), (1, None, None));
        for left in [&[1][..], &[1], &[]] {
            assert_eq!(recipients(&matches, &Builder::signal("/", "a.B", "M")), left);
            assert_eq!(matches.remove(one, &rule("type='signal',member='M'")), !left.is_empty());
        }
        assert!(is_empty(&matches) && matches.of_member.is_empty());
    }

    #[test]
    fn rules_for_the_owner_of_a_name_are_found_by_it_until_they_are_gone() {
        let mut matches = Matches::default();
        let (one, two) = (rule("sender='a.b',member='M'"), rule("sender='a.b'"));
        for rule in [&one, &two] {
            matches.add(MemberId(1), rule.clone());
        }
        matches.add(MemberId(2), rule("sender=':1.7'"));
        let named = |matches: &Matches, name: &str| matches.members_that_name(name).collect::<Vec<_>>();
        assert_eq!(named(&matches, "a.b"), [MemberId(1)]);
        assert!(named(&matches, ":1.7").is_empty());
        assert!(matches.remove(MemberId(1), &one));
        assert_eq!(named(&matches, "a.b"), [MemberId(1)]);
        remove_all(&mut matches, 1);
        assert!(named(&matches, "a.b").is_empty() && matches.by_owner.is_empty());
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
            "sender='org.nine'",
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
            remove_all(&mut matches, number);
        }
        assert!(is_empty(&matches));
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
        remove_all(&mut matches, 1);
        assert_eq!(recipients(&matches, &signal("38")), [2]);
        remove_all(&mut matches, 2);
        assert!(is_empty(&matches) && matches.of_member.is_empty());
    }

    #[test]
    fn only_rules_that_eavesdrop_see_messages_to_others() {
        let mut matches = Matches::default();
        let eavesdroppers = |matches: &Matches| {
            (matches.eavesdroppers().collect::<Vec<_>>(), matches.eavesdropping_changes())
        };
        for text in ["eavesdrop='true'", "eavesdrop='true',member='M'"] {
            matches.add(MemberId(1), rule(text));
            assert_eq!(eavesdroppers(&matches), (vec![MemberId(1)], 1));
        }
        matches.add(MemberId(2), rule(""));
        let call = Builder::call("/", "M").destination(":1.5");
        assert_eq!(recipients(&matches, &call), [1]);
        matches.remove(MemberId(1), &rule("eavesdrop='true'"));
        assert_eq!(eavesdroppers(&matches), (vec![MemberId(1)], 1));
        remove_all(&mut matches, 1);
        assert_eq!(eavesdroppers(&matches), (vec![], 2));
    }

    #[test]
    fn a_message_that_no_rule_can_match_is_not_compared() {
        let may_match = |matches: &Matches, message: Builder<'_>| {
            matches.may_match(&Header::parse(&message.build(1).unwrap()).unwrap())
        };
        let broadcast = || Builder::signal("/", "a.B", "M");
        let mut matches = Matches::default();
        assert!(!may_match(&matches, broadcast()));
        matches.add(MemberId(1), rule(""));
        assert!(may_match(&matches, broadcast()) && !may_match(&matches, broadcast().destination(":1.5")));
        matches.add(MemberId(2), rule("eavesdrop='true'"));
        assert!(may_match(&matches, broadcast().destination(":1.5")));
    }

    #[test]
    fn rules_with_other_conditions_cost_a_message_nothing() {
        let mut matches = Matches::default();
        for text in ["arg0='y'", "path='/q'", "member='N'", "interface='a.C'", "sender=':1.8'"] {
            matches.add(MemberId(1), rule(text));
        }
        let body = Body::default().text("x");
        let bytes = Builder::signal("/p", "a.B", "M").sender(":1.9").body(body).build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let (mut steps, mut found, mut cursor) = (10, Vec::new(), Cursor::default());
        let args: &LazyArgs<'_> = &|| &[Arg::Text("x")];
        assert!(matches.compare(&mut cursor, &header, args, &(), &mut steps, &mut found));
        assert_eq!((steps, found), (10, vec![]));
    }

    #[test]
    fn each_rule_costs_a_step_and_one_for_each_argument() {
        let mut matches = Matches::default();
        for text in ["member='M'", "member='M',arg1='x'", "member='M',arg1='x',arg2='x',arg3='x'"] {
            matches.add(MemberId(1), rule(text));
        }
        let bytes = Builder::signal("/", "a.B", "M").build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let (mut steps, mut found, mut cursor) = (10, Vec::new(), Cursor::default());
        assert!(matches.compare(&mut cursor, &header, &|| &[], &(), &mut steps, &mut found));
        assert_eq!((steps, found), (3, vec![MemberId(1)]));
    }

    #[test]
    fn arguments_are_read_only_where_a_rule_may_ask_for_them() {
        let mut matches = Matches::default();
        matches.add(MemberId(1), rule("member='M'"));
        matches.add(MemberId(2), rule("arg0='x'"));
        let bytes = Builder::signal("/", "a.B", "M").body(Body::default().u32(7)).build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let (mut found, mut cursor) = (Vec::new(), Cursor::default());
        let unread: &LazyArgs<'_> = &|| panic!("the arguments are read");
        assert!(matches.compare(&mut cursor, &header, unread, &(), &mut usize::MAX.clone(), &mut found));
        assert_eq!(found, [MemberId(1)]);
    }

    #[test]
    fn very_many_buckets_are_shared_out_among_the_tables() {
        let mut matches = Matches::default();
        for number in 0..100 * TABLES {
            matches.add(MemberId(1), rule(&format!("arg0='{number}'")));
        }
        let largest = matches.buckets.0.iter().map(FxHashMap::len).max();
        assert!(largest < Some(200), "{largest:?} of {} buckets", 100 * TABLES);
    }
}
