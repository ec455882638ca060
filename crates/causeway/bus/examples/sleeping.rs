//! What sleeping costs: a call and its reply, where both ends sleep on a futex, poll before they sleep, or sleep on a descriptor in an
//! event loop. `docs/decisions/bus-waiting.md` says what came of it.
//!
//! `sleeping [ROUNDS]`: the ways take turns, in short rounds. Printed are medians, on one CPU and on two.
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_bus::wire::Body;
use causeway_bus::{AuthorityOptions, Call, Connection, ConnectionOptions, Incoming};
use causeway_os::{clock, sched};

/// Calls of one round.
const CALLS: u32 = 500;
const NAME: &str = "com.example.Sleeper";

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Futex,
    Spin,
    Descriptor,
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(15, |text| text.parse().expect("a number of rounds"));
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("bus");
    let (stop, end) = rustix::pipe::pipe().expect("a pipe");
    let (is_ready, ready) = std::sync::mpsc::channel();
    let serving = {
        let socket = socket.clone();
        std::thread::spawn(move || {
            let options = AuthorityOptions::default();
            causewayd::serve_alone(&socket, options, &stop, || is_ready.send(()).expect("main waits"))
        })
    };
    ready.recv().expect("the bus comes up");

    let ways =
        [("futex", Way::Futex), ("futex, polled 30 µs before", Way::Spin), ("descriptor", Way::Descriptor)];
    let mut cells = vec![[vec![], vec![]]; 2 * ways.len()];
    let all = sched::allowed_cpus().expect("the CPUs of this process");
    let [first, last] = [all[0], all[all.len() - 1]];
    for _ in 0..rounds {
        for (place, cpus) in [[first, first], [first, last]].into_iter().enumerate() {
            for (index, (_, way)) in ways.iter().enumerate() {
                let [time, cpu] = &mut cells[place * ways.len() + index];
                let (time_ns, cpu_ns) = measure(&socket, *way, cpus, &all);
                time.push(time_ns);
                cpu.push(cpu_ns);
            }
        }
    }
    println!("| both ends sleep on | place | a call, µs | CPU time of both ends, µs |");
    println!("|---|---|---|---|");
    for (at, [time, cpu]) in cells.iter_mut().enumerate() {
        let place = ["one CPU", "two CPUs"][at / ways.len()];
        println!(
            "| {} | {place} | {:.2} | {:.2} |",
            ways[at % ways.len()].0,
            median(time) / 1e3,
            median(cpu) / 1e3
        );
    }
    rustix::io::write(&end, b"x").expect("the bus listens");
    serving.join().expect("the bus ends").expect("the bus was whole");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds of a call, and of CPU time of both ends.
fn measure(socket: &Path, way: Way, cpus: [u32; 2], all: &[u32]) -> (f64, f64) {
    // A member that may run on one CPU only does not poll.
    sched::pin(all).expect("these CPUs are there");
    let (is_ready, ready) = std::sync::mpsc::channel();
    let path = PathBuf::from(socket);
    let service = std::thread::spawn(move || {
        let mut member = open(&path, way);
        sched::pin(&[cpus[1]]).expect("the CPU is there");
        member.request_name(NAME, 0).expect("the name is free");
        is_ready.send(()).expect("the caller waits");
        let before = clock::thread_cpu_ns();
        for _ in 0..CALLS {
            let call = next_call(&mut member, way);
            member.reply(&call, Body::default()).expect("the bus is whole");
        }
        clock::thread_cpu_ns() - before
    });
    ready.recv().expect("the service comes up");
    let mut caller = open(socket, way);
    sched::pin(&[cpus[0]]).expect("the CPU is there");
    let before = clock::thread_cpu_ns();
    let start = Instant::now();
    for _ in 0..CALLS {
        let serial = caller.start_call(NAME, "/", NAME, "Wake", Body::default()).expect("a call");
        if way == Way::Descriptor {
            while !caller.is_finished(serial).expect("the bus is whole") {
                wait(&mut caller);
            }
        }
        caller.finish_call(serial, Duration::from_secs(60)).expect("a reply");
    }
    let time_ns = start.elapsed().as_nanos() as f64;
    let own = clock::thread_cpu_ns() - before;
    let theirs = service.join().expect("the service ends");
    (time_ns / f64::from(CALLS), (own + theirs) as f64 / f64::from(CALLS))
}

fn open(socket: &Path, way: Way) -> Connection {
    let spin = if way == Way::Spin { Duration::from_micros(30) } else { Duration::ZERO };
    let options = ConnectionOptions { spin, ..ConnectionOptions::default() };
    let mut member = Connection::open_with(socket, options).expect("room for a member");
    if way == Way::Descriptor {
        member.use_descriptor().expect("a descriptor");
    }
    member
}

fn next_call(member: &mut Connection, way: Way) -> Call {
    loop {
        let incoming = match way {
            Way::Descriptor => member.next_now(),
            Way::Futex | Way::Spin => member.next(None),
        };
        match incoming.expect("the bus is whole") {
            Some(Incoming::Call(call)) => return call,
            Some(_) => {}
            None => wait(member),
        }
    }
}

fn wait(member: &mut Connection) {
    if member.prepare_to_wait() {
        causeway_os::process::poll(&[member.as_fd()], None).expect("a wait");
    }
}
