//! A hostile subscriber: with everything that a subscriber is given, it does its worst.
#![cfg(not(loom))]
#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

mod common;

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway::{Access as Rule, Error, Group, GroupOptions, Policy, Received};
use causeway_os::memory::{Access, Mapping};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use common::wire::Joined;
use common::{LONG, Peer, Random, eventually, play};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};

/// A request to receive, byte by byte as `docs/wire.md` has it: policy lossy is 3, reliable 0.
fn subscribe_request(policy: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..4].copy_from_slice(b"CWY1");
    bytes[4] = causeway::log::layout::ABI as u8;
    bytes[8] = 3; // subscribe
    bytes[12..16].copy_from_slice(&policy.to_le_bytes());
    bytes
}

fn connect(path: &std::path::Path) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// A request without words: 1 publish, 2 mapped.
fn request(op: u8) -> [u8; 64] {
    let mut bytes = subscribe_request(0);
    bytes[8] = op;
    bytes
}

/// A publisher that dies with notices unread resets its connection, which is no reason to turn a subscriber away.
#[test]
fn subscribers_join_while_a_publisher_dies_that_never_read_its_notices() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..300 {
        let path = dir.path().join("group");
        let options = GroupOptions::new().capacity_bytes(4096).several_publishers().remote_publishers(1);
        let group = Group::create("resets", options).unwrap();
        group.serve_at(&path).unwrap();
        let publisher = connect(&path);
        send_with_fds(&publisher, &request(1), &[]).unwrap();
        assert_eq!(recv_with_fds(&publisher, &mut [0; 64], 4).unwrap().1.len(), 4);
        send_with_fds(&publisher, &request(2), &[]).unwrap();
        let _first = group.subscribe(Policy::Lossy).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (0..round * 20).for_each(|_| std::hint::spin_loop());
                drop(publisher);
            });
            for _ in 0..5 {
                group.subscribe(Policy::Lossy).unwrap();
            }
        });
    }
}

