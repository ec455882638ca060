//! Wake filters: which signals a sleeping member is woken for. A filter may say yes to a signal that no rule matches, never no
//! to one that a rule matches; the member matches exactly when it reads.
//!
//! Up to [`EXACT_RULES`] rules are kept as hashes of their conditions. Of further ones, the most selective condition goes into a
//! set of [`HASHED_BITS`] bits; a rule without such a condition makes the filter say yes to everything.

use weighbridge_dbus::rule::{ArgMatch, MatchRule, PathMatch};
use weighbridge_dbus::wire::{Arg, Args, Header, Kind, names};

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
const ALL: u64 = 1 << 32;
/// No member has this number: a rule for a name without owner.
const NO_MEMBER: u64 = u64::MAX;

/// FNV-1a, 32 bits.
#[must_use]
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
    #[must_use]
    pub fn new(sender: u64, header: &Header<'a>, body: &'a [u8]) -> SignalTexts<'a> {
        let arg0 = match Args::new(header, body).next() {
            Some(Ok(Arg::Text(text) | Arg::Path(text))) => Some(text),
            _ => None,
        };
        let (interface, member) = (header.interface.unwrap_or(""), header.member.unwrap_or(""));
        SignalTexts { sender, member, path: header.path.unwrap_or(""), interface, arg0 }
    }
}

/// What filters look at in a signal, with hashes.
#[derive(Clone, Copy, Debug)]
pub struct SignalKeys<'a> {
    texts: SignalTexts<'a>,
    hashes: [u32; 4],
}

impl<'a> SignalKeys<'a> {
    /// The keys of a message.
    #[must_use]
    pub fn new(sender: u64, header: &Header<'a>, body: &'a [u8]) -> SignalKeys<'a> {
        SignalKeys::of(SignalTexts::new(sender, header, body))
    }

    /// The keys of these texts.
    #[must_use]
    pub fn of(texts: SignalTexts<'a>) -> SignalKeys<'a> {
        let SignalTexts { interface, member, path, arg0, .. } = texts;
        let hashes = [hash(interface), hash(member), hash(path), arg0.map_or(0, hash)];
        SignalKeys { texts, hashes }
    }

    /// Low halves of the hashes, for the header of the message.
    #[must_use]
    pub fn short_hashes(&self) -> [u16; 4] {
        let texts = &self.texts;
        let is_there = [texts.interface, texts.member, texts.path, texts.arg0.unwrap_or("")];
        std::array::from_fn(|index| if is_there[index].is_empty() { 0 } else { self.hashes[index] as u16 })
    }

    /// The conditions of rules that this signal can satisfy, as the set for further rules has them.
    fn set_keys(&self) -> [u32; 5] {
        let [interface, member, path, arg0] = self.hashes;
        [
            key(INTERFACE, interface),
            key(MEMBER, member),
            key(PATH, path),
            key(ARG0, arg0),
            key(SENDER, self.texts.sender as u32),
        ]
    }
}

/// Where a condition is in the set.
fn key(kind: u8, hash: u32) -> u32 {
    (hash ^ u32::from(kind).wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b) >> 21
}

const _: () = assert!(HASHED_BITS == 1 << (32 - 21));

/// A filter, as words of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter([u64; FILTER_WORDS]);

impl Default for Filter {
    fn default() -> Filter {
        Filter([0; FILTER_WORDS])
    }
}

impl Filter {
    /// A filter that says yes to every signal.
    #[must_use]
    pub fn all() -> Filter {
        let mut filter = Filter::default();
        filter.0[0] = ALL;
        filter
    }

