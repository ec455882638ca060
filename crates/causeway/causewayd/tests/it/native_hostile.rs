//! Processes that break the rules at the native control socket: honest members go on, and nothing of the others stays.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use causeway_bus::shared::outbox::Outbox;
use causeway_bus::wire::{Arg, Body, Builder};
use causeway_bus::{AuthorityOptions, Connection as Member};
use causeway_os::socket;
use causeway_testkit::Rng;

use crate::support::raw::{
    OUTBOX, REFUSED, Raw, SET_DOORBELL, STAGE, WELCOME, answer, connect, handshake, join, joining, packet,
    tell,
};
use crate::support::*;

/// Descriptors of every kind, most of them such as no correct member sends.
fn palette() -> Vec<OwnedFd> {
    let memfd = |name, bytes: u64| {
        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING | rustix::fs::MemfdFlags::CLOEXEC;
        let fd = rustix::fs::memfd_create(name, flags).unwrap();
        rustix::fs::ftruncate(&fd, bytes).unwrap();
        fd
    };
    let sealed = memfd("sealed", 5_000);
    let seals = rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW | rustix::fs::SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&sealed, seals).unwrap();
    let (read, write) = std::io::pipe().unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    let full = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full.1, true).unwrap();
    while (&full.1).write(&[0; 4096]).is_ok() {}
    // A write to it waits.
    rustix::io::ioctl_fionbio(&full.1, false).unwrap();
    let file = |path| OwnedFd::from(std::fs::File::open(path).unwrap());
    let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
    vec![
        memfd("empty", 0),
        memfd("unsealed", 1 << 16),
        sealed,
        Outbox::create(1 << 12).unwrap().0,
        read.into(),
        write.into(),
        one.into(),
        other.into(),
        full.0.into(),
        full.1.into(),
        file("/dev/null"),
        file("/"),
        rustix::event::eventfd(0, flags).unwrap(),
    ]
}

