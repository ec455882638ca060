//! Examines from outside what a D-Bus does: the order of messages, loss, senders, match rules, names, calls, stalled
//! receivers, invalid messages, descriptors, limits.
//!
//! Each property is a small experiment with connections of its own; [`properties`] lists them. An experiment answers with a word,
//! which must be the same in every examination of the same bus, and with evidence, in which figures may differ. A bus that
//! the caller started for the examination is also stopped for moments and put on one CPU, because two CPUs that are
//! idle find few interleavings.
//!
//! Experiments are connected by sockets, or as native members of a bus in shared memory, by the address ([`connect`]).

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod calls;
mod client;
mod delivery;
mod descriptors;
mod flood;
mod limits;
mod matching;
mod messages;
mod names;
mod order;
mod perturb;
mod property;
mod sender;
mod stall;

use causeway_bus::client::Error;

use client::{Client, call, well_known};

pub use property::{Basis, Bus, MATCH_RULES, Outcome, Property, QUEUED_BYTES, QUIET, Seen, connect};

/// By what they belong to, in the order of a report.
const PROPERTIES: &[&[Property]] = &[
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
    let [mut caller, callee] = Client::several(bus)?;
    if let Some(name) = client::refusal(caller.request_name(&well_known("May"), 0))? {
        return Ok(Some(format!("names may not be owned ({name})")));
    }
    // The callee answers nothing; what comes before the answer of the driver is the refusal of the bus.
    caller.send(&call(callee.unique_name(), "May"))?;
    let error = caller.collect_errors()?.pop();
    Ok(error.map(|error| format!("connections may not call each other ({error})")))
}

/// All questions, in the order of a report.
pub fn properties() -> impl Iterator<Item = &'static Property> {
    PROPERTIES.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_property_has_a_word_and_a_question_of_its_own() {
        let ids: HashSet<&str> = properties().map(|property| property.id).collect();
        assert_eq!(ids.len(), properties().count());
        for property in properties() {
            let is_word = property.id.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase());
            assert!(is_word && property.question.ends_with('?'), "{}", property.id);
        }
    }
}
