//! The exam finds what a bus does wrong, and finds nothing where it does nothing wrong.

use std::time::Duration;

use causeway_testkit::watchdog::extend_limit;
use weighbridge_dbus_client::brokers::Program;
use weighbridge_dbus_exam::{Bus, Outcome, Property, properties};

use crate::link::{self, connect_with_fault};
use crate::shim::{self, Shim};
use crate::{EXAMINATION, start};

/// An examination waits most of the time, for what must not come: this many are under way at once.
const AT_ONCE: usize = 4;
/// Nothing comes for so long where a message is lost.
const QUIET: Duration = Duration::from_millis(500);
/// A fault that shows only where messages of several senders meet is looked for so often: senders must run at once for it, which a
/// loaded machine seldom lets them.
const ATTEMPTS: u32 = 60;

/// Calls `check` for each of `cases`.
fn for_each<F: Copy + Sync>(cases: &[(F, &str)], check: impl Fn(F, &str) + Sync) {
    extend_limit(EXAMINATION * cases.len() as u32);
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

/// By a bus with a fault.
fn examined(fault: shim::Fault, id: &str) -> Outcome {
    let shim = Shim::start(fault);
    property(id).examine(&Bus { quiet: QUIET, ..Bus::new(&shim.address, None) })
}

/// By connections with a fault to a bus at an address.
fn examined_over(address: &str, fault: link::Fault, id: &str) -> Outcome {
    let address = link::address(fault, address);
    property(id).examine(&Bus { quiet: QUIET, connect: connect_with_fault, ..Bus::new(&address, None) })
}

fn assert_kept(outcome: &Outcome, what: &str) {
    assert!(matches!(outcome, Outcome::Seen(_)) && !outcome.is_violation(), "{what}: {outcome:?}");
}

/// Each fault of a connection to a bus is found by its property, and without a fault none is broken.
fn assert_found(address: &str) {
    for_each(link::FOUND_BY, |fault, id| {
        let mut outcomes = (0..ATTEMPTS).map(|_| examined_over(address, fault, id));
        assert!(outcomes.any(|outcome| outcome.is_violation()), "{fault:?} {id}: kept {ATTEMPTS} times");
        assert_kept(&examined_over(address, link::Fault::None, id), id);
    });
}

#[test]
fn each_fault_of_connections_by_sockets_is_found_by_its_property() {
    assert_found(&Shim::start(shim::Fault::None).address);
}

#[test]
fn each_fault_of_native_members_is_found_by_its_property() {
    let Some(broker) = start(Program::CausewayBus) else { return };
    assert_found(broker.address());
}

#[test]
fn each_fault_of_a_bus_is_found_by_its_property() {
    for_each(shim::FOUND_BY, |fault, id| {
        let outcome = examined(fault, id);
        assert!(outcome.is_violation(), "{fault:?} {id}: {outcome:?}");
        assert_kept(&examined(shim::Fault::None, id), id);
    });
}

/// Where the orders differ between senders alone, the order of each sender is not blamed.
#[test]
fn a_fault_is_not_blamed_on_another_property() {
    let shim = Shim::start(shim::Fault::None);
    let of_links = [
        (link::Fault::ReordersBetweenSenders, "order-of-one-sender"),
        (link::Fault::Duplicates, "loss"),
        (link::Fault::Duplicates, "order-of-all"),
        (link::Fault::Drops, "duplication"),
        (link::Fault::Drops, "order-of-all"),
        (link::Fault::Drops, "order-across-stops"),
        (link::Fault::ForgesSender, "loss"),
    ];
    for_each(&of_links, |fault, id| {
        assert_kept(&examined_over(&shim.address, fault, id), &format!("{fault:?} {id}"));
    });
    for (fault, id) in
        [(shim::Fault::ForgetsMatches, "extra-matches"), (shim::Fault::IgnoresArguments, "missed-matches")]
    {
        assert_kept(&examined(fault, id), &format!("{fault:?} {id}"));
    }
}

/// What fills queues is for private buses only.
#[test]
fn a_bus_of_others_is_not_harmed() {
    for property in properties().filter(|property| property.needs_private) {
        let bus = Bus::new("unix:path=/nonexistent", None);
        assert!(matches!(property.examine(&bus), Outcome::Skipped(_)), "{}", property.id);
    }
}
