//! Wrong descriptors, wrong servers and old kernels: an error that says what to do. No panic, no hang, no signal. Resources
//! that run out are in `exhaustion.rs`.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::common::limits::{forbid, in_a_process_of_its_own};
use crate::common::wire::{genuine, message};
use crate::common::{Role, group, place, small, spawn_until_blocked, taken};
use causeway::{Error, Group, Policy, Publisher, SubscribeOptions, Trust};
use causeway_os::handshake::VERSION;
use causeway_os::memory::{Seals, add_seals, memfd};
use causeway_os::socket::{recv_with_fds, send_with_fds, seqpacket_pair};
use nix::libc;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, socket_with};

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[("on-an-old-kernel", |_, number| on_an_old_kernel(number))];

// Wrong descriptors.

/// Joins a server that answers with these descriptors, as a subscriber.
fn receive_from(fds: &[OwnedFd]) -> Result<(), Error> {
    receive_as(Trust::SameUser, fds)
}

fn receive_as(trust: Trust, fds: &[OwnedFd]) -> Result<(), Error> {
    let (near, far) = seqpacket_pair().unwrap();
    let (connection, served) = seqpacket_pair().unwrap();
    send_with_fds(&far, &message(16, &[]), &[connection.as_fd()]).unwrap();
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    let trust = u32::from(trust == Trust::Strangers);
    send_with_fds(&served, &message(16, &[0, 1, trust]), &fds).unwrap();
    for _ in ["ready", "placed"] {
        send_with_fds(&served, &message(16, &[]), &[]).unwrap();
    }
    Group::join_socket(near).unwrap().subscribe(Policy::Lossy).map(drop)
}

/// A memory file with these seals and that against shrinking.
fn sealed(bytes: u64, seals: Seals) -> OwnedFd {
    let fd = memfd("sealed", bytes).unwrap();
    add_seals(&fd, Seals::SHRINK | seals).unwrap();
    fd
}

/// A group with a publisher, in which one can subscribe.
fn real() -> (Group, Publisher) {
    let group = group(small());
    let publisher = group.publisher().unwrap();
    (group, publisher)
}

/// Joins a server that gives what a real one does, apart from the descriptor in this place.
fn receive_with(group: &Group, place: usize, instead: OwnedFd) -> Result<(), Error> {
    let mut fds = genuine(group);
    fds[place] = instead;
    receive_from(&fds)
}

/// Descriptors that are none of a log, page or doorbell, by name.
fn strangers(dir: &Path) -> Vec<(&'static str, OwnedFd)> {
    let file = dir.join("file");
    std::fs::write(&file, [0; 20480]).unwrap();
    let open = |path: &Path, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
    vec![
        ("a pipe", rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap().0),
        ("a regular file", open(&file, OFlags::RDWR)),
        ("a directory", open(dir, OFlags::RDONLY | OFlags::DIRECTORY)),
        ("a path", open(&file, OFlags::PATH)),
        ("a device", open(Path::new("/dev/zero"), OFlags::RDWR)),
        ("a socket", seqpacket_pair().unwrap().0),
        ("an unsealed memory file", memfd("unsealed", 16384).unwrap()),
    ]
}

#[test]
fn descriptors_of_every_wrong_type_are_refused_in_every_place() {
    let dir = tempfile::tempdir().unwrap();
    let (group, _publisher) = real();
    receive_from(&genuine(&group)).unwrap();
    for place in 0..6 {
        // The lifeline is a pipe.
        let fits = |(name, _): &(&str, OwnedFd)| place == 4 && *name == "a pipe";
        for (name, stranger) in strangers(dir.path()).into_iter().filter(|stranger| !fits(stranger)) {
            let refused = receive_with(&group, place, stranger);
            let Err(Error::Invalid { what, why }) = refused else { panic!("{name} at {place}: {refused:?}") };
            assert!(what.contains("descriptor") && !why.is_empty(), "{what}: {why}");
        }
    }
}

#[test]
fn too_few_or_too_many_descriptors_are_refused() {
    let (group, _publisher) = real();
    for count in 0..6 {
        let fds: Vec<OwnedFd> = genuine(&group).into_iter().take(count).collect();
        assert!(matches!(receive_from(&fds), Err(Error::Invalid { .. })), "{count}");
    }
    let seven: Vec<OwnedFd> = genuine(&group).into_iter().chain(genuine(&group)).take(7).collect();
    assert!(matches!(receive_from(&seven), Err(Error::Invalid { .. })));
}

