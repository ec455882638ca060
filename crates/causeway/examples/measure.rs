//! The measurements behind `docs/decisions/`: what the parts cost on this machine.
//!
//! `cargo run --release -p causeway --example measure [roundtrip|look|claim|doorbell|mapping|fanout]`
//!
//! Threads of one process stand for processes: the memory, the kernel calls and the cache lines are the same. For
//! comparisons that are to be published use Weighbridge.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use causeway::{Group, GroupOptions, Policy, Publisher, Received, Subscriber};
use causeway_os::memory::{Access, Mapping, memfd};
use causeway_os::{futex, sched, socket};

const PLACES: [(&str, [u32; 2]); 2] = [("same CPU", [0, 0]), ("two CPUs", [0, 1])];

fn main() {
    let wanted = std::env::args().nth(1);
    let parts: [(&str, fn()); 6] = [
        ("roundtrip", roundtrips),
        ("look", looks),
        ("claim", claims),
        ("doorbell", doorbells),
        ("mapping", mappings),
        ("fanout", fanouts),
    ];
    for (name, part) in parts {
        if wanted.as_ref().is_none_or(|wanted| wanted == name) {
            println!("## {name}");
            part();
        }
    }
}

/// Runs `there` in a second thread and `here` in this one, pinned; returns the median of 21 batches in ns per call.
fn pair(
    cpus: [u32; 2],
    per_batch: u32,
    mut here: impl FnMut() + Send,
    mut there: impl FnMut() + Send,
) -> f64 {
    const BATCHES: usize = 22;
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sched::pin(&[cpus[1]]).expect("pin");
            start.wait();
            for _ in 0..BATCHES as u32 * per_batch {
                there();
            }
        });
        let timed = scope.spawn(|| {
            sched::pin(&[cpus[0]]).expect("pin");
            start.wait();
            let mut batches: Vec<f64> = (0..BATCHES)
                .map(|_| {
                    let begin = Instant::now();
                    (0..per_batch).for_each(|_| here());
                    begin.elapsed().as_nanos() as f64 / f64::from(per_batch)
                })
                .skip(1)
                .collect();
            batches.sort_by(f64::total_cmp);
            batches[batches.len() / 2]
        });
        timed.join().expect("measuring thread")
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    Spin,
    Adaptive,
    Futex,
    Doorbell,
}

fn take(subscriber: &mut Subscriber, wait: Wait) -> u64 {
    loop {
        if wait == Wait::Spin {
            let _ = subscriber.spin(None).expect("spin");
        }
        if let Received::Message(message) = subscriber.receive().expect("receive") {
            return message.bytes.iter().map(|byte| u64::from(*byte)).sum();
        }
        if wait != Wait::Spin {
            let _ = subscriber.wait(None).expect("wait");
        }
    }
}

fn ends(several: bool, wait: Wait) -> (Group, Publisher, Subscriber) {
    let options = GroupOptions::new();
    let group = Group::create("measure", if several { options.several_publishers() } else { options })
        .expect("group");
    let publisher = group.publisher().expect("publisher");
    let mut subscriber = group.subscribe(Policy::Reliable).expect("subscriber");
    if matches!(wait, Wait::Futex | Wait::Doorbell) {
        subscriber.spin_at_most(Duration::ZERO);
    }
    subscriber.sleep_on_descriptor(wait == Wait::Doorbell);
    (group, publisher, subscriber)
}

fn roundtrips() {
    for (place, cpus) in PLACES {
        for several in [false, true] {
            for wait in [Wait::Spin, Wait::Adaptive, Wait::Futex, Wait::Doorbell] {
                if wait == Wait::Spin && cpus[0] == cpus[1] {
                    continue;
                }
                for size in [8, 4096, 65536] {
                    let (_ping, mut ping_out, mut ping_in) = ends(several, wait);
                    let (_pong, mut pong_out, mut pong_in) = ends(several, wait);
                    let payload = vec![1; size];
                    let per_batch = if wait == Wait::Spin && size == 8 { 20_000 } else { 1000 };
                    let ns = pair(
                        cpus,
                        per_batch,
                        || {
                            let _ = ping_out.publish(&payload).expect("publish");
                            black_box(take(&mut pong_in, wait));
                        },
                        || {
                            black_box(take(&mut ping_in, wait));
                            let _ = pong_out.publish(&payload).expect("publish");
                        },
                    );
                    let kind = if several { "mw" } else { "sw" };
                    println!("{place}, {kind}, {wait:?}, {size} B: {ns:.0} ns/roundtrip");
                }
            }
        }
    }
}