/// Joins by hand, then scribbles over everything writable until it is killed.
fn attack(path: &std::path::Path, seed: u64) -> ! {
    let Joined { socket, status, log, page_fd, page, doorbell, .. } = Joined::new(path, 3);
    for (fd, len) in [(&log, 16384), (&status, 8192), (&page_fd, 4096)] {
        assert!(
            Mapping::shared(fd, len, Access::ReadWrite).is_err(),
            "a subscriber can write what is not its own"
        );
        assert!(rustix::io::pwrite(fd, b"x", 0).is_err());
        assert!(rustix::fs::ftruncate(fd, 0).is_err());
    }
    // Fill the doorbell from the wrong side and make it block, as far as that goes.
    rustix::io::ioctl_fionbio(&doorbell, false).unwrap();
    let _ = rustix::net::send(&doorbell, &[0; 4096], SendFlags::DONTWAIT);
    let mut random = Random(seed);
    loop {
        let (offset, value) = (random.next() as usize % 512 * 8, random.next());
        match random.next() % 4 {
            0 => page.atomic_u64(0).store(value, Ordering::Relaxed),
            1 => page.atomic_u32(128).store(value as u32 | 1, Ordering::Relaxed),
            _ => page.atomic_u64(offset).store(value, Ordering::Relaxed),
        }
        if random.next().is_multiple_of(1024) {
            // Not empty: an empty message is taken for the end of the connection, and that would be the end of the attack.
            let junk: Vec<u8> = (0..1 + random.next() % 100).map(|_| random.next() as u8).collect();
            let _ = rustix::net::send(&socket, &junk, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            let mut request = subscribe_request(0);
            request[8] = random.next() as u8 % 24;
            let _ = rustix::net::send(&socket, &request, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

#[test]
fn role() {
    if let Some((_, socket, seed)) = play() {
        attack(&socket, seed);
    }
}

#[test]
fn hostile_subscribers_neither_stop_nor_confuse_anybody() {
    for options in [GroupOptions::new(), GroupOptions::new().several_publishers()] {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("group");
        let group = Group::create("attacked", options.capacity_bytes(16 << 10)).unwrap();
        group.serve_at(&socket).unwrap();
        let mut publisher = group.publisher().unwrap();
        let mut honest = group.subscribe(Policy::Reliable).unwrap();
        let _attackers: Vec<Peer> =
            (0..2).map(|number| Peer::start("attack", &socket, 77 + number)).collect();
        eventually("no attacker joins", || group.report().unwrap().subscribers.len() == 3);
        let end = Instant::now() + Duration::from_millis(1500);
        let mut number = 0u64;
        while Instant::now() < end {
            let payload = vec![number as u8; (number % 3000) as usize];
            publisher
                .publish_timeout(&payload, LONG)
                .unwrap_or_else(|error| panic!("message {number}: {error}"));
            match honest.try_recv().unwrap() {
                Received::Message(message) => assert!(message.bytes == payload, "message {number}"),
                other => panic!("{other:?} in place of message {number}"),
            }
            number += 1;
        }
        // The door is still open.
        let _late = group.subscribe(Policy::Lossy).unwrap();
        assert!(group.report().is_ok());
    }
}

#[test]
fn who_is_not_in_the_creators_rule_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can pose as another user");
        return;
    }
    let dir = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let socket = dir.path().join("group");
    let options = GroupOptions::new().subscribers(Rule::Users([4242].into()));
    let group = Group::create("ruled", options).unwrap();
    group.serve_at(&socket).unwrap();
    let ask_as = |user: u32| {
        let socket = socket.clone();
        // The user of one thread can be changed alone; its sockets carry it.
        std::thread::spawn(move || {
            rustix::thread::set_thread_res_uid(
                rustix::process::Uid::from_raw(user),
                rustix::process::Uid::from_raw(user),
                rustix::process::Uid::from_raw(user),
            )
            .unwrap();
            let connection = connect(&socket);
            // A visitor that is forbidden is told so, and left, without a request.
            let _ = send_with_fds(&connection, &subscribe_request(3), &[]);
            let mut answer = [0; 64];
            let mut receive = || recv_with_fds(&connection, &mut answer, 6);
            let (_, fds) = receive().or_else(|_| receive()).unwrap();
            (answer[8], answer[12], fds.len())
        })
        .join()
        .unwrap()
    };
    assert_eq!(ask_as(4242).2, 5, "a user of the rule was not let in");
    assert_eq!(ask_as(4243), (17, 1, 0), "a stranger was not refused as forbidden");
}

#[test]
fn a_socket_that_does_not_exist_or_that_no_group_serves_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Group::join(dir.path().join("missing")).map(drop).unwrap_err();
    let Error::Os(missing) = &missing else { panic!("{missing}") };
    assert_eq!(missing.os().kind(), ErrorKind::NotFound);
    // A stream socket is not a group's.
    let path = dir.path().join("stream");
    let _listener = UnixListener::bind(&path).unwrap();
    assert!(matches!(Group::join(&path), Err(Error::Os(_))));
}

/// A server that answers `reply` with `fds`, to whatever is asked, on one connection.
fn answering(reply: &[u8], fds: &[&OwnedFd]) -> Error {
    use std::os::fd::AsFd;
    let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    // One answer for the request for a connection.
    send_with_fds(&far, reply, &fds).unwrap();
    Group::join_socket(near).unwrap().subscribe(Policy::Lossy).map(drop).unwrap_err()
}

#[test]
fn a_server_that_answers_nonsense_is_an_error() {
    let granted = |word: u8| {
        let mut bytes = subscribe_request(0);
        bytes[8] = word;
        bytes
    };
    for (reply, fds) in
        [(&b"hello"[..], 0), (&granted(16), 0), (&granted(20), 0), (&granted(99), 0), (&[0; 200], 0)]
    {
        let error = answering(reply, &[]);
        assert!(matches!(error, Error::Invalid { .. }), "{error} for {reply:?} with {fds} descriptors");
    }
    let (pipe, _end) = rustix::pipe::pipe().unwrap();
    let error = answering(&granted(16), &[&pipe]);
    assert!(!error.to_string().is_empty());
}

#[test]
fn a_group_cannot_be_served_where_another_one_is_and_a_dead_ones_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group");
    let first = Group::create("first", GroupOptions::new()).unwrap();
    first.serve_at(&path).unwrap();
    let second = Group::create("second", GroupOptions::new()).unwrap();
    assert!(second.serve_at(&path).is_err());
    drop(first);
    assert!(!path.exists(), "the socket outlived its group");
    // What a killed server leaves: a socket without a listener.
    let left = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::bind(&left, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    drop(left);
    second.serve_at(&path).unwrap();
    assert!(Group::join(&path).is_ok());
}
