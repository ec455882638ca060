//! A round trip of a call and its reply between two of N members, in two designs: an order log of references to outboxes, and
//! one log of several publishers with the payloads inside. `docs/decisions/bus-order.md` says what came of it.
//!
//! With two members, a third row is a whole call and its reply between two connections: names, headers, checks, pending calls. Its
//! switches are those of the caller and the callee.
//!
//! `order_versus_inline spin|sleep MEMBERS [ROUNDS]`: `spin` polls on two CPUs, `sleep` sleeps on one. The designs take turns, in
//! short rounds; printed are the lowest, the lower quartile and the median of the rounds, in ns per round trip.
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway::{Group, GroupOptions, Policy, Publisher, Received, SubscribeOptions, Subscriber};
use causeway_bus::port::{Descriptors, Outbound, Port, To, TransferRef};
use causeway_bus::shared::directory::{Directory, Peer, State};
use causeway_bus::shared::order::OrderLog;
use causeway_bus::shared::outbox::Outbox;
use causeway_bus::shared::ring::{self, Sleep};
use causeway_bus::wire::{Body, Builder, Header};
use causeway_bus::{AuthorityOptions, Connection, ConnectionOptions, Error, Incoming};
use causeway_os::{futex, sched};
use weighbridge_probe::counters::ThreadCounters;

const TURNS: u32 = 2_000;

#[derive(Clone, Copy, PartialEq)]
enum Wait {
    Spin,
    Sleep,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let wait = match args.get(1).map(String::as_str) {
        Some("spin") => Wait::Spin,
        Some("sleep") => Wait::Sleep,
        _ => panic!("usage: order_versus_inline spin|sleep MEMBERS [ROUNDS]"),
    };
    let members: usize = args[2].parse().expect("a number of members");
    let rounds: usize = args.get(3).map_or(101, |text| text.parse().expect("a number of rounds"));
    let (mut references, mut inline) = (Vec::new(), Vec::new());
    let (mut calls, mut switches) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        references.push(by_reference(wait, members));
        inline.push(inline_round(wait, members));
        if members == 2 {
            let (time, count) = by_call(wait);
            calls.push(time);
            switches.push(count);
        }
    }
    switches.sort_by(f64::total_cmp);
    for (name, mut times) in [("references", references), ("inline", inline), ("calls", calls)] {
        if times.is_empty() {
            continue;
        }
        times.sort_by(f64::total_cmp);
        let last = times.len() - 1;
        println!("{name:10} {:8.0} {:8.0} {:8.0} ns", times[0], times[last / 4], times[last / 2]);
    }
    if let Some(median) = switches.get(switches.len() / 2) {
        println!("a call has {median:.3} switches (median of the rounds)");
    }
}

/// Calls between two connections of a bus of their own; time of a call, and its switches.
fn by_call(wait: Wait) -> (f64, f64) {
    let path = std::env::temp_dir().join(format!("order-versus-inline-{}", std::process::id()));
    let (stop, stopper) = rustix::pipe::pipe().expect("a pipe");
    let (is_ready, ready) = std::sync::mpsc::channel();
    let bus = path.clone();
    let authority = std::thread::spawn(move || {
        causewayd::serve_alone(&bus, AuthorityOptions::default(), &stop, || {
            is_ready.send(()).expect("a reader")
        })
    });
    ready.recv().expect("a bus");
    let spin = if wait == Wait::Spin { Duration::from_secs(1) } else { Duration::ZERO };
    let connect = || {
        let options = ConnectionOptions { spin, ..ConnectionOptions::default() };
        Connection::open_with(&path, options).expect("a bus")
    };
    let (mut client, mut server) = (connect(), connect());
    let name = server.unique_name().to_owned();
    let switches = || {
        let counters = ThreadCounters::read();
        counters.voluntary_switches + counters.involuntary_switches
    };
    let total = Mutex::new(0);
    let count = |turn: u32, before: &mut u64| {
        // The last turn counts all but the first tenth, in which the ends find each other.
        if turn == TURNS / 10 {
            *before = switches();
        } else if turn == TURNS + TURNS / 10 {
            *total.lock().expect("no panic") += switches() - *before;
        }
    };
    let body = || Body::default().blob(&[7; 64]);
    let (mut ours, mut theirs) = ((0, 0), (0, 0));
    let time = run(
        wait,
        || {
            client.call(&name, "/a", "a.b", "Echo", body()).expect("a reply");
            ours.0 += 1;
            count(ours.0, &mut ours.1);
        },
        || {
            let Some(Incoming::Call(call)) = server.next(None).expect("a call") else { panic!("no call") };
            server.reply(&call, body()).expect("a caller");
            theirs.0 += 1;
            count(theirs.0, &mut theirs.1);
        },
    );
    let total = *total.lock().expect("no panic");
    rustix::io::write(&stopper, b"x").expect("a pipe");
    authority.join().expect("no panic").expect("a whole bus");
    (time, total as f64 / f64::from(TURNS))
}

