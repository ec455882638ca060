//! A server that means harm, or merely says something unexpected.

use std::os::fd::{AsFd, OwnedFd};

use causeway::{Error, Group, Policy};
use causeway_os::memory::{self, Seals};
use causeway_os::socket::{send_with_fds, seqpacket_pair};

use crate::common::wire::{genuine, message};
use crate::common::{eventually, small};

/// Joins a server that grants a subscription with these descriptors. Its end of the connection comes back.
fn join(fds: &[OwnedFd; 6]) -> (Result<causeway::Subscriber, Error>, OwnedFd) {
    let (near, far) = seqpacket_pair().unwrap();
    let (connection, server) = seqpacket_pair().unwrap();
    send_with_fds(&far, &message(16, &[]), &[connection.as_fd()]).unwrap();
    // Trust 0: one user. Then the answers to ready and placed.
    send_with_fds(&server, &message(16, &[0, 1, 0]), &fds.each_ref().map(|fd| fd.as_fd())).unwrap();
    (0..2).for_each(|_| send_with_fds(&server, &message(16, &[]), &[]).unwrap());
    (Group::join_socket(near).unwrap().subscribe(Policy::Lossy), server)
}

/// Before, such a log was mapped, and each look at it made a page at the charge of the subscriber: at its limit of memory it
/// was killed.
#[test]
fn a_log_with_holes_is_refused() {
    let group = Group::create("whole", small()).unwrap();
    let [status, log, page, doorbell, lifeline, wake] = genuine(&group);
    let bytes = rustix::fs::fstat(&log).unwrap().st_size as u64;
    let holes = memory::memfd("holes", bytes).unwrap();
    let mut header = [0; 4096];
    rustix::io::pread(&log, &mut header, 0).unwrap();
    rustix::io::pwrite(&holes, &header, 0).unwrap();
    memory::add_seals(&holes, Seals::SHRINK | Seals::GROW | Seals::FUTURE_WRITE | Seals::SEAL).unwrap();
    let refused = join(&[status, holes, page, doorbell, lifeline, wake]).0.map(drop).unwrap_err().to_string();
    assert!(refused.contains("holes"), "{refused}");
}

/// Before, anything to read was taken for the end of the server.
#[test]
fn a_server_that_says_something_is_not_taken_for_a_dead_one() {
    let group = Group::create("talks", small()).unwrap();
    let (subscriber, server) = join(&genuine(&group));
    let mut subscriber = subscriber.unwrap();
    send_with_fds(&server, b"something", &[]).unwrap();
    assert!(!subscriber.health().unwrap().server_is_gone);
    drop(server);
    // A process that another test is starting may still have its end of the connection.
    eventually("the server is gone", || subscriber.health().unwrap().server_is_gone);
}
