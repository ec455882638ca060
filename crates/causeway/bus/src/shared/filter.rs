//! Wake filters: which signals a sleeping member is woken for. A filter may say yes to a signal that no rule matches, never no
//! to one that a rule matches; the member matches exactly when it reads.
//!
//! Up to [`EXACT_RULES`] rules are kept as hashes of their conditions. Of further ones, the most selective condition goes into a
//! set of [`HASHED_BITS`] bits. Rules without such a condition are the first to be kept exactly; one more makes the filter say yes to
//! everything. `docs/decisions/bus-waiting.md` has what that costs.

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::rule::{ArgMatch, MatchRule, PathMatch};
use causeway_dbus_wire::wire::{Arg, Args, Header, Kind, Layout, names};

use super::AUTHORITY_ID;
use super::unique_name::unique_number;

/// Rules that are kept one by one.
pub const EXACT_RULES: usize = 16;
/// Bits of the set for further rules.
pub const HASHED_BITS: usize = 2048;
/// Words of a filter in the directory.
pub const FILTER_WORDS: usize = 1 + EXACT_RULES * RULE_WORDS + HASHED_BITS / 64;

const RULE_WORDS: usize = 4;
const INTERFACE: u8 = 1;
const MEMBER: u8 = 2;
const PATH: u8 = 4;
const PATH_NAMESPACE: u8 = 8;
const ARG0: u8 = 16;
const ARG0_NAMESPACE: u8 = 32;
const SENDER: u8 = 64;
/// In the first word: yes to everything.
const WANTS_ALL: u64 = 1 << 32;
/// No member has this number: a rule for a name without owner.
const NO_MEMBER: u64 = u64::MAX;

/// FNV-1a, 32 bits.
pub fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// What filters look at in a signal, as text. A text that is missing is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalTexts<'a> {
    /// Number of the sender.
    pub sender: u64,
    /// Member.
    pub member: &'a str,
    /// Object path.
    pub path: &'a str,
    /// Interface.
    pub interface: &'a str,
    /// The first argument, if it is a string or an object path.
    pub arg0: Option<&'a str>,
}

impl<'a> SignalTexts<'a> {
    /// The texts of a message.
    pub fn new(sender: u64, header: &Header<'a>, body: &'a [u8]) -> SignalTexts<'a> {
        let is_text = may_have_arg0(header.signature);
        let arg0 = match is_text.then(|| Args::for_rules(header, body).next()).flatten() {
            Some(Arg::Text(text) | Arg::Path(text)) => Some(text),
            _ => None,
        };
        let (interface, member) = (header.interface.unwrap_or(""), header.member.unwrap_or(""));
        SignalTexts { sender, member, path: header.path.unwrap_or(""), interface, arg0 }
    }

    /// The texts of a message of this layout. Its header is put together only for one that may have a first argument.
    #[inline(never)]
    pub fn of_layout(sender: u64, layout: &Layout, message: &'a [u8]) -> SignalTexts<'a> {
        if may_have_arg0(layout.signature(message)) {
            let header = layout.header(message);
            return SignalTexts::new(sender, &header, &message[header.header_bytes..]);
        }
        let (path, interface, member) =
            (layout.path(message), layout.interface(message), layout.member(message));
        let text = Option::unwrap_or_default;
        SignalTexts { sender, member: text(member), path: text(path), interface: text(interface), arg0: None }
    }
}

/// Is the first argument one that filters look at? Others are not looked at, however long they are.
fn may_have_arg0(signature: &str) -> bool {
    signature.starts_with(['s', 'o'])
}

/// What filters look at in a signal, with hashes.
#[derive(Clone, Copy, Debug)]
pub struct SignalKeys<'a> {
    texts: SignalTexts<'a>,
    hashes: [u32; 4],
}

impl<'a> SignalKeys<'a> {
    /// The keys of a message.
    pub fn new(sender: u64, header: &Header<'a>, body: &'a [u8]) -> SignalKeys<'a> {
        SignalKeys::of(SignalTexts::new(sender, header, body))
    }

    /// The keys of these texts.
    pub fn of(texts: SignalTexts<'a>) -> SignalKeys<'a> {
        let SignalTexts { interface, member, path, arg0, .. } = texts;
        let hashes = [hash(interface), hash(member), hash(path), arg0.map_or(0, hash)];
        SignalKeys { texts, hashes }
    }

    fn hash(&self, condition: u8) -> Option<u32> {
        let [interface, member, path, arg0] = self.hashes;
        match condition {
            INTERFACE => Some(interface),
            MEMBER => Some(member),
            PATH => Some(path),
            ARG0 => self.texts.arg0.map(|_| arg0),
            SENDER => Some(self.texts.sender as u32),
            _ => None,
        }
    }
}

