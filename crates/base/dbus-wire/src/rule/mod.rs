//! Match rules: which broadcasts a connection wants.
//!
//! Source: D-Bus Specification, section "Match Rules".

mod parse;
mod subsume;

pub use parse::{Part, RULE_BYTES_MAX, parts};

use std::fmt;

use crate::wire::names::{is_below_name, is_below_path};
use crate::wire::{Arg, Header, Kind};

/// Greatest index of an argument that a rule can name.
pub const ARG_MAX: u8 = 63;

/// All conditions of one rule, all of which must hold. Two rules are equal when a bus takes them for the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatchRule {
    /// `type`
    pub kind: Option<Kind>,
    /// `sender`: a unique name, or a name that the sender owns when it sends.
    pub sender: Option<String>,
    /// `interface`
    pub interface: Option<String>,
    /// `member`
    pub member: Option<String>,
    /// `path` or `path_namespace`
    pub path: Option<PathMatch>,
    /// `destination`: a unique name, or a name that the destination owns.
    pub destination: Option<String>,
    /// `argN`, `argNpath`, `arg0namespace`, by rising index.
    pub args: Vec<(u8, ArgMatch)>,
    /// `eavesdrop='true'`: also messages that are for others.
    pub eavesdrop: bool,
}

/// A condition on the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathMatch {
    /// This object.
    Exact(String),
    /// This object and all below it.
    Namespace(String),
}

/// A condition on one argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ArgMatch {
    /// `argN`: a string that is equal.
    Text(String),
    /// `argNpath`: a string or object path that is equal; or where one of the two ends in a slash and the other starts with it.
    Path(String),
    /// `arg0namespace`: a string that is this name or below it.
    Namespace(String),
}

/// Who owns which name, at the moment a message passes.
pub trait Owners {
    /// Is `connection`, a unique name, the owner of `name`?
    fn owns(&self, connection: &str, name: &str) -> bool;
}

/// Nobody owns any well-known name.
impl Owners for () {
    fn owns(&self, _: &str, _: &str) -> bool {
        false
    }
}

impl MatchRule {
    /// Does a message satisfy all conditions? Whom it is for is the bus's matter, and that of `eavesdrop`.
    pub fn matches(&self, header: &Header<'_>, args: &[Arg<'_>], owners: &dyn Owners) -> bool {
        self.matches_header(header, owners)
            && self
                .args
                .iter()
                .all(|(index, arg)| args.get(usize::from(*index)).is_some_and(|is| arg.matches(*is)))
    }

    /// Does the header of a message satisfy all conditions but those on its arguments?
    pub fn matches_header(&self, header: &Header<'_>, owners: &dyn Owners) -> bool {
        let same = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
        let names = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| {
                is.is_some_and(|connection| connection == wanted || owners.owns(connection, wanted))
            })
        };
        self.kind.is_none_or(|kind| kind == header.kind)
            && same(&self.member, header.member)
            && same(&self.interface, header.interface)
            && self.path.as_ref().is_none_or(|path| header.path.is_some_and(|is| path.matches(is)))
            && names(&self.sender, header.sender)
            && names(&self.destination, header.destination)
    }

    /// The equal-string condition on the first argument, if there is one.
    pub fn arg0(&self) -> Option<&str> {
        match self.args.first() {
            Some((0, ArgMatch::Text(text))) => Some(text),
            _ => None,
        }
    }

    /// Has it no condition that tells one signal from another?
    pub fn matches_every_signal(&self) -> bool {
        let bare = MatchRule { kind: self.kind, eavesdrop: self.eavesdrop, ..MatchRule::default() };
        *self == bare && self.kind.is_none_or(|kind| kind == Kind::Signal)
    }
}

impl PathMatch {
    fn matches(&self, path: &str) -> bool {
        match self {
            PathMatch::Exact(wanted) => path == wanted,
            PathMatch::Namespace(wanted) => is_below_path(path, wanted),
        }
    }
}

impl ArgMatch {
    /// Does an argument satisfy it?
    pub fn matches(&self, arg: Arg<'_>) -> bool {
        match (self, arg) {
            (ArgMatch::Text(wanted), Arg::Text(is)) => is == wanted,
            (ArgMatch::Path(wanted), Arg::Text(is) | Arg::Path(is)) => {
                is == wanted
                    || wanted.ends_with('/') && is.starts_with(wanted.as_str())
                    || is.ends_with('/') && wanted.starts_with(is)
            }
            (ArgMatch::Namespace(wanted), Arg::Text(is)) => is_below_name(is, wanted),
            _ => false,
        }
    }
}

