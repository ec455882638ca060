//! A member is killed, and stopped, after instruction k of sending a signal, for many k.
//!
//! It runs in a child under `PTRACE_SINGLESTEP`. Killed, its signal is received by all who want it or by none, also by those who
//! sleep, and the others go on. Stopped, the others go on and it is evicted; when it continues, its signal was received by all or
//! its call fails.
//!
//! `CAUSEWAY_KILL_EVERY` is the step from one k to the next, 1 for all; without it some twenty are taken.

mod asleep;
mod frozen;

use std::time::Duration;

use causeway_bus::shared::order::Statistic;
use causeway_bus::wire::Body;
use causeway_bus::{AuthorityOptions, Connection, Error, Monitor, Payload};
use nix::sys::signal::{Signal, raise};

use crate::support::*;

const SENT: i32 = 0;
const EVICTED: i32 = 7;

#[test]
fn role() {
    let Some((_, socket, descriptors)) = play() else { return };
    let payload = Payload::from(Body::default().text(&"v".repeat(200)));
    let payload = (0..descriptors).fold(payload, |payload, _| payload.descriptor(file("victim")));
    let mut victim = Connection::open(socket).unwrap();
    stop_for_tracer();
    raise(Signal::SIGSTOP).unwrap();
    let sent = victim.emit(PATH, INTERFACE, "Victim", payload);
    raise(Signal::SIGSTOP).unwrap();
    std::process::exit(match sent {
        Ok(()) => SENT,
        Err(Error::Disconnected(_)) => EVICTED,
        Err(other) => panic!("{other}"),
    });
}

/// A bus with two members that wait for signals in threads of their own, and a victim that is about to send one.
struct Scene {
    victim: Traced,
    _peer: Running,
    monitor: Monitor,
    survivor: Connection,
    listeners: Vec<std::thread::JoinHandle<Vec<String>>>,
    /// Messages that each listener had when it fell asleep.
    received: [u64; 2],
    _bus: Bus,
}

/// Slots of the listeners, behind the authority and the survivor.
const LISTENERS: [u16; 2] = [2, 3];

impl Scene {
    /// The signal of the victim has so many descriptors.
    fn new(options: AuthorityOptions, descriptors: u64) -> Scene {
        let bus = Bus::start_with(options);
        let survivor = bus.member();
        let listeners = (0..2)
            .map(|_| {
                let mut listener = bus.member();
                listener.add_match(RULE).unwrap();
                std::thread::spawn(move || {
                    let mut seen = Vec::new();
                    while seen.last().map(String::as_str) != Some("End") {
                        let message = signal(&mut listener);
                        let member = message.header().member.unwrap().to_owned();
                        let expected = if member == "Victim" { descriptors } else { 0 };
                        assert_eq!(message.take_descriptors().len() as u64, expected);
                        seen.push(member);
                    }
                    seen
                })
            })
            .collect();
        let monitor = Monitor::open(bus.path()).unwrap();
        let (peer, victim) = start_traced(module_path!(), "victim", &bus.path(), descriptors);
        assert_eq!(victim.run(), None);
        let mut scene =
            Scene { victim, _peer: peer, monitor, survivor, listeners, received: [0; 2], _bus: bus };
        eventually("the listeners do not fall asleep", || {
            LISTENERS.iter().all(|slot| sleeps(scene.survivor.order_log(), *slot))
        });
        scene.received = scene.received();
        scene
    }

    fn received(&self) -> [u64; 2] {
        let order = self.survivor.order_log();
        LISTENERS.map(|slot| order.statistic(slot, Statistic::Received))
    }

    /// Both listeners get so many messages in all, although nothing else comes.
    fn both_have(&self, count: u64, k: u64) {
        let has = |now: [u64; 2]| (0..2).all(|listener| now[listener] >= self.received[listener] + count);
        eventually(&format!("a listener was left asleep after {k} instructions"), || has(self.received()));
    }

    /// What both listeners saw.
    fn seen(&mut self) -> Vec<String> {
        let mut seen: Vec<Vec<String>> =
            self.listeners.drain(..).map(|thread| thread.join().unwrap()).collect();
        assert_eq!(seen[0], seen[1], "the listeners saw different orders");
        seen.swap_remove(0)
    }

    /// When the others have read on, nothing of the victim is left in this process, which serves the bus.
    fn ends_without_descriptors(mut self, k: u64) {
        eventually(&format!("a descriptor is left of one that ended after {k} instructions"), || {
            self.survivor.next(Some(Duration::ZERO)).unwrap();
            open_texts(std::process::id()) == 0
        });
    }
}

/// The moments, for each of which the test has more time.
fn with_time(moments: Vec<u64>) -> Vec<u64> {
    extend_limit(TRACING * moments.len() as u32);
    moments
}

/// The numbers of instructions after which something happens.
fn moments(descriptors: u64) -> Vec<u64> {
    let mut scene = Scene::new(AuthorityOptions::default(), descriptors);
    let mut count = 0;
    while scene.victim.step(1) {
        count += 1;
    }
    assert_eq!(scene.victim.run(), Some(SENT));
    scene.survivor.emit(PATH, INTERFACE, "End", Body::default()).unwrap();
    assert_eq!(scene.seen(), ["Victim", "End"]);
    let every = setting("CAUSEWAY_KILL_EVERY", count / 12).max(1);
    eprintln!("{count} instructions, every {every}th");
    with_time((0..=count).step_by(every as usize).collect())
}

#[test]
fn a_member_killed_at_any_instruction_of_a_send_leaves_all_or_nothing_of_its_signal() {
    if !has_ptrace() {
        return;
    }
    kill_at_every_instruction(0);
}