/// Which conditions of a further rule go into the set: the first that it has. Bit n of [`KEYS_USED`] says that one of kind n
/// is.
const KEYS: [u8; 9] =
    [PATH | ARG0, MEMBER | ARG0, MEMBER | PATH, ARG0, PATH, INTERFACE | MEMBER, MEMBER, INTERFACE, SENDER];

/// Where these conditions are in the set; `None` if one of them is missing.
fn bit_of(conditions: u8, hash: impl Fn(u8) -> Option<u32>) -> Option<u32> {
    let mut key = u32::from(conditions);
    for condition in [INTERFACE, MEMBER, PATH, ARG0, SENDER] {
        if conditions & condition != 0 {
            key = (key.rotate_left(13) ^ hash(condition)?).wrapping_mul(0x85eb_ca6b);
        }
    }
    Some(key >> 21)
}

const _: () = assert!(HASHED_BITS == 1 << (32 - 21));

/// A filter, as words of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    words: [u64; FILTER_WORDS],
    /// Which of [`KEYS`] each rule has that is kept exactly, and where that is in the set.
    keys: [Option<Key>; EXACT_RULES],
}

/// A kind of [`KEYS`], and a bit of the set.
type Key = (usize, u32);

impl Default for Filter {
    fn default() -> Filter {
        Filter { words: [0; FILTER_WORDS], keys: [None; EXACT_RULES] }
    }
}

impl Filter {
    /// A filter that says yes to every signal.
    pub fn all() -> Filter {
        let mut filter = Filter::default();
        filter.words[0] = WANTS_ALL;
        filter
    }

    /// The filter for rules, as [`Filter::add`] makes it.
    pub fn new<'a>(
        rules: impl IntoIterator<Item = &'a MatchRule>,
        owner: impl Fn(&str) -> Option<u64>,
    ) -> Filter {
        let mut filter = Filter::default();
        rules.into_iter().for_each(|rule| filter.add(rule, &owner));
        filter
    }

    /// Says yes from now on to what a further rule matches. `owner` finds the number of the connection that has a name. A rule for the
    /// messages of a name asks for the changes of its owner, too: a member that missed one would go on with the old owner.
    pub fn add(&mut self, rule: &MatchRule, owner: impl Fn(&str) -> Option<u64>) {
        if rule.kind.is_some_and(|kind| kind != Kind::Signal) {
            return;
        }
        let number = |name: &str| unique_number(name).or_else(|| owner(name)).unwrap_or(NO_MEMBER);
        self.insert(rule, rule.sender.as_deref().map(number));
        let is_owned = |name: &&str| !name.starts_with(':') && *name != DRIVER;
        if let Some(name) = rule.sender.as_deref().filter(is_owned) {
            self.insert(&changes_of(name), Some(AUTHORITY_ID));
        }
    }

    fn insert(&mut self, rule: &MatchRule, sender: Option<u64>) {
        let (words, key) = (rule_words(rule, sender), best_key(rule, sender));
        let count = self.words[0] as u32 as usize;
        let at = |index: usize| 1 + index * RULE_WORDS;
        let exact = |filter: &Filter, index: usize| filter.words[at(index)..at(index + 1)] == words;
        if (0..count).any(|index| exact(self, index)) {
            return;
        }
        let index = if count < EXACT_RULES {
            self.words[0] += 1;
            count
        } else {
            // One with a condition for the set makes room for one without.
            let with_key = || self.keys.iter().position(Option::is_some);
            match key.map_or_else(with_key, |_| None) {
                None => return self.insert_hashed(key),
                Some(index) => {
                    self.insert_hashed(self.keys[index]);
                    index
                }
            }
        };
        self.words[at(index)..at(index + 1)].copy_from_slice(&words);
        self.keys[index] = key;
    }

    fn insert_hashed(&mut self, key: Option<Key>) {
        match key {
            Some((kind, bit)) => {
                self.words[0] |= 1 << (KEYS_USED + kind as u32);
                self.words[1 + EXACT_RULES * RULE_WORDS + bit as usize / 64] |= 1 << (bit % 64);
            }
            None => self.words[0] |= WANTS_ALL,
        }
    }

    /// The words, for the directory.
    pub fn words(&self) -> &[u64; FILTER_WORDS] {
        &self.words
    }

    /// Does it say no to everything?
    pub fn is_empty(&self) -> bool {
        self.words[0] == 0
    }
}

