//! A day in four minutes: many members and clients of one bus exchange mixed messages at a steady rate, and are killed at random.
//!
//! Half of the participants are members in shared memory, half are D-Bus clients; each is a process. They call each other, ask the
//! bus, and emit signals, in the proportions and sizes of a recorded trace. Meanwhile one after the other is killed and replaced. Eight
//! recorders, four of each kind, want every signal and every change of names. At the end:
//!
//! * all recorders have seen exactly the same, in the same order;
//! * the signals of each participant have no gap, and those of one that was not killed none at the end;
//! * each call has ended with its reply, or with an error because its callee was gone; no callee saw the calls of one caller out of order;
//! * causewayd has as many descriptors and mappings as at the beginning, and about as much memory of its own.
//!
//! `CAUSEWAY_DAY_SECONDS`, `_CLIENTS`, `_RATE` (messages a second that participants send of themselves, replies not counted), `_KILL_MS`
//! (time from one kill to the next) and `_STEPS` (a file, see `mix`) set it; `CAUSEWAY_DAY_SECONDS=240 CAUSEWAY_DAY_CLIENTS=200 CAUSEWAY_DAY_RATE=5000` is the day.

mod mix;
mod participant;
mod recorder;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use causeway_bus::Connection;
use causeway_bus::wire::Body;
use causeway_testkit::Rng;

use recorder::{Recorder, Seen};
use report::Report;

use crate::support::*;

/// Interface of the signals of participants.
const TRAFFIC: &str = "day.Traffic";
/// Interface of the signals that end the day: `Stop` (send no more), then `End`.
const CONTROL: &str = "day.Control";
const OBJECT: &str = "/day";
/// The end of the name of a file that says that a participant has joined.
const READY: &str = "ready";

fn of_day(name: &str, default: u64) -> u64 {
    setting(&format!("CAUSEWAY_DAY_{name}"), default)
}

/// One of the participants, in its present process.
struct Living {
    child: Running,
    life: u32,
    report: PathBuf,
}

/// All of them.
struct Crowd<'a> {
    broker: &'a Broker,
    native: &'a Path,
    folder: &'a Path,
    living: Vec<Living>,
}

impl Crowd<'_> {
    fn spawn(&self, number: u32, life: u32, count: u32, rate: u64) -> Living {
        let report = self.folder.join(format!("{number}-{life}"));
        let mut command = causeway_testkit::rerun(concat!(module_path!(), "::participant"), "play");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let address = match number % 2 {
            0 => self.native.display().to_string(),
            _ => self.broker.address.clone(),
        };
        let words = [number, life, count].map(|number| number.to_string()).join(" ");
        command.env(participant::ROLE, format!("{words} {rate} {address}")).env(participant::REPORT, &report);
        Living { child: Running::start(&mut command), life, report }
    }

    /// Kills one and puts another in its place.
    fn replace(&mut self, number: u32, rate: u64) {
        let count = self.living.len() as u32;
        let old = &mut self.living[number as usize];
        let ended = old.child.0.try_wait().unwrap();
        assert!(ended.is_none(), "participant {number} ended by itself: {ended:?}");
        old.child.kill();
        let life = old.life + 1;
        self.living[number as usize] = self.spawn(number, life, count, rate);
    }
}

impl Crowd<'_> {
    /// Waits until all have their names and rules.
    fn wait(&mut self, bus: &mut Connection) {
        let end = Instant::now() + PATIENCE;
        for (number, living) in self.living.iter_mut().enumerate() {
            while !living.report.with_extension(READY).exists() {
                let ended = living.child.0.try_wait().unwrap();
                assert!(
                    ended.is_none() && Instant::now() < end,
                    "participant {number} does not join: {ended:?}"
                );
                pause(bus, Duration::from_millis(5));
            }
        }
    }
}

/// What causewayd holds.
#[derive(Debug)]
struct Footprint {
    held: Held,
    own_kib: u64,
}

impl Footprint {
    fn of(broker: &Broker) -> Footprint {
        let pid = broker.child.pid();
        let own_kib = causeway_testkit::proc::status_number(pid, "RssAnon").unwrap();
        Footprint { held: Held::by(pid), own_kib }
    }
}

/// Waits, and reads meanwhile: a member that does not is in the way of others.
fn pause(bus: &mut Connection, length: Duration) {
    let end = Instant::now() + length;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        assert_eq!(bus.next(Some(left)).unwrap(), None, "nothing is for who ends the day");
    }
}

