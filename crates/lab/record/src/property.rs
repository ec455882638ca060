//! What a way to exchange messages has beside its cost, as a choice may demand it.
//!
//! A mechanism states it once, where it is declared; a record keeps it with each case, so that a report of the record needs no list of
//! mechanisms.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Something that a choice may demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// Its ends may be processes of users that do not trust each other: none can change what another reads meanwhile, or read its memory.
    OtherUsers,
    /// The end that waits has a descriptor that poll and epoll report, and sleeps on it.
    Pollable,
    /// Of a peer that is killed the others learn by the mechanism itself, and lose nothing of their own.
    SurvivesKill,
    /// Its ends may be in containers that share no namespace; see [`Across`].
    AcrossContainers,
    /// A receive gives the message that a send was given, and not a run of bytes.
    Boundaries,
    /// Nothing is lost while all peers live.
    Lossless,
    /// No memory that one can change while another reads it is mapped by both.
    WithoutSharedMemory,
}

impl Property {
    /// All of them, in the order in which people read of them.
    pub const ALL: [Property; 7] = [
        Property::OtherUsers,
        Property::Pollable,
        Property::SurvivesKill,
        Property::AcrossContainers,
        Property::Boundaries,
        Property::Lossless,
        Property::WithoutSharedMemory,
    ];

    /// As a record and an option spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Property::OtherUsers => "other-users",
            Property::Pollable => "pollable",
            Property::SurvivesKill => "survives-kill",
            Property::AcrossContainers => "across-containers",
            Property::Boundaries => "boundaries",
            Property::Lossless => "lossless",
            Property::WithoutSharedMemory => "no-shared-memory",
        }
    }

    /// As a sentence has it.
    pub const fn in_words(self) -> &'static str {
        match self {
            Property::OtherUsers => "users that do not trust each other",
            Property::Pollable => "pollable",
            Property::SurvivesKill => "survives kill -9 of a peer",
            Property::AcrossContainers => "across containers",
            Property::Boundaries => "with message boundaries",
            Property::Lossless => "loses nothing",
            Property::WithoutSharedMemory => "without shared memory",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Serialize for Property {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What ends in two containers need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// A namespace in common (of processes, of System V and POSIX IPC, of the network), which containers do not have by default.
    #[default]
    OneNamespace,
    /// Descriptors that somebody passes, over a Unix socket or by starting both.
    PassedDescriptors,
    /// A path that is mounted in both.
    SharedPath,
    /// A network that connects them.
    Network,
}

impl Across {
    /// As a sentence has it.
    pub const fn in_words(self) -> &'static str {
        match self {
            Across::OneNamespace => "a namespace in common",
            Across::PassedDescriptors => "passed descriptors",
            Across::SharedPath => "a shared path",
            Across::Network => "a network",
        }
    }
}

/// The properties of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    has: u8,
    across: Across,
}

impl Properties {
    /// These, and between containers with that.
    pub const fn of(has: &[Property], across: Across) -> Properties {
        let mut own = Properties { has: 0, across };
        let mut rest = has;
        while let [first, others @ ..] = rest {
            own = own.with(*first, true);
            rest = others;
        }
        own
    }

    /// The same with or without one.
    pub const fn with(self, property: Property, has: bool) -> Properties {
        let bits = if has { self.has | property.bit() } else { self.has & !property.bit() };
        Properties { has: bits, ..self }
    }

    /// Is it one of them?
    pub fn has(self, property: Property) -> bool {
        match property {
            Property::AcrossContainers => self.across != Across::OneNamespace,
            property => self.has & property.bit() != 0,
        }
    }

    /// What its ends need in two containers.
    pub const fn across(self) -> Across {
        self.across
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = Property> {
        Property::ALL.into_iter().filter(move |property| self.has(*property))
    }
}

/// Its form in a record.
#[derive(Serialize, Deserialize)]
struct Written {
    has: Vec<String>,
    across: String,
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Borrowed {
            has: Vec<&'static str>,
            across: Across,
        }
        Borrowed { has: self.all().map(Property::name).collect(), across: self.across }.serialize(serializer)
    }
}

/// A property that only a newer program knows is none that this one can demand.
impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Properties, D::Error> {
        let written = Written::deserialize(deserializer)?;
        // What is said of containers is `across`.
        let is_written = |one: &Property| {
            *one != Property::AcrossContainers && written.has.iter().any(|name| name == one.name())
        };
        let known: Vec<Property> = Property::ALL.into_iter().filter(is_written).collect();
        let across = serde_json::from_value(serde_json::Value::String(written.across)).unwrap_or_default();
        Ok(Properties::of(&known, across))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_as_they_were_written_and_unknown_ones_are_left_out() {
        let own = Properties::of(&[Property::Pollable, Property::Lossless], Across::SharedPath);
        let text = serde_json::to_string(&own).unwrap();
        assert_eq!(text, r#"{"has":["pollable","across-containers","lossless"],"across":"shared-path"}"#);
        assert_eq!(serde_json::from_str::<Properties>(&text).unwrap(), own);
        let newer = r#"{"has":["pollable","in-space"],"across":"by-pigeon"}"#;
        let read: Properties = serde_json::from_str(newer).unwrap();
        assert_eq!(read, Properties::of(&[Property::Pollable], Across::OneNamespace));
        assert!(!read.has(Property::AcrossContainers) && own.has(Property::AcrossContainers));
    }
}
