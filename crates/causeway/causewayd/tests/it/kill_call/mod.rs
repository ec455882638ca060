//! Caller, callee or causewayd is killed after system call k of a call, for many k: between members, and between a member and a client.
//!
//! The victim runs under ptrace, and the call has a descriptor. At each point the other ends get the reply or an error, the victim's
//! name passes on to the next in its queue, the other members still call each other, and causewayd has no descriptor, mapping or name more than before.
//!
//! `CAUSEWAY_CALL_KILL_EVERY` is the step from one k to the next, 1 for all; without it about eight are taken of each kind. How long it took from a kill to
//! the end of the call is printed: `cargo test -p causewayd --test it kill_call:: -- --nocapture`.

mod party;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_bus::{Connection as Member, NameReply};
use nix::sys::signal::{Signal, raise};
use party::{End, Event, Kind, Party};

use crate::support::*;

/// The name of the victim, for which another member waits.
const VICTIM: &str = "com.example.Victim";
const KIND: &str = "CAUSEWAYD_TEST_KIND";
const ADDRESS: &str = "CAUSEWAYD_TEST_ADDRESS";
const TO: &str = "CAUSEWAYD_TEST_TO";

/// Caller and callee.
const WAYS: [(Kind, Kind); 3] =
    [(Kind::Member, Kind::Member), (Kind::Client, Kind::Member), (Kind::Member, Kind::Client)];

#[test]
fn role() {
    let Some((role, native, _)) = play() else { return };
    let variable = |name| std::env::var(name).unwrap();
    let kind = if variable(KIND) == "Member" { Kind::Member } else { Kind::Client };
    let mut victim = Party::open(kind, &native, &variable(ADDRESS));
    victim.request_name(VICTIM);
    stop_for_tracer();
    raise(Signal::SIGSTOP).unwrap();
    match role.as_str() {
        "caller" => drop(victim.call(&variable(TO), None)),
        "callee" => while victim.step(PATIENCE) != Event::Answered {},
        other => panic!("{other}"),
    }
    raise(Signal::SIGSTOP).unwrap();
}

/// A bus with two members that have called each other. The first waits for the name of the victim.
struct Scene {
    bus: Broker,
    heir: Member,
    other: Member,
}

impl Scene {
    fn start() -> Scene {
        let bus = Broker::native();
        let (heir, other) = (bus.member(), bus.member());
        let mut scene = Scene { bus, heir, other };
        scene.others_call_each_other();
        scene
    }

    fn open(&self, kind: Kind) -> Party {
        Party::open(kind, &self.bus.path(), &self.bus.address)
    }

    fn others_call_each_other(&mut self) {
        exchange(&mut self.heir, &mut self.other);
    }

    /// A victim that has its name, for which the heir waits, and is about to call, or to wait for a call. Its unique name is the second.
    fn victim(&mut self, role: &str, kind: Kind, to: &str) -> (Victim, String) {
        let kind = format!("{kind:?}");
        let address = self.bus.address.as_str();
        let mut command = role_of(module_path!(), role, &self.bus.path());
        command.envs([(KIND, kind.as_str()), (ADDRESS, address), (TO, to)]);
        let (process, traced) = Traced::start(&mut command);
        assert_eq!(traced.run(), None, "the victim ends too soon");
        let unique = self.heir.name_owner(VICTIM).unwrap();
        assert_eq!(self.heir.request_name(VICTIM, 0).unwrap(), NameReply::InQueue);
        (Victim { traced, _process: process }, unique)
    }

    /// What causewayd and this process have, and how many names there are, when nobody is there but the two members.
    fn held(&self) -> (Held, Held, usize) {
        let theirs = Held::by(self.bus.child.pid());
        (theirs, Held::by(std::process::id()), self.heir.list_names().len())
    }

