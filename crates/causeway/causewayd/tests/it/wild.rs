//! A member writes what no correct member writes. The bus ends with an error that names a member; nobody crashes or hangs.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_bus::shared::body;
use causeway_bus::shared::header::{BODY_IN_FILE, BusHeader};
use causeway_bus::shared::ring::{Cells, Entry};
use causeway_bus::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};
use causeway_bus::{AuthorityOptions, Connection, Error, Incoming, Monitor, Observed, name};
use causeway_testkit::Rng;

use crate::support::raw::{self, Raw};
use crate::support::*;

/// An entry of the first member that the bus itself must read, and which refers to no message.
const FOR_THE_BUS: Entry = Entry { sender: 1, destination: 0, place: 1000 };

#[test]
fn an_entry_that_refers_to_no_message_ends_the_bus_for_all_and_names_the_member() {
    let bus = Bus::start();
    let (accused, mut reader, mut other) = (bus.member(), bus.member(), bus.member());
    let (name, destination) = (accused.unique_name().to_owned(), reader.unique_name().to_owned());
    // A call that nobody answers: its caller sleeps when the bus ends.
    let caller = std::thread::spawn(move || {
        let serial = other.start_call(&destination, PATH, INTERFACE, "Never", Body::default()).unwrap();
        let error = other.finish_call(serial, PATIENCE).unwrap_err();
        assert!(matches!(other.emit(PATH, INTERFACE, "More", Body::default()), Err(Error::Broken { .. })));
        error
    });
    assert!(reader.next(Some(PATIENCE)).unwrap().is_some());
    forge(&accused, Entry { sender: 1, destination: 2, place: 1000 });
    let error = reader.next(Some(PATIENCE)).unwrap_err();
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
        let (_first, mut reader) = (bus.member(), bus.member());
        forge(&reader, entry);
        let error = reader.next(Some(PATIENCE)).unwrap_err();
        assert!(matches!(error, Error::Broken { .. }), "{entry:?}: {error}");
        bus.is_new_again();
    }
}

