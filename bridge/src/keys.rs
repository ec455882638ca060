//! The key expressions of everything that crosses. They are readable, so that access rules and tools of Zenoh work on them, and have
//! the version of this protocol in them, so that bridges of two versions do not hear each other.
//!
//! | key | what |
//! |---|---|
//! | `cw/1/REALM/GROUP/TOPIC` | a message of a group |
//! | `cw/1/REALM/GROUP/@link/HOST` | what the bridge of a host answers: who begins, what is missing |
//! | `cw/1/REALM/GROUP/@ack/HOST`, `…/@beat/HOST` | what it has been acknowledged; how far it is |
//! | `cw/1/REALM/bus/NAME/call`, `…/signal/INTERFACE/MEMBER` | calls of a name, its signals |
//! | `cw/1/REALM/bus/NAME/@at/HOST` | liveliness: this host exports the name |
//! | `cw/1/REALM/@host/HOST` | liveliness: this host has a bridge |
//!
//! Parts that begin with `@` match no wildcard (Zenoh calls them verbatim), so who subscribes to `cw/1/REALM/**` gets messages alone.

use std::fmt::Write;

/// The version of the protocol, in each key.
pub const VERSION: u32 = 1;

/// A name as one part of a key: what is neither a letter, a digit, `-`, `_`, `.` nor `~` becomes `%` and two hexadecimal digits.
pub fn part(name: &str) -> String {
    let mut part = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            part.push(char::from(byte));
        } else {
            let _ = write!(part, "%{byte:02X}");
        }
    }
    part
}

/// The name that [`part`] made a part of a key; `None` for what it makes of no name.
pub fn name(of: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(of.len());
    let mut rest = of.as_bytes();
    while let [first, more @ ..] = rest {
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(more.get(..2)?).ok()?, 16).ok()?);
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8(bytes).ok().filter(|name| part(name) == of)
}

/// The last part of a key.
pub fn last(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// The keys of one realm.
#[derive(Clone, Debug)]
pub struct Realm(String);

impl Realm {
    /// The realm of this name.
    pub fn new(name: &str) -> Realm {
        Realm(format!("cw/{VERSION}/{}", part(name)))
    }

    /// The keys of a group in it.
    pub fn group(&self, group: &str) -> GroupKeys {
        GroupKeys(format!("{}/{}", self.0, part(group)))
    }

    /// The keys of a name of the bus in it.
    pub fn bus_name(&self, name: &str) -> NameKeys {
        NameKeys(format!("{}/bus/{}", self.0, part(name)))
    }

    /// The liveliness of all names of the bus.
    pub fn names(&self) -> String {
        format!("{}/bus/*/@at/*", self.0)
    }

    /// The liveliness of the bridge of a host.
    pub fn host(&self, host: &str) -> String {
        format!("{}/@host/{}", self.0, part(host))
    }

    /// The same of all hosts in all realms.
    pub fn all_hosts() -> String {
        format!("cw/{VERSION}/*/@host/*")
    }
}

/// The keys of one group.
#[derive(Clone, Debug)]
pub struct GroupKeys(String);

impl GroupKeys {
    /// A message of this topic.
    pub fn topic(&self, topic: u32) -> String {
        format!("{}/{topic}", self.0)
    }

    /// Messages of all topics.
    pub fn topics(&self) -> String {
        format!("{}/*", self.0)
    }

    /// What the bridge of a host is asked.
    pub fn link(&self, host: &str) -> String {
        format!("{}/@link/{}", self.0, part(host))
    }

    /// What the bridges of all hosts are asked.
    pub fn links(&self) -> String {
        format!("{}/@link/*", self.0)
    }

    /// Acknowledgements for a host.
    pub fn ack(&self, host: &str) -> String {
        format!("{}/@ack/{}", self.0, part(host))
    }

    /// How far a host is.
    pub fn beat(&self, host: &str) -> String {
        format!("{}/@beat/{}", self.0, part(host))
    }

    /// How far all hosts are.
    pub fn beats(&self) -> String {
        format!("{}/@beat/*", self.0)
    }
}

/// The keys of one name of the bus.
#[derive(Clone, Debug)]
pub struct NameKeys(String);

impl NameKeys {
    /// Calls.
    pub fn call(&self) -> String {
        format!("{}/call", self.0)
    }

    /// A signal.
    pub fn signal(&self, interface: &str, member: &str) -> String {
        format!("{}/signal/{}/{}", self.0, part(interface), part(member))
    }

    /// All signals.
    pub fn signals(&self) -> String {
        format!("{}/signal/*/*", self.0)
    }

    /// The liveliness of the name at a host.
    pub fn at(&self, host: &str) -> String {
        format!("{}/@at/{}", self.0, part(host))
    }

    /// Name and host of a liveliness of names.
    pub fn name_and_host(key: &str) -> Option<(String, String)> {
        let mut parts = key.rsplit('/');
        let (host, at, of) = (parts.next()?, parts.next()?, parts.next()?);
        (at == "@at").then_some(())?;
        Some((name(of)?, name(host)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_part_of_a_key_and_a_part_has_no_character_with_a_meaning() {
        for original in ["prices", "com.example.Clock", "a/b*c?d#e$f", "@link", "äöü", "%41", ""] {
            let key = part(original);
            assert_eq!(name(&key).as_deref(), Some(original));
            assert!(!key.contains(['/', '*', '?', '#', '$', '@']), "{key}");
        }
        for none in ["%", "%4", "%zz", "%41", "a/b", "%FF"] {
            assert_eq!(name(none), None, "{none}");
        }
    }

    #[test]
    fn keys_are_those_of_the_document_and_zenoh_takes_them() {
        let realm = Realm::new("home");
        let (group, bus) = (realm.group("my prices"), realm.bus_name("com.example.Clock"));
        let keys = [
            (group.topic(7), "cw/1/home/my%20prices/7"),
            (group.topics(), "cw/1/home/my%20prices/*"),
            (group.link("a"), "cw/1/home/my%20prices/@link/a"),
            (group.ack("a"), "cw/1/home/my%20prices/@ack/a"),
            (group.beats(), "cw/1/home/my%20prices/@beat/*"),
            (bus.call(), "cw/1/home/bus/com.example.Clock/call"),
            (
                bus.signal("com.example.Clock", "Tick"),
                "cw/1/home/bus/com.example.Clock/signal/com.example.Clock/Tick",
            ),
            (bus.at("a"), "cw/1/home/bus/com.example.Clock/@at/a"),
            (realm.host("a"), "cw/1/home/@host/a"),
        ];
        for (key, expected) in keys {
            assert_eq!(key, expected);
            assert!(zenoh::key_expr::KeyExpr::try_from(key).is_ok(), "{expected}");
        }
        assert_eq!(NameKeys::name_and_host(&bus.at("a/b")), Some(("com.example.Clock".into(), "a/b".into())));
        assert_eq!(NameKeys::name_and_host(&bus.call()), None);
    }
}
