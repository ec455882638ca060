//! How often a member allocates memory for a message, counted.
//!
//! # Safety
//! The allocator is that of the system; this one counts beside it, in a word of the thread that has no destructor.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use causeway_bus::Connection;
use causeway_bus::wire::Body;

use crate::support::*;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: each call is passed on to the allocator of the system, whose promises it keeps.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory is from `System`, as all of it is.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of this thread during `calls` calls, both ends of which it plays.
fn allocations(calls: u32, mut call: impl FnMut()) -> u64 {
    let before = ALLOCATIONS.get();
    (0..calls).for_each(|_| call());
    ALLOCATIONS.get() - before
}

fn call(client: &mut Connection, server: &mut Connection, destination: &str, body: fn() -> Body) {
    let serial = client.start_call(destination, PATH, INTERFACE, "Echo", body()).unwrap();
    let asked = crate::support::call(server);
    server.reply(&asked, body()).unwrap();
    // As where each end has a thread of its own.
    drop(asked);
    client.finish_call(serial, PATIENCE).unwrap();
}

/// A message takes the place of the one that its thread has dropped last, and arguments that of those that it has sent last. All else is there
/// from earlier calls.
#[test]
fn a_call_and_its_reply_take_no_allocation() {
    let bus = Bus::start();
    let (mut client, mut server) = (bus.member(), bus.member());
    server.request_name("com.example.Echo", 0).unwrap();
    // `NameAcquired`.
    while server.next_now().unwrap().is_some() {}
    let unique = server.unique_name().to_owned();
    for (destination, body) in [
        ("com.example.Echo", (|| Body::default().blob(&[7; 60])) as fn() -> Body),
        ("com.example.Echo", Body::default),
        ("com.example.Echo", || Body::of(&(1.5, "x")).unwrap()),
        (&unique, || Body::default().text("x")),
    ] {
        // Until the outboxes were used in full once.
        allocations(2000, || call(&mut client, &mut server, destination, body));
        let found = allocations(1000, || call(&mut client, &mut server, destination, body));
        assert_eq!(found, 0, "allocations of 1000 calls of {destination}");
    }
}
