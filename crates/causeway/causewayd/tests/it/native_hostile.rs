//! Processes that break the rules at the native control socket: honest members go on, and nothing of the others stays.

use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_testkit::{Rng, temp_dir};

use crate::support::random::{generators, rounds};
use causeway_bus::shared::ABI;
use causeway_bus::shared::outbox::Outbox;
use causeway_bus::wire::{Arg, Body};
use causeway_bus::{AuthorityOptions, Connection as Member, Incoming};
use causeway_os::socket;
use causewayd::config::Config;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::support::*;

/// Kinds of packets, as the document numbers them.
const JOIN: u64 = 1;
const OUTBOX: u64 = 2;
const SET_DOORBELL: u64 = 4;
const WELCOME: u64 = 16;
const REFUSED: u64 = 19;

/// A connection to the control socket; nothing if the bus does not take it now.
fn connect(path: &Path) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok()?;
    Some(socket)
}

fn packet(words: [u64; 5], text: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.extend(text);
    bytes
}

/// The next packet that the bus sends; nothing at the end of the connection.
fn answer(socket: &OwnedFd) -> Option<(u64, String)> {
    assert!(causeway_os::process::poll(&[socket.as_fd()], Some(PATIENCE)).unwrap()[0], "no answer");
    let mut bytes = [0; 1024];
    let (count, _fds) = socket::recv_with_fds(socket, &mut bytes, socket::MAX_FDS).ok()?;
    let kind = bytes[..count].first_chunk().map(|word| u64::from_ne_bytes(*word))?;
    Some((kind, String::from_utf8_lossy(&bytes[40..count.max(40)]).into_owned()))
}

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
        1 => u64::from(ABI),
        2 => u64::MAX - random.usize(..3) as u64,
        _ => 1 << random.usize(..64),
    };
    let kind = [1, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20][random.usize(..13)];
    let words = [kind, number(random), number(random), number(random), number(random)];
    let text: Vec<u8> = (0..[0, 10, 984, 2_000][random.usize(..4)]).map(|_| random.u8(..)).collect();
    let mut bytes = packet(words, &text);
    match random.usize(..4) {
        0 => bytes = (0..random.usize(..100)).map(|_| random.u8(..)).collect(),
        1 => bytes.truncate(random.usize(..bytes.len())),
        2 => {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        _ => {}
    }
    let count = [0, 0, 1, 2, socket::MAX_FDS][random.usize(..5)];
    let fds: Vec<BorrowedFd<'_>> =
        (0..count).map(|_| palette[random.usize(..palette.len())].as_fd()).collect();
    // The bus may have ended the connection, and what does not fit is not waited for.
    let _ = socket::send_with_fds(socket, &bytes, &fds);
}

/// Joins with an outbox that is right, and never reads.
fn join(socket: &OwnedFd) {
    let (outbox, _) = Outbox::create(1 << 12).unwrap();
    let _ = socket::send_with_fds(socket, &packet([JOIN, u64::from(ABI), 0, 0, 0], &[]), &[outbox.as_fd()]);
}

/// A member that answers calls with their text until it is told to stop.
fn echo(path: &Path, stop: &AtomicBool) {
    let mut member = Member::open(path).unwrap();
    member.request_name("a.Echo", 0).unwrap();
    // Relaxed: nothing else depends on it.
    while !stop.load(Ordering::Relaxed) {
        if let Some(Incoming::Call(call)) = member.next(Some(Duration::from_millis(50))).unwrap() {
            let body = Body::default().text(call.text().unwrap());
            member.reply(&call, body).unwrap();
        }
    }
}

/// Ends the other member also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        // Relaxed: nothing else depends on it.
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn random_packets_and_descriptors_never_stop_the_bus_nor_its_members() {
    generators().for_each(attack_beside_members);
}

fn attack_beside_members(mut random: Rng) {
    const STAY: usize = 16;
    let mut bus = NativeBus::start();
    let path = bus.path();
    let mut client = bus.client();
    let stop = AtomicBool::new(false);
    let palette = palette();
    let maps = |bus: &NativeBus| {
        std::fs::read_to_string(format!("/proc/{}/maps", bus.broker.child.pid())).unwrap().lines().count()
    };
    let (mut descriptors, mut mappings) = (0, 0);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| echo(&path, &stop));
        let mut honest = bus.member();
        let mut talk = |number: usize| {
            let text = number.to_string();
            let reply = honest.call("a.Echo", "/", "a.Echo", "Say", Body::default().text(&text));
            assert_eq!(reply.unwrap().text(), Some(&*text));
            client.ask_driver("GetId", causeway_dbus_wire::wire::Body::default()).unwrap();
        };
        eventually_seen(
            "the other member does not come",
            || bus.member().name_owner("a.Echo").is_some(),
            |is| *is,
        );
        talk(0);
        let mut staying: VecDeque<OwnedFd> = VecDeque::new();
        let done = rounds(200, |round| {
            if let Some(socket) = connect(&path) {
                if random.usize(..2) == 0 {
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
                (descriptors, mappings) = (bus.broker.descriptors(), maps(&bus));
            }
        });
        println!("{done} rounds");
        drop(staying);
        // The places of those that have gone become free as the others read on.
        let held = || {
            talk(done);
            (bus.broker.descriptors(), maps(&bus))
        };
        eventually_seen("it holds more than before", held, |now| now.0 <= descriptors && now.1 <= mappings);
    });
    assert!(bus.broker.is_running());
}

