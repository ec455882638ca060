//! A publisher is killed, and stopped, after every single instruction of a publish.
//!
//! The publisher runs in a child under `PTRACE_SINGLESTEP`. After the k-th instruction it gets SIGKILL; then every
//! receiver must get what comes next, all of them the same, and whoever slept must be woken. The other test stops it
//! instead, has it evicted, and lets it go on: its message is seen by everybody or its commit fails.
//!
//! `CAUSEWAY_KILL_EVERY` is the step from one k to the next, 1 for all. The short form samples; the long form is
//! `CAUSEWAY_KILL_EVERY=1 cargo test -p causeway --release --test kill`.
#![cfg(not(loom))]
#![allow(clippy::print_stderr, reason = "how many kills there were is worth knowing")]

mod common;

use std::cell::Cell;
use std::time::{Duration, Instant};

use causeway::{
    Error, Group, GroupOptions, Policy, Published, Publisher, Received, SubscribeOptions, Subscriber, Waited,
};
use common::{LONG, Peer, eventually, join, play, setting};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const VICTIMS_PER_GROUP: u32 = 50;
const PAYLOAD: [u8; 200] = [0xab; 200];

/// Exit codes of the child that is stopped and goes on.
const PUBLISHED: i32 = 0;
const EVICTED: i32 = 7;

#[test]
fn role() {
    let Some((_, socket, _)) = play() else { return };
    let mut publisher = join(&socket).publisher().unwrap();
    // The group is sealed when all victims have joined; only then does anybody receive, and only then is it our turn.
    ptrace::traceme().unwrap();
    raise(Signal::SIGSTOP).unwrap();
    // What was announced meanwhile is taken from the socket here, and not in the middle of the publish: most of that
    // would be the standard library at work.
    assert!(!publisher.server_is_gone());
    raise(Signal::SIGSTOP).unwrap();
    let published = publisher.publish(&PAYLOAD);
    raise(Signal::SIGSTOP).unwrap();
    std::process::exit(match published {
        Ok(Published::At(_)) => PUBLISHED,
        Err(Error::Evicted | Error::Closed) => EVICTED,
        other => panic!("{other:?}"),
    });
}

/// A child that has come to its first stop, before the publish.
struct Victim {
    peer: Peer,
    /// The thread that runs the role: the test harness gives it one of its own.
    thread: Pid,
    /// Whether the tracer has seen its end.
    gone: Cell<bool>,
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Victim {
    fn start(socket: &std::path::Path) -> Victim {
        Victim { peer: Peer::start("victim", socket, 0), thread: Pid::from_raw(0), gone: Cell::new(false) }
    }

    fn await_stop(&mut self) {
        let tasks = format!("/proc/{}/task", self.peer.pid());
        eventually("the victim does not stop before its publish", || {
            let traced = std::fs::read_dir(&tasks).unwrap().map(|task| task.unwrap()).find(|task| {
                let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
                status.contains("State:\tt")
            });
            let name = traced.map(|task| task.file_name().into_string().unwrap());
            self.thread = name.map_or(self.thread, |name| Pid::from_raw(name.parse().unwrap()));
            self.thread.as_raw() != 0
        });
        assert!(matches!(self.wait(), WaitStatus::Stopped(_, Signal::SIGSTOP)));
    }

    /// Lets the victim look at its socket; then it stops before the publish.
    fn look_around(&self) {
        ptrace::cont(self.thread, None).unwrap();
        assert!(matches!(self.wait(), WaitStatus::Stopped(_, Signal::SIGSTOP)));
    }

    fn wait(&self) -> WaitStatus {
        let status = waitpid(self.thread, Some(WaitPidFlag::__WALL)).unwrap();
        self.gone.set(matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)));
        status
    }

    /// SIGKILL, and the tracer's goodbye: a traced thread is not gone before.
    fn kill(&self) {
        if self.gone.get() || self.thread.as_raw() == 0 {
            return;
        }
        kill(Pid::from_raw(self.peer.pid()), Signal::SIGKILL).unwrap();
        while !self.gone.get() {
            self.wait();
        }
    }

    /// Executes up to `count` instructions. False if the publish was over before.
    fn step(&self, count: u64) -> bool {
        for _ in 0..count {
            ptrace::step(self.thread, None).unwrap();
            match self.wait() {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return false,
                other => panic!("while stepping: {other:?}"),
            }
        }
        true
    }
}

