//! No thread is woken without need, and none polls: system calls, context switches and CPU time, counted.
//!
//! A publisher runs in a child under `PTRACE_SYSCALL`, and every system call of a publish is recorded. Subscribers sleep in
//! other processes; `/proc` shows what they did meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::common::{LONG, Peer, Role, asleep, eventually, eventually_seen, join, place};
use causeway::{Error, Group, GroupOptions, Policy, SubscribeOptions, Subscriber, Waited};
use causeway_testkit::{Call, Traced, has_ptrace, stop_for_tracer};
use nix::libc;
use nix::sys::signal::{Signal, raise};

/// Messages of one phase; enough to free space several times in a log of 4 KiB.
const MANY: u64 = 1000;

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("serve-idle", |socket, number| {
        let kind = kinds()[number as usize].clone();
        let group = Group::create("idle", kind.capacity_bytes(4096).remote_publishers(1)).unwrap();
        group.serve_at(socket).unwrap();
        std::thread::park();
    }),
    ("publish-in-phases", |socket, _| publish_in_phases(socket)),
    ("futex-sleepers", |socket, number| sleep_in_threads(socket, number, false, None)),
    ("descriptor-sleepers", |socket, number| sleep_in_threads(socket, number, true, None)),
    ("futex-sleepers-of-another-topic", |socket, number| sleep_in_threads(socket, number, false, Some(7))),
    ("descriptor-sleepers-of-another-topic", |socket, number| {
        sleep_in_threads(socket, number, true, Some(7))
    }),
];

/// A log of one publisher, and one of several.
fn kinds() -> [GroupOptions; 2] {
    [GroupOptions::new(), GroupOptions::new().several_publishers()]
}

/// Between every two stops one phase: first nothing, then one message per phase, then many, then one per phase again.
fn publish_in_phases(socket: &Path) {
    let mut publisher = join(socket).publisher().unwrap();
    stop_for_tracer();
    // Subscribers are learned of here, and not in the middle of a phase.
    assert!(publisher.wait_for_subscribers(0, Some(LONG)).unwrap());
    raise(Signal::SIGSTOP).unwrap();
    let mut phase = |messages| {
        for _ in 0..messages {
            publisher.try_publish(&[7; 100]).unwrap();
        }
        raise(Signal::SIGSTOP).unwrap();
    };
    [0, 1, 1, MANY, 1, 1].into_iter().for_each(&mut phase);
    loop {
        phase(1);
    }
}

