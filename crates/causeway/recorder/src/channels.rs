//! What messages are called in a file: a channel for each topic of a group, or for each kind, interface and member of a
//! bus.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use causeway_bus::wire::{Header, Kind, json};

/// Channels of one file; MCAP has 65,535. What comes after them is in the channel `/overflow`.
const CHANNELS_MAX: usize = 60_000;
/// Bytes of the records of a channel and of its schema, without names and data.
const RECORD_BYTES: usize = 100;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    Group,
    Bus,
}

/// What a message is, in words of MCAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    pub name: Cow<'static, str>,
    pub encoding: &'static str,
    pub data: Cow<'static, [u8]>,
}

/// What messages in JSON are.
pub const TWIN_SCHEMA: Schema = Schema {
    name: Cow::Borrowed("causeway.Message"),
    encoding: "jsonschema",
    data: Cow::Borrowed(
        br#"{"type":"object","properties":{"kind":{"type":"string"},"serial":{"type":"integer"},"flags":{"type":"integer"},"type":{"type":"string"},"body_bytes":{"type":"integer"},"sender":{"type":"string"},"destination":{"type":"string"},"path":{"type":"string"},"interface":{"type":"string"},"member":{"type":"string"},"error":{"type":"string"},"reply_serial":{"type":"integer"},"position":{"type":"integer"},"left_out":{"type":"string"},"data":{"type":"array"}}}"#,
    ),
};

/// How messages are called, and what is said of them.
#[derive(Clone, Debug)]
pub struct Naming {
    pub kinds: Kinds,
    /// Schemas of topics, and how their payloads are encoded.
    pub schemas: HashMap<u32, (Schema, &'static str)>,
    /// Has each message of a bus a twin in JSON?
    pub has_twins: bool,
}

impl Naming {
    /// A message in JSON, if it has a twin.
    pub fn twin(&self, position: u64, message: &[u8]) -> Option<String> {
        let header = self.has_twins.then(|| Header::parse(message).ok()).flatten()?;
        Some(json::message(&header, message, &[("position", &position)]))
    }
}

/// The channels of a message and of its twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    pub own: u16,
    pub twin: Option<u16>,
}

/// A channel that is not in the file yet.
pub struct NewChannel<'a> {
    pub key: Key,
    pub topic: String,
    pub schema: Option<&'a Schema>,
    pub encoding: &'static str,
    pub metadata: BTreeMap<String, String>,
    /// What its twin is called.
    pub twin: Option<String>,
}

impl NewChannel<'_> {
    /// Bytes of its records, at most.
    pub fn bytes(&self) -> u64 {
        let of = |schema: &Schema| schema.name.len() + schema.data.len();
        let twin = self.twin.as_ref().map_or(0, |twin| RECORD_BYTES + 2 * twin.len() + of(&TWIN_SCHEMA));
        (RECORD_BYTES + self.topic.len() + self.schema.map_or(0, of) + twin) as u64
    }
}

/// Which channel it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Topic(u32),
    Named(String),
    Overflow,
}

/// The channels that are in a file.
#[derive(Default)]
pub struct Channels {
    ids: HashMap<Key, Ids>,
    /// The topic before, which is mostly that of the next message.
    last: Option<(u32, Ids)>,
    /// The name that is looked up, in memory that stays.
    name: String,
}

impl Channels {
    /// How many there are, with those of the recorder itself.
    pub fn count(&self) -> usize {
        self.ids.values().map(|ids| 1 + usize::from(ids.twin.is_some())).sum::<usize>() + 2
    }

