//! Random attackers beside honest peers.
//!
//! Processes of another user do random things with all that the socket of a group gives them. Honest peers check order,
//! accounting of losses, and that they go on. `CAUSEWAY_HOSTILE_SECONDS` says for how long (3 s by default), and
//! `CAUSEWAY_HOSTILE_SEED` repeats a run as far as the scheduler allows.

pub mod attacker;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway::{
    Access, Group, GroupOptions, Policy, Publisher, Received, RecvTimeoutError, Subscriber, Trust,
};
use causeway_testkit::is_root;
use rustix::process::{Pid, Signal, kill_process};

use super::public_folder;
use crate::common::{LONG, Peer, Rng, eventually, join, resized, setting, subscribers};

const ATTACKERS: usize = 3;
/// Patience of the group with the slowest subscriber of another user.
const PATIENCE: Duration = Duration::from_millis(20);
/// Longest payload, in bytes; the first eight are the number of the message.
const LONGEST: u64 = 3000;

fn seconds() -> u64 {
    setting("CAUSEWAY_HOSTILE_SECONDS", 3)
}

/// The seed of this run. It is printed, and shown where the test fails.
fn seed() -> u64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let seed = setting("CAUSEWAY_HOSTILE_SEED", clock.tv_nsec as u64 | 1);
    eprintln!("CAUSEWAY_HOSTILE_SEED={seed}");
    seed
}

/// Processes that attack, each of which is replaced when it dies.
struct Attackers<'p> {
    path: &'p Path,
    role: &'static str,
    random: Rng,
    running: Vec<Peer>,
    started: usize,
}

impl<'p> Attackers<'p> {
    fn new(role: &'static str, path: &'p Path, seed: u64) -> Attackers<'p> {
        let mut attackers =
            Attackers { path, role, random: Rng::with_seed(seed), running: Vec::new(), started: 0 };
        (0..ATTACKERS).for_each(|_| attackers.start());
        attackers
    }

    fn start(&mut self) {
        self.started += 1;
        self.running.push(Peer::start(self.role, self.path, self.random.u64(..) | 1));
    }

    /// Replaces the dead, and stops, continues or kills one of the living.
    fn disturb(&mut self) {
        for at in (0..self.running.len()).rev() {
            if self.running[at].has_ended() {
                self.running.swap_remove(at);
                self.start();
            }
        }
        let chosen = self.random.u64(..) as usize % self.running.len();
        let signal = match self.random.u64(..) % 8 {
            0 => Signal::KILL,
            1..4 => Signal::STOP,
            _ => Signal::CONT,
        };
        let _ = kill_process(Pid::from_raw(self.running[chosen].pid()).unwrap(), signal);
    }
}

/// The longest of each wait, for the reader of the test's output: a limit would be one of the machine.
#[derive(Debug, Default)]
struct Slowest {
    publish: Duration,
    delivery: Duration,
    report: Duration,
}

/// The message `number` of the publisher: its number, the time, and bytes that follow from the number.
fn payload(number: u64, began: Instant) -> Vec<u8> {
    let mut bytes = vec![number as u8; (16 + number * 37 % LONGEST) as usize];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&(began.elapsed().as_nanos() as u64).to_le_bytes());
    bytes
}

/// Checks one message, and returns its number.
fn number(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(bytes.len() as u64, 16 + number * 37 % LONGEST, "message {number} has another length");
    assert!(bytes[16..].iter().all(|byte| *byte == number as u8), "message {number} has other bytes");
    number
}

/// Receives until the group ends. Every message must be the next one, or the one after as many as were lost. Returns the
/// number after the last message, and how many were lost.
fn follow(subscriber: &mut Subscriber, began: Option<Instant>, slowest: &mut Duration) -> (u64, u64) {
    let (mut next, mut lost) = (None, 0);
    loop {
        match subscriber.recv_timeout(LONG) {
            Ok(Received::Message(message)) => {
                let number = number(message.bytes);
                let expected = *next.get_or_insert(number);
                assert_eq!(number, expected, "a message is out of order, or lost and not counted");
                next = Some(number + 1);
                if let Some(began) = began {
                    let sent = u64::from_le_bytes(message.bytes[8..16].try_into().unwrap());
                    *slowest = (*slowest).max(began.elapsed().saturating_sub(Duration::from_nanos(sent)));
                }
            }
            Ok(Received::Lost { messages, .. }) => {
                lost += messages;
                next = next.map(|next| next + messages);
            }
            Ok(Received::Demoted) => {}
            Err(RecvTimeoutError::Disconnected) => return (next.unwrap_or(0), lost),
            Err(error) => panic!("after message {next:?}: {error}"),
        }
    }
}

/// An honest subscriber in a process of its own, until the group ends.
pub fn follow_honestly(socket: &Path, _: u64) {
    let mut subscriber = join(socket).subscribe(Policy::Lossy).unwrap();
    let mut slowest = Duration::ZERO;
    follow(&mut subscriber, None, &mut slowest);
}