/// The rule for changes of the owner of a name.
fn changes_of(name: &str) -> MatchRule {
    MatchRule {
        kind: Some(Kind::Signal),
        sender: Some(DRIVER.to_owned()),
        interface: Some(DRIVER.to_owned()),
        member: Some("NameOwnerChanged".to_owned()),
        args: vec![(0, ArgMatch::Text(name.to_owned()))],
        ..MatchRule::default()
    }
}

/// Which of [`KEYS`] a rule has, and where that is in the set; `None` if it has none of them.
fn best_key(rule: &MatchRule, sender: Option<u64>) -> Option<Key> {
    let hash_of = |condition| match (condition, &rule.path) {
        (INTERFACE, _) => rule.interface.as_deref().map(hash),
        (MEMBER, _) => rule.member.as_deref().map(hash),
        (PATH, Some(PathMatch::Exact(path))) => Some(hash(path)),
        (ARG0, _) => rule.arg0().map(hash),
        (SENDER, _) => sender.map(|sender| sender as u32),
        _ => None,
    };
    (KEYS.iter().enumerate()).find_map(|(kind, conditions)| Some((kind, bit_of(*conditions, hash_of)?)))
}

/// From this bit of the first word on: which of [`KEYS`] the set has.
const KEYS_USED: u32 = 33;

fn rule_words(rule: &MatchRule, sender: Option<u64>) -> [u64; RULE_WORDS] {
    let (mut flags, mut path, mut arg0) = (0, "", "");
    match &rule.path {
        Some(PathMatch::Exact(text)) => (flags, path) = (flags | PATH, text.as_str()),
        // The root is a namespace of everything.
        Some(PathMatch::Namespace(text)) if text != "/" => {
            (flags, path) = (flags | PATH_NAMESPACE, text.as_str())
        }
        _ => {}
    }
    match rule.args.first() {
        Some((0, ArgMatch::Text(text))) => (flags, arg0) = (flags | ARG0, text.as_str()),
        Some((0, ArgMatch::Namespace(text))) => (flags, arg0) = (flags | ARG0_NAMESPACE, text.as_str()),
        _ => {}
    }
    let mut hash_of = |flag, text: &Option<String>| {
        text.as_deref().map_or(0, |text| {
            flags |= flag;
            hash(text)
        })
    };
    let (interface, member) = (hash_of(INTERFACE, &rule.interface), hash_of(MEMBER, &rule.member));
    if sender.is_some() {
        flags |= SENDER;
    }
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    // A text that is longer than its field has no namespace check: the filter then says yes.
    let length = |text: &str| u64::from(u16::try_from(text.len()).unwrap_or(0));
    [
        u64::from(flags) | length(path) << 16 | length(arg0) << 32,
        two(interface, member),
        two(hash(path), hash(arg0)),
        sender.unwrap_or(0),
    ]
}

/// Does the filter whose words `word` loads say yes? The words may come from shared memory and hold anything.
pub fn says_yes(word: impl Fn(usize) -> u64, keys: &SignalKeys<'_>) -> bool {
    let first = word(0);
    let exact = (first as u32 as usize).min(EXACT_RULES);
    first & WANTS_ALL != 0
        || (0..exact).any(|index| {
            let at = 1 + index * RULE_WORDS;
            rule_says_yes(std::array::from_fn(|part| word(at + part)), keys)
        })
        || (KEYS.iter().enumerate())
            .filter(|(kind, _)| first & 1 << (KEYS_USED + *kind as u32) != 0)
            .filter_map(|(_, conditions)| bit_of(*conditions, |condition| keys.hash(condition)))
            .any(|bit| word(1 + EXACT_RULES * RULE_WORDS + bit as usize / 64) & 1 << (bit % 64) != 0)
}