/// A group whose remote publishers are victims, with receivers of every kind, and a publisher that survives.
struct Scene {
    group: Group,
    victims: Vec<Victim>,
    survivor: Publisher,
    by_futex: Subscriber,
    by_descriptor: Subscriber,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new(victims: u32) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("group");
        let options =
            GroupOptions::new().capacity_bytes(4096).several_publishers().remote_publishers(victims);
        let group = Group::create("kill", options).unwrap();
        group.serve_at(&socket).unwrap();
        let mut victims: Vec<Victim> = (0..victims).map(|_| Victim::start(&socket)).collect();
        let subscribe = || group.subscribe(SubscribeOptions::new(Policy::Reliable).within(LONG)).unwrap();
        let (mut by_futex, mut by_descriptor) = (subscribe(), subscribe());
        for receiver in [&mut by_futex, &mut by_descriptor] {
            receiver.spin_at_most(Duration::ZERO);
        }
        by_descriptor.sleep_on_descriptor(true);
        let survivor = group.publisher().unwrap();
        victims.iter_mut().for_each(Victim::await_stop);
        victims.iter().for_each(Victim::look_around);
        Scene { group, victims, survivor, by_futex, by_descriptor, _dir: dir }
    }

    /// Fills the log and empties it, so that the next publish must free space first; or leaves some space.
    fn prepare(&mut self, full: bool) {
        // Long messages, so that few frames have to be passed.
        let messages = if full { u32::MAX } else { 1 };
        for _ in 0..messages {
            if self.survivor.publish(&[0; 900]).unwrap() == Published::Full {
                break;
            }
        }
        for receiver in [&mut self.by_futex, &mut self.by_descriptor] {
            while let Received::Message(_) = receiver.receive().unwrap() {}
        }
    }

    /// Both receivers sleep while `act` runs; then the survivor publishes, and both must get up to its message. What
    /// they saw is the same; returns whether the victim's message was there.
    fn observe(&mut self, act: impl FnOnce(&Victim, &Group)) -> bool {
        let victim = self.victims.pop().unwrap();
        let (by_futex, by_descriptor) = (&mut self.by_futex, &mut self.by_descriptor);
        let (survivor, group) = (&mut self.survivor, &self.group);
        let seen = std::thread::scope(|scope| {
            let sleepers =
                [scope.spawn(|| until_probe(by_futex)), scope.spawn(|| until_probe(by_descriptor))];
            eventually("the receivers do not fall asleep", || {
                group.report().unwrap().receivers.iter().all(|receiver| receiver.asleep)
            });
            act(&victim, group);
            let published = survivor.publish_within(b"probe", Some(LONG));
            assert!(matches!(published, Ok(Published::At(_)) | Err(Error::Closed)), "{published:?}");
            drop(victim);
            sleepers.map(|sleeper| sleeper.join().unwrap())
        });
        assert_eq!(seen[0], seen[1], "the receivers saw different things");
        let messages = &seen[0];
        assert!(messages.len() <= 1, "{messages:?}");
        assert!(messages.iter().all(|message| message[..] == PAYLOAD), "torn: {messages:?}");
        !messages.is_empty()
    }
}

/// Receives until the probe comes, or the group is closed; returns what came before it.
fn until_probe(subscriber: &mut Subscriber) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    loop {
        match subscriber.wait(Some(LONG)) {
            Ok(Waited::Ready) => {}
            Ok(Waited::TimedOut) => panic!("asleep for ever: {:?}", subscriber.health()),
            Err(Error::Closed) => return seen,
            Err(error) => panic!("{error}"),
        }
        match subscriber.receive() {
            Ok(Received::Message(message)) if message.bytes == b"probe" => return seen,
            Ok(Received::Message(message)) => seen.push(message.bytes.to_vec()),
            Ok(other) => panic!("{other:?}"),
            Err(Error::Closed) => return seen,
            Err(error) => panic!("{error}"),
        }
    }
}

/// How many instructions a publish takes, with sleeping receivers.
fn instructions(full: bool) -> u64 {
    let mut scene = Scene::new(1);
    scene.prepare(full);
    let mut count = 0;
    let published = scene.observe(|victim, _| {
        while victim.step(1) {
            count += 1;
        }
    });
    assert!(published, "the whole publish was executed");
    count
}

fn step_width(instructions: u64) -> u64 {
    setting("CAUSEWAY_KILL_EVERY", (instructions / 60).max(1) | 1)
}

#[test]
fn a_publisher_killed_after_any_instruction_leaves_the_group_in_order() {
    for full in [false, true] {
        let total = instructions(full);
        let mut after: Vec<u64> = (0..=total).step_by(step_width(total) as usize).collect();
        let (mut seen, mut unseen, tried) = (0, 0, after.len());
        let start = Instant::now();
        while !after.is_empty() {
            let victims = (after.len() as u32).min(VICTIMS_PER_GROUP);
            let mut scene = Scene::new(victims);
            for _ in 0..victims {
                let count = after.pop().unwrap();
                scene.prepare(full);
                let published = scene.observe(|victim, _| {
                    victim.step(count);
                    victim.kill();
                });
                *(if published { &mut seen } else { &mut unseen }) += 1;
            }
        }
        assert!(seen > 0 && unseen > 0, "the kills did not straddle the commit: {seen} seen, {unseen} not");
        eprintln!(
            "{total} instructions, log {}: {tried} kills, {seen} after and {unseen} before the commit, {:?}",
            if full { "full" } else { "with space" },
            start.elapsed()
        );
    }
}

#[test]
fn a_publisher_stopped_after_any_instruction_and_evicted_cannot_commit_later() {
    let total = instructions(false);
    let (mut committed, mut evicted) = (0, 0);
    for count in (0..=total).step_by((step_width(total) * 3) as usize) {
        let mut scene = Scene::new(1);
        scene.prepare(false);
        let id =
            scene.group.report().unwrap().publishers.iter().map(|publisher| publisher.slot).min().unwrap();
        let mut exit = None;
        let published = scene.observe(|victim, group| {
            victim.step(count);
            assert!(group.evict(id).unwrap());
            // Continued, it runs to its second stop (unless it is there already), and from there to its end.
            loop {
                ptrace::cont(victim.thread, None).unwrap();
                match victim.wait() {
                    WaitStatus::Exited(_, code) => break exit = Some(code),
                    WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
                    other => panic!("{other:?}"),
                }
            }
        });
        match exit {
            Some(PUBLISHED) => committed += 1,
            Some(EVICTED) => evicted += 1,
            other => panic!("the victim ended with {other:?}"),
        }
        assert_eq!(published, exit == Some(PUBLISHED), "stopped after {count} of {total} instructions");
    }
    assert!(committed > 0 && evicted > 0, "{committed} committed, {evicted} evicted");
    eprintln!("{total} instructions: {committed} stopped after and {evicted} before their commit");
}