#[test]
fn strangers_get_no_page_that_they_could_write_and_take_none() {
    for (trust, count) in [(Trust::SameUser, 6), (Trust::Strangers, 5)] {
        let group = Group::create("genuine", small().trust(trust)).unwrap();
        let _publisher = group.publisher().unwrap();
        let socket = group.invite().unwrap();
        send_with_fds(&socket, &message(3, &[3, 0]), &[]).unwrap();
        let (_, fds) = recv_with_fds(&socket, &mut [0; 64], 6).unwrap();
        assert_eq!(fds.len(), count, "{trust:?}");
        receive_as(trust, &fds).unwrap();
        let other = if trust == Trust::SameUser { Trust::Strangers } else { Trust::SameUser };
        let refused = receive_as(other, &fds).unwrap_err().to_string();
        assert!(refused.contains("wake page"), "{trust:?}: {refused}");
    }
}

#[test]
fn logs_of_a_size_that_no_log_has_are_refused() {
    let (group, _publisher) = real();
    for bytes in [0, 1, 4096, 16384, 16384 + 2048, 16384 + 4095, 16384 + 4097, 16384 + (1 << 31)] {
        let log = sealed(bytes, Seals::GROW | Seals::FUTURE_WRITE | Seals::SEAL);
        let refused = receive_with(&group, 1, log).unwrap_err().to_string();
        assert!(refused.contains(&format!("no log has {bytes} bytes")), "{refused}");
    }
}

#[test]
fn a_log_that_lacks_any_one_seal_is_refused_by_its_name() {
    let (group, _publisher) = real();
    let seals = [
        (Seals::SHRINK, "F_SEAL_SHRINK"),
        (Seals::GROW, "F_SEAL_GROW"),
        (Seals::FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"),
        (Seals::SEAL, "F_SEAL_SEAL"),
    ];
    for (lacking, name) in seals {
        let fd = memfd("lacking", 16384).unwrap();
        for (seal, _) in seals.into_iter().filter(|(seal, _)| *seal != lacking) {
            add_seals(&fd, seal).unwrap();
        }
        let refused = receive_with(&group, 1, fd).unwrap_err().to_string();
        assert!(refused.contains(&format!("lacks {name};")), "{refused}");
    }
}

#[test]
fn pages_that_are_too_short_or_not_sealed_are_refused() {
    let (group, _publisher) = real();
    for place in [0, 2] {
        for (bytes, seals) in [(4095, Seals::GROW), (4096, Seals::SHRINK), (0, Seals::GROW)] {
            let refused = receive_with(&group, place, sealed(bytes, seals)).unwrap_err();
            assert!(matches!(refused, Error::Invalid { .. } | Error::Os(_)), "{refused:?}");
        }
    }
}

// Wrong servers.

/// A listening socket that is not a group's.
fn listener(path: &Path, backlog: i32) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, backlog).unwrap();
    socket
}

#[test]
fn a_server_that_hangs_is_given_up_by_every_call() {
    let (_dir, path) = place();
    let _listener = listener(&path, 64);
    let group = Group::join(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(matches!(group.publisher(), Err(Error::NoAnswer))));
        scope.spawn(|| assert!(matches!(group.report(), Err(Error::NoAnswer))));
        scope.spawn(|| assert!(matches!(group.subscribe(Policy::Lossy), Err(Error::NoAnswer))));
        let within = SubscribeOptions::new(Policy::Lossy).timeout(Duration::from_millis(10));
        assert!(matches!(group.subscribe(within), Err(Error::NoAnswer)));
    });
}

#[test]
fn a_server_that_takes_no_connections_is_given_up() {
    let (_dir, path) = place();
    let _listener = listener(&path, 0);
    let _first = Group::join(&path).unwrap();
    let refused = Group::join(&path).map(drop);
    assert!(matches!(refused, Err(Error::NoAnswer)), "{refused:?}");
    // Nor does it block a process that wants to serve there.
    let served = Group::create("second", small()).unwrap().serve_at(&path);
    assert!(matches!(served, Err(Error::Os(_))), "{served:?}");
}

#[test]
fn a_server_that_hangs_up_is_gone() {
    let (_dir, path) = place();
    let listener = listener(&path, 64);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| drop(accept_with(&listener, SocketFlags::CLOEXEC).unwrap())));
        let group = Group::join(&path).unwrap();
        assert!(matches!(group.subscribe(Policy::Lossy), Err(Error::ServerGone)));
        assert!(matches!(group.publisher(), Err(Error::ServerGone)));
    });
}

#[test]
fn a_server_that_dies_while_a_subscriber_waits_for_publishers_is_gone() {
    let group = Group::create("waits", small().remote_publishers(1)).unwrap();
    let guest = Group::join_socket(group.invite().unwrap()).unwrap();
    let patience = SubscribeOptions::new(Policy::Lossy).timeout(Duration::from_millis(10));
    assert!(matches!(guest.subscribe(patience), Err(Error::NoAnswer)));
    std::thread::scope(|scope| {
        let waiting = spawn_until_blocked(scope, || guest.subscribe(Policy::Lossy).map(drop));
        drop(group);
        assert!(matches!(waiting.join().unwrap(), Err(Error::ServerGone)));
    });
}