/// A packet that is right, changed in some bytes, or not at all what a packet is; at times with descriptors.
fn send_something(random: &mut Rng, socket: &OwnedFd, palette: &[OwnedFd]) {
    let number = |random: &mut Rng| match random.usize(..4) {
        0 => random.usize(..16) as u64,
        1 => 6,
        2 => u64::MAX - random.usize(..3) as u64,
        _ => 1 << random.usize(..64),
    };
    let kind = [1, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20][random.usize(..13)];
    let words = [kind, number(random), number(random), number(random), number(random)];
    let text: Vec<u8> = (0..[0, 10, 984, 2_000][random.usize(..4)]).map(|_| random.u8(..)).collect();
    let mut bytes = if random.usize(..8) == 0 { joining() } else { packet(words, &text) };
    match random.usize(..4) {
        0 => bytes = (0..random.usize(..100)).map(|_| random.u8(..)).collect(),
        1 => bytes.truncate(random.usize(..bytes.len())),
        2 => {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        _ => {}
    }
    let count = [0, 0, 1, 2, socket::FDS_MAX][random.usize(..5)];
    let fds: Vec<BorrowedFd<'_>> =
        (0..count).map(|_| palette[random.usize(..palette.len())].as_fd()).collect();
    // The bus may have ended the connection, and what does not fit is not waited for.
    let _ = socket::send_with_fds(socket, &bytes, &fds);
}

#[test]
fn random_packets_and_descriptors_never_stop_the_bus_nor_its_members() {
    generators().for_each(attack_beside_members);
}

fn attack_beside_members(mut random: Rng) {
    const STAY: usize = 16;
    const ECHO: &str = "com.example.Echo";
    let mut bus = Broker::native();
    let path = bus.path();
    let (mut client, mut honest) = (bus.client(), bus.member());
    let service = echo(&path, ECHO);
    let palette = palette();
    let mut talk = |number: usize| {
        let number = number.to_string();
        let reply = honest.call(ECHO, PATH, INTERFACE, "Echo", text(&number));
        assert_eq!(reply.unwrap().text(), Some(&*number));
        sync(&mut client);
    };
    talk(0);
    let pid = bus.child.pid();
    let mut before = Held::by(pid);
    let mut staying: VecDeque<OwnedFd> = VecDeque::new();
    let done = rounds(200, |round| {
        if let Some(socket) = connect(&path) {
            if random.bool() {
                join(&socket);
            }
            for _ in 0..random.usize(..6) {
                send_something(&mut random, &socket, &palette);
            }
            if random.usize(..3) == 0 {
                staying.push_back(socket);
                staying.drain(..staying.len().saturating_sub(STAY));
            }
        }
        if round % 10 == 0 {
            talk(round);
        }
        // Once many have come and gone, as much is held as ever.
        if round == 100 {
            before = Held::by(pid);
        }
    });
    drop(staying);
    // The places of those that have gone become free as the others read on.
    let held = || {
        talk(done);
        Held::by(pid)
    };
    eventually_seen("it holds more than before", held, |now| now.is_within(before));
    assert!(bus.is_running());
    honest.call_without_reply(ECHO, PATH, INTERFACE, "Quit", Body::default()).unwrap();
    service.join().unwrap();
}

/// The kind and the text of the next packet that the bus sends; nothing at the end of the connection.
fn said(socket: &OwnedFd) -> Option<(u64, String)> {
    answer(socket).map(|answer| (answer.words[0], answer.text))
}

/// Sockets that linger come with packets of every kind, right and wrong ones, and with some that are never read.
#[test]
fn closing_descriptors_that_linger_at_the_control_socket_does_not_stop_the_bus() {
    type Attack = (&'static str, bool, fn(&OwnedFd, BorrowedFd<'_>));
    let bus = Broker::native();
    let (mut witness, listener) = (bus.member(), TcpListener::bind("127.0.0.1:0").unwrap());
    const SEND: fn(&OwnedFd, &[u8], BorrowedFd<'_>) = |socket, bytes, fd| {
        socket::send_with_fds(socket, bytes, &[fd]).unwrap();
    };
    let attacks: [Attack; 8] = [
        ("unknown", false, |to, fd| SEND(to, &packet([99, 0, 0, 0, 0], b""), fd)),
        ("short", false, |to, fd| SEND(to, b"x", fd)),
        ("long", false, |to, fd| SEND(to, &[1; 2_000], fd)),
        ("outbox", false, |to, fd| SEND(to, &joining(), fd)),
        ("unwanted", true, |to, fd| SEND(to, &packet([OUTBOX, 0, 0, 0, 0], b""), fd)),
        ("doorbell", true, |to, fd| SEND(to, &packet([SET_DOORBELL, 0, 0, 0, 0], b""), fd)),
        ("file", true, |to, fd| SEND(to, &packet([STAGE, 7, 0, 100, 0], b""), fd)),
        ("unread", false, |to, fd| {
            SEND(to, b"x", std::io::stderr().as_fd());
            SEND(to, b"x", fd);
        }),
    ];
    for (name, joins, attack) in attacks {
        println!("{name}");
        let (lingering, _peer) = lingering(&listener);
        let socket = connect(&bus.path()).unwrap();
        if joins {
            assert!(join(&socket));
            assert_eq!(said(&socket).map(|(kind, _)| kind), Some(WELCOME));
        }
        bus.stopped(|| {
            attack(&socket, lingering.as_fd());
            // This process gives both up, so that the bus is the last to hold them.
            drop((lingering, socket));
        });
        // A bus that waited for one would not answer before the patience of this member is over.
        (0..10).for_each(|_| ask_bus(&mut witness));
    }
}

#[test]
fn one_that_floods_the_socket_with_joins_does_not_keep_others_from_joining() {
    let bus = Broker::native();
    let path = bus.path();
    for _ in 0..2_000 {
        if let Some(socket) = connect(&path) {
            join(&socket);
        }
    }
    let mut member = bus.member();
    assert!(member.request_name("a.Name", 0).is_ok());
}

