//! Subscribers that are stopped after instruction k on their way from the last look at the log into their sleep: nobody sleeps for ever, whether a
//! message comes meanwhile, the log ends and another begins, or all publishers die. And publishers and subscribers that stand still together.
//!
//! `CAUSEWAY_KILL_EVERY` is the step from one k to the next, 1 for all; the last instructions before the sleep, where a wake-up can be lost, are
//! taken by at most every fourth.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway::{Error, Group, GroupOptions, Policy, Publisher, Received, Trust, TryRecvError, Waited};
use causeway_testkit::watchdog::{TRACING, extend_limit};
use causeway_testkit::{Cause, ControlGroup, Freezer, Traced, has_ptrace, proc, skipped, stop_for_tracer};
use nix::sys::signal::{Signal, raise};
use nix::unistd::{Pid, setpgid};

use crate::common::{LONG, Peer, Role, eventually, join, place, setting, small};

/// Exit codes of the subscriber that is stopped: the group has ended, or nothing has come.
const ENDED: i32 = 7;
const DEAF: i32 = 9;
/// The last instructions before the sleep.
const WINDOW: u64 = 200;

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("sleep-on-futex", |socket, _| sleeper(socket, false)),
    ("sleep-on-doorbell", |socket, _| sleeper(socket, true)),
    ("publish-when-told", |_, _| publish_when_told()),
    ("publish-to-one-that-rests", publish_to_one_that_rests),
    ("rest-now-and-then", rest_now_and_then),
];

/// Serves a group at the path in the first line of its input, and publishes a message for each line after that.
fn publish_when_told() {
    let mut lines = std::io::stdin().lines();
    let group = Group::create("told", small()).unwrap();
    let mut publisher = group.publisher().unwrap();
    group.serve_at(lines.next().unwrap().unwrap()).unwrap();
    for line in lines {
        publisher.publish(line.unwrap().as_bytes()).unwrap();
    }
}

/// Takes one message after the other, and stops between two.
fn sleeper(socket: &Path, has_doorbell: bool) {
    let mut subscriber = join(socket).subscribe(Policy::Reliable).unwrap();
    subscriber.spin_at_most(Duration::ZERO);
    subscriber.sleep_on_descriptor(has_doorbell);
    // The thread that watches for the end of others starts with the first sleep.
    assert_eq!(subscriber.wait(Some(Duration::from_millis(1))).unwrap(), Waited::TimedOut);
    stop_for_tracer();
    loop {
        // Its tracer begins to count here.
        raise(Signal::SIGSTOP).unwrap();
        let began = Instant::now();
        let code = loop {
            match subscriber.wait(Some(LONG)) {
                Ok(Waited::Ready) => {}
                Ok(Waited::TimedOut) => break DEAF,
                Err(Error::Disconnected) => break ENDED,
                Err(error) => panic!("{error}"),
            }
            match subscriber.try_recv() {
                Ok(Received::Message(_)) => break 0,
                Ok(other) => panic!("{other:?}"),
                // Another log begins.
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => break ENDED,
                Err(error) => panic!("{error}"),
            }
        };
        // One that nobody has woken finds what has come when its time is over.
        match code {
            _ if began.elapsed() >= LONG => std::process::exit(DEAF),
            0 => {}
            code => std::process::exit(code),
        }
    }
}