/// `count` subscribers, each asleep in a thread of its own until the group ends.
fn sleep_in_threads(socket: &Path, count: u64, own_descriptor: bool, topic: Option<u32>) {
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let options = SubscribeOptions::new(Policy::Lossy).timeout(LONG);
                let options = topic.map_or(options.clone(), |topic| options.topics([topic]));
                let mut subscriber = join(socket).subscribe(options).unwrap();
                subscriber.spin_at_most(Duration::ZERO);
                subscriber.sleep_on_descriptor(own_descriptor);
                loop {
                    match subscriber.wait(None) {
                        Ok(Waited::Ready) => drain(&mut subscriber),
                        Ok(Waited::TimedOut) => panic!("there was no time"),
                        Err(Error::Disconnected | Error::ServerGone) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
}

/// Receives until there is nothing, or the group has ended.
fn drain(subscriber: &mut Subscriber) {
    while subscriber.try_recv().is_ok() {}
}

/// A group with a publisher that is traced, subscribers that are awake, and sleepers in processes of their own.
struct Scene {
    publisher: Traced,
    /// What the publisher asks of the kernel in a phase without a message: its stop, and nothing else.
    nothing: Vec<u64>,
    awake: Vec<Subscriber>,
    sleepers: Vec<Peer>,
    asleep: usize,
    group: Group,
    server: Peer,
    _child: Peer,
    _dir: tempfile::TempDir,
}

impl Scene {
    /// `kind`: which of [`kinds`]. `sleepers`: role and subscribers of each process that sleeps.
    fn new(kind: u64, sleepers: &[(&str, u64)]) -> Scene {
        let (dir, socket) = place();
        let server = Peer::start("serve-idle", &socket, kind);
        let group = join(&socket);
        let (child, publisher) = Peer::start_traced("publish-in-phases", &socket, 0);
        let subscribe = |_| group.subscribe(SubscribeOptions::new(Policy::Lossy).timeout(LONG)).unwrap();
        let awake = (0..3).map(subscribe).collect();
        let sleepers: Vec<Peer> =
            sleepers.iter().map(|(role, count)| Peer::start(role, &socket, *count)).collect();
        let nothing = Vec::new();
        Scene { publisher, nothing, awake, sleepers, asleep: 0, group, server, _child: child, _dir: dir }
    }

    /// Waits until `asleep` subscribers sleep, and lets the publisher learn of them.
    fn begin(mut self, asleep: usize) -> Scene {
        self.asleep = asleep;
        self.until_asleep();
        assert_eq!(self.publisher.run(), None);
        // For each subscriber that it did not know it had the server wake all of them.
        self.until_asleep();
        self.nothing = self.publisher.calls().iter().map(|call| call.number).collect();
        self
    }

    /// Waits until every subscriber that is meant to sleep does: it says so, and the kernel says so of its thread.
    fn until_asleep(&self) {
        eventually("the subscribers fall asleep", || {
            let in_wait: usize = self.sleepers.iter().map(|peer| threads_in_wait(peer.pid())).sum();
            asleep(&self.group) == self.asleep && in_wait == self.asleep
        });
    }

    /// What the publisher asks of the kernel in its next phase, beyond what stopping itself takes.
    fn phase(&self) -> Vec<Call> {
        let calls = self.publisher.calls();
        let numbers: Vec<u64> = calls.iter().map(|call| call.number).collect();
        assert!(numbers.ends_with(&self.nothing), "{calls:?} without {:?} at the end", self.nothing);
        calls[..calls.len() - self.nothing.len()].to_vec()
    }

    /// How many subscribers have received one message.
    fn have_received_one(&self) -> usize {
        let subscribers = self.group.report().unwrap().subscribers;
        subscribers.iter().filter(|subscriber| subscriber.received == 1).count()
    }

    /// Waits until so many have.
    fn until_received_by(&self, count: usize) {
        eventually("every sleeper that wants the message gets it", || self.have_received_one() == count);
    }
}

/// Threads that the kernel has blocked in a wait of a subscriber: on a futex that processes share, or on descriptors. A thread
/// that only sleeps may as well wait for a lock of its process on the way there.
fn threads_in_wait(pid: i32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let call = |path: std::path::PathBuf| std::fs::read_to_string(path.join("syscall")).unwrap_or_default();
    tasks.map(|task| call(task.unwrap().path())).filter(|call| is_wait(call)).count()
}

/// `call`: number and arguments of the system call in which a thread is blocked; `running` of one that is not.
fn is_wait(call: &str) -> bool {
    let mut words = call.split(' ');
    let Some(number) = words.next().and_then(|number| number.parse::<i64>().ok()) else { return false };
    let operation = words.nth(1).and_then(|word| i64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    match number {
        libc::SYS_futex => operation.is_some_and(|of| of & i64::from(libc::FUTEX_PRIVATE_FLAG) == 0),
        libc::SYS_futex_waitv | libc::SYS_ppoll => true,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => true,
        _ => false,
    }
}

/// What a thread has done so far: its switches of both kinds, and how long it ran.
fn activity(pids: &[i32]) -> BTreeMap<String, (String, String)> {
    let tasks = pids.iter().flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).unwrap());
    tasks
        .map(|task| {
            let path = task.unwrap().path();
            let read = |name| std::fs::read_to_string(path.join(name)).unwrap();
            let switches = read("status").lines().filter(|line| line.contains("ctxt_switches")).collect();
            let time = read("schedstat").split_whitespace().next().unwrap().to_string();
            (path.display().to_string(), (switches, time))
        })
        .collect()
}

#[test]
fn publishing_makes_no_system_call_while_no_subscriber_sleeps() {
    if !has_ptrace() {
        return;
    }
    for kind in [0, 1] {
        let mut scene = Scene::new(kind, &[]).begin(0);
        assert_eq!(scene.phase(), []);
        assert_eq!(scene.phase(), []);
        assert_eq!(scene.phase(), [], "{MANY} messages");
        for subscriber in &mut scene.awake {
            drain(subscriber);
            assert_eq!(subscriber.position().0, (MANY + 2) * 192, "not everything was published");
        }
    }
}

#[test]
fn sleepers_on_the_futex_are_woken_by_one_call_that_wakes_them_and_no_other() {
    if !has_ptrace() {
        return;
    }
    const EACH: u64 = 5;
    for kind in [0, 1] {
        let mut scene = Scene::new(kind, &[("futex-sleepers", EACH); 3]).begin(3 * EACH as usize);
        let calls = scene.phase();
        let [call] = calls[..] else { panic!("{calls:?}") };
        assert_eq!(call.number, libc::SYS_futex as u64);
        assert_eq!(call.arguments[1] as i32 & !libc::FUTEX_PRIVATE_FLAG, libc::FUTEX_WAKE);
        // The call returns how many threads it woke: all that slept. The awake subscribers do not wait on the futex.
        assert_eq!(call.result, 3 * EACH as i64, "{call:?}");
        scene.until_received_by(3 * EACH as usize);
        scene.awake.iter_mut().for_each(drain);

        // Awake again but not yet up (stopped, here), they are not woken a second time.
        scene.until_asleep();
        scene.sleepers.iter().for_each(Peer::stop);
        let calls = scene.phase();
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert_eq!(scene.phase(), [], "{MANY} more messages");
        scene.sleepers.iter().for_each(Peer::resume);
        scene.until_asleep();
        assert_eq!(scene.phase().len(), 1);
    }
}

/// All messages here have topic 0.
#[test]
fn a_topic_that_no_sleeper_wants_costs_no_call_and_wakes_only_those_that_want_it() {
    if !has_ptrace() {
        return;
    }
    let others = [("futex-sleepers-of-another-topic", 4), ("descriptor-sleepers-of-another-topic", 3)];
    let scene = Scene::new(0, &others).begin(7);
    for _ in 0..2 {
        assert_eq!(scene.phase(), []);
        scene.until_asleep();
    }
    assert_eq!(scene.have_received_one(), 0);

    let scene = Scene::new(1, &[others[0], others[1], ("futex-sleepers", 5)]).begin(12);
    let calls = scene.phase();
    let [call] = calls[..] else { panic!("{calls:?}") };
    assert_eq!(call.arguments[1] as i32 & !libc::FUTEX_PRIVATE_FLAG, libc::FUTEX_WAKE_BITSET);
    assert_eq!(call.result, 5, "{call:?}");
    scene.until_received_by(5);
}

#[test]
fn sleepers_on_descriptors_cost_one_call_each_and_one_for_all_on_the_futex() {
    if !has_ptrace() {
        return;
    }
    let sleepers = [("descriptor-sleepers", 4), ("futex-sleepers", 3)];
    let scene = Scene::new(0, &sleepers).begin(7);
    // The first calls fetch the doorbells from the server, which rings until then.
    let phase = || {
        scene.until_asleep();
        scene.phase()
    };
    let calls = eventually_seen("one call each", phase, |calls| {
        let count = |number: i64| calls.iter().filter(|call| call.number == number as u64).count();
        (count(libc::SYS_sendto), count(libc::SYS_futex), calls.len()) == (4, 1, 5)
    });
    let woken = |call: &Call| if call.number == libc::SYS_futex as u64 { 3 } else { 1 };
    assert!(calls.iter().all(|call| call.result == woken(call)), "{calls:?}");
}

#[test]
fn a_publish_does_not_touch_a_subscriber_that_is_busy_with_something_else() {
    if !has_ptrace() {
        return;
    }
    let scene = Scene::new(0, &[("futex-sleepers", 1)]).begin(1);
    let (report, wait) = std::sync::mpsc::channel();
    let (go_on, resting) = std::sync::mpsc::channel::<()>();
    // A thread with a subscriber of its own, at rest in a wait that has nothing to do with the group.
    let mut subscriber = scene.group.subscribe(Policy::Lossy).unwrap();
    let busy = std::thread::spawn(move || {
        report.send(nix::unistd::gettid()).unwrap();
        let _ = resting.recv();
        drain(&mut subscriber);
        subscriber.position()
    });
    let thread = wait.recv().unwrap();
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
        (
            status.contains("State:\tS"),
            status.lines().filter(|line| line.contains("ctxt")).collect::<String>(),
        )
    };
    eventually("the busy thread does not come to rest", || switches().0);
    // The publisher learns of the new subscriber in its next phase, by reading its socket; then it publishes.
    scene.phase();
    // Some chance may wake the thread once; a publisher that wakes it does so with every message.
    eventually("every message wakes the thread", || {
        scene.until_asleep();
        let before = switches();
        assert!(!scene.phase().is_empty(), "no call for the subscriber that sleeps");
        switches() == before
    });
    go_on.send(()).unwrap();
    assert_eq!(busy.join().unwrap().0, scene.group.report().unwrap().position);
}

#[test]
fn a_group_with_a_hundred_sleeping_subscribers_uses_no_cpu() {
    if !has_ptrace() {
        return;
    }
    let sleepers = [("futex-sleepers", 25), ("descriptor-sleepers", 25)].repeat(2);
    let scene = Scene::new(1, &sleepers).begin(100);
    let peers = scene.sleepers.iter().chain([&scene.server]);
    let pids: Vec<i32> = peers.map(Peer::pid).collect();
    eventually("the server comes to rest", || {
        causeway_testkit::proc::thread_states(scene.server.pid() as u32).iter().all(|state| *state == 'S')
    });
    // Some chance may run a thread once; one that polls runs in every second.
    let mut in_every_second = activity(&pids);
    assert!(in_every_second.len() > 100);
    let look = || {
        let before = activity(&pids);
        std::thread::sleep(Duration::from_secs(1));
        let after = activity(&pids);
        in_every_second.retain(|thread, _| before.get(thread) != after.get(thread));
        in_every_second.clone()
    };
    eventually_seen("no thread runs in every second", look, BTreeMap::is_empty);
    // They were asleep and not dead.
    assert!(!scene.phase().is_empty());
    scene.until_received_by(100);
}
