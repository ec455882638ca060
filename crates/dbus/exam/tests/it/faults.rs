//! The exam finds what a bus does wrong, and finds nothing where it does nothing wrong.

use std::time::Duration;

use crate::shim::{Fault, Shim};
use weighbridge_dbus_exam::{Bus, Outcome, Property, properties};

/// A fault, and the property that finds it.
const FOUND_BY: &[(Fault, &str)] = &[
    (Fault::Reorders, "order-of-one-sender"),
    (Fault::ReordersBetweenSenders, "order-of-all"),
    (Fault::ReordersForMonitors, "order-at-a-monitor"),
    (Fault::HoldsCauses, "order-of-causes"),
    (Fault::ReplyOvertakes, "signal-before-reply"),
    (Fault::HoldsOwnerChanges, "name-before-signal"),
    (Fault::HoldsLastWords, "last-words"),
    (Fault::Drops, "loss"),
    (Fault::Duplicates, "duplication"),
    (Fault::Damages, "content"),
    (Fault::Delays, "promptness"),
    (Fault::ShowsDirected, "directed-signal"),
    (Fault::ForgesSender, "true-sender"),
    (Fault::TrustsSender, "forged-sender"),
    (Fault::TrustsSender, "forged-driver"),
    (Fault::PassesReplies, "forged-reply"),
    (Fault::ForgetsMatches, "missed-matches"),
    (Fault::IgnoresArguments, "extra-matches"),
    (Fault::RepeatsForEachRule, "overlapping-rules"),
    (Fault::CollapsesRules, "duplicate-rules"),
    (Fault::AcceptsAnyRemoval, "unknown-rule"),
    (Fault::FreezesNames, "rule-follows-name"),
    (Fault::ReusesUniqueNames, "unique-names"),
    (Fault::LosesReplies, "pipelined-calls"),
    (Fault::SkipsHello, "before-hello"),
    (Fault::PassesInvalid, "invalid-headers"),
    (Fault::PassesInvalid, "invalid-bodies"),
];

/// An examination waits most of the time, for what must not come: this many are under way at once.
const AT_ONCE: usize = 4;

/// Calls `check` for each of `cases`.
fn for_each(cases: &[(Fault, &str)], check: impl Fn(Fault, &str) + Sync) {
    std::thread::scope(|scope| {
        for part in cases.chunks(cases.len().div_ceil(AT_ONCE)) {
            let check = &check;
            scope.spawn(move || part.iter().for_each(|(fault, id)| check(*fault, id)));
        }
    });
}

fn property(id: &str) -> &'static Property {
    properties().find(|property| property.id == id).unwrap()
}

fn examined(fault: Fault, id: &str) -> Outcome {
    let shim = Shim::start(fault);
    property(id).examine(&Bus { quiet: Duration::from_millis(500), ..Bus::new(&shim.address, None) })
}

#[test]
fn each_fault_is_found_by_its_property() {
    for_each(FOUND_BY, |fault, id| {
        let outcome = examined(fault, id);
        assert!(outcome.is_violation(), "{fault:?} {id}: {outcome:?}");
    });
}

#[test]
fn a_bus_without_fault_breaks_none_of_these() {
    for_each(FOUND_BY, |_, id| {
        let outcome = examined(Fault::None, id);
        assert!(matches!(outcome, Outcome::Seen(_)) && !outcome.is_violation(), "{id}: {outcome:?}");
    });
}

/// Where the orders differ between senders alone, the order of each sender is not blamed.
#[test]
fn a_fault_is_not_blamed_on_another_property() {
    let cases = [
        (Fault::ReordersBetweenSenders, "order-of-one-sender"),
        (Fault::Duplicates, "loss"),
        (Fault::Duplicates, "order-of-all"),
        (Fault::Drops, "duplication"),
        (Fault::Drops, "order-of-all"),
        (Fault::ForgesSender, "loss"),
        (Fault::ForgetsMatches, "extra-matches"),
        (Fault::IgnoresArguments, "missed-matches"),
    ];
    for_each(&cases, |fault, id| {
        let outcome = examined(fault, id);
        assert!(
            matches!(outcome, Outcome::Seen(_)) && !outcome.is_violation(),
            "{fault:?} {id}: {outcome:?}"
        );
    });
}

/// What fills queues is for private buses only.
#[test]
fn a_bus_of_others_is_not_harmed() {
    for property in properties().filter(|property| property.needs_private) {
        let bus = Bus::new("unix:path=/nonexistent", None);
        assert!(matches!(property.examine(&bus), Outcome::Skipped(_)), "{}", property.id);
    }
}
