//! `weighbridge list`: what can be measured, and which of it this machine has.
//!
//! Answers at once: it looks at topology and limits only, never at the clock.

mod document;
mod properties;
mod text;

use weighbridge_harness::axis::Values;
use weighbridge_harness::contract::{Caps, PatternInfo, Target};
use weighbridge_harness::host::Host;

use super::look_at_host;
use crate::args::{List, TextOrJson};
use crate::{Exit, Failure, nearest, output};

/// What a capability means to somebody who chooses a mechanism.
const CAPS: &[(Caps, &str)] = &[
    (Caps::PAYLOAD, "payload"),
    (Caps::DUPLEX, "both ways"),
    (Caps::BYTE_STREAM, "byte stream"),
    (Caps::LOSSY, "may lose messages"),
    (Caps::ZERO_COPY, "zero copy"),
    (Caps::MAPS, "maps each message"),
    (Caps::HARNESS, "nothing is exchanged"),
    (Caps::VIRTUAL_TIME, "virtual time"),
];

/// What nothing but the lack of a capability says: what carries payload and is no byte stream hands out whole messages.
const BOUNDARIES: &str = "keeps message boundaries";
/// Operations: their payload is not handed to anybody.
const OPERATIONS: &[&str] = &["solo", "parallel"];

/// Lists it, or tells everything about what is named.
pub fn list(args: &List) -> Result<Exit, Failure> {
    let host = look_at_host()?;
    output::print(match args.format {
        TextOrJson::Json => output::json(&document::all(&host)),
        TextOrJson::Text if args.names.is_empty() => text::overview(&host),
        TextOrJson::Text => {
            let details: Result<Vec<String>, Failure> =
                args.names.iter().map(|name| details(name, &host)).collect();
            details?.join("\n")
        }
    })?;
    Ok(Exit::Fine)
}

fn details(name: &str, host: &Host) -> Result<String, Failure> {
    text::details(name, host).ok_or_else(|| {
        Failure::mistake(match nearest::words(name, &text::names())[..] {
            [] => format!("there is nothing called `{name}`; `weighbridge list` shows all names"),
            ref near => format!("there is nothing called `{name}`; the nearest is {}", near.join(", ")),
        })
    })
}

/// Equal keys once, in the order in which they first come, with all that have them.
fn grouped<K: PartialEq, T>(pairs: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, items)) => items.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

fn caps(target: &Target) -> Vec<&'static str> {
    let mut caps: Vec<&str> =
        CAPS.iter().filter(|(cap, _)| target.caps.has(*cap)).map(|(_, word)| *word).collect();
    let exchanges = target.patterns.iter().any(|pattern| !OPERATIONS.contains(&pattern.id));
    let has = |cap| target.caps.has(cap);
    if exchanges && has(Caps::PAYLOAD) && !has(Caps::BYTE_STREAM) && !has(Caps::HARNESS) {
        caps.insert(1, BOUNDARIES);
    }
    caps
}

fn pattern_ids(target: &Target) -> Vec<&'static str> {
    let can = |pattern: &&PatternInfo| target.caps.has(pattern.needs);
    target.patterns.iter().filter(can).map(|pattern| pattern.id).collect()
}

fn waits(target: &Target) -> Vec<&'static str> {
    target.waits.iter().map(|wait| wait.name()).collect()
}

fn takes(values: Values) -> String {
    match values {
        Values::OneOf(words) => words.join(", "),
        Values::Bytes => "bytes".into(),
        Values::Count => "a whole number from 1".into(),
        Values::CountOrMax => "a whole number from 1, or max".into(),
        Values::AtLeast(least) => format!("a whole number from {least}"),
        Values::Nices => "-20 to 19, for all roles or each (0:10)".into(),
        Values::Doses => "none, or calls-N, copies-N, wakes-N, lines-N, handoffs-N".into(),
        Values::Policies => "other, batch, idle, fifo-N, rr-N, for all roles or each (other:fifo-10)".into(),
    }
}
