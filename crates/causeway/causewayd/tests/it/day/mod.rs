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
//! (time from one kill to the next) and `_STEPS` (a file, see `participant`) set it; `CAUSEWAY_DAY_SECONDS=240 CAUSEWAY_DAY_CLIENTS=200 CAUSEWAY_DAY_RATE=5000` is the day.

mod participant;
mod recorder;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use causeway_bus::wire::{Body, Builder};
use causeway_testkit::Rng;

use participant::Report;
use recorder::{Recorder, Seen};

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
    bus: &'a Broker,
    folder: &'a TempDir,
    count: u32,
    rate: u64,
    living: Vec<Living>,
}

impl Crowd<'_> {
    fn spawn(&self, number: u32, life: u32) -> Living {
        let report = self.folder.path().join(format!("{number}-{life}"));
        let mut command = causeway_testkit::rerun(concat!(module_path!(), "::participant"), "play");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let words = [number, life, self.count].map(|number| number.to_string()).join(" ");
        let role = format!("{words} {} {}", self.rate, address(self.bus, number));
        command.env(participant::ROLE, role).env(participant::REPORT, &report);
        Living { child: Running::start(&mut command), life, report }
    }

    /// Kills one and puts another in its place.
    fn replace(&mut self, number: u32) {
        let old = &mut self.living[number as usize];
        let ended = old.child.0.try_wait().unwrap();
        assert!(ended.is_none(), "participant {number} ended by itself: {ended:?}");
        old.child.kill();
        let life = old.life + 1;
        self.living[number as usize] = self.spawn(number, life);
    }

    /// Waits for what all of them say in a file with this extension.
    fn wait(&mut self, extension: &str) -> Vec<String> {
        let each = (0..).zip(&mut self.living).map(|(number, living)| {
            let file = living.report.with_extension(extension);
            eventually(&format!("participant {number} does not write {}", file.display()), || {
                let ended = living.child.0.try_wait().unwrap();
                assert!(ended.is_none(), "participant {number} has ended: {ended:?}");
                file.exists()
            });
            std::fs::read_to_string(file).unwrap()
        });
        each.collect()
    }
}

/// Every second participant and recorder is a member.
fn address(bus: &Broker, number: u32) -> String {
    match number % 2 {
        0 => format!("causeway:path={}", bus.path().display()),
        _ => bus.address.clone(),
    }
}

/// What causewayd holds.
#[derive(Debug)]
struct Footprint {
    held: Held,
    own_kib: u64,
}

impl Footprint {
    fn of(bus: &Broker) -> Footprint {
        let pid = bus.child.pid();
        let own_kib = causeway_testkit::proc::status_number(pid, "RssAnon").unwrap();
        Footprint { held: Held::by(pid), own_kib }
    }
}

#[test]
fn a_day_with_members_and_clients_that_are_killed_loses_nothing_uncounted() {
    let length = Duration::from_secs(of_day("SECONDS", 6));
    let (count, rate) = (of_day("CLIENTS", 24) as u32, of_day("RATE", 1200));
    let kill_every = Duration::from_millis(of_day("KILL_MS", 250));
    let folder = temp_dir("day");
    // A participant that a loaded machine does not let run holds the others up: that is not what ends it here.
    let bus = Broker::native_with(&["--address", "unix:tmpdir=/tmp", "--laggard-deadline", "20s"]);
    let recorders: Vec<Recorder> = (0..8).map(|number| Recorder::start(&address(&bus, number))).collect();
    let mut control = bus.client();
    let mut tell = |word| {
        control.send(&Builder::signal(OBJECT, CONTROL, word).body(Body::default())).unwrap();
        sync(&mut control);
    };

    let mut crowd = Crowd { bus: &bus, folder: &folder, count, rate, living: Vec::new() };
    crowd.living = (0..count).map(|number| crowd.spawn(number, 0)).collect();
    crowd.wait(READY);
    let mut random = Rng::with_seed(0x9e37_79b9);
    let (mut kills, mut early) = (0, None);
    let start = Instant::now();
    while start.elapsed() < length {
        std::thread::sleep(kill_every);
        crowd.replace(random.u32(..count));
        kills += 1;
        // What one process leaves is there by then, if anything stays for ever.
        if early.is_none() && start.elapsed() > length / 4 {
            crowd.wait(READY);
            early = Some(Footprint::of(&bus));
        }
    }
    crowd.wait(READY);
    tell("Stop");
    let reports: Vec<Report> = crowd.wait("").iter().map(|text| text.parse().unwrap()).collect();
    // Places of those that were killed are free once all have read what they sent.
    tell("Settle");
    std::thread::sleep(Duration::from_millis(500));
    let (early, late) = (early.unwrap(), Footprint::of(&bus));
    let lives: Vec<u32> = crowd.living.iter().map(|living| living.life).collect();
    tell("End");
    let seen: Vec<Vec<Seen>> = recorders.into_iter().map(Recorder::finish).collect();

    for (number, other) in seen.iter().enumerate().skip(1) {
        let at = seen[0].iter().zip(other).take_while(|(one, two)| one == two).count();
        let around = |of: &[Seen]| of[at.saturating_sub(2)..(at + 3).min(of.len())].to_vec();
        assert!(
            at == seen[0].len() && at == other.len(),
            "recorders 0 and {number} differ at {at}: {:?} {:?}",
            around(&seen[0]),
            around(other)
        );
    }
    let last = gapless(&seen[0]);
    for ((number, report), life) in (0..).zip(&reports).zip(lives) {
        let signals = last.get(&(number, life)).copied().unwrap_or(0);
        assert_eq!(signals, report.signals, "signals of {number} in life {life}");
    }
    let sum = |of: fn(&Report) -> u32| reports.iter().map(|report| u64::from(of(report))).sum::<u64>();
    let (answered, signals) = (sum(|report| report.answered), last.values().copied().sum::<u32>());
    eprintln!(
        "{length:?}, {count} participants, {kills} kills: {signals} signals with {} receivers each; of those alive at the end: \
         {answered} calls answered, {} ended with their callee, {} asked of the bus; causewayd {early:?}, {late:?}",
        seen.len(),
        sum(|report| report.callee_gone),
        sum(|report| report.asked)
    );
    assert!(signals > 0 && answered > 0);
    assert!(late.held.descriptors <= early.held.descriptors + 4, "{early:?} {late:?}");
    assert!(late.held.mappings <= early.held.mappings + 8, "{early:?} {late:?}");
    assert!(late.own_kib <= early.own_kib + 8192, "{early:?} {late:?}");
}

/// The last signal of each life. Fails where one is missing.
fn gapless(seen: &[Seen]) -> BTreeMap<(u32, u32), u32> {
    let mut last = BTreeMap::new();
    for seen in seen {
        if let Seen::Signal([participant, life, number]) = *seen {
            let before = last.insert((participant, life), number).unwrap_or(0);
            assert_eq!(number, before + 1, "signals of participant {participant} in life {life}");
        }
    }
    last
}
