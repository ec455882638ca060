//! What tests/c/cost.c does, in Rust: to count the instructions of both (docs/c.md).
//!
//!     cost COUNT

use causeway::{Group, GroupOptions, Policy, Received};

/// Round trips over two logs, both ends in one thread.
fn main() {
    let count: u64 =
        std::env::args().nth(1).and_then(|count| count.parse().ok()).expect("a number of round trips");
    let make = || {
        let group = Group::create("cost", GroupOptions::new()).unwrap();
        let (publisher, subscriber) =
            (group.publisher().unwrap(), group.subscribe(Policy::Reliable).unwrap());
        (group, publisher, subscriber)
    };
    let ((_one, mut there, mut far), (_two, mut back, mut near)) = (make(), make());
    for _ in 0..count {
        there.publish(&[7; 64]).unwrap();
        let Ok(Received::Message(message)) = far.try_recv() else { panic!("it is there") };
        back.publish(message.bytes).unwrap();
        let Ok(Received::Message(message)) = near.try_recv() else { panic!("it is there") };
        assert!(message.bytes.len() == 64);
    }
}