    /// The filter for rules. `owner` finds the number of the connection that has a name.
    pub fn new<'a>(
        rules: impl IntoIterator<Item = &'a MatchRule>,
        owner: impl Fn(&str) -> Option<u64>,
    ) -> Filter {
        let mut filter = Filter::default();
        let for_signals = |rule: &&MatchRule| rule.kind.is_none_or(|kind| kind == Kind::Signal);
        for (index, rule) in rules.into_iter().filter(for_signals).enumerate() {
            let sender = rule
                .sender
                .as_deref()
                .map(|name| unique_number(name).or_else(|| owner(name)).unwrap_or(NO_MEMBER));
            if index < EXACT_RULES {
                let at = 1 + index * RULE_WORDS;
                filter.0[at..at + RULE_WORDS].copy_from_slice(&rule_words(rule, sender));
                filter.0[0] += 1;
            } else {
                filter.add_hashed(rule, sender);
            }
        }
        filter
    }

    fn add_hashed(&mut self, rule: &MatchRule, sender: Option<u64>) {
        let path = match &rule.path {
            Some(PathMatch::Exact(path)) => Some(key(PATH, hash(path))),
            _ => None,
        };
        let best = (rule.arg0().map(|text| key(ARG0, hash(text))))
            .or(rule.member.as_deref().map(|member| key(MEMBER, hash(member))))
            .or(path)
            .or(rule.interface.as_deref().map(|interface| key(INTERFACE, hash(interface))))
            .or(sender.map(|sender| key(SENDER, sender as u32)));
        match best {
            Some(bit) => self.0[1 + EXACT_RULES * RULE_WORDS + bit as usize / 64] |= 1 << (bit % 64),
            None => self.0[0] |= ALL,
        }
        self.0[0] |= HASHED;
    }

    /// The words, for the directory.
    #[must_use]
    pub fn words(&self) -> &[u64; FILTER_WORDS] {
        &self.0
    }

    /// Does it say no to everything?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

/// In the first word: the set is not empty.
const HASHED: u64 = 1 << 33;

/// The number in a unique name of this bus.
#[must_use]
pub fn unique_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(":1.")?;
    let number: u64 = digits.parse().ok()?;
    // As it is written on the bus: without a sign, or zeros before it.
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    is_plain.then_some(number)
}

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
    first & ALL != 0
        || (0..exact).any(|index| {
            let at = 1 + index * RULE_WORDS;
            rule_says_yes(std::array::from_fn(|part| word(at + part)), keys)
        })
        || first & HASHED != 0
            && keys.set_keys().into_iter().any(|bit| {
                let word = word(1 + EXACT_RULES * RULE_WORDS + bit as usize / 64);
                word & 1 << (bit % 64) != 0
            })
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
    use proptest::prelude::*;
    use weighbridge_dbus::wire::{Body, Builder};

    fn signal(path: &str, interface: &str, member: &str, arg0: &str) -> Vec<u8> {
        Builder::signal(path, interface, member)
            .sender(":1.7")
            .body(Body::default().text(arg0))
            .build(1)
            .unwrap()
    }

    fn decide(filter: &Filter, message: &[u8]) -> bool {
        let header = Header::parse(message).unwrap();
        let keys = SignalKeys::new(7, &header, &message[header.header_bytes..]);
        says_yes(|index| filter.words()[index], &keys)
    }

    #[test]
    fn a_signal_that_no_rule_wants_wakes_nobody() {
        let rule: MatchRule =
            "type='signal',interface='a.b',member='M',path_namespace='/x',arg0='one'".parse().unwrap();
        let filter = Filter::new([&rule], |_| None);
        assert!(decide(&filter, &signal("/x/y", "a.b", "M", "one")));
        for (path, interface, member, arg0) in [
            ("/xy", "a.b", "M", "one"),
            ("/x", "a.c", "M", "one"),
            ("/x", "a.b", "N", "one"),
            ("/x", "a.b", "M", "two"),
        ] {
            assert!(
                !decide(&filter, &signal(path, interface, member, arg0)),
                "{path} {interface} {member} {arg0}"
            );
        }
        assert!(Filter::new([&"type='method_call'".parse().unwrap()], |_| None).is_empty());
    }

    #[test]
    fn a_name_without_owner_matches_no_sender_until_it_has_one() {
        let rule: MatchRule = "sender='com.example'".parse().unwrap();
        let message = signal("/", "a.b", "M", "");
        assert!(!decide(&Filter::new([&rule], |_| None), &message));
        assert!(decide(&Filter::new([&rule], |_| Some(7)), &message));
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
        prop::collection::vec(rule, 0..40)
    }

    struct Owns;
    impl weighbridge_dbus::rule::Owners for Owns {
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
            let filter = Filter::new(&rules, |name| (name == "com.example").then_some(7));
            prop_assert!(!matches || decide(&filter, &message));
            if rules.len() <= EXACT_RULES && !rules.iter().any(|rule| rule.args.first().is_some_and(|(index, _)| *index > 0)) {
                prop_assert_eq!(matches, decide(&filter, &message));
            }
        }

        #[test]
        fn any_words_are_a_filter(words in prop::collection::vec(any::<u64>(), FILTER_WORDS)) {
            let message = signal("/é".trim_end_matches('é'), "a.b", "M", "ééé");
            let header = Header::parse(&message).unwrap();
            let _ = says_yes(|index| words[index], &SignalKeys::new(7, &header, &message[header.header_bytes..]));
        }
    }
}
