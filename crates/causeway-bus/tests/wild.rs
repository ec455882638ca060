//! A member writes what no correct member writes. The bus ends with an error that names a member; nobody crashes or hangs.
#![cfg(not(loom))]

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_bus::shared::ring::{self, Cell, Cells, Entry};
use causeway_bus::wire::Body;
use causeway_bus::{AuthorityOptions, Connection, Error};
use support::{Bus, INTERFACE, LONG, PATH};

/// Position of the next entry.
fn end(connection: &Connection) -> u64 {
    let order = connection.order_log();
    let mut end = order.load_hint();
    while let Cell::Present(_) = ring::look(&**order, end) {
        end += 1;
    }
    end
}

/// Puts an entry into the log that no member sent.
fn forge(connection: &Connection, entry: Entry) {
    let order = connection.order_log();
    let position = end(connection);
    order.entry(position).store(entry.word(ring::lap(&**order, position)), Ordering::Release);
}

#[test]
fn an_entry_that_refers_to_no_message_ends_the_bus_for_all_and_names_the_member() {
    let bus = Bus::start();
    let (accused, mut reader, mut other) = (bus.connect(), bus.connect(), bus.connect());
    let (name, destination) = (accused.unique_name().to_owned(), reader.unique_name().to_owned());
    // A call that nobody answers: its caller sleeps when the bus ends.
    let caller = std::thread::spawn(move || {
        let serial = other.start_call(&destination, PATH, INTERFACE, "Never", Body::default()).unwrap();
        let error = other.finish_call(serial, LONG).unwrap_err();
        assert!(matches!(other.emit(PATH, INTERFACE, "More", Body::default()), Err(Error::Broken { .. })));
        error
    });
    assert!(reader.next(Some(LONG)).unwrap().is_some());
    forge(&accused, Entry { sender: 1, destination: 2, place: 1000 });
    let error = reader.next(Some(LONG)).unwrap_err();
    let Error::Broken { member, .. } = &error else { panic!("{error}") };
    assert!(member.contains(&name), "{member} is not {name}");
    assert!(error.to_string().contains("the bus has ended"), "{error}");
    assert!(matches!(caller.join().unwrap(), Error::Broken { .. }));
    // The authority was woken for it, and serves a new bus.
    bus.is_new_again();
}

#[test]
fn an_entry_of_nobody_or_for_nobody_ends_the_bus() {
    for entry in [
        Entry { sender: 2000, destination: 1, place: 0 },
        Entry { sender: 1, destination: 1900, place: 1 },
        Entry { sender: 77, destination: 2, place: 1 },
    ] {
        let bus = Bus::start();
        let (_first, mut reader) = (bus.connect(), bus.connect());
        forge(&reader, entry);
        let error = reader.next(Some(LONG)).unwrap_err();
        assert!(matches!(error, Error::Broken { .. }), "{entry:?}: {error}");
        bus.is_new_again();
    }
}

/// A generator of numbers, so that a failure can be repeated.
fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    }
}

#[test]
fn random_words_anywhere_in_the_shared_memory_neither_crash_nor_hang_anybody() {
    for seed in 1..40 {
        let mut random = numbers(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let options = AuthorityOptions {
            order_entries: 64,
            members: 8,
            laggard_deadline: Duration::from_millis(20),
            ..AuthorityOptions::default()
        };
        let bus = Bus::start_with(options);
        let (mut one, mut two, wild) = (bus.connect(), bus.connect(), bus.connect());
        one.add_match(&format!("interface='{INTERFACE}'")).unwrap();
        let destination = one.unique_name().to_owned();
        let order = wild.order_log();
        for _ in 0..1 + random() % 6 {
            let value = if random().is_multiple_of(2) { random() } else { random() % 1000 };
            let slot = (random() % 8) as u16;
            match random() % 6 {
                0 => order.hint().store(value, Ordering::Relaxed),
                1 => order.limit().store(value, Ordering::Relaxed),
                2 => order.cursor(slot).store(value, Ordering::Relaxed),
                3 => order.armed(slot).store(value as u32, Ordering::Relaxed),
                4 => order.evictions().store(value, Ordering::Relaxed),
                _ => order.entry(random()).store(value, Ordering::Relaxed),
            }
        }
        // Whatever comes of it is an error or not, and it comes.
        for _ in 0..200 {
            let sent = two.emit(PATH, INTERFACE, "Go", Body::default());
            let called = two.start_call(&destination, PATH, INTERFACE, "Take", Body::default());
            if one.next(Some(Duration::from_millis(1))).is_err() || sent.is_err() || called.is_err() {
                break;
            }
        }
        // The bus may be broken by now.
        if one.order_log().broken().is_some() {
            bus.is_new_again();
        }
    }
}