fn rule_says_yes(rule: [u64; RULE_WORDS], keys: &SignalKeys<'_>) -> bool {
    let flags = rule[0] as u8;
    let (path_bytes, arg0_bytes) = ((rule[0] >> 16) as u16, (rule[0] >> 32) as u16);
    let (interface, member) = (rule[1] as u32, (rule[1] >> 32) as u32);
    let (path, arg0) = (rule[2] as u32, (rule[2] >> 32) as u32);
    let asks = |flag| flags & flag != 0;
    let is_below = |text: &str, bytes: u16, wanted: u32, is_below: fn(&str, &str) -> bool| {
        let bytes = usize::from(bytes);
        bytes == 0 || text.get(..bytes).is_some_and(|start| hash(start) == wanted && is_below(text, start))
    };
    (!asks(SENDER) || rule[3] == keys.texts.sender)
        && (!asks(MEMBER) || member == keys.hashes[1])
        && (!asks(INTERFACE) || interface == keys.hashes[0])
        && (!asks(PATH) || path == keys.hashes[2])
        && (!asks(PATH_NAMESPACE) || is_below(keys.texts.path, path_bytes, path, names::is_below_path))
        && (!asks(ARG0) || keys.texts.arg0.is_some() && arg0 == keys.hashes[3])
        && (!asks(ARG0_NAMESPACE)
            || keys.texts.arg0.is_some_and(|text| is_below(text, arg0_bytes, arg0, names::is_below_name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_dbus_wire::wire::{Body, Builder};
    use proptest::prelude::*;

    fn signal(path: &str, interface: &str, member: &str, arg0: &str) -> Vec<u8> {
        Builder::signal(path, interface, member)
            .sender(":1.7")
            .body(Body::default().text(arg0))
            .build(1)
            .unwrap()
    }

    fn decide(filter: &Filter, message: &[u8]) -> bool {
        let header = Header::parse(message).unwrap();
        let keys = SignalKeys::new(9, &header, &message[header.header_bytes..]);
        says_yes(|index| filter.words()[index], &keys)
    }

    /// Which rules are kept exactly does not depend on their order: those that the set cannot hold are.
    #[test]
    fn many_rules_let_few_others_through() {
        let rule = |object: usize| format!("interface='a.b',member='M',path='/o/{object}'");
        let mut rules: Vec<MatchRule> = (0..200).map(|object| rule(object).parse().unwrap()).collect();
        rules.extend((0..EXACT_RULES).map(|below| format!("path_namespace='/n{below}'").parse().unwrap()));
        let filter = Filter::new(&rules, |_| None);
        assert!((0..200).all(|object| decide(&filter, &signal(&format!("/o/{object}"), "a.b", "M", "x"))));
        assert!(decide(&filter, &signal("/n15/x", "c.d", "N", "x")));
        let others =
            (200..1200).filter(|object| decide(&filter, &signal(&format!("/o/{object}"), "a.b", "M", "x")));
        // 200 of 2048 bits are set: a tenth is to be expected.
        assert!(others.clone().count() < 200, "{}", others.count());
        rules.push("path_namespace='/one_too_many'".parse().unwrap());
        assert!(decide(&Filter::new(&rules, |_| None), &signal("/elsewhere", "a.b", "M", "x")));
    }

    #[test]
    fn the_texts_of_a_signal_are_the_same_by_its_layout() {
        let body =
            |body: Body| Builder::signal("/a/b", "a.b", "M").sender(":1.7").body(body).build(3).unwrap();
        for (message, arg0) in [
            (body(Body::default()), None),
            (body(Body::default().text("one").u32(2)), Some("one")),
            (body(Body::default().u32(2).text("one")), None),
            (body(Body::default().blob(b"bytes")), None),
        ] {
            let header = Header::parse(&message).unwrap();
            let texts = SignalTexts::new(9, &header, &message[header.header_bytes..]);
            assert_eq!((texts.path, texts.interface, texts.member, texts.arg0), ("/a/b", "a.b", "M", arg0));
            assert_eq!(SignalTexts::of_layout(9, &Layout::of(&header, &message), &message), texts);
        }
    }

    #[test]
    fn a_name_without_owner_matches_no_sender_until_it_has_one() {
        let rule: MatchRule = "sender='com.example'".parse().unwrap();
        let message = signal("/", "a.b", "M", "");
        assert!(!decide(&Filter::new([&rule], |_| None), &message));
        assert!(decide(&Filter::new([&rule], |_| Some(9)), &message));
        assert!(Filter::new([&"type='method_call'".parse().unwrap()], |_| None).is_empty());
    }

    /// Without it, one who sleeps keeps the old owner once the announcement is overwritten.
    #[test]
    fn a_rule_for_the_messages_of_a_name_asks_for_the_changes_of_its_owner() {
        let of_name: MatchRule = "sender='com.example',interface='a.b'".parse().unwrap();
        let others: Vec<MatchRule> =
            (0..40).map(|number| format!("sender='com.other.n{number}'").parse().unwrap()).collect();
        let asks = |rules: &[&MatchRule], name: &str| {
            let message = signal("/org/freedesktop/DBus", DRIVER, "NameOwnerChanged", name);
            let header = Header::parse(&message).unwrap();
            let keys = SignalKeys::new(AUTHORITY_ID, &header, &message[header.header_bytes..]);
            let filter = Filter::new(rules.iter().copied(), |_| Some(9));
            says_yes(|index| filter.words()[index], &keys)
        };
        assert!(asks(&[&of_name], "com.example"));
        assert!(!asks(&[&of_name], "com.example2"));
        // Also where it is one of many.
        let all: Vec<&MatchRule> = others.iter().chain([&of_name]).collect();
        assert!(asks(&all, "com.example") && asks(&all, "com.other.n7"));
        let of_driver = format!("sender='{DRIVER}',member='NameAcquired'").parse().unwrap();
        let of_member = "sender=':1.7'".parse().unwrap();
        assert!(!asks(&[&of_driver, &of_member], DRIVER) && !asks(&[&of_member], ":1.7"));
    }

    fn rules() -> impl Strategy<Value = Vec<MatchRule>> {
        let pick = |texts: &'static [&'static str]| prop::sample::select(texts);
        let rule = (
            pick(&["", ",interface='a.b'", ",interface='a.c'"]),
            pick(&["", ",member='M'", ",member='N'"]),
            pick(&["", ",path='/x'", ",path_namespace='/x'", ",path_namespace='/'"]),
            pick(&["", ",arg0='one'", ",arg0namespace='one'", ",arg1='one'"]),
            pick(&["", ",sender=':1.7'", ",sender=':1.8'", ",sender='com.example'"]),
        );
        let rule = rule.prop_map(|(a, b, c, d, e)| format!("type='signal'{a}{b}{c}{d}{e}").parse().unwrap());
        prop::collection::vec(rule, 0..60)
    }

    struct Owns;
    impl causeway_dbus_wire::rule::Owners for Owns {
        fn owns(&self, connection: &str, name: &str) -> bool {
            connection == ":1.7" && name == "com.example"
        }
    }

    proptest! {
        /// What a rule matches, the filter lets through, also with more rules than are kept one by one.
        #[test]
        fn a_filter_never_says_no_to_what_a_rule_matches(
            rules in rules(),
            path in prop::sample::select(&["/", "/x", "/x/y", "/xy"][..]),
            interface in prop::sample::select(&["a.b", "a.c"][..]),
            member in prop::sample::select(&["M", "N"][..]),
            arg0 in prop::sample::select(&["one", "one.two", "three"][..]),
        ) {
            let message = signal(path, interface, member, arg0);
            let header = Header::parse(&message).unwrap();
            let args: Vec<_> = Args::new(&header, &message[header.header_bytes..]).map_while(|arg| arg.ok()).collect();
            let matches = rules.iter().any(|rule| rule.matches(&header, &args, &Owns));
            let filter = Filter::new(&rules, |name| (name == "com.example").then_some(9));
            prop_assert!(!matches || decide(&filter, &message));
            if rules.len() <= EXACT_RULES && !rules.iter().any(|rule| rule.args.first().is_some_and(|(index, _)| *index > 0)) {
                prop_assert_eq!(matches, decide(&filter, &message));
            }
        }

        #[test]
        fn any_words_are_a_filter(words in prop::collection::vec(any::<u64>(), FILTER_WORDS)) {
            let message = signal("/é".trim_end_matches('é'), "a.b", "M", "ééé");
            let header = Header::parse(&message).unwrap();
            let _ = says_yes(|index| words[index], &SignalKeys::new(9, &header, &message[header.header_bytes..]));
        }
    }
}