/// A process of a later release, and one of a release before there were formats.
#[test]
fn a_member_of_another_version_is_told_both_versions_and_what_to_do() {
    let bus = Broker::native();
    let outbox = Outbox::create(1 << 12).unwrap().0;
    let refused_by_handshake = [
        (handshake(1, [3, 4, 0, 0, 0]), "formats 3 to 4"),
        (handshake(2, [2, 2, 0, 0, 0]), "format 2"),
        (handshake(1, [1, 2, 0, 0, 8]), "features 0x8"),
        (handshake(1, [1, 2, 0, 4, 0]), "features 0x4"),
        (handshake(2, [1, 2, 0, 4, 16]), "features 0x10"),
    ];
    for (bytes, named) in refused_by_handshake {
        let socket = connect(&bus.path()).unwrap();
        socket::send_with_fds(&socket, &bytes, &[outbox.as_fd()]).unwrap();
        // The first packet is a handshake that no release misunderstands, with what the bus has.
        assert!(causeway_os::process::poll(&[socket.as_fd()], Some(PATIENCE)).unwrap()[0], "no answer");
        let mut first = [0; 128];
        let (count, _) = socket::recv_with_fds(&socket, &mut first, 0).unwrap();
        assert_eq!(first[..count], handshake(17, [1, 1, 0, 0, 0]));
        let (kind, text) = said(&socket).unwrap();
        assert_eq!(kind, REFUSED);
        for words in ["has format 1 ", named, "; install"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(answer(&socket).is_none(), "it stays connected");
    }
    let socket = connect(&bus.path()).unwrap();
    assert!(tell(&socket, [1, 6, 0, 0, 0], &[outbox.as_fd()]));
    let (kind, text) = said(&socket).unwrap();
    assert!(kind == REFUSED && text.contains("format 1") && text.contains("version 6"), "{text}");
    bus.member().request_name("a.Name", 0).unwrap();
}

#[test]
fn a_member_of_a_later_release_joins_with_features_that_nobody_has_to_know() {
    let bus = Broker::native();
    for (operation, offer) in [(1, [1, 2, 0x8000_0000, 0, 0]), (2, [1, 2, 1, 0xff, 0])] {
        let socket = connect(&bus.path()).unwrap();
        let outbox = Outbox::create(1 << 12).unwrap().0;
        // An operation from 64 on, which is not known here, is ignored.
        socket::send_with_fds(&socket, &handshake(64, offer), &[]).unwrap();
        socket::send_with_fds(&socket, &handshake(operation, offer), &[outbox.as_fd()]).unwrap();
        assert_eq!(said(&socket).map(|(kind, _)| kind), Some(WELCOME), "as {operation}");
    }
}

#[test]
fn members_are_told_how_long_they_wait_for_one_that_does_not_read() {
    let bus = Broker::native_with(&["--address", "unix:tmpdir=/tmp", "--laggard-deadline", "1234ms"]);
    let socket = connect(&bus.path()).unwrap();
    join(&socket);
    assert_eq!(said(&socket), Some((WELCOME, "1234".into())));
    bus.member().request_name("a.Name", 0).unwrap();
    // One below a millisecond is not none: members would evict each other at once.
    let brief =
        AuthorityOptions { laggard_deadline: Duration::from_micros(300), ..AuthorityOptions::default() };
    let bus = Bus::start_with(brief);
    let socket = connect(&bus.path()).unwrap();
    join(&socket);
    assert_eq!(said(&socket), Some((WELCOME, "1".into())));
}

#[test]
fn processes_that_connect_and_say_nothing_keep_nobody_out_and_are_sent_away() {
    let bus = Broker::native();
    let silent: Vec<OwnedFd> = (0..300).map(|_| connect(&bus.path()).unwrap()).collect();
    bus.member().request_name("a.Name", 0).unwrap();
    let why = "too many connections had not asked to join";
    assert_eq!(said(&silent[0]), Some((REFUSED, why.into())));
    assert!(answer(&silent[0]).is_none(), "it stays connected");
    // The last ones may still join.
    join(&silent[299]);
    assert_eq!(said(&silent[299]).map(|(kind, _)| kind), Some(WELCOME));
}

#[test]
fn a_process_that_connects_and_says_nothing_is_sent_away_in_time() {
    let folder = temp_dir("causewayd");
    let file = configuration(&folder, "<limit name='auth_timeout'>100</limit>");
    let bus = Broker::native_with(&["--config-file", &file]);
    let silent = connect(&bus.path()).unwrap();
    assert_eq!(said(&silent), Some((REFUSED, "it did not ask to join in time".into())));
    bus.member().request_name("a.Name", 0).unwrap();
}

/// A doorbell that would block its writer: a pipe that is full.
#[test]
fn a_doorbell_that_could_block_ends_the_member_that_has_it() {
    let bus = Broker::native();
    let socket = connect(&bus.path()).unwrap();
    join(&socket);
    assert!(answer(&socket).is_some());
    let (_read, write) = std::io::pipe().unwrap();
    assert!(tell(&socket, [SET_DOORBELL, 0, 0, 0, 0], &[write.as_fd()]));
    assert_eq!(said(&socket).map(|(kind, _)| kind), Some(REFUSED));
    assert!(answer(&socket).is_none(), "it stays connected");
    bus.member().request_name("a.Name", 0).unwrap();
}

/// What all who have a doorbell share says whether it blocks: its owner makes it block once it was looked at, and fills it.
#[test]
fn a_doorbell_that_is_made_to_block_later_keeps_the_bus_from_nothing() {
    let bus = Broker::native();
    let (mut client, mut witness) = (bus.client(), bus.member());
    let hostile = Raw::join(&bus.path());
    let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
    let doorbell = rustix::event::eventfd(0, flags).unwrap();
    let answer = hostile.ask([SET_DOORBELL, 0, 0, 0, 0], &[doorbell.as_fd()]).unwrap();
    assert_ne!(answer.words[0], REFUSED, "{}", answer.text);
    rustix::io::ioctl_fionbio(&doorbell, false).unwrap();
    rustix::io::write(&doorbell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    hostile.sleep_on_doorbell();
    client.send(&Builder::signal(PATH, INTERFACE, "Ring").destination(&hostile.name())).unwrap();
    // It is rung, and the bus goes on.
    sync(&mut client);
    ask_bus(&mut witness);
    eventually("it is not rung", || !hostile.is_asleep());
}

/// Members have the doorbell of the bus: they can make it block whoever reads it, and take what was rung before the bus does.
#[test]
fn the_doorbell_of_the_bus_that_is_made_to_block_keeps_it_from_nothing() {
    let bus = Broker::native();
    let (mut client, mut witness) = (bus.client(), bus.member());
    let hostile = Raw::join(&bus.path());
    rustix::io::ioctl_fionbio(&hostile.doorbell, false).unwrap();
    let has_ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(std::sync::atomic::Ordering::Relaxed) {
                rustix::io::write(&hostile.doorbell, &1u64.to_ne_bytes()).unwrap();
                let mut count = [0; 8];
                let buffers = &mut [std::io::IoSliceMut::new(&mut count)];
                let at_once = rustix::io::ReadWriteFlags::NOWAIT;
                let _ = rustix::io::preadv2(&hostile.doorbell, buffers, u64::MAX, at_once);
            }
        });
        // It is looked at once more after the other one has ended: a bus that waits would wait for that.
        let outcome = (0..3_000).try_for_each(|_| client.ask_driver("GetId", Body::default()).map(drop));
        has_ended.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome.unwrap();
    });
    ask_bus(&mut witness);
}