#[test]
fn a_member_killed_while_it_sends_descriptors_leaves_all_or_nothing_too_and_no_descriptor() {
    if !has_ptrace() {
        return;
    }
    kill_at_every_instruction(2);
}

fn kill_at_every_instruction(descriptors: u64) {
    own_process!();
    let moments = moments(descriptors);
    let sent = moments.iter().filter(|k| is_sent_when_killed(**k, descriptors)).count();
    assert!(sent > 0 && sent < moments.len(), "{sent} of {}", moments.len());
}

/// Kills the victim after `k` instructions. Was its signal sent? Then both listeners get it, although nothing else comes.
fn is_sent_when_killed(k: u64, descriptors: u64) -> bool {
    let mut scene = Scene::new(AuthorityOptions::default(), descriptors);
    scene.victim.step(k);
    scene.victim.kill();
    // Up to the end of the victim in the log: is its signal there?
    let mut is_there = false;
    loop {
        let message = observed(&mut scene.monitor);
        match message.header().member {
            Some("Victim") => is_there = true,
            Some("NameOwnerChanged") if message.rule_args()[2] == causeway_bus::wire::Arg::Text("") => break,
            _ => {}
        }
    }
    if is_there {
        // No further message comes: those asleep are woken because the victim is dead.
        scene.both_have(1, k);
    }
    scene.survivor.emit(PATH, INTERFACE, "End", Body::default()).unwrap();
    let expected: &[&str] = if is_there { &["Victim", "End"] } else { &["End"] };
    assert_eq!(scene.seen(), expected, "killed after {k} instructions");
    scene.ends_without_descriptors(k);
    is_there
}

/// The numbers of instructions of a send after which it is about to wake, wakes, and marks.
fn moments_of_the_wake_up() -> Vec<u64> {
    const AROUND: u64 = 120;
    let mut scene = Scene::new(AuthorityOptions::default(), 0);
    let call = scene.victim.step_to_call().expect("it wakes those that sleep");
    assert_eq!(scene.victim.run(), None);
    assert_eq!(scene.victim.run(), Some(SENT));
    scene.survivor.emit(PATH, INTERFACE, "End", Body::default()).unwrap();
    assert_eq!(scene.seen(), ["Victim", "End"]);
    let every = setting("CAUSEWAY_KILL_EVERY", 1_500).div_ceil(100);
    with_time((call.saturating_sub(AROUND)..call + AROUND).step_by(every as usize).collect())
}

#[test]
fn a_member_killed_between_its_entry_and_its_mark_leaves_nobody_asleep() {
    if !has_ptrace() {
        return;
    }
    own_process!();
    let moments = moments_of_the_wake_up();
    let sent = moments.into_iter().filter(|k| is_sent_when_killed(*k, 0)).count();
    assert!(sent > 0, "none was sent");
}

/// Stopped there, it may mark a sleep that is over, and those that sleep anew are woken all the same.
#[test]
fn a_member_stopped_between_its_entry_and_its_mark_leaves_those_it_has_woken_to_others() {
    if !has_ptrace() {
        return;
    }
    own_process!();
    for k in moments_of_the_wake_up() {
        let mut scene = Scene::new(AuthorityOptions::default(), 0);
        scene.victim.step(k);
        // While it is stopped, the next one wakes all, and when it goes on, the one after that.
        scene.survivor.emit(PATH, INTERFACE, "First", Body::default()).unwrap();
        scene.both_have(1, k);
        let code = scene.victim.run().or_else(|| scene.victim.run());
        assert_eq!(code, Some(SENT), "stopped after {k} instructions");
        scene.both_have(2, k);
        scene.survivor.emit(PATH, INTERFACE, "End", Body::default()).unwrap();
        let mut seen = scene.seen();
        seen.sort();
        assert_eq!(seen, ["End", "First", "Victim"], "stopped after {k} instructions");
    }
}

#[test]
fn a_member_stopped_at_any_instruction_of_a_send_holds_nobody_up() {
    if !has_ptrace() {
        return;
    }
    stop_at_every_instruction(0);
}

#[test]
fn a_member_stopped_while_it_sends_descriptors_holds_nobody_up() {
    if !has_ptrace() {
        return;
    }
    stop_at_every_instruction(2);
}

fn stop_at_every_instruction(descriptors: u64) {
    own_process!();
    for k in moments(descriptors) {
        // Only the victim is stopped, and others may be slow on a loaded machine.
        let deadline = Duration::from_millis(600);
        let mut scene = Scene::new(
            AuthorityOptions { order_entries: 32, laggard_deadline: deadline, ..AuthorityOptions::default() },
            descriptors,
        );
        scene.victim.step(k);
        // Others send several laps of the log, and evict the victim.
        for _ in 0..100 {
            scene.survivor.emit(PATH, INTERFACE, "Go", Body::default()).unwrap();
        }
        let reached_end = scene.victim.run();
        let code = reached_end.or_else(|| scene.victim.run());
        scene.survivor.emit(PATH, INTERFACE, "End", Body::default()).unwrap();
        let seen = scene.seen();
        let is_there = seen.iter().any(|member| member == "Victim");
        assert_eq!(seen.len(), 101 + usize::from(is_there));
        match code {
            Some(SENT) => assert!(is_there, "sent and not received, stopped after {k} instructions"),
            // Stopped after its entry, it may learn of both.
            Some(EVICTED) => {}
            other => panic!("{other:?} after {k} instructions"),
        }
        scene.ends_without_descriptors(k);
    }
}
