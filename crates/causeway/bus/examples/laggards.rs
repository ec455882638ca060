//! How long members that are stopped delay a sender. `docs/decisions/bus-waiting.md` says what came of it.
//!
//! `laggards [DEADLINE_MS]`: one member emits signals as fast as it can. Others want them and never read; for the last row, others
//! do not want them and never read. Printed are the longest time of a signal, and how many members were evicted.
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::path::Path;
use std::time::{Duration, Instant};

use causeway_bus::wire::Body;
use causeway_bus::{AuthorityOptions, Connection, ConnectionOptions};

/// More than the order log has entries.
const SIGNALS: u32 = 100_000;

fn main() {
    let deadline = std::env::args().nth(1).map_or(250, |text| text.parse().expect("milliseconds"));
    let deadline = Duration::from_millis(deadline);
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("bus");
    let (stop, end) = rustix::pipe::pipe().expect("a pipe");
    let (is_ready, ready) = std::sync::mpsc::channel();
    let options = AuthorityOptions { laggard_deadline: deadline, ..AuthorityOptions::default() };
    let serving = {
        let socket = socket.clone();
        std::thread::spawn(move || {
            causewayd::serve_alone(&socket, options, &stop, || is_ready.send(()).expect("main waits"))
        })
    };
    ready.recv().expect("the bus comes up");

    println!("| stopped members | longest time of a signal, ms | of all {SIGNALS}, ms | put out |");
    println!("|---|---|---|---|");
    for (count, rule) in [(0, "W"), (1, "W"), (5, "W"), (20, "W"), (100, "W"), (20, "N")] {
        let (longest, all, out) = measure(&socket, deadline, count, rule);
        let what = if rule == "W" { "that want the signals" } else { "that do not" };
        println!(
            "| {count} {what} | {:.1} | {:.0} | {out} |",
            longest.as_secs_f64() * 1e3,
            all.as_secs_f64() * 1e3
        );
    }
    rustix::io::write(&end, b"x").expect("the bus listens");
    serving.join().expect("the bus ends").expect("the bus was whole");
}

fn measure(socket: &Path, deadline: Duration, count: usize, rule: &str) -> (Duration, Duration, usize) {
    let options = ConnectionOptions { laggard_deadline: Some(deadline), ..ConnectionOptions::default() };
    let mut sender = Connection::open_with(socket, options).expect("room for a sender");
    let mut stopped: Vec<Connection> = (0..count)
        .map(|_| {
            let mut member = Connection::open(socket).expect("room for a member");
            member.add_match(&format!("interface='com.example.Lag',member='{rule}'")).expect("a rule");
            member
        })
        .collect();
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    for _ in 0..SIGNALS {
        let before = Instant::now();
        sender.emit("/", "com.example.Lag", "W", Body::default().u32(1)).expect("the bus is whole");
        longest = longest.max(before.elapsed());
    }
    let all = start.elapsed();
    let is_out = |member: &mut Connection| {
        loop {
            match member.next_now() {
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    };
    let out = stopped.iter_mut().map(|member| usize::from(is_out(member))).sum();
    (longest, all, out)
}