#[test]
fn a_day_with_members_and_clients_that_are_killed_loses_nothing_uncounted() {
    let seconds = of_day("SECONDS", 6);
    let (count, rate) = (of_day("CLIENTS", 24) as u32, of_day("RATE", 1200));
    let kill_every = Duration::from_millis(of_day("KILL_MS", 250));
    let folder = tempfile::tempdir().unwrap();
    let native = folder.path().join("native");
    let broker = Broker::with(&["--address", "unix:tmpdir=/tmp", "--native", native.to_str().unwrap()]);
    let recorders: Vec<Recorder> =
        (0..4).flat_map(|_| [Recorder::member(&native), Recorder::client(&broker.address)]).collect();
    let mut control = Connection::open(&native).unwrap();

    let mut crowd = Crowd { broker: &broker, native: &native, folder: folder.path(), living: Vec::new() };
    crowd.living = (0..count).map(|number| crowd.spawn(number, 0, count, rate)).collect();
    crowd.wait(&mut control);

    let mut random = Rng::with_seed(0x9e37_79b9);
    let (mut kills, mut early) = (0, None);
    let start = Instant::now();
    let length = Duration::from_secs(seconds);
    while start.elapsed() < length {
        pause(&mut control, kill_every);
        crowd.replace(random.u32(..count), rate);
        kills += 1;
        // What one process leaves is there by then, if anything stays for ever.
        if early.is_none() && start.elapsed() > length / 4 {
            crowd.wait(&mut control);
            early = Some(Footprint::of(&broker));
        }
    }
    crowd.wait(&mut control);
    control.emit(OBJECT, CONTROL, "Stop", Body::default()).unwrap();
    let reports: Vec<Report> = (0..count)
        .map(|number| {
            let living = &mut crowd.living[number as usize];
            let mut idle = || {
                pause(&mut control, Duration::from_millis(20));
                living.child.0.try_wait().unwrap()
            };
            Report::wait_for(&living.report, &mut idle, PATIENCE)
        })
        .collect();
    // Places of those that were killed are free once all have read what they sent.
    control.emit(OBJECT, CONTROL, "Settle", Body::default()).unwrap();
    pause(&mut control, Duration::from_millis(500));
    let (early, late) = (early.unwrap(), Footprint::of(&broker));
    let lives: Vec<u32> = crowd.living.iter().map(|living| living.life).collect();
    control.emit(OBJECT, CONTROL, "End", Body::default()).unwrap();
    let seen: Vec<Vec<Seen>> = recorders.into_iter().map(Recorder::finish).collect();

    for (number, other) in seen.iter().enumerate().skip(1) {
        let at = seen[0].iter().zip(other).position(|(one, two)| one != two);
        let at = at.or((seen[0].len() != other.len()).then(|| seen[0].len().min(other.len())));
        if let Some(at) = at {
            let around = |of: &[Seen]| of[at.saturating_sub(2)..(at + 3).min(of.len())].to_vec();
            panic!(
                "recorders 0 and {number} saw {} and {} and differ at {at}: {:?} {:?}",
                seen[0].len(),
                other.len(),
                around(&seen[0]),
                around(other)
            );
        }
    }
    let last = gapless(&seen[0]);
    for (number, report) in reports.iter().enumerate() {
        let (number, life) = (number as u32, lives[number]);
        assert_eq!(
            last.get(&(number, life)).copied().unwrap_or(0),
            report.signals,
            "signals of {number} in life {life}"
        );
    }
    let sum = |of: fn(&Report) -> u32| reports.iter().map(|report| u64::from(of(report))).sum::<u64>();
    let signals: u64 = last.values().map(|last| u64::from(*last)).sum();
    eprintln!(
        "{seconds} s, {count} participants, {kills} kills: {signals} signals with {} receivers each; of those alive at the end: \
         {} calls answered, {} ended with their callee, {} asked of the bus; causewayd {early:?}, {late:?}",
        seen.len(),
        sum(|report| report.answered),
        sum(|report| report.callee_gone),
        sum(|report| report.asked)
    );
    assert!(signals > 0 && sum(|report| report.answered) > 0);
    assert!(late.held.descriptors <= early.held.descriptors + 4, "{early:?} {late:?}");
    assert!(late.held.mappings <= early.held.mappings + 8, "{early:?} {late:?}");
    assert!(late.own_kib <= early.own_kib + 8192, "{early:?} {late:?}");
}

/// The last signal of each life. Fails where one is missing.
fn gapless(seen: &[Seen]) -> BTreeMap<(u32, u32), u32> {
    let mut last = BTreeMap::new();
    for seen in seen {
        if let Seen::Signal { participant, life, number } = seen {
            let before = last.insert((*participant, *life), *number).unwrap_or(0);
            assert_eq!(*number, before + 1, "signals of participant {participant} in life {life}");
        }
    }
    last
}
