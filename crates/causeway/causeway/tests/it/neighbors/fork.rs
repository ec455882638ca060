//! A process forks, and the child keeps what the parent gives up.
//!
//! Leaving was no more than closing a socket, and a forked child kept it open: a reliable subscriber that the parent had dropped
//! held the log full for as long as the child lived. The child also had the parent's mappings, and the thread that notices
//! deaths only in the parent.

use std::path::Path;
use std::time::Duration;

use causeway::{Error, Policy, Waited};
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::ForkResult;

use super::{public_folder, public_group, until_all_have_left};
use crate::common::{LONG, Peer, asleep, drain, eventually, join, small, trio};

/// Runs `work` in a forked child, whose exit code it returns.
///
/// # Safety
/// Of the threads that the parent has, none holds a lock that `work` needs.
unsafe fn in_a_child(work: impl FnOnce() -> bool) -> nix::unistd::Pid {
    let own = std::process::id();
    // SAFETY: the caller's promise.
    match unsafe { nix::unistd::fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let done = causeway_os::process::die_with(own).is_ok()
                && std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: nothing is left to be cleaned up; the harness must not go on in the child.
            unsafe { libc::_exit(i32::from(!done)) }
        }
    }
}

/// Subscribes, waits for the first message, forks a child that lives on, and drops the subscriber.
pub fn drop_beside_a_child(socket: &Path, _: u64) {
    let mut subscriber = join(socket).subscribe(Policy::Reliable).unwrap();
    assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
    // SAFETY: the other threads of this process (the harness, the watcher) rest.
    unsafe {
        in_a_child(|| {
            std::thread::sleep(LONG);
            true
        })
    };
    drop(subscriber);
    std::thread::sleep(LONG);
}

/// Subscribes, and forks a child that looks for the memory of the group.
pub fn look_in_a_child(socket: &Path, _: u64) {
    let _subscriber = join(socket).subscribe(Policy::Reliable).unwrap();
    // SAFETY: the other threads of this process rest.
    let child =
        unsafe { in_a_child(|| !std::fs::read_to_string("/proc/self/maps").unwrap().contains("causeway:")) };
    let ended = waitpid(child, None);
    assert!(matches!(ended, Ok(WaitStatus::Exited(_, 0))), "the child has the memory of the group");
}

#[test]
fn a_forked_child_has_none_of_the_memory_of_its_parents_groups() {
    let (_dir, socket, group) = public_group(small());
    let _publisher = group.publisher().unwrap();
    Peer::start("look-in-a-child", &socket, 0).succeed();
}

#[test]
fn a_subscriber_that_was_dropped_holds_nothing_up_although_a_forked_child_lives() {
    let (_dir, socket, group) = public_group(small());
    let mut publisher = group.publisher().unwrap();
    let mut peer = Peer::start("drop-beside-a-child", &socket, 0);
    assert!(publisher.wait_for_subscribers(1, Some(LONG)).unwrap());
    publisher.publish(b"seen").unwrap();
    until_all_have_left(&group);
    for _ in 0..200 {
        publisher.publish_timeout(b"on", LONG).unwrap();
    }
    assert!(!peer.has_ended(), "it left because it ended");
}

/// Subscribes and forks a child, which subscribes too. Both must be told when the server dies.
pub fn wait_beside_a_child(socket: &Path, _: u64) {
    let mut subscriber = join(socket).subscribe(Policy::Lossy).unwrap();
    let _ = subscriber.wait(Some(Duration::from_millis(1))).unwrap();
    let told = |ended: Result<_, Error>| matches!(ended, Err(Error::Disconnected));
    // SAFETY: as above.
    let child =
        unsafe { in_a_child(|| told(join(socket).subscribe(Policy::Lossy).unwrap().wait(Some(LONG)))) };
    assert!(told(subscriber.wait(Some(LONG))), "the parent was not told");
    assert!(matches!(waitpid(child, None), Ok(WaitStatus::Exited(_, 0))), "the child was not told");
}

#[test]
fn a_subscriber_in_a_forked_child_is_told_that_the_server_died() {
    let (_dir, socket) = public_folder();
    let mut server = Peer::start("serve-and-publish", &socket, 0);
    let mut peer = Peer::start("wait-beside-a-child", &socket, 0);
    let group = join(&socket);
    eventually("parent and child sleep", || asleep(&group) == 2);
    server.kill();
    peer.succeed();
}

/// Publishes once; then leaves (0) or waits until it is killed (1).
pub fn publish_and_end(socket: &Path, killed: u64) {
    let mut publisher = join(socket).publisher().unwrap();
    assert!(publisher.wait_for_subscribers(1, Some(LONG)).unwrap());
    publisher.publish(b"last").unwrap();
    if killed == 1 {
        std::thread::sleep(LONG);
    }
}

#[test]
fn a_clean_end_and_a_kill_are_told_apart() {
    for killed in [0, 1] {
        let (_dir, socket, group) = public_group(small().remote_publishers(1));
        let mut peer = Peer::start("publish-and-end", &socket, killed);
        let options = causeway::SubscribeOptions::new(Policy::Reliable).timeout(LONG);
        let mut subscriber = group.subscribe(options).unwrap();
        assert!(subscriber.recv_timeout(LONG).is_ok());
        if killed == 1 {
            peer.kill();
        }
        let ended = subscriber.recv_timeout(LONG).map(drop);
        assert!(matches!(ended, Err(causeway::RecvTimeoutError::Disconnected)), "{ended:?}");
        assert_eq!(subscriber.health().unwrap().killed_publishers, killed);
    }
}

#[test]
fn subscribers_can_see_what_publishers_gave_up() {
    let (_group, mut publisher, mut subscriber) = trio(small(), Policy::Reliable);
    crate::common::fill(&mut publisher, b"x");
    let before = subscriber.health().unwrap().given_up;
    for _ in 0..3 {
        assert!(publisher.try_publish(b"y").is_err());
    }
    assert!(publisher.publish_timeout(b"z", Duration::from_millis(1)).is_err());
    assert_eq!((before, subscriber.health().unwrap().given_up), (1, 5));
    drain(&mut subscriber);
    publisher.publish(b"on").unwrap();
    assert_eq!(subscriber.health().unwrap().given_up, 5);
}