#[test]
fn a_path_that_cannot_be_a_socket_or_is_none_of_a_group_is_an_error() {
    let group = group(small());
    let (_dir, stream) = place();
    let Error::Os(missing) = Group::join(&stream).unwrap_err() else { panic!("another error") };
    assert_eq!(missing.os().kind(), std::io::ErrorKind::NotFound);
    let _listener = std::os::unix::net::UnixListener::bind(&stream).unwrap();
    assert!(matches!(Group::join(&stream), Err(Error::Os(_))), "a stream socket is not a group's");
    let long = format!("/tmp/{}", "x".repeat(200));
    for path in [long.as_str(), "/nonexistent/group", ""] {
        let served = group.serve_at(path);
        assert!(matches!(served, Err(Error::Os(_))), "served at {path:?}: {served:?}");
        assert!(matches!(Group::join(path), Err(Error::Os(_))), "joined {path:?}");
    }
}

#[test]
fn a_server_that_answers_nonsense_is_an_error() {
    let granted = |word: u8| {
        let mut bytes = message(3, &[0]);
        bytes[8] = word;
        bytes
    };
    let (pipe, _end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let (grant, with_pipe) = (granted(16), [pipe.as_fd()]);
    for (reply, fds) in [
        (&b"hello"[..], &[][..]),
        (&grant, &[]),
        (&granted(20), &[]),
        (&granted(63), &[]),
        (&[0; 200], &[]),
        (&grant, &with_pipe),
    ] {
        let (near, far) = seqpacket_pair().unwrap();
        send_with_fds(&far, reply, fds).unwrap();
        let error = Group::join_socket(near).unwrap().subscribe(Policy::Lossy).map(drop).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }) || !fds.is_empty(), "{error} for {reply:?}");
    }
}

// What an old kernel lacks.

#[test]
fn a_kernel_that_lacks_what_safety_rests_on_is_refused_by_name() {
    (0..OLD_KERNELS.len()).for_each(|number| in_a_process_of_its_own("on-an-old-kernel", number as u64));
}

/// A system call, an argument and its value (or any), the error that it returns, and a word of the sentence about it; `None`
/// if the library works without the call.
type Lack = (i64, Option<(u32, u32)>, i32, Option<&'static str>);

const OLD_KERNELS: [Lack; 5] = [
    (libc::SYS_fcntl, Some((1, libc::F_ADD_SEALS as u32)), libc::EINVAL, Some("F_SEAL_FUTURE_WRITE")),
    (libc::SYS_pidfd_open, None, libc::ENOSYS, Some("pidfd")),
    (libc::SYS_memfd_create, None, libc::ENOSYS, Some("memfd_create")),
    (libc::SYS_futex, Some((1, libc::FUTEX_WAIT as u32)), libc::EFAULT, Some("FUTEX_WAIT")),
    // SO_PEERPIDFD is of Linux 6.5; without it the number of the process does.
    (libc::SYS_getsockopt, Some((2, 77)), libc::ENOPROTOOPT, None),
];

fn on_an_old_kernel(number: u64) {
    let (call, argument, errno, lack) = OLD_KERNELS[number as usize];
    forbid(call as u32, argument, errno);
    match (Group::create("old", small()), lack) {
        (Err(Error::Kernel(said)), Some(lack)) => assert!(said.contains(lack), "{said}"),
        (Ok(group), None) => {
            let mut subscriber = group.subscribe(Policy::Lossy).unwrap();
            group.publisher().unwrap().try_publish(b"works").unwrap();
            taken(&mut subscriber);
        }
        (other, _) => panic!("{other:?} without {call}"),
    }
    if lack.is_some() {
        assert!(matches!(Group::join("/nonexistent"), Err(Error::Kernel(_))));
    }
}

/// Before, the refusal came in the words of the other version, which then could not name ours.
#[test]
fn a_peer_of_the_previous_version_is_told_ours() {
    let group = Group::create("version", small()).unwrap();
    for op in [1, 3, 4, 12] {
        let socket = group.invite().unwrap();
        let mut request = message(op, &[3, 0]);
        request[4..8].copy_from_slice(&(VERSION - 1).to_le_bytes());
        send_with_fds(&socket, &request, &[]).unwrap();
        let mut answer = [0; 64];
        recv_with_fds(&socket, &mut answer, 6).unwrap();
        // Magic, version, operation: a program that finds another version than its own names both.
        assert_eq!(answer[..12], message(17, &[])[..12]);
    }
}