/// How a process becomes a member no more, while it lives and its socket is open.
#[derive(Clone, Copy, Debug)]
enum Parting {
    /// It ended what it sends, as one does that waited too long for an answer.
    GaveUp,
    /// It sent what the bus does not understand.
    Erred,
    /// It did not read, and was evicted; then it asks for something.
    Evicted,
}

/// It may be stopped before a store into its line: whoever had its slot then would lose what it has announced there.
#[test]
fn a_slot_is_not_given_away_while_a_process_lives_that_may_write_its_line() {
    for parting in [Parting::GaveUp, Parting::Erred, Parting::Evicted] {
        // One for the bus, one for the witness, one for the process.
        let options = AuthorityOptions {
            members: 3,
            order_entries: 32,
            laggard_deadline: match parting {
                Parting::Evicted => Duration::from_millis(250),
                _ => PATIENCE,
            },
            ..AuthorityOptions::default()
        };
        let bus = Bus::start_with(options);
        let mut witness = bus.member();
        witness.add_match("member='NameOwnerChanged'").unwrap();
        let socket = connect(&bus.path()).unwrap();
        join(&socket);
        assert_eq!(said(&socket).map(|(kind, _)| kind), Some(WELCOME));
        match parting {
            Parting::GaveUp => rustix::net::shutdown(&socket, rustix::net::Shutdown::Write).unwrap(),
            Parting::Erred => {
                socket::send_with_fds(&socket, b"?", &[]).unwrap();
            }
            Parting::Evicted => {
                for _ in 0..40 {
                    witness.emit("/", "a.Flood", "Flood", Body::default()).unwrap();
                }
                tell(&socket, [OUTBOX, 0, 1, 0, 0], &[]);
            }
        }
        while !matches!(signal_of(&mut witness, DRIVER).rule_args()[..], [_, _, Arg::Text("")]) {}
        // The witness has passed its end, and tells that.
        while witness.next(Some(Duration::ZERO)).unwrap().is_some() {}
        for _ in 0..20 {
            let other = connect(&bus.path()).unwrap();
            join(&other);
            let (kind, text) = said(&other).unwrap();
            assert_eq!(kind, REFUSED, "{parting:?}: the slot is given away: {text}");
        }
        drop(socket);
        eventually("the slot is not free again", || Member::open(bus.path()).is_ok());
    }
}