fn message() -> Vec<u8> {
    let body = Body::default().blob(&[7; 64]);
    Builder::call("/a", "Echo")
        .interface("a.b")
        .destination(":1.3")
        .sender(":1.2")
        .body(body)
        .build(1)
        .expect("short")
}

fn pin(wait: Wait, end: usize) {
    let cpus = sched::allowed_cpus().expect("the CPUs of this process");
    let cpu = match wait {
        Wait::Spin => cpus[end % cpus.len()],
        Wait::Sleep => cpus[0],
    };
    sched::pin(&[cpu]).expect("pinned");
}

/// Runs both ends; `turn` of the first is timed.
fn run(wait: Wait, mut client: impl FnMut() + Send, mut server: impl FnMut() + Send) -> f64 {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(wait, 1);
            (0..TURNS + TURNS / 10).for_each(|_| server());
        });
        let timed = scope.spawn(move || {
            pin(wait, 0);
            (0..TURNS / 10).for_each(|_| client());
            let start = Instant::now();
            (0..TURNS).for_each(|_| client());
            start.elapsed().as_secs_f64() * 1e9 / f64::from(TURNS)
        });
        timed.join().expect("no panic")
    })
}

/// The outboxes of all members of this process.
#[derive(Clone)]
struct Table(Arc<Mutex<HashMap<u16, OwnedFd>>>);

impl Descriptors for Table {
    fn outbox(&mut self, slot: u16, _: u64) -> Result<Option<OwnedFd>, Error> {
        let table = self.0.lock().expect("no panic");
        Ok(table.get(&slot).map(|fd| fd.try_clone().expect("a descriptor")))
    }
    fn doorbell(&mut self, _: u16, _: u64) -> Result<Option<OwnedFd>, Error> {
        Ok(None)
    }
}

fn by_reference(wait: Wait, members: usize) -> f64 {
    let (_order_fd, order) = OrderLog::create(1 << 14, members + 1).expect("memory");
    let (_directory_fd, directory) = Directory::create(members + 1, members + 1, 16, [1, 2]).expect("memory");
    let (order, directory) = (Arc::new(order), Arc::new(directory));
    let table = Table(Arc::default());
    let ports: Vec<Port> = (0..members as u16)
        .map(|slot| {
            let (fd, outbox) = Outbox::create(1 << 18).expect("memory");
            table.0.lock().expect("no panic").insert(slot, fd);
            let id = u64::from(slot) + 2;
            let peer = Peer { id, carrier: slot, state: State::Active, ..Peer::default() };
            directory.set_peer(slot, &peer);
            Port::new(Arc::clone(&order), Arc::clone(&directory), outbox, slot, id, 0)
        })
        .collect();
    let is_over = AtomicBool::new(false);
    let mut ports = ports.into_iter();
    let (mut client, mut server) = (ports.next().expect("two"), ports.next().expect("two"));
    std::thread::scope(|scope| {
        for mut idle in ports {
            let (mut table, is_over) = (table.clone(), &is_over);
            scope.spawn(move || {
                pin(wait, 0);
                while !is_over.load(Ordering::Relaxed) {
                    while idle.next(&mut table).expect("a whole bus").is_some() {}
                    sleep(&mut idle, Duration::from_millis(50));
                }
            });
        }
        let (message, mut ours, mut theirs) = (message(), table.clone(), table.clone());
        let header = Header::parse(&message).expect("a message");
        let (to_server, to_client) = (To::Peer { slot: 1, id: 3 }, To::Peer { slot: 0, id: 2 });
        let per_turn = run(
            wait,
            || {
                let call = Outbound::new(to_server, 2, &header, &message);
                client.send(&mut ours, &call, TransferRef::default()).expect("space");
                receive(&mut client, &mut ours, wait);
            },
            || {
                receive(&mut server, &mut theirs, wait);
                let reply = Outbound::new(to_client, 3, &header, &message);
                server.send(&mut theirs, &reply, TransferRef::default()).expect("space");
            },
        );
        is_over.store(true, Ordering::Relaxed);
        per_turn
    })
}