    /// The victim is dead: its name passes on, the others call each other, and nothing is left that was not there before.
    fn goes_on(&mut self, before: (Held, Held, usize), at: &str) {
        let own = self.heir.unique_name().to_owned();
        eventually(&format!("{at}: the name does not pass on"), || {
            self.heir.name_owner(VICTIM).as_deref() == Some(&own)
        });
        self.heir.release_name(VICTIM).unwrap();
        eventually_seen(
            &format!("{at}: something is left, and there were {before:?}"),
            || {
                // Those who read on let go of what a dead member had; causewayd reads when it is asked.
                self.others_call_each_other();
                ask_bus(&mut self.heir);
                self.held()
            },
            |seen| seen.0.is_within(before.0) && seen.1.is_within(before.1) && seen.2 <= before.2,
        );
    }
}

/// Fields are dropped in their order: the tracer reaps the process.
struct Victim {
    traced: Traced,
    _process: Running,
}

/// What became of a kill.
struct Killed {
    /// System calls that the victim has returned from before.
    calls: u64,
    end: End,
    /// From the kill to the end of the call.
    took: Duration,
}

/// The moments of a kill after a run to the end that has `calls` system calls.
fn moments(calls: u64) -> impl Iterator<Item = u64> {
    let moments = (0..=calls).step_by(setting("CAUSEWAY_CALL_KILL_EVERY", calls / 8).max(1) as usize);
    extend_limit(TRACING * moments.clone().count() as u32);
    moments
}

/// Prints how the calls ended.
fn report(what: &str, way: (Kind, Kind), killed: &[Killed]) {
    let mut ends = std::collections::BTreeMap::new();
    for killed in killed {
        *ends.entry(format!("{:?}", killed.end)).or_insert(0) += 1;
    }
    let has_failed = |killed: &&Killed| !matches!(killed.end, End::Reply | End::OutOfReach);
    let mut took: Vec<_> = killed.iter().filter(has_failed).map(|killed| killed.took).collect();
    took.sort_unstable();
    let calls = killed.iter().map(|killed| killed.calls).max().unwrap_or(0);
    let (moments, median, worst) = (killed.len(), took.get(took.len() / 2), took.last());
    eprintln!(
        "{what} killed, {way:?}: {moments} moments of {calls} system calls; {ends:?}; from the kill to the error {median:?}, at worst {worst:?}"
    );
}

/// Kills at all moments, and once at the end of the call; `kill` also waits until nothing is left that was not there before.
fn kill_at_all_moments(
    what: &str,
    way: (Kind, Kind),
    is_end: fn(&End) -> bool,
    mut kill: impl FnMut(u64, &str) -> Killed,
) {
    let whole = kill(u64::MAX, "at the end of the call");
    assert_eq!(whole.end, End::Reply, "{way:?}");
    let mut all = Vec::new();
    for k in moments(whole.calls) {
        let at = format!("{way:?}, {what} killed after {k} of {} system calls", whole.calls);
        let killed = kill(k, &at);
        assert!(is_end(&killed.end), "{at}: {:?}", killed.end);
        all.push(killed);
    }
    report(what, way, &all);
    assert!(all.iter().any(|killed| killed.end != End::Reply), "{way:?}: all calls were answered");
}

#[test]
fn a_call_whose_callee_is_killed_after_any_system_call_ends_and_leaves_nothing() {
    if !has_ptrace() {
        return;
    }
    own_process!();
    for way in WAYS {
        let mut scene = Scene::start();
        let before = scene.held();
        kill_at_all_moments("callee", way, End::is_of_callee, |k, at| {
            let killed = kill_callee(&mut scene, way, k);
            scene.goes_on(before, at);
            killed
        });
    }
}

fn kill_callee(scene: &mut Scene, (caller, callee): (Kind, Kind), k: u64) -> Killed {
    let (victim, unique) = scene.victim("callee", callee, "");
    let mut caller = scene.open(caller);
    std::thread::scope(|scope| {
        let calling = scope.spawn(move || (caller.call(&unique, None), Instant::now()));
        let calls = victim.traced.run_calls(k, || false);
        if k == u64::MAX {
            eventually("the call is not answered", || calling.is_finished());
        }
        let start = Instant::now();
        victim.traced.kill();
        let (end, ended) = calling.join().unwrap();
        Killed { calls, end, took: ended.saturating_duration_since(start) }
    })
}

