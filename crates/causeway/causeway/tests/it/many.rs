//! As many subscribers as a group can have, and what one of them costs.

use std::path::Path;
use std::time::Duration;

use crate::common::limits::{allow_many_descriptors, in_a_process_of_its_own};
use crate::common::{LONG, Peer, Role, addresses, descriptors, drain, eventually_seen, join, next, small};
use causeway::log::layout::{PAGE_BYTES, PREFIX_BYTES, SUBSCRIBERS_MAX};
use causeway::{Group, Policy, Received, RecvTimeoutError, Subscriber, Trust, TryRecvError};
use causeway_testkit::{Cause, skipped};
use rustix::process::{Resource, getrlimit};

/// Descriptors of a subscriber in its own process, in the server, and there without the pidfd of another process.
const OWN: usize = 3;
const SERVER: usize = 4;
const LOCAL: usize = SERVER - 1;
/// Threads that poll many subscribers each, and threads that each sleep with one.
const POLLING: usize = 3;
const SLEEPING: usize = 8;
const PUBLISHERS: u64 = 2;
const MESSAGES_EACH: u64 = 500;

/// How many subscribers this process can have beside its server.
fn subscribers_that_fit() -> usize {
    allow_many_descriptors();
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) as usize;
    let fit = (limit.saturating_sub(200) / (OWN + LOCAL)).min(SUBSCRIBERS_MAX);
    if fit < SUBSCRIBERS_MAX {
        let detail = format!("{limit} allow {fit} subscribers in place of {SUBSCRIBERS_MAX}");
        skipped(Cause::Rights("open files"), detail);
    }
    fit
}

/// A subscriber and what it has seen.
struct Checked {
    subscriber: Subscriber,
    is_reliable: bool,
    /// The sequence number that is expected next of each publisher.
    next: [u64; PUBLISHERS as usize],
    received: u64,
    lost: u64,
}

impl Checked {
    fn new(group: &Group, number: usize) -> Checked {
        let is_reliable = number.is_multiple_of(2);
        let policy = if is_reliable { Policy::Reliable } else { Policy::Lossy };
        let subscriber = group.subscribe(policy).unwrap();
        Checked { subscriber, is_reliable, next: Default::default(), received: 0, lost: 0 }
    }

