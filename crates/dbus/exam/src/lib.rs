//! Examines from outside what a D-Bus does: the order of messages, loss, senders, match rules, names, calls, stalled
//! receivers, invalid messages, descriptors, limits.
//!
//! Each property is a small experiment with connections of its own; [`PROPERTIES`] lists them. An experiment answers with a word,
//! which must be the same in every examination of the same bus, and with evidence, in which figures may differ. A bus that
//! the caller started for the examination is also stopped for moments and put on one CPU, because two CPUs that are
//! idle find few interleavings.
//!
//! Experiments are connected by sockets, or as native members of a bus in shared memory, by the address ([`connect`]).

mod bodies;
mod calls;
mod client;
mod delivery;
mod descriptors;
mod flood;
mod limits;
mod matching;
mod messages;
mod names;
mod native;
mod order;
mod perturb;
mod property;
mod sender;
mod stall;

use std::time::Duration;

use causeway_bus::client::Error;

use client::{Client, call};

pub use native::{NOT_EXAMINED, connect};
pub use property::{Basis, Bus, MATCH_RULES, Outcome, Property, QUEUED_BYTES, QUIET, Seen};

/// All questions, in the order of a report.
pub const PROPERTIES: &[&[Property]] = &[
    order::PROPERTIES,
    delivery::PROPERTIES,
    sender::PROPERTIES,
    matching::PROPERTIES,
    names::PROPERTIES,
    calls::PROPERTIES,
    stall::PROPERTIES,
    messages::PROPERTIES,
    descriptors::PROPERTIES,
    limits::PROPERTIES,
];

/// Can a bus of others be examined? The sentence says what its policy refuses: where connections of one user may not call each other
/// (on a system bus), experiments would show the policy and not the broker.
///
/// # Errors
/// The bus does not answer, or ends a connection.
pub fn refusal(bus: &Bus<'_>) -> Result<Option<String>, Error> {
    let mut caller = Client::open(bus)?;
    let callee = Client::open(bus)?;
    let name = format!("org.weighbridge.Exam.May{}", std::process::id());
    match caller.request_name(&name, 0) {
        Ok(_) => {}
        Err(Error::Refused { name, .. }) => return Ok(Some(format!("names may not be owned ({name})"))),
        Err(other) => return Err(other),
    }
    // The callee answers nothing; what comes before the answer of the driver is the refusal of the bus.
    let serial = caller.send(&call(&callee.name(), "May"))?;
    caller.barrier()?;
    let answer = caller.reply(serial, Duration::ZERO)?;
    let error = answer.and_then(|answer| answer.header().error_name.map(str::to_owned));
    Ok(error.map(|error| format!("connections may not call each other ({error})")))
}

/// All questions.
pub fn properties() -> impl Iterator<Item = &'static Property> {
    PROPERTIES.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_has_a_word_and_a_question_of_its_own() {
        let mut ids: Vec<&str> = properties().map(|property| property.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for property in properties() {
            assert!(property.question.ends_with('?'), "{}", property.id);
            assert!(
                property.id.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase()),
                "{}",
                property.id
            );
        }
    }
}
