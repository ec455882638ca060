//! What the bus takes for granted about Linux, one test each. A kernel for which one fails is not one to run it on.
//!
//! A fact that cannot be checked here, for want of privilege or of a newer kernel, is skipped with the reason.
//!
//! # Safety
//!
//! The calls made directly are the ones that must fail, on mappings that belong to the test.
#![allow(unsafe_code)]

#[macro_use]
extern crate causeway_testkit;

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Instant;

use causeway_os::futex::{self, Outcome};
use causeway_os::memory::{Access, Mapping, Seals, add_seals, memfd, page_bytes, seals};
use causeway_os::process::{Child, Spawn, Stderr, die_with, poll};
use causeway_os::socket::{FDS_MAX, recv_with_fds, send_with_fds, seqpacket_pair, stream_pair};
use causeway_testkit::{Cause, PATIENCE as LONG, proc, skipped};
use rustix::event::{EventfdFlags, epoll};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// A file of one page, mapped writable by us, then sealed as the memory of a single writer is; `None` where the kernel
/// is older than the seal.
fn sealed() -> Option<(OwnedFd, Mapping)> {
    let fd = memfd("sealed", page_bytes() as u64).unwrap();
    let ours = Mapping::shared(&fd, page_bytes(), Access::ReadWrite).unwrap();
    match add_seals(&fd, Seals::SHRINK | Seals::GROW | Seals::FUTURE_WRITE | Seals::SEAL) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            skipped(Cause::Kernel("F_SEAL_FUTURE_WRITE"), error);
            None
        }
        other => {
            other.unwrap();
            Some((fd, ours))
        }
    }
}

/// The file behind `fd` opened once more, for writing, as anybody of this user can who holds any descriptor of it.
fn opened_again(fd: &OwnedFd) -> File {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_sealed_file_cannot_be_mapped_for_writing_again() {
    let Some((fd, _ours)) = sealed() else { return };
    let error = Mapping::shared(&fd, page_bytes(), Access::ReadWrite).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
    let again = opened_again(&fd);
    let error = Mapping::shared(&again, page_bytes(), Access::ReadWrite).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
    // Without the seal the same steps succeed: it is the seal that refuses.
    let open = memfd("open", page_bytes() as u64).unwrap();
    Mapping::shared(opened_again(&open), page_bytes(), Access::ReadWrite).unwrap();
}

#[test]
fn a_read_only_mapping_of_a_sealed_file_cannot_be_made_writable() {
    let Some((fd, _ours)) = sealed() else { return };
    for file in [fd.try_clone().unwrap(), opened_again(&fd).into()] {
        let theirs = Mapping::shared(&file, page_bytes(), Access::ReadOnly).unwrap();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the mapping is ours; were the call to succeed, it would still be valid.
        let done = unsafe { libc::mprotect(theirs.as_ptr().cast(), page_bytes(), protection) };
        let error = std::io::Error::last_os_error();
        assert_eq!((done, error.raw_os_error()), (-1, Some(libc::EACCES)), "{error}");
    }
}

#[test]
fn a_sealed_file_cannot_be_written_cut_grown_or_punched() {
    let Some((fd, _ours)) = sealed() else { return };
    let again = opened_again(&fd);
    let page = page_bytes() as u64;
    assert_eq!(again.write_at(b"x", 0).unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert_eq!(rustix::fs::ftruncate(&again, 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&again, 2 * page), Err(Errno::PERM));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::fs::fallocate(&again, punch, 0, page), Err(Errno::PERM));
    assert!(add_seals(&again, Seals::WRITE).is_err());
    assert!(!seals(&fd).unwrap().contains(Seals::WRITE));
}

#[test]
fn the_mapping_from_before_the_seal_still_writes_and_readers_see_it() {
    let Some((fd, ours)) = sealed() else { return };
    let theirs = Mapping::shared(opened_again(&fd), page_bytes(), Access::ReadOnly).unwrap();
    ours.atomic_u64(128).store(0x5ea1ed, Ordering::Release);
    assert_eq!(theirs.load_u64(128).load(Ordering::Acquire), 0x5ea1ed);
}

#[test]
fn a_futex_can_be_waited_for_through_a_read_only_mapping() {
    let Some((fd, ours)) = sealed() else { return };
    let theirs = Mapping::shared(&fd, page_bytes(), Access::ReadOnly).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| theirs.load_u32(0).wait(0, Some(LONG)));
        let start = Instant::now();
        while futex::wake(ours.atomic_u32(0), 1).unwrap() == 0 {
            assert!(!waiter.is_finished() && start.elapsed() < LONG, "the waiter does not wait");
            std::thread::yield_now();
        }
        assert_eq!(waiter.join().unwrap().unwrap(), Outcome::Woken);
    });
    ours.atomic_u32(0).store(1, Ordering::Release);
    assert_eq!(theirs.load_u32(0).wait(0, Some(LONG)).unwrap(), Outcome::Changed);
}