    /// Takes what `received` is: order and bytes must be right.
    fn take(&mut self, received: Result<Received<(u8, u32, u64)>, TryRecvError>) -> Option<bool> {
        match received {
            Ok(Received::Message((publisher, sequence, payload))) => {
                let (next, sequence) = (&mut self.next[usize::from(publisher)], u64::from(sequence));
                assert!(
                    sequence == *next || !self.is_reliable && sequence > *next,
                    "{sequence} after {next}"
                );
                assert_eq!(payload, sequence << 8 | u64::from(publisher));
                *next = sequence + 1;
                self.received += 1;
                Some(true)
            }
            Ok(Received::Lost { messages, .. }) => {
                assert!(!self.is_reliable, "a reliable subscriber lost {messages} messages");
                self.lost += messages;
                Some(true)
            }
            Ok(Received::Demoted) => Some(true),
            Err(TryRecvError::Empty) => Some(false),
            Err(TryRecvError::Disconnected) => {
                let all = PUBLISHERS * MESSAGES_EACH;
                assert_eq!(self.received + self.lost, all, "every message once or counted as lost");
                assert_eq!(self.subscriber.lost_messages(), self.lost);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Polls once. `None` at the end of the group.
    fn poll(&mut self) -> Option<bool> {
        let received = self.subscriber.try_recv().map(plain);
        self.take(received)
    }

    /// Sleeps until the end of the group.
    fn sleep(mut self) {
        self.subscriber.spin_at_most(Duration::ZERO);
        loop {
            let received = self.subscriber.recv_timeout(LONG).map(plain).map_err(|error| match error {
                RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
                other => panic!("{other}"),
            });
            if self.take(received).is_none() {
                return;
            }
        }
    }
}

/// Publisher, sequence number and payload.
fn plain(received: Received<causeway::Message<'_>>) -> Received<(u8, u32, u64)> {
    match received {
        Received::Message(message) => {
            let payload = u64::from_le_bytes(message.bytes.try_into().unwrap());
            Received::Message((message.publisher, message.sequence, payload))
        }
        Received::Lost { messages, bytes } => Received::Lost { messages, bytes },
        Received::Demoted => Received::Demoted,
    }
}

/// Lossy subscribers are polled so rarely that they are overtaken.
fn poll_all(mut subscribers: Vec<Checked>) -> u64 {
    let (mut round, mut lost) = (0u64, 0);
    while !subscribers.is_empty() {
        round += 1;
        subscribers.retain_mut(|one| {
            if !one.is_reliable && !round.is_multiple_of(64) {
                return true;
            }
            loop {
                match one.poll() {
                    Some(true) => {}
                    Some(false) => return true,
                    None => {
                        lost += one.lost;
                        return false;
                    }
                }
            }
        });
        std::thread::yield_now();
    }
    lost
}

fn all_receive_everything_in_order(trust: Trust) {
    let count = subscribers_that_fit();
    let group = Group::create("many", small().several_publishers().trust(trust)).unwrap();
    // One of the publishers is there first and sees each join, the other finds all of them.
    let first = group.publisher().unwrap();
    let mut all: Vec<_> = (0..count).map(|number| Checked::new(&group, number)).collect();
    let remote = Group::join_socket(group.invite().unwrap()).unwrap();
    let slots: Vec<_> = remote.report().unwrap().subscribers.iter().map(|one| one.slot as usize).collect();
    assert!(slots.iter().copied().eq(0..count), "the report lists {slots:?}");
    if count == SUBSCRIBERS_MAX {
        assert!(group.subscribe(Policy::Lossy).is_err(), "one more than there are slots");
    }
    let publishers = [first, group.publisher().unwrap()];
    drop((group, remote));
    std::thread::scope(|scope| {
        let asleep = all.split_off(count - SLEEPING);
        asleep.into_iter().for_each(|one| drop(scope.spawn(|| one.sleep())));
        let mut polling: [Vec<Checked>; POLLING] = Default::default();
        for (number, one) in all.into_iter().enumerate() {
            polling[number / 2 % POLLING].push(one);
        }
        let polling = polling.map(|some| scope.spawn(|| poll_all(some)));
        for mut publisher in publishers {
            scope.spawn(move || {
                assert!(publisher.wait_for_subscribers(count as u32, Some(LONG)).unwrap());
                for sequence in 0..MESSAGES_EACH {
                    let payload = (sequence << 8 | u64::from(publisher.id())).to_le_bytes();
                    publisher.publish_timeout(&payload, LONG).unwrap();
                }
            });
        }
        let lost: u64 = polling.map(|thread| thread.join().unwrap()).iter().sum();
        assert!(lost > 0, "no lossy subscriber was overtaken: nothing was checked about losses");
    });
}

#[test]
fn a_full_group_of_one_user_receives_every_message_in_order_or_counts_it_as_lost() {
    all_receive_everything_in_order(Trust::SameUser);
}

#[test]
fn a_full_group_of_strangers_receives_every_message_in_order_or_counts_it_as_lost() {
    all_receive_everything_in_order(Trust::Strangers);
}

/// Before, the publisher slept 100 ms for every second page that it lacked: 50 s here.
#[test]
fn a_publisher_that_was_idle_takes_in_all_who_have_joined_since() {
    const TIME: Duration = Duration::from_secs(20);
    let count = subscribers_that_fit().min(1000);
    let group = Group::create("idle", small()).unwrap();
    let mut publisher = group.publisher().unwrap();
    let mut subscribers: Vec<_> = (0..count).map(|_| group.subscribe(Policy::Reliable).unwrap()).collect();
    // What fits into the log without reclaiming space, which needs all pages.
    let fits = 4096 / 64 - 1;
    for _ in 0..fits {
        publisher.try_publish(b"x").unwrap();
    }
    subscribers.iter_mut().for_each(drain);
    publisher.publish_timeout(b"more than fits", TIME).unwrap();
}

/// Bytes of addresses of this process that belong to pages of subscribers.
fn page_addresses() -> u64 {
    addresses("memfd:causeway-subscriber")
}

fn subscribe_many(path: &Path, count: u64) {
    let group = join(path);
    let before = descriptors();
    let mut subscribers: Vec<_> = (0..count).map(|_| group.subscribe(Policy::Reliable).unwrap()).collect();
    assert_eq!(descriptors() - before, OWN * count as usize);
    assert_eq!(page_addresses(), PAGE_BYTES * count);
    // The log: twice its capacity, and what is before it.
    assert_eq!(addresses("memfd:causeway:costs"), (2 * 4096 + PREFIX_BYTES) * count);
    subscribers.iter_mut().for_each(|subscriber| drop(next(subscriber)));
}

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] =
    &[("subscribe-many", subscribe_many), ("count-costs", count_what_they_cost)];

fn count_what_they_cost(path: &Path, count: u64) {
    let group = Group::create("costs", small()).unwrap();
    group.serve_at(path).unwrap();
    let mut publisher = group.publisher().unwrap();
    let mut peer = Peer::start("subscribe-many", path, count);
    assert!(publisher.wait_for_subscribers(count as u32, Some(LONG)).unwrap());
    let with_all = descriptors();
    // The server and the publisher each map a page.
    assert_eq!(page_addresses(), 2 * PAGE_BYTES * count);
    publisher.publish(b"go").unwrap();
    peer.succeed();
    let look = || {
        publisher.publish_timeout(b"to learn who has left", LONG).unwrap();
        (with_all - descriptors(), page_addresses())
    };
    let nothing = (SERVER * count as usize, 0);
    eventually_seen("descriptors and addresses of subscribers that left", look, |seen| *seen == nothing);
}

#[test]
fn a_subscriber_costs_the_descriptors_and_the_memory_that_the_document_says() {
    in_a_process_of_its_own("count-costs", 40);
    let document = include_str!("../../../../../docs/causeway.md");
    let (_, table) = document.split_once("## What one subscriber costs").unwrap();
    for row in [
        format!("| its own process | {OWN}: "),
        format!("| the server | {SERVER}: "),
        format!("a page of {PAGE_BYTES} bytes"),
        format!("addresses of the log, twice the capacity and {} KiB", PREFIX_BYTES >> 10),
        format!("{} for {} subscribers", SERVER * SUBSCRIBERS_MAX, SUBSCRIBERS_MAX),
    ] {
        assert!(table.contains(&row), "{row:?} is not in the document");
    }
}