#[test]
fn a_caller_killed_after_any_system_call_of_its_call_leaves_nothing() {
    if !has_ptrace() {
        return;
    }
    own_process!();
    for way in WAYS {
        let mut scene = Scene::start();
        let before = scene.held();
        let (calls, answered) = kill_caller(&mut scene, way, u64::MAX);
        assert_eq!(answered, 1, "{way:?}");
        scene.goes_on(before, "at the end of the call");
        let mut count = [0; 2];
        for k in moments(calls) {
            let (_, answered) = kill_caller(&mut scene, way, k);
            let at = format!("{way:?}, caller killed after {k} of {calls} system calls");
            assert!(answered <= 1, "{at}: {answered} calls came");
            scene.goes_on(before, &at);
            count[answered] += 1;
        }
        let [unsent, sent] = count;
        eprintln!("caller killed, {way:?}: {calls} system calls; {unsent} were not sent, {sent} were");
        assert!(unsent > 0, "{way:?}: all calls were sent");
    }
}

/// Returns from how many system calls the caller returned, and how many calls the callee got.
fn kill_caller(scene: &mut Scene, (caller, callee): (Kind, Kind), k: u64) -> (u64, usize) {
    let mut callee = scene.open(callee);
    callee.watch_owners();
    let (victim, unique) = scene.victim("caller", caller, &callee.unique_name());
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let (start, mut answered) = (Instant::now(), 0);
            loop {
                match callee.step(Duration::from_millis(100)) {
                    Event::Answered => answered += 1,
                    Event::Left(name) if name == unique => return answered,
                    Event::Left(_) | Event::None => {}
                    Event::Closed => panic!("the bus closed the connection of the callee"),
                }
                assert!(start.elapsed() < PATIENCE, "the end of the caller is not announced");
            }
        });
        let calls = victim.traced.run_calls(k, || false);
        victim.traced.kill();
        (calls, serving.join().unwrap())
    })
}

#[test]
fn a_call_ends_when_causewayd_is_killed_after_any_of_its_system_calls_and_members_go_on() {
    if !has_ptrace() {
        return;
    }
    own_process!();
    for way in WAYS {
        // The first bus has brought the thread that watches all buses.
        let mut before = None;
        kill_at_all_moments("causewayd", way, End::is_of_bus, |k, at| {
            let killed = kill_causewayd(way, k);
            let held = || Held::by(std::process::id());
            let before = *before.get_or_insert_with(held);
            eventually(&format!("{at}: something is left"), || held().is_within(before));
            killed
        });
    }
}

fn kill_causewayd(way: (Kind, Kind), k: u64) -> Killed {
    let mut scene = Scene::start();
    let (mut caller, mut callee) = (scene.open(way.0), scene.open(way.1));
    let to = callee.unique_name();
    let (is_lost, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    // Only a message from member to member can be out of reach; causewayd carries all others, and its end is theirs.
    let lost = (way == (Kind::Member, Kind::Member)).then_some(&is_lost);
    let traced = Traced::seize_running(scene.bus.child.pid() as i32);
    let killed = std::thread::scope(|scope| {
        let calling = scope.spawn(move || (caller.call(&to, lost), Instant::now()));
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) && callee.step(Duration::from_millis(1)) != Event::Closed {
                is_lost.fetch_or(callee.has_skipped(), Ordering::Release);
            }
        });
        let calls = traced.run_calls(k, || calling.is_finished());
        let start = Instant::now();
        traced.kill();
        let (end, ended) = calling.join().unwrap();
        is_over.store(true, Ordering::Release);
        Killed { calls, end, took: ended.saturating_duration_since(start) }
    });
    scene.others_call_each_other();
    killed
}