/// The rule as text, in one spelling for equal rules.
impl fmt::Display for MatchRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |key, text: &'_ Option<String>| text.as_deref().map(|text| (key, text.to_owned()));
        let path = self.path.as_ref().map(|path| match path {
            PathMatch::Exact(path) => ("path", path.clone()),
            PathMatch::Namespace(path) => ("path_namespace", path.clone()),
        });
        let fields = [
            self.eavesdrop.then(|| ("eavesdrop", "true".to_owned())),
            self.kind.map(|kind| ("type", kind.word().to_owned())),
            text("sender", &self.sender),
            text("interface", &self.interface),
            text("member", &self.member),
            path,
            text("destination", &self.destination),
        ];
        let fields = fields.into_iter().flatten().map(|(key, value)| (key.to_owned(), value));
        let args = self.args.iter().map(|(index, arg)| match arg {
            ArgMatch::Text(text) => (format!("arg{index}"), text.clone()),
            ArgMatch::Path(path) => (format!("arg{index}path"), path.clone()),
            ArgMatch::Namespace(name) => ("arg0namespace".to_owned(), name.clone()),
        });
        fields.chain(args).enumerate().try_for_each(|(index, (key, value))| {
            let comma = if index > 0 { "," } else { "" };
            // An apostrophe cannot stand inside a quoted part; outside, a backslash lets it.
            write!(f, "{comma}{key}='{}'", value.replace('\'', r"'\''"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Args, Body, Builder};

    /// Conditions, of which a message satisfies the first, and not the second.
    pub(super) const CONDITIONS: [[&str; 2]; 9] = [
        ["type='signal'", "type='method_call'"],
        ["sender='org.owned'", "sender='org.other'"],
        ["interface='a.B'", "interface='a.C'"],
        ["member='M'", "member='N'"],
        ["path='/a/b'", "path='/a'"],
        ["destination=':1.2'", "destination=':1.1'"],
        ["arg0namespace='org.a'", "arg0namespace='org.b'"],
        ["arg1path='/p/'", "arg1path='/q/'"],
        ["arg2='x'", "arg2='y'"],
    ];

    pub(super) fn rule(text: &str) -> MatchRule {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    /// All conditions, of which the message satisfies all but one.
    pub(super) fn all_but(missed: Option<usize>) -> MatchRule {
        let chosen = CONDITIONS.iter().enumerate();
        let chosen =
            chosen.map(|(index, [satisfied, other])| if Some(index) == missed { *other } else { satisfied });
        rule(&chosen.collect::<Vec<_>>().join(","))
    }

    struct OneOwns;

    impl Owners for OneOwns {
        fn owns(&self, connection: &str, name: &str) -> bool {
            (connection, name) == (":1.1", "org.owned")
        }
    }

    fn matches(rule: &MatchRule) -> bool {
        let body = Body::default().text("org.a.b").object("/p/q").text("x").u32(7);
        let signal = Builder::signal("/a/b", "a.B", "M").sender(":1.1").destination(":1.2").body(body);
        let bytes = signal.build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let args: Vec<Arg<'_>> =
            Args::new(&header, &bytes[header.header_bytes..]).map(Result::unwrap).collect();
        rule.matches(&header, &args, &OneOwns)
    }

    #[test]
    fn a_message_satisfies_all_conditions_or_does_not_match() {
        assert!(matches(&all_but(None)));
        for index in 0..CONDITIONS.len() {
            assert!(!matches(&all_but(Some(index))), "{}", all_but(Some(index)));
        }
        for text in ["", "sender=':1.1'", "path_namespace='/a'", "eavesdrop='true'"] {
            assert!(matches(&rule(text)), "{text}");
        }
        for text in ["sender=':1.2'", "path_namespace='/b'", "arg3='7'", "arg4=''"] {
            assert!(!matches(&rule(text)), "{text}");
        }
    }

    #[test]
    fn an_argument_matches_by_its_type_and_slashes() {
        let [text, path] = [ArgMatch::Text, ArgMatch::Path].map(|of| move |wanted: &str| of(wanted.into()));
        let namespace = |wanted: &str| ArgMatch::Namespace(wanted.into());
        for (wanted, arg, is_match) in [
            (text("/a"), Arg::Text("/a"), true),
            (text("/a"), Arg::Text("/b"), false),
            (text("/a"), Arg::Path("/a"), false),
            (path("/a/b"), Arg::Text("/a/b"), true),
            (path("/a/b"), Arg::Path("/a/b"), true),
            (path("/a/"), Arg::Path("/a/b"), true),
            (path("/a/"), Arg::Path("/a"), false),
            (path("/a"), Arg::Path("/a/b"), false),
            (path("/a/b"), Arg::Text("/a/"), true),
            (path("/a/b"), Arg::Text("/a"), false),
            (path("/b/"), Arg::Text("/a/"), false),
            (path("/"), Arg::U32(0), false),
            (namespace("a.b"), Arg::Text("a.b.c"), true),
            (namespace("a.b"), Arg::Text("a.bc"), false),
            (namespace("a"), Arg::Other("as"), false),
        ] {
            assert_eq!(wanted.matches(arg), is_match, "{wanted:?} {arg:?}");
        }
    }

    #[test]
    fn a_rule_knows_its_first_text_and_whether_it_matches_every_signal() {
        for (text, arg0) in [
            ("arg0='x'", Some("x")),
            ("arg0='x',arg1='y'", Some("x")),
            ("arg1='x'", None),
            ("arg0path='/'", None),
        ] {
            assert_eq!(rule(text).arg0(), arg0, "{text}");
        }
        for (text, every) in [
            ("", true),
            ("type='signal'", true),
            ("eavesdrop='true'", true),
            ("type='error'", false),
            ("member='M'", false),
            ("type='signal',arg0='x'", false),
        ] {
            assert_eq!(rule(text).matches_every_signal(), every, "{text}");
        }
    }
}
