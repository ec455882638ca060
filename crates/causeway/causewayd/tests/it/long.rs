//! Messages that are much work for the bus: it does a little of it at a time, and serves others between.

use std::sync::atomic::{AtomicBool, Ordering};

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, Marshal};

use crate::support::*;

/// Structs inside each other as deep as can be: of all bodies the most work for its bytes.
fn hard_body(bytes: usize) -> Body {
    let mut out = Marshal::default();
    out.array(8, |out| {
        for _ in 0..bytes / 8 {
            out.align(8);
            out.byte(7);
        }
    });
    out.into_body(&format!("a{}y{}", "(".repeat(32), ")".repeat(32)))
}

/// How many calls the bus answers from when a signal is in its hands until the receiver has it.
fn calls_meanwhile(bus: &Broker, sender: &mut Client, receiver: &mut Client, bytes: usize) -> usize {
    let (is_sent, has_arrived) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut witness = bus.client();
    receiver.add_match(RULE).unwrap();
    let signal = Builder::signal(PATH, INTERFACE, "Hard").body(hard_body(bytes));
    let built = signal.build(1).unwrap();
    let body = &built[header(&built).header_bytes..];
    let mut calls = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sender.send(&signal).unwrap();
            is_sent.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            let message = client_signal(receiver);
            assert!(message.ends_with(body), "the body has changed");
            has_arrived.store(true, Ordering::Relaxed);
        });
        while !has_arrived.load(Ordering::Relaxed) {
            sync(&mut witness);
            calls += usize::from(is_sent.load(Ordering::Relaxed));
        }
    });
    calls
}

/// Each slice of a check is a turn of the loop, in which others have theirs.
#[test]
fn others_are_served_while_a_body_is_checked() {
    let bus = Broker::native();
    for receiver in &mut bus.of_both_kinds() {
        let calls = calls_meanwhile(&bus, &mut bus.client(), receiver, 16 << 20);
        assert!(calls >= 20, "{calls} calls were answered");
    }
    calls_meanwhile(&bus, &mut bus.client(), &mut bus.client(), 900 << 10);
}
