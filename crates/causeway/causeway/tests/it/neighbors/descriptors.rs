//! Descriptors that nobody asked for: closing one may block for years.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway::{Group, GroupOptions, Policy, Publisher, TryPublishError};
use causeway_os::socket::send_with_fds;
use causeway_testkit::{Cause, skipped};
use nix::libc;
use rustix::net::{RecvFlags, recv};

use super::ends;
use crate::common::limits::{forbid, in_a_process_of_its_own};
use crate::common::wire::{Joined, connect};
use crate::common::{eventually, small, subscribers};

/// A TCP socket whose last close waits for a day, and the peer that does not read.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(86_400))).unwrap();
    (socket.into(), peer)
}

/// Sends a lingering socket with `bytes` and closes the own copy of it. Returns what keeps its close waiting, and whether the
/// kernel delivered it.
fn send_lingering(through: &OwnedFd, bytes: &[u8]) -> (TcpStream, bool) {
    let (socket, peer) = lingering();
    let sent = send_with_fds(through, bytes, &[socket.as_fd()]).is_ok();
    if !sent {
        // The close of this process's own copy must not wait either.
        rustix::net::sockopt::set_socket_linger(&socket, None).unwrap();
    }
    // Closing the last copy blocks. If the receiver has closed its copy first, this thread blocks instead of the test.
    std::thread::spawn(move || drop(socket));
    (peer, sent)
}

fn everything_works(group: &Arc<Group>) {
    let [reported, joined] = [group, group].map(Arc::clone);
    ends("report hangs", move || drop(reported.report().unwrap()));
    ends("subscribe hangs", move || drop(joined.subscribe(Policy::Lossy).unwrap()));
}

/// Before, the server's thread closed what came with a message while it held the lock: all calls of the process that had
/// created the group hung, its drop too.
fn a_request_with_a_lingering_socket(path: &Path) {
    let group = Arc::new(Group::create("lingering", small()).unwrap());
    group.serve_at(path).unwrap();
    let visitor = connect(path);
    let (_peer, _) = send_lingering(&visitor, &[7; 64]);
    // And one that is never read, because the connection ends before.
    let unread = connect(path);
    let (_other, _) = send_lingering(&unread, &[7; 64]);
    drop(unread);
    // The visitor is read before its end is noticed.
    let _ = send_with_fds(&visitor, &[7; 64], &[]);
    everything_works(&group);
    ends("the drop of the group hangs", move || drop(Arc::into_inner(group).unwrap()));
}

/// Until the publisher has the doorbell, the server rings it, some time after the publish. Ten times in a row it has been rung
/// when the publish returns: the publisher did so.
fn let_publisher_fetch_the_doorbell(subscriber: &Joined, publisher: &mut Publisher) {
    const ON_DOORBELL: u32 = 2;
    let (mut waits, mut in_a_row) = (0, 0);
    eventually("the publisher rings", || {
        waits += 1;
        subscriber.page.atomic_u32(0x80).store(waits << 2 | ON_DOORBELL, Ordering::SeqCst);
        publisher.try_publish(b"rings").unwrap();
        let rung = recv(&subscriber.doorbell, &mut [0; 64], RecvFlags::DONTWAIT).is_ok();
        in_a_row = if rung { in_a_row + 1 } else { 0 };
        in_a_row == 10
    });
}

/// Before, the server closed the doorbell of a subscriber that had left, with what lay in it, while it held the lock; and a
/// publisher did the same in `publish`.
fn a_doorbell_with_a_lingering_socket(path: &Path) {
    let group = Arc::new(Group::create("doorbell", small().several_publishers()).unwrap());
    group.serve_at(path).unwrap();
    let mut publisher = group.publisher().unwrap();
    let subscriber = Joined::new(path, 3);
    let_publisher_fetch_the_doorbell(&subscriber, &mut publisher);
    let (_peer, _) = send_lingering(&subscriber.doorbell, b"x");
    drop(subscriber);
    everything_works(&group);
    let watched = Arc::clone(&group);
    eventually("the subscriber does not leave", move || subscribers(&watched) == 0);
    ends("publish hangs", move || match publisher.try_publish(b"after it left") {
        Ok(_) | Err(TryPublishError::Full) => drop(publisher),
        Err(error) => panic!("{error}"),
    });
    ends("the drop of the group hangs", move || drop(Arc::into_inner(group).unwrap()));
}

fn both(path: &Path) {
    a_request_with_a_lingering_socket(&path.with_extension("request"));
    a_doorbell_with_a_lingering_socket(&path.with_extension("doorbell"));
}

#[test]
fn a_descriptor_whose_close_blocks_stops_neither_server_nor_publisher() {
    let dir = tempfile::tempdir().unwrap();
    both(&dir.path().join("group"));
}

/// The same on a kernel that cannot keep descriptors away from a socket.
#[test]
fn a_descriptor_whose_close_blocks_stops_nobody_before_linux_6_16_either() {
    in_a_process_of_its_own("without-passrights", 0);
}

pub fn without_passrights(path: &Path, _: u64) {
    const SO_PASSRIGHTS: u32 = 83;
    forbid(libc::SYS_setsockopt as u32, Some((2, SO_PASSRIGHTS)), libc::ENOPROTOOPT);
    both(path);
}

#[test]
fn a_subscriber_cannot_put_descriptors_into_its_doorbell() {
    let (near, _far) = causeway_os::socket::stream_pair().unwrap();
    if !causeway_os::socket::refuse_descriptors(&near).unwrap() {
        return skipped(Cause::Kernel("SO_PASSRIGHTS"), "Linux 6.16 has it");
    }
    let group = Group::create("clean", GroupOptions::new()).unwrap();
    let [status, _, _, doorbell, ..] = crate::common::wire::genuine(&group);
    assert!(send_with_fds(&doorbell, b"x", &[status.as_fd()]).is_err());
}