#[test]
fn random_words_anywhere_in_the_shared_memory_neither_crash_nor_hang_anybody() {
    for seed in 1..40 {
        let mut random = Rng::with_seed(seed);
        let options = AuthorityOptions {
            order_entries: 64,
            members: 8,
            laggard_deadline: Duration::from_millis(20),
            ..AuthorityOptions::default()
        };
        let bus = Bus::start_with(options);
        let (mut one, mut two, wild) = (bus.member(), bus.member(), bus.member());
        one.add_match(RULE).unwrap();
        let destination = one.unique_name().to_owned();
        let order = wild.order_log();
        for _ in 0..random.u32(1..7) {
            let value = if random.bool() { random.u64(..) } else { random.u64(..1000) };
            let slot = random.u16(..8);
            match random.u32(..6) {
                0 => order.hint().store(value, Ordering::Relaxed),
                1 => order.limit().store(value, Ordering::Relaxed),
                2 => order.cursor(slot).store(value, Ordering::Relaxed),
                3 => order.armed(slot).store(value as u32, Ordering::Relaxed),
                4 => order.evictions().store(value, Ordering::Relaxed),
                _ => order.entry(random.u64(..)).store(value, Ordering::Relaxed),
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

/// What a member writes for itself, no other member reads: a monitor does not take its word for who has sent it.
#[test]
fn a_monitor_shows_no_sender_that_a_member_has_forged() {
    let bus = Bus::start();
    let (mut monitor, mut honest) = (Monitor::open(bus.path()).unwrap(), bus.member());
    let mut raw = Raw::join(&bus.path());
    let own = raw.name();
    for (sender, id) in [("org.freedesktop.DBus", 1), (honest.unique_name(), number_of(honest.unique_name()))]
    {
        let forged = Builder::signal(PATH, INTERFACE, "Forged").sender(sender).destination(&own);
        let forged = forged.build(7).unwrap();
        let header = raw.header(raw.id, &forged);
        raw.send(BusHeader { sender: id, ..header }, Some(raw.slot), &forged);
    }
    honest.emit(PATH, INTERFACE, "Last", Body::default()).unwrap();
    let mut lost = 0;
    loop {
        match monitor.next(Some(PATIENCE)).unwrap() {
            Some(Observed::Message(message)) if message.header().member == Some("Last") => break,
            Some(Observed::Message(message)) => assert_ne!(message.header().member, Some("Forged")),
            Some(Observed::Lost { messages }) => lost += messages,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(lost, 2);
}

/// A call from a member that writes by hand.
fn call_of(raw: &Raw, to: &str, flags: u8, serial: u32) -> Vec<u8> {
    let call = Builder::call(PATH, "Take").interface(INTERFACE).destination(to).flags(flags);
    call.sender(&raw.name()).build(serial).unwrap()
}

fn wild_signal(raw: &Raw, serial: u32, body: Body) -> Vec<u8> {
    Builder::signal(PATH, INTERFACE, "Wild").sender(&raw.name()).body(body).build(serial).unwrap()
}

/// Takes what is there until the connection has counted so many incomplete messages.
fn until_incomplete(connection: &mut Connection, count: u64) {
    eventually("an incomplete message is not counted", || {
        while let Some(incoming) = connection.next(Some(Duration::ZERO)).unwrap() {
            let member =
                if let Incoming::Signal(message) = &incoming { message.header().member } else { None };
            assert_ne!(member, Some("Wild"));
        }
        connection.statistics().incomplete == count
    });
}

#[test]
fn a_token_that_never_comes_drops_its_message_and_ends_its_call() {
    let bus = Bus::start();
    let mut good = bus.member();
    good.add_match(RULE).unwrap();
    let mut wild = Raw::join(&bus.path());
    let (slot, to) = (1, good.unique_name().to_owned());
    // A call, one without reply, a signal.
    for (serial, flags) in [(1, 0), (2, FLAG_NO_REPLY_EXPECTED)] {
        let call = call_of(&wild, &to, flags, serial);
        wild.send(BusHeader { token: 77, ..wild.header(number_of(&to), &call) }, Some(slot), &call);
    }
    let message = wild_signal(&wild, 3, Body::default());
    wild.send(BusHeader { token: u32::MAX, ..wild.header(0, &message) }, None, &message);
    until_incomplete(&mut good, 3);
    // A reply.
    let serial = good.start_call(&wild.name(), PATH, INTERFACE, "Ask", Body::default()).unwrap();
    let reply = Builder::reply(serial).sender(&wild.name()).destination(&to).build(4).unwrap();
    wild.send(BusHeader { token: 78, ..wild.header(number_of(&to), &reply) }, Some(slot), &reply);
    let error = good.finish_call(serial, PATIENCE).unwrap_err();
    assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "{error}");
    // Descriptors that a message names without a token, and a token without descriptors: such messages are dropped.
    let named = Builder::signal(PATH, INTERFACE, "Wild").sender(&wild.name()).unix_fds(2).build(5).unwrap();
    wild.send(wild.header(0, &named), None, &named);
    let fd = file("wild");
    assert_eq!(wild.ask([raw::STAGE, 5, 0, 0, 0], &[fd.as_fd()]).unwrap().words[0], raw::NONE);
    wild.send(BusHeader { token: 5, ..wild.header(0, &named) }, None, &named);
    until_incomplete(&mut good, 5);
    let mut other = bus.member();
    other.emit(PATH, INTERFACE, "Good", Body::default()).unwrap();
    assert_eq!(signal(&mut good).header().member, Some("Good"));
}

#[test]
fn a_header_that_cannot_be_ends_the_bus_and_names_its_member() {
    type Change = fn(BusHeader) -> BusHeader;
    let changes: [(&str, Change); 4] = [
        ("an unknown form", |right| BusHeader { form: 2, ..right }),
        ("a file without a token", |right| BusHeader { form: BODY_IN_FILE, ..right }),
        ("more than 128 MiB", |right| {
            let message_bytes = right.message_bytes + (1 << 28);
            BusHeader { form: BODY_IN_FILE, token: 3, message_bytes, ..right }
        }),
        ("a header longer than the message", |right| {
            let message_bytes = right.body_offset - 1;
            BusHeader { form: BODY_IN_FILE, token: 3, message_bytes, ..right }
        }),
    ];
    for (what, change) in changes {
        let bus = Bus::start();
        let mut reader = bus.member();
        let to = reader.unique_name().to_owned();
        let mut wild = Raw::join(&bus.path());
        let call = call_of(&wild, &to, 0, 1);
        wild.send(change(wild.header(number_of(&to), &call)), Some(1), &call);
        let error = error_of(&mut reader);
        let Error::Broken { member, .. } = &error else { panic!("{what}: {error}") };
        assert!(member.contains(&wild.name()), "{what}: {member}");
        bus.is_new_again();
    }
}

#[test]
fn a_file_that_is_not_what_its_message_says_is_refused_or_dropped() {
    own_process!();
    let bus = Bus::start();
    let mut good = bus.member();
    good.add_match(RULE).unwrap();
    let before = open_texts(std::process::id());
    let bytes = 100_000;
    let unsealed = file(&"x".repeat(bytes));
    let (sealed, pipe) = (body::write(&vec![1; bytes]).unwrap(), rustix::pipe::pipe().unwrap().0);
    // The authority looks at seals and length, and ends the connection of a member that breaks the rules.
    for (fd, bytes) in [(&unsealed, bytes), (&sealed, bytes + 1), (&pipe, bytes), (&sealed, 1 << 28)] {
        let wild = Raw::join(&bus.path());
        let answer = wild.ask([raw::STAGE, 1, 0, bytes as u64, 0], &[fd.as_fd()]).unwrap();
        assert_eq!(answer.words[0], raw::REFUSED);
        assert!(wild.ask([raw::TAKE, 1, 1, 0, 0], &[]).is_none(), "the connection goes on");
    }
    drop(unsealed);
    // The receiver looks at the rest.
    let mut wild = Raw::join(&bus.path());
    let message = wild_signal(&wild, 1, Body::default().blob(&vec![0; bytes]));
    let header = BusHeader { form: BODY_IN_FILE, ..wild.header(0, &message) };
    let inline = crate::support::header(&message).header_bytes;
    let wrong = [vec![1; message.len()], message[..message.len() - 1].to_vec()];
    for (token, file) in (1..).zip(wrong.into_iter().chain([message.clone()])) {
        let fd = body::write(&file).unwrap();
        let answer = wild.ask([raw::STAGE, token, 0, file.len() as u64, 0], &[fd.as_fd()]).unwrap();
        assert_eq!(answer.words[0], raw::NONE);
        wild.send(BusHeader { token: token as u32, ..header }, None, &message[..inline]);
        if file == message {
            assert_eq!(signal(&mut good).bytes(), message);
        } else {
            until_incomplete(&mut good, token);
        }
    }
    assert_eq!((good.statistics().incomplete, open_texts(std::process::id())), (2, before));
}

#[test]
fn only_those_a_staged_transfer_is_for_can_take_it_and_a_dead_sender_leaves_none() {
    own_process!();
    let bus = Bus::start();
    let mut good = bus.member();
    let (sender, receiver, other) = (Raw::join(&bus.path()), Raw::join(&bus.path()), Raw::join(&bus.path()));
    let stage = |token: u64, to: u64| {
        let fd = file("held");
        sender.ask([raw::STAGE, token, to, 0, 0], &[fd.as_fd()]).unwrap().words[0]
    };
    assert_eq!(stage(1, receiver.id), raw::NONE);
    assert_eq!(stage(2, receiver.id + 1000), raw::REFUSED, "nobody has this number");
    let take = |who: &Raw, token: u64| who.ask([raw::TAKE, sender.id, token, 0, 0], &[]).unwrap();
    for (who, token) in [(&other, 1), (&sender, 1), (&receiver, 2), (&receiver, 1 << 31)] {
        let answer = take(who, token);
        assert_eq!((answer.words[0], answer.fds.len()), (raw::NONE, 0));
    }
    let answer = take(&receiver, 1);
    assert_eq!((answer.words[0], answer.fds.len()), (raw::DESCRIPTOR, 1));
    assert_eq!(take(&receiver, 1).words[0], raw::NONE, "taken twice");
    drop(answer);
    // For one and for all; the messages never come. The authority closes what it has passed on or refused after its answer.
    assert_eq!((stage(3, receiver.id), stage(4, 0)), (raw::NONE, raw::NONE));
    eventually("other descriptors than the two staged ones stay", || open_texts(std::process::id()) == 2);
    drop((sender, receiver, other));
    eventually("staged transfers without a message stay", || {
        good.next(Some(Duration::ZERO)).unwrap();
        open_texts(std::process::id()) == 0
    });
}

/// A message for the bus itself that names descriptors under no token.
#[test]
fn a_member_that_announces_descriptors_and_has_none_is_evicted() {
    let bus = Bus::start();
    let (mut raw, mut watcher) = (Raw::join(&bus.path()), bus.member());
    let rule = format!("member='NameOwnerChanged',arg0='{}'", raw.name());
    watcher.add_match(&rule).unwrap();
    let name = raw.name();
    let call = driver_call("GetId").sender(&name).unix_fds(1).build(1).unwrap();
    raw.send(raw.header(causeway_bus::AUTHORITY_ID, &call), Some(0), &call);
    assert_eq!(signal(&mut watcher).text(), Some(name.as_str()));
}

/// Its folder has gone for a while.
#[test]
fn a_bus_that_cannot_serve_members_again_tries_until_it_can() {
    let bus = Bus::start();
    let (accused, mut client) = (bus.member(), bus.client());
    let folder = bus.path().parent().unwrap().to_owned();
    let elsewhere = folder.with_extension("elsewhere");
    std::fs::rename(&folder, &elsewhere).unwrap();
    forge(&accused, FOR_THE_BUS);
    // The bus has found out, and has tried in the same turn.
    eventually("the bus has not ended", || {
        sync(&mut client);
        accused.order_log().broken().is_some()
    });
    let name = accused.unique_name().to_owned();
    eventually("its member stays", || client.name_owner(&name).unwrap().is_none());
    assert!(Connection::open(bus.path()).is_err(), "members can join where there is no folder");
    drop(accused);
    std::fs::rename(&elsewhere, &folder).unwrap();
    bus.is_new_again();
}

/// A socket that lingers, in a packet that was not received when the bus ended: it is not the bus that waits for its closing.
#[test]
fn what_nobody_has_received_when_the_bus_ends_keeps_nobody_waiting() {
    let bus = Broker::native();
    let (accused, mut client) = (bus.member(), bus.client());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (lingering, _peer) = lingering(&listener);
    let hostile = Raw::join(&bus.path());
    bus.stopped(|| {
        // One packet of each is received before the log is read.
        assert!(raw::tell(&hostile.socket, [raw::OUTBOX, 0, 0, 0, 0], &[]));
        assert!(raw::tell(&hostile.socket, [raw::OUTBOX, 0, 0, 0, 0], &[lingering.as_fd()]));
        drop(lingering);
        forge(&accused, FOR_THE_BUS);
    });
    eventually("the bus has not ended", || {
        sync(&mut client);
        accused.order_log().broken().is_some()
    });
    (0..10).for_each(|_| sync(&mut client));
    eventually("a new bus comes up", || Connection::open(bus.path()).is_ok());
}
