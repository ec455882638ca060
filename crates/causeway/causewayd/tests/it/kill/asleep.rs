//! Members that are stopped after instruction k on their way from the last look at the log into their sleep, and those that are killed there:
//! nobody sleeps for ever, whether a message comes meanwhile, the bus breaks, or it ends.
//!
//! One process takes one message after the other and stops itself between two. `CAUSEWAY_KILL_EVERY` is the step from one k to the next, 1 for
//! all; in the last instructions before the sleep, where a wake-up can be lost, it is a hundredth of that.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_bus::shared::ring::Entry;
use causeway_bus::wire::{Arg, Body};
use causeway_bus::{Connection, ConnectionOptions, Error, Incoming, Result};
use causeway_os::process::poll;
use nix::sys::signal::{Signal, raise};

use crate::support::*;

/// Exit codes of the member that is stopped: the bus has ended, or is broken, or nothing has come.
const ENDED: i32 = 7;
const BROKEN: i32 = 8;
const DEAF: i32 = 9;
/// It sleeps on the word of its group, or on its doorbell.
const SLEEPS: [&str; 2] = ["futex", "doorbell"];
/// The last instructions before the sleep.
const WINDOW: u64 = 160;

#[test]
fn role() {
    let Some((role, socket, _)) = play() else { return };
    let options = ConnectionOptions { spin: Duration::ZERO, ..ConnectionOptions::default() };
    let mut member = Connection::open_with(socket, options).unwrap();
    member.add_match(RULE).unwrap();
    let has_doorbell = role == SLEEPS[1];
    if has_doorbell {
        member.use_descriptor().unwrap();
    }
    stop_for_tracer();
    loop {
        // Its tracer begins to count here.
        raise(Signal::SIGSTOP).unwrap();
        let began = Instant::now();
        let incoming =
            if has_doorbell { next_in_event_loop(&mut member) } else { member.next(Some(PATIENCE)) };
        // One that nobody has woken finds what has come when its time is over.
        let is_deaf = began.elapsed() >= PATIENCE;
        std::process::exit(match incoming {
            _ if is_deaf => DEAF,
            Ok(Some(Incoming::Signal(_))) => continue,
            Ok(Some(Incoming::AuthorityGone)) | Err(Error::AuthorityGone) => ENDED,
            Err(Error::Broken { .. }) => BROKEN,
            Ok(None) => DEAF,
            other => panic!("{other:?}"),
        });
    }
}

fn next_in_event_loop(member: &mut Connection) -> Result<Option<Incoming>> {
    loop {
        if let Some(incoming) = member.next_now()? {
            return Ok(Some(incoming));
        }
        if member.prepare_to_wait() && !poll(&[member.as_fd()], Some(PATIENCE)).unwrap()[0] {
            return member.next_now();
        }
    }
}

/// A bus with a member that emits signals, and one that is about to wait for them.
struct Scene {
    victim: Traced,
    process: Running,
    sender: Connection,
    bus: Bus,
}

impl Scene {
    fn new(how: &str) -> Scene {
        let bus = Bus::start();
        let sender = bus.member();
        let (process, victim) = start_traced(module_path!(), how, &bus.path(), 0);
        assert_eq!(victim.run(), None);
        let mut scene = Scene { victim, process, sender, bus };
        // What is done once is done, and not step by step.
        for _ in 0..2 {
            scene.sender.emit(PATH, INTERFACE, "Tell", Body::default()).unwrap();
            assert_eq!(scene.victim.run(), None, "deaf at first");
        }
        scene
    }

    /// Stops the victim after `k` instructions, or in its sleep if that comes first; then a signal comes, and it goes on.
    fn is_heard(&mut self, k: u64, how: &str) -> u64 {
        let executed = self.victim.step_awake(k);
        self.sender.emit(PATH, INTERFACE, "Tell", Body::default()).unwrap();
        assert_eq!(self.victim.run(), None, "deaf: stopped after {executed} instructions, {how}");
        executed
    }

