//! Random match rules and signals of a few words, so that many rules match many signals. The same seed brings the same ones.

use crate::wire::{Body, Builder};

const INTERFACES: &[&str] = &["a.B", "a.B.C", "x.Y"];
const MEMBERS: &[&str] = &["M", "N", "O"];
const PATHS: &[&str] = &["/", "/a", "/a/b", "/ab", "/x/y/z"];
const TEXTS: &[&str] = &["org.a", "org.a.b", "org.ab", "/a/", "/a/b", "/", "", "it's, so"];

/// A generator of numbers from a seed that is not 0: xorshift64* (Vigna 2016, "An experimental exploration of Marsaglia's xorshift generators, scrambled").
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below a limit, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next_u64() % limit as u64).expect("below a usize")
    }

    /// One of some words.
    pub fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// A match rule, with one of `senders` or without. `interface` is that of every rule; without it some rules have one of a few.
    pub fn rule(&mut self, interface: Option<&str>, senders: &[&str]) -> String {
        let mut parts: Vec<String> =
            interface.map(|name| format!("interface='{name}'")).into_iter().collect();
        let mut maybe = |random: &mut Random, key: &str, words: &[&str]| {
            if random.below(3) == 0 {
                parts.push(format!("{key}='{}'", random.one_of(words).replace('\'', r"'\''")));
            }
        };
        maybe(self, "type", &["signal", "signal", "signal", "method_call"]);
        maybe(self, "sender", senders);
        if interface.is_none() {
            maybe(self, "interface", INTERFACES);
        }
        maybe(self, "member", MEMBERS);
        let path = self.one_of(&["path", "path_namespace"]);
        maybe(self, path, PATHS);
        match self.below(4) {
            0 => maybe(self, "arg0", TEXTS),
            1 => maybe(self, "arg0path", TEXTS),
            2 => maybe(self, "arg0namespace", &["org.a", "org", "org.a.b"]),
            _ => {}
        }
        let second = self.one_of(&["arg1", "arg1path", "arg2"]);
        maybe(self, second, &["/a/", "/a/b", "two"]);
        parts.join(",")
    }

    /// A signal of `interface`, or of one of a few, whose third argument is `number`.
    pub fn signal<'a>(&mut self, interface: Option<&'a str>, number: u32) -> Builder<'a> {
        let body = Body::default().text(self.one_of(TEXTS));
        let body = match self.below(2) {
            0 => body.object(self.one_of(&["/a", "/a/b", "/a/b/c"])),
            _ => body.text("two"),
        };
        let (path, member) = (self.one_of(PATHS), self.one_of(MEMBERS));
        let interface = interface.unwrap_or_else(|| self.one_of(INTERFACES));
        Builder::signal(path, interface, member).body(body.u32(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::MatchRule;
    use crate::wire::{Args, Header};

    #[test]
    fn a_seed_brings_the_published_sequence() {
        let mut random = Random(1);
        assert_eq!(
            [random.next_u64(), random.next_u64()],
            [5_180_492_295_206_395_165, 12_380_297_144_915_551_517]
        );
        assert_eq!([3, 1, 1000].map(|limit| Random(1).below(limit)), [1, 0, 165]);
    }

    #[test]
    fn a_seed_brings_the_same_rules_and_signals() {
        let mut random = Random(7);
        let rules: Vec<String> = (0..12).map(|_| random.rule(None, &[":1.1", "a.b"])).collect();
        assert!(rules.iter().all(|rule| rule.parse::<MatchRule>().is_ok()), "{rules:?}");
        let expected = [
            "interface='a.B'",
            "sender=':1.1',path='/x/y/z'",
            "sender=':1.1',member='M',arg0='org.a',arg2='two'",
            "sender=':1.1'",
            "type='method_call',arg0namespace='org.a.b'",
            "interface='a.B'",
            "sender='a.b',arg0='org.ab'",
            "interface='a.B.C',member='N',arg0namespace='org.a.b'",
            "sender=':1.1',arg0='org.ab'",
            "sender='a.b'",
            "type='signal',path='/x/y/z'",
            "path='/a/b'",
        ];
        assert_eq!(rules, expected);
        let of_interface: Vec<String> = (0..5).map(|_| random.rule(Some("q.R"), &[":1.1"])).collect();
        let expected = [
            "interface='q.R',member='M',arg1path='two'",
            "interface='q.R',member='N',path_namespace='/x/y/z'",
            "interface='q.R',arg0path='/a/b'",
            "interface='q.R',member='N',path_namespace='/',arg0='/a/b'",
            "interface='q.R',sender=':1.1',path='/x/y/z'",
        ];
        assert_eq!(of_interface, expected);
        let shown = |signal: Builder<'_>| {
            let bytes = signal.build(1).unwrap();
            let header = Header::parse(&bytes).unwrap();
            let args: Vec<_> =
                Args::new(&header, &bytes[header.header_bytes..]).map(Result::unwrap).collect();
            format!("{} {} {args:?}", header.title(), header.path.unwrap())
        };
        let signals = [None, None, Some("q.R"), None].map(|interface| shown(random.signal(interface, 5)));
        let expected = [
            r#"signal x.Y.N /ab [Text(""), Path("/a/b"), U32(5)]"#,
            r#"signal x.Y.O /a/b [Text(""), Path("/a"), U32(5)]"#,
            r#"signal q.R.O /a/b [Text("it's, so"), Path("/a/b"), U32(5)]"#,
            r#"signal x.Y.N /ab [Text("org.ab"), Text("two"), U32(5)]"#,
        ];
        assert_eq!(signals, expected);
    }
}