fn receive(port: &mut Port, table: &mut Table, wait: Wait) {
    loop {
        if port.next(table).expect("a whole bus").is_some() {
            return;
        }
        match wait {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Sleep => sleep(port, Duration::from_secs(10)),
        }
    }
}

fn sleep(port: &mut Port, most: Duration) {
    port.publish_cursor();
    let order = Arc::clone(port.order());
    let armed = order.armed(port.slot());
    let value = ring::arm(armed, Sleep::Futex);
    if !port.is_ready() {
        let _ = futex::wait(armed, value, Some(most)).expect("a futex");
    }
    ring::disarm(armed);
}

fn inline_round(wait: Wait, members: usize) -> f64 {
    let options = GroupOptions::new().capacity_bytes(1 << 20).several_publishers();
    let group = Group::create("bus", options).expect("memory");
    let subscriber = |topic: u32| {
        let mut subscriber =
            group.subscribe(SubscribeOptions::new(Policy::Reliable).topics([topic])).expect("a place");
        subscriber.spin_at_most(Duration::ZERO);
        subscriber
    };
    let subscribers: Vec<Subscriber> = (0..members as u32).map(subscriber).collect();
    let (mut ours, mut theirs) = (group.publisher().expect("a place"), group.publisher().expect("a place"));
    let is_over = AtomicBool::new(false);
    let mut subscribers = subscribers.into_iter();
    let (mut client, mut server) = (subscribers.next().expect("two"), subscribers.next().expect("two"));
    // The same bytes: the header of the bus and the message.
    let payload = [vec![0; 64], message()].concat();
    std::thread::scope(|scope| {
        for mut idle in subscribers {
            let is_over = &is_over;
            scope.spawn(move || {
                pin(wait, 0);
                while !is_over.load(Ordering::Relaxed) {
                    while idle.try_recv().is_ok() {}
                    let _ = idle.wait(Some(Duration::from_millis(50)));
                }
            });
        }
        let publish = |publisher: &mut Publisher, topic| {
            publisher.publish_with_topic(topic, &payload).expect("a whole group");
        };
        let per_turn = run(
            wait,
            || {
                publish(&mut ours, 1);
                receive_inline(&mut client, wait);
            },
            || {
                receive_inline(&mut server, wait);
                publish(&mut theirs, 0);
            },
        );
        is_over.store(true, Ordering::Relaxed);
        per_turn
    })
}

fn receive_inline(subscriber: &mut Subscriber, wait: Wait) {
    loop {
        match subscriber.try_recv() {
            // The other design hands out a copy too.
            Ok(Received::Message(message)) => return drop(std::hint::black_box(message.bytes.to_vec())),
            _ if wait == Wait::Spin => std::hint::spin_loop(),
            _ => drop(subscriber.wait(Some(Duration::from_secs(10)))),
        }
    }
}
