//! Every subscriber hashes what it receives, and all hashes of a group are equal.
//!
//! `CAUSEWAY_ORDER_MESSAGES` sets how many messages are published in all; the long form has 1,000,000.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::common::{LONG, Peer, Role, eventually, join, next, options, served, setting, subscribers};
use causeway::{Group, Policy, SubscribeOptions};

const PUBLISHERS: u64 = 4;
const SUBSCRIBERS: u64 = 8;

fn messages_each() -> u64 {
    setting("CAUSEWAY_ORDER_MESSAGES", 40_000) / PUBLISHERS
}

/// The payload that publisher `publisher` sends as its message `sequence`: of varying length, all bytes known.
fn payload(publisher: u8, sequence: u32) -> Vec<u8> {
    let length = (u64::from(sequence) * 37 + u64::from(publisher) * 101) % 400;
    (0..length).map(|at| (at as u8).wrapping_add(sequence as u8).wrapping_mul(publisher + 3)).collect()
}

fn publish(group: &Group) {
    let mut publisher = group.publisher().unwrap();
    eventually("not all subscribers join", || subscribers(group) == SUBSCRIBERS as usize);
    for sequence in 0..messages_each() as u32 {
        let bytes = payload(publisher.id(), sequence);
        publisher.publish_timeout(&bytes, LONG).unwrap_or_else(|error| panic!("message {sequence}: {error}"));
    }
}

/// Receives everything, checks each publisher's own order, and publishes the hash of it all to the collector.
fn receive(group: &Group, results: &Group) {
    let mut results = results.publisher().unwrap();
    // From the oldest: publishers may start before this subscriber has found the end of the log.
    let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).from_oldest()).unwrap();
    let mut hasher = DefaultHasher::new();
    let mut expected = [0u32; 64];
    let mut count = 0;
    while count < messages_each() * PUBLISHERS {
        let received = subscriber.recv_timeout(LONG);
        let message = received.unwrap_or_else(|error| panic!("after {count} messages: {error}")).message();
        let message = message.expect("a reliable subscriber loses nothing");
        let own = &mut expected[usize::from(message.publisher)];
        assert_eq!(message.sequence, *own, "publisher {}", message.publisher);
        assert!(message.bytes == payload(message.publisher, message.sequence), "bytes of {message:?}");
        *own += 1;
        count += 1;
        (message.position, message.publisher, message.sequence, message.bytes).hash(&mut hasher);
    }
    results.try_publish(&hasher.finish().to_le_bytes()).unwrap();
}

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("publish-in-order", |socket, _| publish(&join(socket))),
    ("receive-in-order", |socket, _| receive(&join(socket), &join(&socket.with_extension("results")))),
];

#[test]
fn eight_processes_see_the_messages_of_four_in_one_order() {
    let options = options().capacity_bytes(64 << 10);
    let (_dir, socket, _group) = served(options.clone().remote_publishers(PUBLISHERS as u32));
    let results = Group::create("results", options.remote_publishers(SUBSCRIBERS as u32)).unwrap();
    results.serve_at(socket.with_extension("results")).unwrap();

    let mut peers: Vec<Peer> =
        (0..SUBSCRIBERS).map(|number| Peer::start("receive-in-order", &socket, number)).collect();
    peers.extend((0..PUBLISHERS).map(|number| Peer::start("publish-in-order", &socket, number)));
    let mut collector = results.subscribe(Policy::Reliable).unwrap();

    let hashes: Vec<_> = (0..SUBSCRIBERS).map(|_| next(&mut collector)).collect();
    peers.iter_mut().for_each(Peer::succeed);
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "subscribers disagree: {hashes:?}");
}