/// When to look first: round trips of 8 B between two CPUs, with so many pauses of the processor before the first look at
/// what is due, of a bare word in each direction and of Causeway; and what publishing and receiving take by themselves.
fn looks() {
    const ROUNDS: usize = 5;
    const PER_BATCH: u32 = 10_000;
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let pause = |times| (0..times).for_each(|_| std::hint::spin_loop());
    let begin = Instant::now();
    pause(100_000);
    println!("one pause: {:.1} ns", begin.elapsed().as_nanos() as f64 / 1e5);

    let words = || {
        let word = || Apart(AtomicU64::new(0));
        let (ping, pong) = (word(), word());
        let (mut sent, mut answered) = (0, 0);
        let here = || {
            sent += 1;
            ping.0.store(sent, Ordering::SeqCst);
            while pong.0.load(Ordering::SeqCst) != sent {
                std::hint::spin_loop();
            }
        };
        let there = || {
            answered += 1;
            while ping.0.load(Ordering::SeqCst) != answered {
                std::hint::spin_loop();
            }
            pong.0.store(answered, Ordering::SeqCst);
        };
        pair([0, 1], PER_BATCH, here, there)
    };
    let messages = |pauses: Option<u32>| {
        let (_ping, mut ping_out, mut ping_in) = ends(false, Wait::Spin);
        let (_pong, mut pong_out, mut pong_in) = ends(false, Wait::Spin);
        let take = |subscriber: &mut Subscriber| {
            match pauses {
                None => drop(subscriber.spin(None).expect("spin")),
                Some(pauses) => {
                    pause(pauses);
                    while !subscriber.is_ready().expect("look") {
                        std::hint::spin_loop();
                    }
                }
            }
            received(subscriber)
        };
        let here = || {
            publish(&mut ping_out, 1);
            black_box(take(&mut pong_in));
        };
        let there = || {
            let value = take(&mut ping_in);
            publish(&mut pong_out, value);
        };
        pair([0, 1], PER_BATCH, here, there)
    };
    let mut bare = Vec::new();
    let mut ways: Vec<(Option<u32>, Vec<f64>)> =
        [Some(0), Some(1), Some(2), Some(3), Some(4), None].map(|way| (way, Vec::new())).into();
    for _ in 0..ROUNDS {
        bare.push(words());
        for (way, values) in &mut ways {
            values.push(messages(*way));
        }
    }
    println!("two bare words: {:.0} ns/roundtrip", median(bare));
    for (way, values) in ways {
        let way = way.map_or("Subscriber::spin".into(), |pauses| format!("{pauses} pauses first"));
        println!("Causeway, {way}: {:.0} ns/roundtrip", median(values));
    }

    let (_group, mut publisher, mut subscriber) = ends(false, Wait::Spin);
    let begin = Instant::now();
    for value in 0..1_000_000 {
        publish(&mut publisher, value);
        assert_eq!(received(&mut subscriber), value);
    }
    println!("publish and receive on one thread: {:.1} ns", begin.elapsed().as_nanos() as f64 / 1e6);
}

/// A word that has its cache lines to itself.
#[repr(align(128))]
struct Apart(AtomicU64);

fn publish(publisher: &mut Publisher, value: u64) {
    let mut loan = publisher.loan_within(8, None).expect("loan").expect("waits without end");
    loan.copy_from_slice(&value.to_ne_bytes());
    loan.commit().expect("commit");
}

fn received(subscriber: &mut Subscriber) -> u64 {
    match subscriber.receive().expect("receive") {
        Received::Message(message) => u64::from_ne_bytes(message.bytes.try_into().expect("eight bytes")),
        other => panic!("{other:?}"),
    }
}

