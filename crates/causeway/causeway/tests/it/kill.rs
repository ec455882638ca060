//! A publisher is killed, and stopped, after every single instruction of a publish.
//!
//! The publisher runs in a child under `PTRACE_SINGLESTEP`. After the k-th instruction it gets SIGKILL; then every
//! subscriber must get what comes next, all of them the same, and the sleeping ones must be woken. Other tests stop it
//! instead, and let it continue after it was evicted or lapped: all subscribers see its message, or its commit fails.
//!
//! Every k has a group and a publisher of its own, so that all of them go the same way up to the k-th instruction. The
//! publishers are forked from a template that waits with everything prepared: that takes a millisecond where a program
//! start takes fifty. Tracer, template and victims share a CPU, because a
//! step is two switches between tracer and traced, and across CPUs each of them is a wake-up.
//!
//! `CAUSEWAY_KILL_EVERY` is the step from one k to the next, 1 for all. The short form samples; the long form is part
//! of `.ci/proofs`.
//!
//! # Safety
//!
//! The template forks. Its child uses nothing that another thread of the template could hold locked at that moment:
//! the only other thread is that of the test harness, which waits for this one.
#![allow(unsafe_code)]

pub mod asleep;

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::common::{
    LONG, Peer, Role, asleep, drain, eventually, fill, join, place, setting, small, subscribers, tally,
};
use causeway::{
    Error, Group, Policy, PublishTimeoutError, Publisher, Received, SubscribeOptions, Subscriber,
    TryPublishError, TryRecvError, Waited,
};
use causeway_testkit::watchdog::{TRACING, extend_limit};
use causeway_testkit::{Traced, has_ptrace};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::ForkResult;

const PAYLOAD: [u8; 200] = [0xab; 200];

/// Exit codes of the child that is stopped and goes on.
const PUBLISHED: i32 = 0;
const EVICTED: i32 = 7;
const FAILED: i32 = 101;

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[("template", |_, _| template())];

/// Forks a victim for each line of standard input, which names the group that it joins.
fn template() {
    // What a process tests or reads once is done here, and not again in each child.
    assert!(Group::join("/nonexistent").is_err());
    causeway_os::sched::current_cpu();
    let own = std::process::id();
    for socket in std::io::stdin().lock().lines() {
        let socket = socket.unwrap();
        while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status.pid().is_some()) {}
        // SAFETY: see the text of this file.
        if let ForkResult::Child = unsafe { nix::unistd::fork() }.unwrap() {
            causeway_os::process::die_with(own).unwrap();
            let outcome = std::panic::catch_unwind(|| victim(Path::new(&socket)));
            // SAFETY: nothing is left to be cleaned up; the harness of the template must not go on in the child.
            unsafe { nix::libc::_exit(outcome.unwrap_or(FAILED)) };
        }
    }
}

/// Publishes once, between two stops; before them it stops to be found.
fn victim(socket: &Path) -> i32 {
    let mut publisher = join(socket).publisher().unwrap();
    // The group is sealed when all victims have joined; only then does anybody receive, and only then is it our turn.
    raise(Signal::SIGSTOP).unwrap();
    // What was announced meanwhile is taken from the socket here, and not in the middle of the publish: most of that
    // would be the standard library at work.
    assert!(publisher.wait_for_subscribers(0, Some(LONG)).unwrap());
    raise(Signal::SIGSTOP).unwrap();
    let published = publisher.try_publish(&PAYLOAD);
    raise(Signal::SIGSTOP).unwrap();
    match published {
        Ok(_) => PUBLISHED,
        Err(TryPublishError::Failed(Error::Evicted) | TryPublishError::Disconnected) => EVICTED,
        other => panic!("{other:?}"),
    }
}

/// The template process.
struct Template {
    requests: ChildStdin,
    _peer: Peer,
}

impl Template {
    fn start() -> Template {
        let (peer, requests) = Peer::start_listening("template");
        Template { requests, _peer: peer }
    }

    fn fork(&mut self, socket: &Path) {
        writeln!(self.requests, "{}", socket.display()).unwrap();
    }
}

/// What the victim finds when it publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    /// A log of several publishers with space in it.
    WithSpace,
    /// A log of several publishers that was filled and read: space must be freed first.
    Full,
    /// A log of its own.
    Single,
    /// A log of several publishers that has ended: the victim goes on in the next one first.
    Ended,
    /// A log of several publishers with space in it, which may end.
    Rolling,
}