    /// The channel of a message, or what it is to be.
    pub fn of<'a>(&mut self, naming: &'a Naming, topic: u32, payload: &[u8]) -> Result<Ids, NewChannel<'a>> {
        match naming.kinds {
            Kinds::Group => self.of_topic(naming, topic),
            Kinds::Bus => self.of_message(naming, payload),
        }
    }

    fn of_topic<'a>(&mut self, naming: &'a Naming, topic: u32) -> Result<Ids, NewChannel<'a>> {
        if let Some((_, ids)) = self.last.filter(|(last, _)| *last == topic) {
            return Ok(ids);
        }
        if let Some(ids) = self.ids.get(&Key::Topic(topic)) {
            self.last = Some((topic, *ids));
            return Ok(*ids);
        }
        let (schema, encoding) =
            naming.schemas.get(&topic).map_or((None, ""), |(schema, encoding)| (Some(schema), *encoding));
        let metadata = [("topic".to_owned(), topic.to_string())].into();
        let (key, topic) = (Key::Topic(topic), format!("/topic/{topic}"));
        self.or_overflow(NewChannel { key, topic, schema, encoding, metadata, twin: None })
    }

    fn of_message<'a>(&mut self, naming: &Naming, message: &[u8]) -> Result<Ids, NewChannel<'a>> {
        self.name.clear();
        name_of(message, &mut self.name);
        let key = Key::Named(std::mem::take(&mut self.name));
        let found = self.ids.get(&key).copied();
        let Key::Named(name) = &key else { unreachable!("it was made here") };
        self.name.clone_from(name);
        if let Some(ids) = found {
            return Ok(ids);
        }
        let (topic, metadata) = (self.name.clone(), BTreeMap::new());
        let twin = naming.has_twins.then(|| format!("/json{topic}"));
        self.or_overflow(NewChannel { key, topic, schema: None, encoding: "dbus", metadata, twin })
    }

    fn or_overflow<'a>(&self, new: NewChannel<'a>) -> Result<Ids, NewChannel<'a>> {
        // A twin takes a channel, too.
        let most = if new.twin.is_some() { CHANNELS_MAX / 2 } else { CHANNELS_MAX };
        if self.ids.len() < most {
            return Err(new);
        }
        let overflow = NewChannel {
            key: Key::Overflow,
            topic: "/overflow".into(),
            schema: None,
            metadata: BTreeMap::new(),
            twin: new.twin.as_ref().map(|_| "/json/overflow".into()),
            ..new
        };
        self.ids.get(&Key::Overflow).copied().ok_or(overflow)
    }

    pub fn add(&mut self, key: Key, ids: Ids) {
        if let Key::Topic(topic) = key {
            self.last = Some((topic, ids));
        }
        self.ids.insert(key, ids);
    }
}

/// The channel of a D-Bus message: its kind, interface and member, or the name of the error.
fn name_of(message: &[u8], name: &mut String) {
    let Ok(header) = Header::parse(message) else { return name.push_str("/unreadable") };
    let parts = match header.kind {
        Kind::MethodCall => ["call", header.interface.unwrap_or("-"), header.member.unwrap_or("-")],
        Kind::Signal => ["signal", header.interface.unwrap_or("-"), header.member.unwrap_or("-")],
        Kind::MethodReturn => ["return", "", ""],
        Kind::Error => ["error", header.error_name.unwrap_or("-"), ""],
        Kind::Other(_) => ["other", "", ""],
    };
    for part in parts.iter().filter(|part| !part.is_empty()) {
        name.push('/');
        name.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MCAP has 65,535 channels; a publisher may use more topics.
    #[test]
    fn topics_beyond_the_channels_of_a_file_share_one() {
        let (mut channels, naming) =
            (Channels::default(), Naming { kinds: Kinds::Group, schemas: HashMap::new(), has_twins: false });
        for topic in 0..CHANNELS_MAX as u32 + 10 {
            match channels.of(&naming, topic, &[]) {
                Err(new) => {
                    let own = channels.ids.len() as u16 + 3;
                    channels.add(new.key, Ids { own, twin: None });
                }
                Ok(ids) => {
                    assert!(topic > CHANNELS_MAX as u32, "topic {topic} has channel {}", ids.own);
                    assert_eq!(Some(&ids), channels.ids.get(&Key::Overflow));
                }
            }
        }
        assert_eq!(channels.ids.len(), CHANNELS_MAX + 1);
        assert_ne!(channels.of(&naming, 3, &[]).ok(), channels.ids.get(&Key::Overflow).copied());
    }
}