/// Publishers hammering one log without receivers, against claiming by fetch-and-add in the same memory.
fn claims() {
    const MESSAGES: u32 = 20_000;
    for threads in [1usize, 2] {
        let group = Group::create("measure", GroupOptions::new().several_publishers()).expect("group");
        let publishers: Vec<Publisher> =
            (0..threads).map(|_| group.publisher().expect("publisher")).collect();
        let ns = hammer(publishers, MESSAGES, |publisher| {
            let _ = publisher.publish(&[1; 8]).expect("publish");
        });
        println!("{threads} publishers, header compare-and-swap (whole publish): {ns:.1} ns/message");
        let (tail, ring) = (AtomicU64::new(0), ring());
        let ns = hammer(vec![(); threads], MESSAGES, |()| {
            // What a claim by fetch-and-add does at least: take a place, mark it busy, write, mark it done.
            let at = tail.fetch_add(1, Ordering::AcqRel) as usize % ring.len();
            let frame = &ring[at].0;
            frame[0].store(1, Ordering::Release);
            frame[1].store(8, Ordering::Relaxed);
            frame[2].store(at as u64, Ordering::Relaxed);
            frame[3].store(0, Ordering::Relaxed);
            frame[4].store(0x0101_0101_0101_0101, Ordering::Relaxed);
            frame[0].swap(2, Ordering::SeqCst);
        });
        println!(
            "{threads} publishers, fetch-and-add on a tail (protocol only, no limit, no death): {ns:.1} ns/message"
        );
        let (hint, ring) = (AtomicU64::new(0), self::ring());
        let ns = hammer((0..threads).map(|_| 0usize).collect(), MESSAGES, |next| {
            // The same minimum for a header claim: try, follow the chain, write, mark done.
            loop {
                let frame = &ring[*next % ring.len()].0;
                let lap = (*next / ring.len()) as u64;
                if frame[0]
                    .compare_exchange(lap * 4, lap * 4 + 1, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
                {
                    frame[1].store(8, Ordering::Relaxed);
                    frame[2].store(*next as u64, Ordering::Relaxed);
                    frame[3].store(0, Ordering::Relaxed);
                    frame[4].store(0x0101_0101_0101_0101, Ordering::Relaxed);
                    frame[0].swap((lap + 1) * 4, Ordering::SeqCst);
                    *next += 1;
                    if next.is_multiple_of(64) {
                        hint.fetch_max(*next as u64, Ordering::Release);
                    }
                    return;
                }
                *next += 1;
                if next.is_multiple_of(64) {
                    *next = (*next).max(hint.load(Ordering::Acquire) as usize);
                }
            }
        });
        println!(
            "{threads} publishers, header compare-and-swap (protocol only, no limit): {ns:.1} ns/message"
        );
    }
}

#[repr(align(64))]
struct Granule([AtomicU64; 8]);

fn ring() -> Vec<Granule> {
    (0..4096).map(|_| Granule(Default::default())).collect()
}

/// ns per message when all `publishers` publish at once, the best of 15 rounds for each, then the mean of all.
fn hammer<P: Send>(publishers: Vec<P>, messages: u32, publish: impl Fn(&mut P) + Sync) -> f64 {
    let start = Barrier::new(publishers.len());
    let count = publishers.len();
    let rounds: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = publishers
            .into_iter()
            .enumerate()
            .map(|(cpu, mut publisher)| {
                let (start, publish) = (&start, &publish);
                scope.spawn(move || {
                    sched::pin(&[cpu as u32]).expect("pin");
                    let mut times: Vec<f64> = (0..15)
                        .map(|_| {
                            start.wait();
                            let begin = Instant::now();
                            (0..messages).for_each(|_| publish(&mut publisher));
                            begin.elapsed().as_nanos() as f64
                        })
                        .collect();
                    times.sort_by(f64::total_cmp);
                    times[times.len() / 2]
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("publisher")).collect()
    });
    rounds.iter().sum::<f64>() / count as f64 / f64::from(messages) / count as f64
}

/// One sleeping thread wakes another and sleeps in its turn, by every bell there is.
fn doorbells() {
    for (place, cpus) in PLACES {
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let ring = |index: usize| {
            words[index].fetch_add(1, Ordering::SeqCst);
            let _ = futex::wake(&words[index], 1);
        };
        let listen = |index: usize, seen: &mut u32| {
            while words[index].load(Ordering::SeqCst) == *seen {
                let _ = futex::wait(&words[index], *seen, None);
            }
            *seen += 1;
        };
        let (mut here, mut there) = (0, 0);
        let ns = pair(
            cpus,
            1000,
            || {
                ring(0);
                listen(1, &mut here);
            },
            || {
                listen(0, &mut there);
                ring(1);
            },
        );
        println!("{place}, futex: {ns:.0} ns/roundtrip");
        for (name, [a, b]) in descriptors() {
            let mut byte = [0; 8];
            let mut other = [0; 8];
            let ns = pair(
                cpus,
                1000,
                || {
                    rustix::io::write(&a.1, &1u64.to_ne_bytes()[..a.2]).expect("ring");
                    rustix::io::read(&b.0, &mut byte[..]).expect("listen");
                },
                || {
                    rustix::io::read(&a.0, &mut other[..]).expect("listen");
                    rustix::io::write(&b.1, &1u64.to_ne_bytes()[..b.2]).expect("ring");
                },
            );
            println!("{place}, {name}: {ns:.0} ns/roundtrip");
        }
    }
}

/// Two channels each: the end to read, the end to write, bytes to write.
type Channel = (OwnedFd, OwnedFd, usize);

fn descriptors() -> Vec<(&'static str, [Channel; 2])> {
    let event = || {
        let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("eventfd");
        (fd.try_clone().expect("descriptor"), fd, 8)
    };
    let pipe = || {
        let (read, write) = rustix::pipe::pipe().expect("pipe");
        (read, write, 1)
    };
    let socket = || {
        let (near, far) = socket::stream_pair().expect("sockets");
        (near, far, 1)
    };
    vec![
        ("eventfd", [event(), event()]),
        ("pipe byte", [pipe(), pipe()]),
        ("socket byte", [socket(), socket()]),
    ]
}

/// A frame across the end of the ring: one copy through a second mapping, or two copies.
fn mappings() {
    const RING: usize = 1 << 18;
    let fd = memfd("measure", RING as u64).expect("memfd");
    let begin = Instant::now();
    for _ in 0..200 {
        drop(black_box(Mapping::shared(&fd, RING, Access::ReadWrite).expect("mapping")));
    }
    let single = begin.elapsed() / 200;
    let begin = Instant::now();
    for _ in 0..200 {
        drop(black_box(Mapping::ring(&fd, 0, RING, Access::ReadWrite).expect("mapping")));
    }
    println!("mapping once: {single:?}, twice: {:?}", begin.elapsed() / 200);
    for size in [64usize, 1000, 4000, 60_000] {
        let payload = vec![1u8; size];
        let (mut doubled, mut split) = (vec![0u8; 2 * RING], vec![0u8; RING]);
        let rounds = 20_000;
        // The heap stands for both: what differs is one copy or two with a branch.
        let mut position = 0usize;
        let begin = Instant::now();
        for _ in 0..rounds {
            let at = position % RING;
            doubled[at..at + size].copy_from_slice(black_box(&payload));
            position += size + 36;
        }
        let one = begin.elapsed() / rounds;
        position = 0;
        let begin = Instant::now();
        for _ in 0..rounds {
            let at = position % RING;
            let first = size.min(RING - at);
            split[at..at + first].copy_from_slice(black_box(&payload[..first]));
            split[..size - first].copy_from_slice(black_box(&payload[first..]));
            position += size + 36;
        }
        black_box((&doubled, &split));
        println!("{size} B: one copy {one:?}, split where needed {:?}", begin.elapsed() / rounds);
    }
}

/// What a publish costs with many receivers that are awake and do not read, and with many that sleep.
fn fanouts() {
    for receivers in [0, 1, 10, 100, 250] {
        let group = Group::create("measure", GroupOptions::new()).expect("group");
        let mut publisher = group.publisher().expect("publisher");
        let _subscribers: Vec<Subscriber> =
            (0..receivers).map(|_| group.subscribe(Policy::Lossy).expect("subscriber")).collect();
        sched::pin(&[0]).expect("pin");
        let _ = publisher.publish(&[1; 8]).expect("publish");
        let mut batches: Vec<f64> = (0..21)
            .map(|_| {
                let begin = Instant::now();
                for _ in 0..2000 {
                    let _ = publisher.publish(&[1; 8]).expect("publish");
                }
                begin.elapsed().as_nanos() as f64 / 2000.0
            })
            .collect();
        batches.sort_by(f64::total_cmp);
        println!("{receivers} awake receivers: {:.0} ns/publish", batches[10]);
    }
}
