//! What tests/c/cost.c does, in Rust: to count the instructions of both (docs/c.md).
//!
//!     cost log COUNT            cost call SOCKET COUNT        cost serve SOCKET

use std::time::Duration;

use causeway::call::{Client, serve};
use causeway::{Group, GroupOptions, Policy, Received};

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[1..] {
        ["log", count] => log(count.parse().unwrap()),
        ["call", socket, count] => call(socket, count.parse().unwrap()),
        ["serve", socket] => {
            let _server = serve(socket, |request| drop(request.responder.reply(request.bytes))).unwrap();
            loop {
                std::thread::park();
            }
        }
        _ => panic!("see the head of this file"),
    }
}

/// Round trips over two logs, both ends in one thread.
fn log(count: u64) {
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

fn call(socket: &str, count: u64) {
    let mut client = Client::connect(socket).unwrap();
    client.spin_at_most(Duration::ZERO);
    for _ in 0..count {
        let reply = client.call(&[7; 64], None).unwrap();
        assert!(reply.bytes.len() == 64);
    }
}