/// A group whose remote publisher is the victim, with subscribers of every kind, and a publisher that survives.
struct Scene {
    /// First, so that it is gone before the group is.
    victim: Traced,
    victim_id: u8,
    group: Group,
    /// None in a log of one publisher.
    survivor: Option<Publisher>,
    by_futex: Subscriber,
    by_descriptor: Subscriber,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new(template: &mut Template, log: Log) -> Scene {
        let (dir, socket) = place();
        let options = small().remote_publishers(1);
        let options = if log == Log::Single { options } else { options.several_publishers() };
        let rolls = matches!(log, Log::Ended | Log::Rolling);
        let options = if rolls { options.late_publishers() } else { options };
        let group = Group::create("kill", options).unwrap();
        group.serve_at(&socket).unwrap();
        template.fork(&socket);
        let subscribe = || group.subscribe(SubscribeOptions::new(Policy::Reliable).timeout(LONG)).unwrap();
        // Those that matter use slots that others have used before them.
        drop((subscribe(), subscribe()));
        eventually("the subscribers leave", || subscribers(&group) == 0);
        let (mut by_futex, mut by_descriptor) = (subscribe(), subscribe());
        for subscriber in [&mut by_futex, &mut by_descriptor] {
            subscriber.spin_at_most(Duration::ZERO);
        }
        by_descriptor.sleep_on_descriptor(true);
        let [victim] = group.report().unwrap().publishers[..] else { panic!("one publisher has joined") };
        let (pid, victim_id) = (victim.pid as i32, victim.slot);
        let victim = Traced::seize_forked(pid);
        let survivor = (log != Log::Single).then(|| group.publisher().unwrap());
        assert_eq!(victim.run(), None);
        let mut scene = Scene { victim, victim_id, group, survivor, by_futex, by_descriptor, _dir: dir };
        scene.prepare(log);
        scene
    }

    /// Fills the log and empties it, so that the next publish must free space first; or leaves some space; or ends it.
    fn prepare(&mut self, log: Log) {
        // Long messages, so that few frames have to be passed.
        let Some(survivor) = &mut self.survivor else { return };
        match log {
            Log::Full => fill(survivor, &[0; 900]),
            _ => drop(survivor.try_publish(&[0; 900]).unwrap()),
        }
        if log == Log::Ended {
            // The victim's own thread maps the next log; the victim itself is stopped.
            self.group.resize(8192).unwrap();
        }
        drain(&mut self.by_futex);
        drain(&mut self.by_descriptor);
    }

    /// Both subscribers sleep while `act` runs; then the survivor publishes, and both must get up to its message. What
    /// they saw is the same; returns whether the victim's message was there.
    fn observe(&mut self, act: impl FnOnce(&Traced, &Group)) -> bool {
        let victim = &self.victim;
        let (by_futex, by_descriptor) = (&mut self.by_futex, &mut self.by_descriptor);
        let (survivor, group) = (&mut self.survivor, &self.group);
        let seen = std::thread::scope(|scope| {
            let sleepers =
                [scope.spawn(|| until_probe(by_futex)), scope.spawn(|| until_probe(by_descriptor))];
            eventually("the subscribers fall asleep", || asleep(group) == 2);
            act(victim, group);
            if let Some(survivor) = survivor {
                let published = survivor.publish_timeout(b"probe", LONG);
                assert!(matches!(published, Ok(_) | Err(PublishTimeoutError::Disconnected)), "{published:?}");
            }
            victim.kill();
            sleepers.map(|sleeper| sleeper.join().unwrap())
        });
        assert_eq!(seen[0], seen[1], "the subscribers saw different things");
        let messages = &seen[0];
        assert!(messages.len() <= 1, "{messages:?}");
        assert!(messages.iter().all(|message| message[..] == PAYLOAD), "torn: {messages:?}");
        !messages.is_empty()
    }
}

/// Receives until the probe comes or the group has ended; returns what came before.
fn until_probe(subscriber: &mut Subscriber) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    loop {
        match subscriber.wait(Some(LONG)) {
            Ok(Waited::Ready) => {}
            Ok(Waited::TimedOut) => panic!("asleep for ever: {:?}", subscriber.health()),
            Err(Error::Disconnected) => return seen,
            Err(error) => panic!("{error}"),
        }
        match subscriber.try_recv() {
            Ok(Received::Message(message)) if message.bytes == b"probe" => return seen,
            Ok(Received::Message(message)) => seen.push(message.bytes.to_vec()),
            Ok(other) => panic!("{other:?}"),
            Err(TryRecvError::Disconnected) => return seen,
            Err(error) => panic!("{error}"),
        }
    }
}

/// How many instructions a publish takes, with sleeping subscribers.
fn instructions(log: Log) -> u64 {
    let counted = AtomicU64::new(0);
    // Once, in a thread with a CPU of its own.
    for_each(vec![0], |template, _| {
        let published = Scene::new(template, log).observe(|victim, _| {
            while victim.step(1) {
                counted.fetch_add(1, Relaxed);
            }
        });
        assert!(published, "the whole publish was executed");
    });
    counted.into_inner()
}

