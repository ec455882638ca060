//! Fuzzing of the control sockets of a group: each input is packets, which a process sends to a server, and a server to a process.
//!
//! A packet begins with a byte that says how it is sent and its length in two. Bits 0 and 1 of that byte name one of four connections,
//! bit 2 makes it anew, and bits 4 to 7 say how many descriptors come with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use causeway::{Group, Policy, Publisher, Received, Subscriber};
use causeway_os::process::poll;
use causeway_os::socket::{recv_with_fds, send_with_fds, seqpacket_pair};
use causeway_testkit::{eventually_seen, fuzz};
use rustix::net::Shutdown;

use crate::common::wire::{genuine, message};
use crate::common::{LONG, small};

/// The bytes of packets, and how each is sent.
fn packets(mut input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let ([how, low, high], rest) = input.split_first_chunk()?;
        let (packet, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*low, *high]))));
        input = rest;
        Some((*how, packet))
    })
}

fn some_of(fds: &[OwnedFd], how: u8) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).cycle().take(usize::from(how >> 4) % 8).collect()
}

/// Connections and descriptors at the moment.
fn held() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// One message crosses, and no member but these two stays in the group.
fn works(group: &Group, publisher: &mut Publisher, subscriber: &mut Subscriber) {
    publisher.publish_timeout(&[7; 10], LONG).unwrap();
    match subscriber.recv_timeout(LONG).unwrap() {
        Received::Message(message) => assert_eq!(message.bytes, [7; 10]),
        lost => panic!("{lost:?}"),
    }
    let members = || {
        let report = group.report().unwrap();
        (report.publishers.len(), report.subscribers.len())
    };
    eventually_seen("members stay", members, |members| *members == (1, 1));
}

#[test]
fn requests_of_any_kind_leave_a_group_as_it_was() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/control");
    let group = Group::create("control", small().late_publishers()).unwrap();
    let ends = (group.publisher().unwrap(), group.subscribe(Policy::Reliable).unwrap());
    let ends = std::cell::RefCell::new(ends);
    let fds: Vec<OwnedFd> = genuine(&group).into();
    fuzz::run(corpus, &["CWY1\u{9}\0\0\0", "\0\0\0\0", "\u{1}\0\0\0"], |input| {
        let before = held();
        let mut connections: [Option<OwnedFd>; 4] = [const { None }; 4];
        let mut answers = Vec::new();
        for (how, packet) in packets(input).take(32) {
            let connection = &mut connections[usize::from(how % 4)];
            if how & 4 != 0 {
                *connection = None;
            }
            let socket = connection.get_or_insert_with(|| group.invite().unwrap());
            // The server may have ended the connection.
            let _ = send_with_fds(&*socket, packet, &some_of(&fds, how));
            // Some packets are not answered.
            poll(&[socket.as_fd()], Some(Duration::from_micros(500))).unwrap();
            let mut answer = [0; 64];
            rustix::io::ioctl_fionbio(&*socket, true).unwrap();
            let received = recv_with_fds(&*socket, &mut answer, 6).map(|(bytes, fds)| (bytes, fds.len()));
            answers.push(received.ok().map(|(bytes, fds)| (bytes, fds, answer[8], answer[12])));
        }
        drop(connections);
        let (publisher, subscriber) = &mut *ends.borrow_mut();
        works(&group, publisher, subscriber);
        eventually_seen("descriptors stay", held, |count| *count <= before);
        answers
    });
}

#[test]
fn answers_of_any_kind_become_an_error_or_a_member() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/control");
    let group = Group::create("answers", small()).unwrap();
    let genuine = genuine(&group);
    fuzz::run(corpus, &["CWY1\u{9}\0\0\0", "\u{10}\0\0\0"], |input| {
        let before = held();
        let mut results = Vec::new();
        for publishes in [false, true] {
            let (near, far) = seqpacket_pair().unwrap();
            // The connection that it is given for its membership.
            let (connection, server) = seqpacket_pair().unwrap();
            let _ = send_with_fds(&far, &message(16, &[]), &[connection.as_fd()]);
            for (how, packet) in packets(input).take(16) {
                let socket = if how % 4 == 3 { &far } else { &server };
                let _ = send_with_fds(socket, packet, &some_of(&genuine, how));
            }
            // It takes requests, and says no more.
            for socket in [&far, &server] {
                rustix::net::shutdown(socket, Shutdown::Write).unwrap();
            }
            drop(connection);
            let Ok(joined) = Group::join_socket(near) else { continue };
            let result = if publishes {
                joined.publisher().map(|mut publisher| publisher.try_publish(&[1]).is_ok())
            } else {
                joined.subscribe(Policy::Lossy).map(|mut subscriber| subscriber.try_recv().is_ok())
            };
            results.push(result.map_err(|error| {
                let text = error.to_string();
                assert!(!text.is_empty());
                text.replace(char::is_numeric, "")
            }));
        }
        eventually_seen("descriptors stay", held, |count| *count <= before);
        results
    });
}
