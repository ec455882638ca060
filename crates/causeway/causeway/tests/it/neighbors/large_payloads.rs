//! Subscribers of another user that keep every payload file they can get, say that they read all of them, flood the server with requests
//! for files, and die.
//!
//! A pool has a fixed number of files. If publishers waited for every subscriber that keeps one, such a subscriber could stop them; if they
//! waited for none, memory could grow without bound.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway::log::layout::PREFIX_BYTES;
use causeway::log::word::{GRANULE_BYTES, HEADER_BYTES};
use causeway::{Access, Group, GroupOptions, LargePublisher, LargeSubscriber, Policy, PoolOptions, Received};
use causeway_os::memory::{Access as Protection, Mapping};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use causeway_testkit::is_root;
use rustix::net::{SendFlags, send, sockopt};

use super::{become_another_user, public_group};
use crate::common::wire::{Joined, connect, message};
use crate::common::{LONG, Peer, Rng};

const PAYLOAD_BYTES: usize = 64 << 10;
const FILES: u32 = 8;
/// A log whose messages are all recent.
const LOG_BYTES: usize = 4 << 10;
const LOG_END: usize = PREFIX_BYTES as usize + LOG_BYTES;
/// Words of a subscriber page.
const CURSOR: usize = 0;
const RECEIVED: usize = 0x100;
const REFERENCES: usize = 0x200;
/// A request for a file.
const PAYLOAD: u32 = 35;

/// Keeps files, floods and dies, in an order drawn at random, until it is killed.
pub fn hoard(path: &Path, seed: u64) {
    become_another_user();
    let mut random = Rng::with_seed(seed);
    let mut kept: Vec<(OwnedFd, Option<Mapping>)> = Vec::new();
    loop {
        // With the longest deadline that the group allows: publishers wait for it until that has passed once.
        let patient = Joined::with_policy(connect(path), [1, 50]);
        let Ok(joined) = patient.or_else(|_| Joined::with_policy(connect(path), [3, 0])) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        sockopt::set_socket_timeout(&joined.socket, sockopt::Timeout::Recv, Some(Duration::from_millis(100)))
            .unwrap();
        let log = Mapping::shared(&joined.log, LOG_END, Protection::ReadOnly).unwrap();
        // It holds no log: what it keeps are files.
        joined.page.atomic_u64(CURSOR).store(u64::MAX, Ordering::Release);
        for _ in 0..random.u64(..) % 5_000 {
            let [pool, index] = reference(&log, &mut random);
            let request = message(PAYLOAD, &[pool, index]);
            match random.u64(..) % 8 {
                0 => flood(&joined, &request),
                1 => {
                    let place = random.u64(..) as usize % 16;
                    let file = u64::from(pool) << 32 | u64::from(index);
                    joined.page.atomic_u64(REFERENCES + place * 8).store(file, Ordering::Release);
                }
                _ => {
                    let _ = send_with_fds(&joined.socket, &request, &[]);
                    let received = recv_with_fds(&joined.socket, &mut [0; 64], 1);
                    for file in received.map(|(_, fds)| fds).unwrap_or_default() {
                        let writable = Mapping::shared(&file, 4096, Protection::ReadWrite);
                        assert!(writable.is_err(), "a subscriber can write a payload");
                        let mapping = Mapping::shared(&file, 4096, Protection::ReadOnly).ok();
                        kept.push((file, mapping));
                        joined.page.atomic_u64(RECEIVED).store(kept.len() as u64, Ordering::Relaxed);
                    }
                }
            }
        }
        if random.u64(..).is_multiple_of(4) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        if kept.len() > 500 {
            kept.clear();
        }
    }
}

/// Pool and index of a file that some message refers to, or nonsense.
fn reference(log: &Mapping, random: &mut Rng) -> [u32; 2] {
    let granule = random.u64(..) as usize % (LOG_BYTES / GRANULE_BYTES as usize);
    let at = PREFIX_BYTES as usize + granule * GRANULE_BYTES as usize + HEADER_BYTES as usize;
    let file = log.load_u64(at).load(Ordering::Acquire);
    [(file >> 32) as u32, file as u32]
}