#[test]
fn one_that_floods_the_socket_with_joins_does_not_keep_others_from_joining() {
    let bus = NativeBus::start();
    let path = bus.path();
    for _ in 0..2_000 {
        if let Some(socket) = connect(&path) {
            join(&socket);
        }
    }
    let mut member = bus.member();
    assert!(member.request_name("a.Name", 0).is_ok());
}

#[test]
fn a_member_of_another_version_is_told_both_versions() {
    let bus = NativeBus::start();
    let socket = connect(&bus.path()).unwrap();
    let (outbox, _) = Outbox::create(1 << 12).unwrap();
    let other = u64::from(ABI) + 1;
    socket::send_with_fds(&socket, &packet([JOIN, other, 0, 0, 0], &[]), &[outbox.as_fd()]).unwrap();
    let (kind, text) = answer(&socket).unwrap();
    assert_eq!(kind, REFUSED);
    assert!(text.contains(&format!("version {ABI}")) && text.contains(&format!("version {other}")), "{text}");
    assert!(answer(&socket).is_none(), "it stays connected");
    bus.member().request_name("a.Name", 0).unwrap();
}

#[test]
fn members_are_told_how_long_they_wait_for_one_that_does_not_read() {
    let bus = NativeBus::with(&["--address", "unix:tmpdir=/tmp", "--laggard-deadline", "1234"]);
    let socket = connect(&bus.path()).unwrap();
    join(&socket);
    assert_eq!(answer(&socket), Some((WELCOME, "1234".into())));
    bus.member().request_name("a.Name", 0).unwrap();
}

#[test]
fn processes_that_connect_and_say_nothing_keep_nobody_out_and_are_sent_away() {
    let bus = NativeBus::start();
    let silent: Vec<OwnedFd> = (0..300).map(|_| connect(&bus.path()).unwrap()).collect();
    bus.member().request_name("a.Name", 0).unwrap();
    let why = "too many connections had not asked to join";
    assert_eq!(answer(&silent[0]), Some((REFUSED, why.into())));
    assert!(answer(&silent[0]).is_none(), "it stays connected");
    // The last ones may still join.
    join(&silent[299]);
    assert_eq!(answer(&silent[299]).map(|(kind, _)| kind), Some(WELCOME));
}

#[test]
fn a_process_that_connects_and_says_nothing_is_sent_away_in_time() {
    let folder = temp_dir("causewayd");
    let file = configuration(&folder, "<limit name='auth_timeout'>100</limit>");
    let bus = NativeBus::with(&["--config-file", file.to_str().unwrap()]);
    let silent = connect(&bus.path()).unwrap();
    assert_eq!(answer(&silent), Some((REFUSED, "it did not ask to join in time".into())));
    bus.member().request_name("a.Name", 0).unwrap();
}

/// A doorbell that would block its writer: a pipe that is full.
#[test]
fn a_doorbell_that_could_block_ends_the_member_that_has_it() {
    let bus = NativeBus::start();
    let socket = connect(&bus.path()).unwrap();
    join(&socket);
    assert!(answer(&socket).is_some());
    let (_read, write) = std::io::pipe().unwrap();
    socket::send_with_fds(&socket, &packet([SET_DOORBELL, 0, 0, 0, 0], &[]), &[write.as_fd()]).unwrap();
    assert_eq!(answer(&socket).map(|(kind, _)| kind), Some(REFUSED));
    assert!(answer(&socket).is_none(), "it stays connected");
    bus.member().request_name("a.Name", 0).unwrap();
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
        let bus = Bus::with_clients(Config::session, options);
        let mut witness = bus.member();
        witness.add_match("member='NameOwnerChanged'").unwrap();
        let socket = connect(&bus.path()).unwrap();
        join(&socket);
        assert_eq!(answer(&socket).map(|(kind, _)| kind), Some(WELCOME));
        match parting {
            Parting::GaveUp => rustix::net::shutdown(&socket, rustix::net::Shutdown::Write).unwrap(),
            Parting::Erred => {
                socket::send_with_fds(&socket, b"?", &[]).unwrap();
            }
            Parting::Evicted => {
                for _ in 0..40 {
                    witness.emit("/", "a.Flood", "Flood", Body::default()).unwrap();
                }
                let _ = socket::send_with_fds(&socket, &packet([OUTBOX, 0, 1, 0, 0], &[]), &[]);
            }
        }
        loop {
            let change = signal_of(&mut witness, "org.freedesktop.DBus");
            if let [Arg::Text(_), Arg::Text(_), Arg::Text("")] = change.args()[..] {
                break;
            }
        }
        // The witness has passed its end, and tells that.
        while witness.next(Some(Duration::ZERO)).unwrap().is_some() {}
        for _ in 0..20 {
            let other = connect(&bus.path()).unwrap();
            join(&other);
            let (kind, text) = answer(&other).unwrap();
            assert_eq!(kind, REFUSED, "{parting:?}: the slot is given away: {text}");
        }
        drop(socket);
        eventually_seen("the slot is not free again", || Member::open(bus.path()).is_ok(), |is| *is);
    }
}