/// The values of k to be tried. The last, which take longest, are the first to be taken.
fn targets(instructions: u64, wider: u64) -> Vec<u64> {
    let width = match setting("CAUSEWAY_KILL_EVERY", 0) {
        0 => ((instructions / 60).max(1) | 1) * wider,
        width => width,
    };
    (0..=instructions).step_by(width as usize).collect()
}

/// Does `work` for every k, in as many threads as there are CPUs, each with a template on its own CPU.
fn for_each(targets: Vec<u64>, work: impl Fn(&mut Template, u64) + Sync) {
    extend_limit(TRACING * targets.len() as u32);
    let targets = Mutex::new(targets);
    std::thread::scope(|scope| {
        for cpu in causeway_os::sched::allowed_cpus().unwrap() {
            let (targets, work) = (&targets, &work);
            scope.spawn(move || {
                causeway_os::sched::pin(&[cpu]).unwrap();
                let mut template = Template::start();
                loop {
                    let Some(count) = targets.lock().unwrap().pop() else { return };
                    work(&mut template, count);
                }
            });
        }
    });
}

/// Kills after every k of a publish.
fn kill_all(log: Log) {
    let total = instructions(log);
    let (seen, unseen) = (AtomicU64::new(0), AtomicU64::new(0));
    for_each(targets(total, 1), |template, count| {
        let mut scene = Scene::new(template, log);
        let published = scene.observe(|victim, _| {
            victim.step(count);
            victim.kill();
        });
        if published { &seen } else { &unseen }.fetch_add(1, Relaxed);
    });
    let (seen, unseen) = (seen.into_inner(), unseen.into_inner());
    assert!(seen > 0 && unseen > 0, "the kills did not straddle the commit: {seen} seen, {unseen} not");
    eprintln!("{total} instructions, {log:?}: {seen} kills after and {unseen} before the commit");
}

#[test]
fn a_publisher_killed_after_any_instruction_leaves_the_group_in_order() {
    if !has_ptrace() {
        return;
    }
    kill_all(Log::WithSpace);
}

#[test]
fn a_publisher_killed_after_any_instruction_of_freeing_space_leaves_the_group_in_order() {
    if !has_ptrace() {
        return;
    }
    kill_all(Log::Full);
}

#[test]
fn the_only_publisher_killed_after_any_instruction_has_published_to_all_or_to_none() {
    if !has_ptrace() {
        return;
    }
    kill_all(Log::Single);
}

#[test]
fn a_publisher_killed_after_any_instruction_on_its_way_into_the_next_log_leaves_the_group_in_order() {
    if !has_ptrace() {
        return;
    }
    kill_all(Log::Ended);
}

#[test]
fn a_publisher_stopped_after_any_instruction_and_evicted_cannot_commit_later() {
    if !has_ptrace() {
        return;
    }
    let total = instructions(Log::WithSpace);
    let (committed, evicted) = (AtomicU64::new(0), AtomicU64::new(0));
    for_each(targets(total, 3), |template, count| match stop_and_evict(template, count) {
        PUBLISHED => drop(committed.fetch_add(1, Relaxed)),
        EVICTED => drop(evicted.fetch_add(1, Relaxed)),
        other => panic!("the victim ended with {other}"),
    });
    let (committed, evicted) = (committed.into_inner(), evicted.into_inner());
    assert!(committed > 0 && evicted > 0, "{committed} committed, {evicted} evicted");
    eprintln!("{total} instructions: {committed} stopped after and {evicted} before their commit");
}

/// Nothing that the victim left is there to be read any more when the server settles what it left.
#[test]
fn a_publisher_killed_after_any_instruction_around_its_commit_and_lapped_is_counted() {
    if !has_ptrace() {
        return;
    }
    let lapped = AtomicU64::new(0);
    kill_around_commit(Log::WithSpace, |scene| {
        let survivor = scene.survivor.as_mut().expect("this log has two publishers");
        let (mut published, mut received) = (0, 0);
        while published < 8 && survivor.try_publish(&[0; 900]).is_ok() {
            received += tally(&mut scene.by_futex).0;
            drain(&mut scene.by_descriptor);
            published += 1;
        }
        lapped.fetch_add(u64::from(published == 8), Relaxed);
        received
    });
    let lapped = lapped.into_inner();
    assert!((48..64).contains(&lapped), "the kills did not straddle the commit: {lapped} of 64 were lapped");
}

/// The next log begins with the numbers that the victim left in this one.
#[test]
fn a_publisher_killed_after_any_instruction_around_its_commit_is_counted_in_the_log_that_began_meanwhile() {
    if !has_ptrace() {
        return;
    }
    kill_around_commit(Log::Rolling, |scene| {
        scene.group.resize(8192).unwrap();
        0
    });
}