    /// After how many instructions it sleeps.
    fn instructions(&mut self, how: &str) -> u64 {
        self.is_heard(u64::MAX, how)
    }
}

/// The moments of the whole way, or of its last part only.
fn moments(total: u64, is_whole: bool, few: u64) -> Vec<u64> {
    let every = setting("CAUSEWAY_KILL_EVERY", total / few).max(1);
    let window = if std::env::var_os("CAUSEWAY_KILL_EVERY").is_some() { every / 100 } else { WINDOW / few };
    let first = total.saturating_sub(WINDOW);
    let whole = (0..first).step_by(every as usize).filter(|_| is_whole);
    super::with_time(whole.chain((first..total).step_by(window.max(1) as usize)).collect())
}

#[test]
fn a_message_reaches_a_member_that_is_stopped_anywhere_on_its_way_into_its_sleep() {
    if !has_ptrace() {
        return;
    }
    for how in SLEEPS {
        let mut scene = Scene::new(how);
        let total = scene.instructions(how);
        let moments = moments(total, true, 40);
        for k in &moments {
            scene.is_heard(*k, how);
        }
        eprintln!("{total} instructions up to the sleep ({how}): stopped at {} of them", moments.len());
        let evictions = scene.sender.order_log().evictions().load(Ordering::Relaxed);
        assert_eq!(evictions, 0, "it was evicted for the time in which it was stopped");
    }
}

/// How the bus ends for the one that is stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The authority ends: a thread of the member's process is told.
    Bus,
    /// A member finds an entry that makes no sense.
    Broken,
}

#[test]
fn the_end_of_the_bus_reaches_a_member_that_is_stopped_anywhere_on_its_way_into_its_sleep() {
    if !has_ptrace() {
        return;
    }
    for how in SLEEPS {
        let total = Scene::new(how).instructions(how);
        for end in [End::Bus, End::Broken] {
            for k in moments(total, false, 12) {
                end_while_stopped(Scene::new(how), k, end, how);
            }
        }
    }
}

fn end_while_stopped(scene: Scene, k: u64, end: End, how: &str) {
    let Scene { victim, process, mut sender, bus } = scene;
    let executed = victim.step_awake(k);
    // The thread that watches has told its connections when it sleeps again.
    let sleeps = || proc::sleeps_of(process.pid(), "causeway-bus");
    let before = sleeps();
    let expected = if end == End::Bus {
        drop(bus);
        eventually("the thread that watches is not told", || sleeps() > before);
        [ENDED, ENDED]
    } else {
        forge(&sender, Entry { sender: 1, destination: 1, place: 1_000 });
        let error = sender.next(Some(PATIENCE)).unwrap_err();
        assert!(matches!(error, Error::Broken { .. }), "{error}");
        // The authority sees it, too, and closes what it has of this bus.
        [BROKEN, ENDED]
    };
    let code = victim.run();
    assert!(
        code.is_some_and(|code| expected.contains(&code)),
        "{code:?}: stopped after {executed} instructions, {how}, {end:?}"
    );
}

/// One that is killed on its way into its sleep, or in it, ends, and the others go on.
#[test]
fn a_member_that_is_killed_anywhere_on_its_way_into_its_sleep_is_announced_and_missed_by_nobody() {
    if !has_ptrace() {
        return;
    }
    for how in SLEEPS {
        let total = Scene::new(how).instructions(how);
        for k in moments(total, false, 6).into_iter().chain([u64::MAX]) {
            let mut scene = Scene::new(how);
            let mut other = scene.bus.member();
            other.add_match("member='NameOwnerChanged',arg2=''").unwrap();
            other.add_match(RULE).unwrap();
            let executed = scene.victim.step_awake(k);
            scene.victim.kill();
            let ended = signal(&mut other);
            assert_eq!(ended.rule_args()[2], Arg::Text(""), "killed after {executed} instructions, {how}");
            scene.sender.emit(PATH, INTERFACE, "After", Body::default()).unwrap();
            assert_eq!(signal(&mut other).header().member, Some("After"));
        }
    }
}
