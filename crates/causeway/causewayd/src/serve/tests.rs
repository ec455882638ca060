//! Single steps of the loop.

use std::collections::BTreeSet;
use std::io::{Read as _, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use causeway_dbus_wire::wire::{Args, Body, Builder};

use super::*;
use crate::alone::session;
use crate::bus::DirectoryUpdate;
use crate::member::Carrier;
use crate::quota::Resource;

/// A client whose first bytes are these, after its authentication and Hello, which was answered.
fn client(server: &mut Server, bytes: &[u8], fds: &[std::os::fd::BorrowedFd<'_>]) -> (MemberId, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    server.now = Instant::now();
    server.admit(ours.into());
    let id = server.clients.table.keys().copied().max_by_key(|id| id.0).unwrap();
    let (_, mut all) = causeway_dbus_wire::sasl::Client::new(rustix::process::geteuid().as_raw());
    all.extend(b"NEGOTIATE_UNIX_FD\r\nBEGIN\r\n");
    all.extend(Builder::of_driver("Hello").build(1).unwrap());
    all.extend(bytes);
    match fds {
        [] => (&theirs).write_all(&all).unwrap(),
        fds => causeway_os::socket::send_with_fds(&theirs, &all, fds).unwrap(),
    }
    let number = server.bus.next_member();
    server.clients.note(id, EventFlags::IN);
    server.serve();
    (number, theirs)
}

#[test]
fn descriptors_of_a_half_message_behind_whole_ones_are_charged() {
    const FDS: usize = 60;
    let mut server = session().unwrap();
    let whole = |serial| Builder::signal("/", "a.B", "C").build(serial).unwrap();
    let mut bytes: Vec<u8> = (2..).take(2 * MESSAGES_MAX).flat_map(whole).collect();
    let half = Builder::signal("/", "a.B", "C").unix_fds(FDS as u32).build(1000).unwrap();
    bytes.extend(&half[..20]);
    let file = std::fs::File::open("/dev/null").unwrap();
    let (id, _theirs) = client(&mut server, &bytes, &[file.as_fd(); FDS]);
    server.serve();
    let client = &server.clients.table[&id];
    assert!(client.is_ready && client.connection.has_message(), "all of it was taken in one turn");
    assert_eq!(client.charged, FDS as u64);
}

/// Its backlog may be long.
#[test]
fn a_client_whose_socket_takes_more_is_queued_once_and_keeps_no_other_unread() {
    let mut server = session().unwrap();
    let (slow, _slow) = client(&mut server, &[], &[]);
    let (other, _other) = client(&mut server, &[], &[]);
    server.serve();
    server.flush();
    let text = vec![7; 1 << 20];
    let long = Builder::signal("/", "a.B", "C").body(Body::default().blob(&text));
    let bytes = long.build(2).unwrap();
    let message =
        std::rc::Rc::new(crate::message::Message::new(bytes, crate::descriptors::Descriptors::default()));
    let connection = &mut server.clients.get_mut(slow).unwrap().connection;
    connection.push(message, Instant::now());
    for _ in 0..3 {
        server.clients.note(slow, EventFlags::OUT);
    }
    assert_eq!((server.clients.writable.len(), server.clients.dirty.len()), (1, 0));
    // More than one slice takes: what is left over stops nobody from being read.
    server.clients.writable.extend(std::iter::repeat_n(slow, 1_000_000));
    server.flush();
    assert!(!server.clients.writable.is_empty(), "a slice did not end");
    assert!(!server.is_behind);
    server.clients.note(other, EventFlags::IN);
    server.serve();
    assert!(server.clients.ready.is_empty() && server.clients.table[&slow].connection.has_output());
    // Of what was never offered all is, before a client is read.
    server.clients.dirty.extend(std::iter::repeat_n(other, 1_000_000));
    server.flush();
    assert!(server.is_behind);
    server.clients.note(other, EventFlags::IN);
    server.serve();
    assert!(!server.clients.ready.is_empty());
}

/// So many are freed by a test, and so few of them may wait for the next allocations; other tests free some meanwhile.
const FREED: usize = 9_000;
const FEW: u64 = 1_000;

#[test]
#[cfg(target_env = "gnu")]
fn what_a_server_frees_is_merged_at_once() {
    let _server = session().unwrap();
    let mut pieces: Vec<Box<[u64; 6]>> = (0..FREED as u64).map(|number| Box::new([number; 6])).collect();
    let freed = causeway_testkit::heap::freed(|| pieces.clear());
    assert!(freed.apart < FEW, "{freed:?}");
}

/// One that reads after a long time has the bus free as much as it had missed, and allocate nothing.
#[test]
#[cfg(target_env = "gnu")]
fn what_a_client_has_read_at_last_is_sorted_where_it_is_freed() {
    let mut server = session().unwrap();
    let (id, mut theirs) = client(&mut server, &[], &[]);
    server.flush();
    let text = vec![7; 2_000];
    let signal = Builder::signal("/", "a.B", "C").body(Body::default().blob(&text));
    let message = || {
        let bytes = signal.build(2).unwrap();
        std::rc::Rc::new(crate::message::Message::new(bytes, crate::descriptors::Descriptors::default()))
    };
    let connection = &mut server.clients.get_mut(id).unwrap().connection;
    // What stays stands between those that go.
    let _others: Vec<_> = (0..FREED)
        .map(|_| {
            connection.push(message(), Instant::now());
            message()
        })
        .collect();
    let mut buffer = [0; 1 << 16];
    let freed = causeway_testkit::heap::freed(|| {
        while connection.has_output() {
            connection.flush().unwrap();
            let _ = theirs.read(&mut buffer).unwrap();
        }
    });
    assert!(freed.unsorted < FEW, "{freed:?}");
}

/// Otherwise a new log has it twice, or has what members that join there must not see.
#[test]
fn what_waits_for_a_log_that_has_ended_is_forgotten() {
    let mut server = session().unwrap();
    let (id, _theirs) = client(&mut server, &[], &[]);
    let bus = &mut server.bus;
    bus.serve_natively(std::path::Path::new("/nowhere"));
    bus.set_read_natively(true);
    slow_down(&mut server, id);
    let bus = &mut server.bus;
    for name in ["a.b", "a.c"] {
        bus.publish_unique(name, None, Some(id));
        bus.update_directory(DirectoryUpdate::Arrived(id));
    }
    let is_of_log = |action: &&Action| matches!(action, Action::UpdateDirectory(_) | Action::Append { .. });
    let before = bus.take_actions(Vec::new());
    assert!(before.iter().any(|action| is_of_log(&action)) && bus.is_passing());
    bus.end_natively();
    assert!(bus.is_passing(), "clients get the rest");
    while bus.is_passing() {
        bus.begin_turn();
        bus.go_on();
    }
    let after = bus.take_actions(Vec::new());
    assert_eq!(after.iter().filter(is_of_log).count(), 0);
}

/// Adds rules under one condition, so that each message of the driver is compared with them over several turns.
fn slow_down(server: &mut Server, id: MemberId) {
    for number in 0..30_000 {
        server.bus.matches.add(id, format!("arg1='{number}'").parse().unwrap());
    }
}

/// Turns of the loop until the bus has nothing left to be done.
fn work_off(server: &mut Server) {
    while server.bus.has_work() {
        server.bus.begin_turn();
        server.go_on();
        server.flush();
    }
}

/// What it is not charged for cannot be given back once it is written.
#[test]
fn one_that_is_being_disconnected_gets_no_copies_while_its_turn_to_go_has_not_come() {
    let mut server = session().unwrap();
    let (reader, _reader) = client(&mut server, &[], &[]);
    slow_down(&mut server, reader);
    let bus = &mut server.bus;
    bus.matches.add(reader, "sender='org.freedesktop.DBus'".parse().unwrap());
    // It holds nothing; others of its user hold all.
    while let Some(id) = bus.admit(bus.members[&reader].identity.clone(), Carrier::Socket)
        && bus.charge(id, Resource::Bytes, bus.config.limits.per_member.bytes).is_ok()
    {}
    server.flush();
    assert_eq!(server.bus.quota.held(reader, Resource::Bytes), 0);
    for name in ["a.b", "a.c", "a.d"] {
        server.bus.publish_unique(name, None, None);
    }
    assert!(server.bus.is_passing());
    work_off(&mut server);
    assert_eq!(server.bus.counters.stalled, 1);
    assert!(!server.bus.members.contains_key(&reader) && !server.clients.table.contains_key(&reader));
}

/// Whatever its end has reached by then: its names, or the calls to it.
#[test]
fn one_that_goes_while_it_is_made_a_monitor_is_ended_once() {
    for (names, calls) in [(640, 0), (672, 0), (0, 3_000)] {
        let mut server = session().unwrap();
        let (leaving, _leaving) = client(&mut server, &[], &[]);
        let call =
            |serial| Builder::call("/", "M").destination(&leaving.unique_name()).build(serial).unwrap();
        let (watcher, watching) = client(&mut server, &[], &[]);
        for serial in (2..).take(calls) {
            (&watching).write_all(&call(serial)).unwrap();
            server.clients.note(watcher, EventFlags::IN);
            server.serve();
        }
        let bus = &mut server.bus;
        bus.serve_natively(std::path::Path::new("/nowhere"));
        bus.matches.add(watcher, "member='NameOwnerChanged'".parse().unwrap());
        let mut untold = BTreeSet::from([leaving.unique_name().to_string()]);
        for name in (0..names).map(|number| format!("a.b{number}")) {
            bus.charge(leaving, Resource::Names, 1).unwrap();
            bus.names.request(&name, leaving, 0);
            untold.insert(name);
        }
        bus.take_actions(Vec::new());
        bus.begin_turn();
        bus.make_monitor(leaving);
        bus.settle();
        assert!(bus.has_work(), "its end was one turn");
        bus.leave(leaving);
        while bus.has_work() {
            bus.begin_turn();
            bus.go_on();
            bus.settle();
        }
        let mut gone = 0;
        for action in bus.take_actions(Vec::new()) {
            match action {
                Action::Deliver(to, message) if message.header().member == Some("NameOwnerChanged") => {
                    assert_eq!(to, watcher);
                    let name = Args::of(message.bytes()).texts().next().unwrap();
                    assert!(untold.remove(name), "{name} is told twice");
                }
                Action::UpdateDirectory(DirectoryUpdate::Gone(id)) if id == leaving => gone += 1,
                _ => {}
            }
        }
        assert_eq!((untold, gone), (BTreeSet::new(), 1));
        assert!(!bus.members.contains_key(&leaving) && bus.monitor_count == 0);
        assert_eq!(bus.quota.held_by_all(Resource::Names), 1);
        assert_eq!(bus.quota.held_by_all(Resource::Calls), 0);
    }
}

#[test]
fn a_client_is_in_the_lobby_before_hello_and_while_its_message_comes_in_pieces() {
    let mut server = session().unwrap();
    let (id, theirs) = client(&mut server, &[], &[]);
    let is_in_lobby = |server: &Server| Rc::ptr_eq(&server.clients.table[&id].set, &server.lobby.set);
    assert!(!is_in_lobby(&server));
    let message = Builder::signal("/", "a.B", "C").build(2).unwrap();
    let pieces: Vec<&[u8]> = message.chunks(8).collect();
    for (count, piece) in (1..).zip(&pieces) {
        (&theirs).write_all(piece).unwrap();
        server.clients.note(id, EventFlags::IN);
        server.serve();
        let expected = count >= PIECES && (count as usize) < pieces.len();
        assert_eq!(is_in_lobby(&server), expected, "behind {count} of {} pieces", pieces.len());
    }
    assert_eq!(server.bus.counters.accepted, 2);
}

#[test]
fn while_the_lobby_is_closed_those_in_it_wake_nobody() {
    let mut server = session().unwrap();
    let wakes = |server: &Server| {
        let mut events = Vec::with_capacity(EVENTS);
        epoll::wait(&server.epoll, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::default()))
            .unwrap();
        events.iter().map(Token::of).collect::<Vec<_>>()
    };
    let (ours, theirs) = UnixStream::pair().unwrap();
    server.now = Instant::now();
    server.admit(ours.into());
    (&theirs).write_all(b"\0").unwrap();
    assert_eq!(wakes(&server), [Token::Lobby]);
    server.serve_lobby();
    assert_eq!((wakes(&server), server.clients.ready.len()), (vec![Token::Lobby], 1));
    server.bus.counters.accepted += 1_000_000;
    server.serve_lobby();
    assert!(!wakes(&server).contains(&Token::Lobby));
    let is_over = causeway_os::process::poll(&[server.lobby.timer.as_fd()], Some(Duration::from_secs(60)));
    assert_eq!(is_over.unwrap(), [true], "the pause does not end");
    assert_eq!(wakes(&server), [Token::LobbyOpens]);
    server.open_lobby();
    assert_eq!(wakes(&server), [Token::Lobby]);
}