/// Asks and does not read.
fn flood(joined: &Joined, request: &[u8]) {
    for _ in 0..100 {
        if send(&joined.socket, request, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

fn publish(publisher: &mut LargePublisher, number: u64) {
    let mut loan = publisher.loan_timeout(PAYLOAD_BYTES, LONG).expect("the pool stays exhausted");
    loan.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&number.to_ne_bytes()));
    loan.publish().unwrap();
}

fn receive(subscriber: &mut LargeSubscriber, number: u64) {
    let message = match subscriber.recv_timeout(LONG).unwrap() {
        Received::Message(message) => message,
        lost => panic!("{lost:?} in place of payload {number}"),
    };
    let (mut words, mut wrong) = (0, 0);
    let each = |word| {
        words += 1;
        wrong += usize::from(word != number);
    };
    message.payload.for_each_word(each).unwrap();
    assert_eq!((words, wrong), (PAYLOAD_BYTES / 8, 0), "payload {number}");
}

/// Files of payloads that this process holds open. No other test of this program makes any.
fn payload_descriptors() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    names.filter(|name| name.to_string_lossy().contains("causeway-payload")).count()
}

#[test]
fn subscribers_that_keep_every_payload_flood_and_die_stop_nobody() {
    // Otherwise attackers are of the same user.
    is_root();
    for pool in [PoolOptions::new(PAYLOAD_BYTES).reused(), PoolOptions::new(PAYLOAD_BYTES).sealed()] {
        let options = GroupOptions::new().capacity_bytes(LOG_BYTES as u64).large_payloads();
        let (_dir, socket, group) = public_group(options.subscribers(Access::AnyUser));
        let mut publisher = group.large_publisher(pool.files(FILES)).unwrap();
        let mut honest =
            [Policy::Reliable, Policy::Reliable].map(|policy| group.large_subscribe(policy).unwrap());
        let start = |seed| Peer::start("hoard-payloads", &socket, seed);
        let mut seed = 0x1234_5678;
        eprintln!("hoarders begin with seed {seed:#x}");
        let mut hoarders: Vec<Peer> = (0..3).map(|number| start(seed + number)).collect();
        let (begin, mut number, mut most_kept) = (Instant::now(), 0u64, 0);
        // Until something was kept, and for a while longer.
        let mut until = None;
        while until.is_none_or(|until| number < until) {
            publish(&mut publisher, number);
            honest.iter_mut().for_each(|subscriber| receive(subscriber, number));
            number += 1;
            if number.is_multiple_of(16) {
                for hoarder in &mut hoarders {
                    if hoarder.has_ended() {
                        seed += 10;
                        *hoarder = start(seed);
                    }
                }
                let report = group.report().unwrap();
                let kept = report.subscribers.iter().filter(|one| one.policy != Policy::Reliable);
                most_kept = most_kept.max(kept.map(|one| one.received).max().unwrap_or(0));
            }
            if until.is_none() && most_kept >= 10 {
                until = Some(number + 500);
            }
            assert!(until.is_some() || begin.elapsed() < LONG, "nobody keeps payloads: {most_kept} kept");
            // Those of the pool, and what the server or a subscriber of this process handles at this moment.
            let open = payload_descriptors();
            assert!(open <= FILES as usize + 4, "{open} files are open");
        }
        // Without them, everything is free again.
        hoarders.iter_mut().for_each(Peer::kill);
        drop(hoarders);
        for number in number..number + u64::from(4 * FILES) {
            publish(&mut publisher, number);
            honest.iter_mut().for_each(|subscriber| receive(subscriber, number));
        }
    }
}

/// A subscriber that gives a file back now and then: that renewed its deadline.
#[test]
fn a_file_that_is_given_back_does_not_renew_a_deadline() {
    let group = Group::create("files", GroupOptions::new().large_payloads()).unwrap();
    let pool = PoolOptions::new(PAYLOAD_BYTES).files(2).reused();
    let mut publisher = group.large_publisher(pool).unwrap();
    let mut slow = group.large_subscribe(Policy::DemoteAfter(Duration::from_millis(100))).unwrap();
    let begin = Instant::now();
    while !matches!(slow.try_recv(), Ok(Received::Demoted)) {
        assert!(begin.elapsed() < LONG, "publishers still wait");
        for _ in 0..5 {
            if let Ok(loan) = publisher.loan_timeout(PAYLOAD_BYTES, Duration::from_millis(2)) {
                loan.publish().unwrap();
            }
        }
    }
}