/// Where a subscriber sleeps, and what group that needs.
fn ways() -> [(&'static str, GroupOptions); 4] {
    let strangers = small().trust(Trust::Strangers).several_publishers();
    [
        ("sleep-on-futex", small()),
        ("sleep-on-futex", small().several_publishers()),
        // On a word of its own.
        ("sleep-on-futex", strangers),
        ("sleep-on-doorbell", small().several_publishers()),
    ]
}

/// A group whose subscriber is about to wait.
struct Scene {
    victim: Traced,
    _process: Peer,
    publisher: Publisher,
    group: Group,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new(role: &str, options: GroupOptions) -> Scene {
        let (dir, socket) = place();
        let group = Group::create("asleep", options).unwrap();
        group.serve_at(&socket).unwrap();
        let publisher = group.publisher().unwrap();
        let (process, victim) = Peer::start_traced(role, &socket, 0);
        assert_eq!(victim.run(), None);
        let mut scene = Scene { victim, _process: process, publisher, group, _dir: dir };
        // What is done once is done, and not step by step.
        for _ in 0..2 {
            scene.publisher.publish_timeout(b"message", LONG).unwrap();
            assert_eq!(scene.victim.run(), None, "deaf at first");
        }
        scene
    }

    /// Stops the victim after `k` instructions, or in its sleep if that comes first; then something happens and a message comes, and it goes on.
    fn is_heard(&mut self, k: u64, role: &str, happens: impl FnOnce(&mut Scene)) -> u64 {
        let executed = self.victim.step_awake(k);
        happens(self);
        self.publisher.publish_timeout(b"message", LONG).unwrap();
        assert_eq!(self.victim.run(), None, "deaf: stopped after {executed} instructions, {role}");
        executed
    }
}

/// The moments of the whole way, or of its last part only.
fn moments(total: u64, is_whole: bool, few: u64) -> Vec<u64> {
    let every = setting("CAUSEWAY_KILL_EVERY", total / few).max(1);
    let first = total.saturating_sub(WINDOW);
    let whole = (0..first).step_by(every as usize).filter(|_| is_whole);
    let window = every.min(if is_whole { 4 } else { WINDOW / few }) as usize;
    let moments: Vec<u64> = whole.chain((first..total).step_by(window)).collect();
    extend_limit(TRACING * moments.len() as u32);
    moments
}

#[test]
fn a_message_reaches_a_subscriber_that_is_stopped_anywhere_on_its_way_into_its_sleep() {
    if !has_ptrace() {
        return;
    }
    for (role, options) in ways() {
        let mut scene = Scene::new(role, options);
        let total = scene.is_heard(u64::MAX, role, |_| {});
        let moments = moments(total, true, 40);
        for k in &moments {
            scene.is_heard(*k, role, |_| {});
        }
        let report = scene.group.report().unwrap();
        assert!(report.subscribers.iter().all(|one| !one.demoted), "{report:?}");
        eprintln!("{total} instructions up to the sleep ({role}): stopped at {} of them", moments.len());
    }
}

#[test]
fn the_next_log_reaches_a_subscriber_that_is_stopped_anywhere_on_its_way_into_its_sleep() {
    if !has_ptrace() {
        return;
    }
    for (role, options) in ways() {
        let mut scene = Scene::new(role, options.late_publishers());
        let mut bytes = 8192;
        let total = scene.is_heard(u64::MAX, role, |_| {});
        for k in moments(total, false, 12) {
            scene.is_heard(k, role, |scene| scene.group.resize(bytes).unwrap());
            bytes = 8192 + 4096 - bytes;
        }
    }
}

#[test]
fn the_death_of_all_publishers_reaches_a_subscriber_that_is_stopped_anywhere_on_its_way_into_its_sleep() {
    if !has_ptrace() {
        return;
    }
    for role in ["sleep-on-futex", "sleep-on-doorbell"] {
        let total = Scene::new(role, small()).is_heard(u64::MAX, role, |_| {});
        for k in moments(total, false, 10) {
            let (_dir, socket) = place();
            let (mut server, mut told) = Peer::start_listening("publish-when-told");
            writeln!(told, "{}", socket.display()).unwrap();
            eventually("the group is not served", || Group::join(&socket).is_ok());
            let (process, victim) = Peer::start_traced(role, &socket, 0);
            assert_eq!(victim.run(), None);
            // What is done once is done.
            for _ in 0..2 {
                writeln!(told, "message").unwrap();
                assert_eq!(victim.run(), None);
            }
            let executed = victim.step_awake(k);
            let sleeps = || proc::sleeps_of(process.pid() as u32, "causeway-watch");
            let before = sleeps();
            server.kill();
            if before > 0 {
                eventually("the thread that watches is not told", || sleeps() > before);
            }
            assert_eq!(victim.run(), Some(ENDED), "stopped after {executed} instructions, {role}");
        }
    }
}

/// How long the publisher waits for one that does not read.
const DEADLINE: Duration = Duration::from_millis(2_500);
/// So long all stand still.
const FROZEN: Duration = Duration::from_millis(3_000);
/// The subscriber rests after so many messages, and the publisher waits for it then.
const ROUND: u32 = 2_000;
const ROUNDS: u32 = 2;
const REST: Duration = Duration::from_millis(100);

/// The log is full all the time.
fn publish_to_one_that_rests(socket: &Path, _: u64) {
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).unwrap();
    let group = Group::create("frozen", small().several_publishers()).unwrap();
    let mut publisher = group.publisher().unwrap();
    group.serve_at(socket).unwrap();
    assert!(publisher.wait_for_subscribers(1, Some(LONG)).unwrap());
    for number in 0..ROUND * ROUNDS {
        publisher.publish(&number.to_le_bytes()).unwrap();
    }
    // Until it has read.
    while group.report().unwrap().subscribers.iter().any(|one| one.lag_bytes > 0 && !one.demoted) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Is demoted after the deadline in a group of even number. Leaves a file each time that it rests.
fn rest_now_and_then(socket: &Path, number: u64) {
    setpgid(Pid::from_raw(0), Pid::from_raw((number / 2) as i32)).unwrap();
    let policy = if number.is_multiple_of(2) {
        Policy::DemoteAfter(DEADLINE)
    } else {
        Policy::DisconnectAfter(DEADLINE)
    };
    let mut subscriber = join(socket).subscribe(policy).unwrap();
    for number in 0..ROUND * ROUNDS {
        match subscriber.recv_timeout(LONG) {
            Ok(Received::Message(message)) => assert_eq!(message.bytes, number.to_le_bytes()),
            other => panic!("{number}: {other:?}"),
        }
        if number % ROUND == ROUND / 2 {
            std::fs::write(rest_of(socket, number / ROUND), "").unwrap();
            std::thread::sleep(REST);
        }
    }
}

fn rest_of(socket: &Path, round: u32) -> std::path::PathBuf {
    socket.with_extension(format!("rest-{round}"))
}

/// Both of a publisher and its subscriber stand still each time that the publisher waits.
fn stand_still_now_and_then(has_control_group: bool) {
    for is_disconnected in [false, true] {
        let (_dir, socket) = place();
        let mut publisher = Peer::start("publish-to-one-that-rests", &socket, 0);
        eventually("the group is not served", || Group::join(&socket).is_ok());
        let (leader, odd) = (publisher.pid() as u32, u64::from(is_disconnected));
        let mut subscriber = Peer::start("rest-now-and-then", &socket, u64::from(leader) * 2 + odd);
        let processes = [leader, subscriber.pid() as u32];
        let freezer = if has_control_group {
            match ControlGroup::of(&processes) {
                Ok(group) => Freezer::ControlGroup(group),
                Err(why) => return skipped(Cause::Rights("control groups"), why),
            }
        } else {
            Freezer::Signal(leader, processes.to_vec())
        };
        for round in 0..ROUNDS {
            eventually("the subscriber does not rest", || rest_of(&socket, round).exists());
            freezer.freeze();
            std::thread::sleep(FROZEN);
            freezer.thaw();
        }
        subscriber.succeed();
        publisher.succeed();
    }
}

#[test]
fn nobody_is_demoted_for_the_time_in_which_a_process_group_was_stopped() {
    stand_still_now_and_then(false);
}

#[test]
fn nobody_is_demoted_for_the_time_in_which_a_control_group_was_frozen() {
    stand_still_now_and_then(true);
}