/// Stops victims after each of 64 instructions around the commit, does `meanwhile`, which returns how many messages one subscriber has
/// received in it, and kills them. Then the group has counted what its subscribers have received.
fn kill_around_commit(log: Log, meanwhile: impl Fn(&mut Scene) -> u64 + Sync) {
    let committed = first_committed(log);
    for_each((committed.saturating_sub(16)..committed + 48).collect(), |template, count| {
        let mut scene = Scene::new(template, log);
        scene.victim.step(count);
        let received = meanwhile(&mut scene);
        scene.victim.kill();
        let others = || scene.group.report().unwrap().publishers.len();
        eventually("the dead publisher is not removed", || others() == 1);
        // With the one that was taken before.
        let received = 1 + received + tally(&mut scene.by_futex).0;
        assert_eq!(scene.group.report().unwrap().messages, received, "killed after {count} instructions");
    });
}

/// After how many instructions of a publish the message is there.
fn first_committed(log: Log) -> u64 {
    let total = instructions(log);
    let found = AtomicU64::new(0);
    for_each(vec![0], |template, _| {
        let (mut before, mut after) = (0, total);
        while before + 1 < after {
            let middle = (before + after) / 2;
            let is_there = Scene::new(template, log).observe(|victim, _| {
                victim.step(middle);
                victim.kill();
            });
            *if is_there { &mut after } else { &mut before } = middle;
        }
        found.store(after, Relaxed);
    });
    found.into_inner()
}

/// Stops a victim after `count` instructions, has it evicted, and lets it go on. Returns its exit code.
fn stop_and_evict(template: &mut Template, count: u64) -> i32 {
    let mut scene = Scene::new(template, Log::WithSpace);
    let (id, mut exit) = (scene.victim_id, None);
    let published = scene.observe(|victim, group| {
        victim.step(count);
        assert!(group.evict(id).unwrap());
        // Continued, it runs to its last stop (unless it is there already), and from there to its end.
        exit = victim.run().or_else(|| victim.run());
    });
    let exit = exit.expect("it has stopped as often as it does");
    assert_eq!(published, exit == PUBLISHED, "stopped after {count} instructions");
    exit
}

#[test]
fn a_publisher_stopped_at_any_instruction_while_others_lap_it_harms_no_message() {
    if !has_ptrace() {
        return;
    }
    let total = instructions(Log::WithSpace);
    let lapped = AtomicU64::new(0);
    for_each(targets(total, 3), |template, count| {
        lapped.fetch_add(u64::from(stop_and_lap(template, count)), Relaxed);
    });
    let lapped = lapped.into_inner();
    assert!(lapped > 0, "every stop held the others up");
    eprintln!("{total} instructions: lapped after {lapped} of them");
}

/// Stops a victim after `count` instructions, publishes as much as the stop allows, and lets it go on. What others
/// published then still has all its bytes, and the victim's message comes once. Returns whether it was lapped.
fn stop_and_lap(template: &mut Template, count: u64) -> bool {
    // Zeroes are what a header word may be mistaken for most easily.
    const ZEROES: [u8; 900] = [0; 900];
    let mut scene = Scene::new(template, Log::WithSpace);
    scene.victim.step(count);
    let mut survivor = scene.survivor.take().expect("this log has two publishers");
    let mut subscribers = [&mut scene.by_futex, &mut scene.by_descriptor];
    let mut seen = [0, 0];
    let mut drain_counting = |subscribers: &mut [&mut Subscriber; 2]| {
        for (subscriber, count_of_own) in subscribers.iter_mut().zip(&mut seen) {
            while let Ok(Received::Message(message)) = subscriber.try_recv() {
                let own = message.bytes == PAYLOAD;
                assert!(own || message.bytes == ZEROES, "stopped after {count}: {:?}", message.bytes);
                *count_of_own += u32::from(own);
            }
        }
        seen
    };
    let mut published = 0;
    // Two laps that are read, and most of one that is not.
    while published < 8 && survivor.try_publish(&ZEROES).is_ok() {
        drain_counting(&mut subscribers);
        published += 1;
    }
    let lapped = published == 8;
    for _ in 0..3 {
        // Full, if the stop holds the others up.
        let _ = survivor.try_publish(&ZEROES);
    }
    let exit = scene.victim.run().or_else(|| scene.victim.run());
    let seen = drain_counting(&mut subscribers);
    assert_eq!(exit, Some(PUBLISHED), "stopped after {count} instructions");
    assert_eq!(seen, [1, 1], "stopped after {count} instructions");
    survivor.try_publish(&ZEROES).unwrap();
    drain_counting(&mut subscribers);
    lapped
}