#[test]
fn an_edge_triggered_eventfd_signals_every_write_without_being_read() {
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&set, &event, epoll::EventData::new_u64(7), edge).unwrap();
    let signaled = || {
        let mut events = Vec::with_capacity(4);
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), Some(&none)).unwrap()
    };
    assert_eq!(signaled(), 0);
    for _ in 0..10 {
        rustix::io::write(&event, &1u64.to_ne_bytes()).unwrap();
        assert_eq!(signaled(), 1);
        assert_eq!(signaled(), 0);
    }
}

#[test]
fn a_ring_shows_the_same_bytes_twice() {
    let page = page_bytes();
    let fd = memfd("ring", 4 * page as u64).unwrap();
    let ring = Mapping::ring(&fd, page as u64, 2 * page, Access::ReadWrite).unwrap();
    assert_eq!(ring.len(), 4 * page);
    // Across the end of the first copy: the second half of the record is at the beginning of the data.
    // SAFETY: no other code has this file.
    unsafe { ring.slice_mut(2 * page - 3, 6).copy_from_slice(b"abcdef") };
    // SAFETY: nothing writes any more.
    let (start, end) = unsafe { (ring.slice(0, 3), ring.slice(4 * page - 3, 3)) };
    assert_eq!((start, end), (&b"def"[..], &b"abc"[..]));
    ring.atomic_u64(8).store(42, Ordering::Release);
    assert_eq!(ring.atomic_u64(2 * page + 8).load(Ordering::Acquire), 42);
    let reader = Mapping::ring(&fd, page as u64, 2 * page, Access::ReadOnly).unwrap();
    assert_eq!(reader.load_u64(2 * page + 8).load(Ordering::Acquire), 42);
    // What lies before and after in the file is untouched.
    let mut outside = [1; 8];
    rustix::io::pread(&fd, &mut outside, 0).unwrap();
    assert_eq!(outside, [0; 8]);
    rustix::io::pread(&fd, &mut outside, 3 * page as u64).unwrap();
    assert_eq!(outside, [0; 8]);
}

/// Sends `count` copies of one end of a socket, and `bytes`, to a receiver with less room. All must be closed
/// afterwards, which shows at the other end: counting our descriptors would count those of other tests too.
fn nothing_is_left_of(bytes: &[u8], count: usize, room_for_bytes: usize, room_for_fds: usize) {
    let (near, far) = seqpacket_pair().unwrap();
    let (watched, sent) = stream_pair().unwrap();
    send_with_fds(&near, bytes, &vec![sent.as_fd(); count]).unwrap();
    drop(sent);
    let error = recv_with_fds(&far, &mut vec![0; room_for_bytes], room_for_fds).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{error}");
    let ended = poll(&[watched.as_fd()], Some(LONG)).unwrap();
    assert_eq!(ended, [true], "a descriptor was leaked");
    assert_eq!(recv_with_fds(&watched, &mut [0; 1], 0).unwrap().0, 0);
    // The socket goes on.
    send_with_fds(&near, b"next", &[]).unwrap();
    assert_eq!(recv_with_fds(&far, &mut [0; 8], 0).unwrap().0, 4);
}

#[test]
fn a_message_cut_short_leaves_no_descriptor_open() {
    nothing_is_left_of(b"a long message", 3, 4, 3);
}

#[test]
fn descriptors_beyond_what_the_receiver_allows_are_refused_all_together() {
    nothing_is_left_of(b"x", 1, 8, 0);
    nothing_is_left_of(b"x", 2, 8, 1);
    nothing_is_left_of(b"x", 3, 8, 2);
    nothing_is_left_of(b"x", FDS_MAX, 8, FDS_MAX - 1);
}

