//! What tests/c/cost.c does, in Rust: to count the instructions of both (docs/c.md).
//!
//!     cost [unknown] COUNT
//!
//! The compiler knows how long messages are and which of their fields are read; with `unknown` it knows no more than in C.

use std::hint::black_box;

use causeway::{Group, GroupOptions, Policy, Publisher, Received, Subscriber};

/// Round trips over two logs, both ends in one thread.
fn main() {
    let count: u64 =
        std::env::args().next_back().and_then(|count| count.parse().ok()).expect("a number of round trips");
    let make = || {
        let group = Group::create("cost", GroupOptions::new()).unwrap();
        let (publisher, subscriber) =
            (group.publisher().unwrap(), group.subscribe(Policy::Reliable).unwrap());
        (group, publisher, subscriber)
    };
    let pair = (make(), make());
    if std::env::args().any(|argument| argument == "unknown") {
        unknown(count, pair)
    } else {
        known(count, pair)
    }
}

type End = (Group, Publisher, Subscriber);

#[inline(never)]
fn known(count: u64, ((_one, mut there, mut far), (_two, mut back, mut near)): (End, End)) {
    for _ in 0..count {
        there.publish(&[7; 64]).unwrap();
        let Ok(Received::Message(message)) = far.try_recv() else { panic!("it is there") };
        back.publish(message.bytes).unwrap();
        let Ok(Received::Message(message)) = near.try_recv() else { panic!("it is there") };
        assert!(message.bytes.len() == 64);
    }
}

#[inline(never)]
fn unknown(count: u64, ((_one, mut there, mut far), (_two, mut back, mut near)): (End, End)) {
    for _ in 0..count {
        there.publish(black_box(&[7; 64][..])).unwrap();
        let Ok(Received::Message(message)) = far.try_recv() else { panic!("it is there") };
        back.publish(black_box(message).bytes).unwrap();
        let Ok(Received::Message(message)) = near.try_recv() else { panic!("it is there") };
        assert!(black_box(message).bytes.len() == 64);
    }
}