fn publish_until(end: Instant, publisher: &mut Publisher, began: Instant, slowest: &mut Duration) -> u64 {
    let mut published = 0;
    while Instant::now() < end {
        let start = Instant::now();
        publisher
            .publish_timeout(&payload(published, began), LONG)
            .unwrap_or_else(|error| panic!("message {published} cannot be published: {error}"));
        *slowest = (*slowest).max(start.elapsed());
        published += 1;
        // Subscribers that sleep are to be woken.
        if published.is_multiple_of(64) {
            std::thread::sleep(Duration::from_micros(300));
        }
    }
    published
}

fn attacked(options: GroupOptions, seed: u64) {
    let (_dir, socket) = public_folder();
    let options = options.capacity_bytes(32 << 10).trust(Trust::Strangers).subscribers(Access::AnyUser);
    let options = options.most_patient_for_others(Policy::DemoteAfter(PATIENCE));
    let group = Arc::new(Group::create("attacked", options).unwrap());
    group.serve_at(&socket).unwrap();
    let mut publisher = group.publisher().unwrap();
    let mut honest = group.subscribe(Policy::Reliable).unwrap();
    let mut process = Peer::start("follow-honestly", &socket, 0);
    eventually("the honest process does not join", || subscribers(&group) == 2);
    let mut attackers = Attackers::new("attack-at-random", &socket, seed);
    let mut slowest = Slowest::default();
    let began = Instant::now();
    let end = began + Duration::from_secs(seconds());
    let is_over = AtomicBool::new(false);
    let (published, received) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut delivery = Duration::ZERO;
            let (next, lost) = follow(&mut honest, Some(began), &mut delivery);
            assert_eq!(lost, 0, "a reliable subscriber lost messages");
            (next, delivery)
        });
        let (attackers, report, is_over, door) =
            (&mut attackers, &mut slowest.report, &is_over, group.clone());
        let disturbing = scope.spawn(move || {
            let (mut rolls, mut sizes) = (0, [64u64 << 10, 32 << 10].into_iter().cycle());
            while !is_over.load(Ordering::Relaxed) {
                attackers.disturb();
                // The group stays open for its own user, and answers.
                let start = Instant::now();
                drop(door.subscribe(Policy::Lossy).unwrap());
                assert!(!door.report().unwrap().subscribers.is_empty());
                *report = (*report).max(start.elapsed());
                // The log is another all the time; only the honest can keep one for long.
                rolls += u32::from(resized(&door, sizes.next().unwrap()));
                std::thread::sleep(Duration::from_millis(5));
            }
            rolls
        });
        let published = publish_until(end, &mut publisher, began, &mut slowest.publish);
        is_over.store(true, Ordering::Relaxed);
        let rolls = disturbing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(rolls > 0, "no other log began");
        // Nobody can publish any more: the group ends.
        drop((publisher, group));
        let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (published, received)
    });
    slowest.delivery = received.1;
    assert_eq!(received.0, published, "the reliable subscriber did not get every message");
    eprintln!("{published} messages beside {} attackers; slowest: {slowest:?}", attackers.started);
    // A sleeper that nobody wakes goes on at its time-out and finds its message: that is half of it at least.
    let longest = slowest.publish.max(slowest.delivery).max(slowest.report);
    assert!(longest < LONG / 2, "somebody was kept asleep until its time-out: {slowest:?}");
    drop(attackers);
    process.succeed();
}

#[test]
fn random_attackers_stop_nobody_and_falsify_nothing() {
    // Otherwise attackers are of the same user.
    is_root();
    let seed = seed();
    attacked(GroupOptions::new(), seed);
    attacked(GroupOptions::new().several_publishers(), seed.wrapping_mul(3) | 1);
}

/// A server that answers nonsense costs a client an error, never its life or its time.
#[test]
fn a_client_of_a_random_server_gets_an_error_in_time() {
    let (_dir, socket) = public_folder();
    let mut random = Rng::with_seed(seed());
    let end = Instant::now() + Duration::from_secs(seconds());
    let (mut outcomes, mut server) = ([0; 2], None::<Peer>);
    while Instant::now() < end {
        if random.u64(..).is_multiple_of(64) || server.is_none() {
            drop(server.take());
            let _ = std::fs::remove_file(&socket);
            server = Some(Peer::start("serve-nonsense", &socket, random.u64(..) | 1));
            eventually("the server does not come", || socket.exists());
        }
        let timeout = Duration::from_millis(20);
        let joined = Group::join(&socket).and_then(|group| {
            let mut subscriber =
                group.subscribe(causeway::SubscribeOptions::new(Policy::Lossy).timeout(timeout))?;
            // What follows from nonsense is not known; that it ends is.
            let _ = subscriber.recv_timeout(timeout);
            Ok(())
        });
        outcomes[usize::from(joined.is_ok())] += 1;
    }
    eprintln!("{} joins failed, {} succeeded", outcomes[0], outcomes[1]);
    assert!(outcomes[0] > 0, "no join failed");
}