/// What the processes of the next tests do, which run this program again with the name of their test and a role.
///
/// The middle one starts the inner one and sleeps; the inner one says that it is here, ties itself to its parent, says so, and
/// sleeps.
fn play(role: &str) -> ! {
    match role {
        "middle" => {
            let parent = std::process::id().to_string();
            let inner = role_spawn(DIES_WITH_ITS_PARENT, "inner").env("PARENT", parent).fd(inherited());
            std::mem::forget(Child::spawn(inner).unwrap());
        }
        "starter" => {
            let socket = inherited();
            let spawn = role_spawn(TIED_AT_ITS_START, "quiet").dies_with_parent().fd(socket);
            std::mem::forget(Child::spawn(spawn).unwrap());
        }
        "quiet" => send_with_fds(inherited(), b"here", &[]).unwrap(),
        "inner" => {
            let parent = std::env::var("PARENT").unwrap().parse().unwrap();
            send_with_fds(inherited(), b"here", &[]).unwrap();
            die_with(parent).unwrap();
            send_with_fds(inherited(), b"tied", &[]).unwrap();
        }
        other => panic!("no such role: {other:?}"),
    }
    loop {
        std::thread::sleep(LONG);
    }
}

const ROLE: &str = "ROLE";
const DIES_WITH_ITS_PARENT: &str = "a_child_dies_with_its_parent";
const TIED_AT_ITS_START: &str = "a_program_that_does_not_tie_itself_dies_with_its_parent_too";
const NO_ZOMBIE: &str = "a_dropped_child_leaves_no_zombie";
const PARENT_IS_GONE: &str = "a_process_whose_parent_is_gone_already_does_not_stay";

/// This program in a role. Descriptor 3 is for what the test gives it.
fn role_spawn(test: &str, role: &str) -> Spawn {
    [test, "--exact", "--nocapture", "--test-threads=1"]
        .into_iter()
        .fold(Spawn::new("/proc/self/exe"), Spawn::arg)
        .env(ROLE, role)
        .stderr(Stderr::Null)
}

/// In a role this plays it and does not return. In the test itself it starts the role, of a child of this parent; the process, and the socket
/// on which it speaks.
fn started(test: &str, role: &str, parent: u32) -> (Child, OwnedFd) {
    if let Ok(role) = std::env::var(ROLE) {
        play(&role);
    }
    let (ours, theirs) = stream_pair().unwrap();
    let spawn = role_spawn(test, role).env("PARENT", parent.to_string()).fd(theirs);
    (Child::spawn(spawn).unwrap(), ours)
}

/// The socket that [`role_spawn`]'s caller handed over.
fn inherited() -> OwnedFd {
    // SAFETY: a role is started with an open descriptor 3; the copy is ours.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(3) };
    socket.try_clone_to_owned().unwrap()
}

/// The next word of a role, of four letters; nothing once all that have the other end are gone.
fn hear(socket: &OwnedFd) -> String {
    assert_eq!(poll(&[socket.as_fd()], Some(LONG)).unwrap(), [true], "no word within {LONG:?}");
    let mut word = [0; 4];
    let len = recv_with_fds(socket, &mut word, 0).unwrap().0;
    String::from_utf8(word[..len].to_vec()).unwrap()
}

#[test]
fn a_child_dies_with_its_parent() {
    let (middle, ours) = started(DIES_WITH_ITS_PARENT, "middle", std::process::id());
    assert_eq!([hear(&ours), hear(&ours)], ["here", "tied"]);
    // Killed, the middle one has no chance to end the inner one itself.
    middle.kill(libc::SIGKILL).unwrap();
    assert_eq!(hear(&ours), "", "the inner process lives on");
}

#[test]
fn a_program_that_does_not_tie_itself_dies_with_its_parent_too() {
    let (starter, ours) = started(TIED_AT_ITS_START, "starter", std::process::id());
    assert_eq!(hear(&ours), "here");
    starter.kill(libc::SIGKILL).unwrap();
    assert_eq!(hear(&ours), "", "the program lives on");
}

#[test]
fn a_process_whose_parent_is_gone_already_does_not_stay() {
    // The highest number there is, which is not this test's.
    let (mut child, ours) = started(PARENT_IS_GONE, "inner", 4_194_303);
    assert_eq!(child.wait(Some(LONG)).unwrap(), Some(causeway_os::process::Exit::Code(1)));
    assert_eq!(hear(&ours), "here", "another process than the role has ended");
    assert_eq!(hear(&ours), "");
}

#[test]
fn a_dropped_child_leaves_no_zombie() {
    let (child, ours) = started(NO_ZOMBIE, "inner", std::process::id());
    assert_eq!([hear(&ours), hear(&ours)], ["here", "tied"]);
    let pid = child.pid();
    assert!(std::fs::exists(format!("/proc/{pid}")).unwrap());
    drop(child);
    // A zombie would still be listed, as a child of this process.
    assert_ne!(proc::parent(pid), Some(std::process::id()));
    assert_eq!(hear(&ours), "");
}
