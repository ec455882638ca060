//! What checking a body costs: bodies of 16 MiB that are much work for their bytes, best of five.
//!
//! `cargo run --release -p causeway-dbus-wire --example check_bodies`

#![allow(clippy::print_stdout, reason = "its figures are what it is for")]

use std::time::{Duration, Instant};

use causeway_dbus_wire::wire::{Builder, Checker, Header, Marshal};

const BYTES: usize = 16 << 20;

fn main() {
    let structs = format!("a{}y{}", "(".repeat(32), ")".repeat(32));
    let arrays = format!("{}s", "a".repeat(32));
    measure("ay", |out| out.array(1, |out| (0..BYTES).for_each(|_| out.byte(7))));
    measure("ab", |out| out.array(4, |out| (0..BYTES / 4).for_each(|_| out.u32(1))));
    measure("s", |out| out.text(&"x".repeat(BYTES)));
    measure("as", |out| out.texts(std::iter::repeat_n("abc", BYTES / 8)));
    measure("aas", |out| out.array(4, |out| (0..BYTES / 12).for_each(|_| out.texts(["abc"]))));
    measure(&arrays, |out| {
        out.array(4, |out| (0..BYTES / 132).for_each(|_| nested(out, 31)));
    });
    measure(&structs, |out| {
        out.array(8, |out| {
            for _ in 0..BYTES / 8 {
                out.align(8);
                out.byte(7);
            }
        });
    });
    measure("a{sv}", |out| {
        out.array(8, |out| {
            for _ in 0..BYTES / 192 {
                out.align(8);
                out.text("key");
                (0..60).for_each(|_| out.signature("v"));
                out.signature("y");
                out.byte(7);
            }
        });
    });
    let long = format!("a({})", "y".repeat(252));
    measure("av", |out| {
        out.array(1, |out| {
            for _ in 0..BYTES / 272 {
                out.signature(&long);
                out.array(8, |_| {});
            }
        });
    });
}

fn nested(out: &mut Marshal, depth: u32) {
    match depth {
        0 => out.text(""),
        _ => out.array(4, |out| nested(out, depth - 1)),
    }
}

fn measure(types: &str, write: impl FnOnce(&mut Marshal)) {
    let mut out = Marshal::default();
    write(&mut out);
    let message =
        Builder::signal("/", "a.B", "C").body(out.into_body(types)).build(1).expect("within the limits");
    let header = Header::parse(&message).expect("it was built");
    let body = &message[header.header_bytes..];
    let (mut checker, mut best, mut turns) = (Checker::default(), Duration::MAX, 0);
    for _ in 0..5 {
        let began = Instant::now();
        checker.begin(&header);
        turns = 1;
        while !checker.advance(body, 1 << 15).expect("it is valid") {
            turns += 1;
        }
        best = best.min(began.elapsed());
    }
    let rate = body.len() as f64 / best.as_secs_f64() / 1e6;
    let slice_us = best.as_secs_f64() / f64::from(turns) * 1e6;
    let name: String = types.chars().take(12).collect();
    println!("{name:<12} {rate:>9.0} MB/s  {turns:>4} slices of {slice_us:.0} µs");
}
