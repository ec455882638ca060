//! Messages that are much work for the bus: it does a little of it at a time, and serves others between.

use std::sync::atomic::{AtomicBool, Ordering};

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, Marshal};
use nix::libc;

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

/// The same message of 100,000 bytes, in reads of a thousand and in as many as there are otherwise.
#[test]
fn how_much_is_read_at_once_is_what_the_configuration_says() {
    if !has_ptrace() {
        return;
    }
    let reads = |settings: &str| {
        let bus = Broker::configured(settings);
        let (mut sender, mut receiver) = (bus.client(), bus.client());
        let to = receiver.unique_name().to_owned();
        let traced = Traced::seize_running(bus.child.pid() as i32);
        let is_over = AtomicBool::new(false);
        let (mut longest, mut count) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let body = Body::default().blob(&[7; 100_000]);
                sender.send(&Builder::signal(PATH, INTERFACE, "Long").destination(&to).body(body)).unwrap();
                let message = wait_for_member(&mut receiver, "Long");
                assert!(message.ends_with(&[7; 100_000]));
                is_over.store(true, Ordering::Relaxed);
            });
            traced.run_failing(
                |call| {
                    if call.number == libc::SYS_recvmsg as u64 {
                        // The length of the first buffer: `msg_iov` is the third field of the header.
                        let field = |at: u64| read_u64(bus.child.pid(), at);
                        longest = longest.max(field(field(call.arguments[1] + 16) + 8));
                        count += 1;
                    }
                    None
                },
                || is_over.load(Ordering::Relaxed),
            );
        });
        (longest, count)
    };
    let (longest, count) = reads("<limit name='max_bytes_read_per_iteration'>1000</limit>");
    assert!(longest == 1000 && count >= 100, "{count} reads of at most {longest} bytes");
    let (longest, count) = reads("");
    assert!(longest == 64 << 10 && count < 50, "{count} reads of at most {longest} bytes");
}

/// A word in the memory of another process.
fn read_u64(process: u32, at: u64) -> u64 {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0; 8];
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).unwrap();
    memory.read_exact_at(&mut bytes, at).unwrap();
    u64::from_ne_bytes(bytes)
}
