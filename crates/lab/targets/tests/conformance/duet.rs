//! Sets: cases that take turns in slices.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use causeway_testkit::{Cause, skipped};
use libtest_mimic::Trial;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::{Measured, SetOutcome, SliceTiming};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::session::{Ended, Session, Settings};
use weighbridge_harness::{duet, hub};
use weighbridge_record::{CaseId, Line};

use crate::runs::{children, coordinator, prepare, prepare_or_skip, trial};
use crate::search::{Record, SETTINGS};

const TIMING: Timing = Timing { sample_ns: 2_000_000, samples: 10, least_samples: 3, run_ns: 20_000_000_000 };
const SLICES: SliceTiming = SliceTiming { blocks: 12, slice_ns: 1_000_000, seed: 3 };

/// Cases of every kind that takes turns.
const DUETTED: &[&str] = &[
    "roundtrip/unix-stream/64/same-cpu",
    "roundtrip/ring-futex/64/same-cpu",
    "roundtrip/pipe/65536/two-cpus",
    "roundtrip/ring-spin/8/two-cpus",
    "roundtrip/causeway-sw/8/two-cpus/wait=spin",
    "roundtrip/pipe/64/free/peers=thread",
    "pingpong/futex/0/same-cpu",
    "pingpong/atomic/0/two-cpus",
    "stream/unix-stream/65536/two-cpus",
    "stream/ring-spin/4096/two-cpus",
    "stream/pipe/4096/same-cpu",
    "stream/causeway-sw/64/same-cpu",
    "fan-out/unix-stream/64/same-cpu/receivers=3",
    "fan-out/ring-broadcast/64/two-cpus/receivers=2",
    "fan-in/pipe/1/same-cpu/streams=50",
    "fan-in/unix-stream/64/two-cpus/streams=60/writers=3",
    "fan-in/tcp/1/free/peers=thread/streams=20/wait=poll",
    "fan-in/causeway-sw/64/free/writers=2",
    "contend/mutex/0/two-cpus",
    "contend/spin-lock/0/two-cpus",
    "contend/futex-mutex/0/same-cpu/roles=3",
    "parallel/getppid/0/two-cpus/roles=2",
    "parallel/memcpy/65536/free/peers=thread",
    "solo/getppid/0/same-cpu",
    "solo/memcpy/65536/same-cpu",
];

/// A test for each of these cases.
pub fn trials(host: &'static Host) -> impl Iterator<Item = Trial> {
    let named = |id: &'static str| (format!("duet/takes_turns_with_its_hub::{id}"), id);
    DUETTED.iter().copied().map(named).map(move |(name, id)| trial(name, move || takes_turns(host, id)))
}

pub const TESTS: &[crate::Test] = &[
    ("three_parties_take_turns", three_parties),
    ("slow_operations_make_fewer_slices_for_all", slow_operations),
    ("a_party_that_fails_is_named_and_ends_the_set", failing_party),
    ("hubs_of_a_session_meet_and_carry_comparisons", hubs_meet),
    ("a_set_whose_hub_may_run_elsewhere_is_refused_as_it_is_measured", hub_strays),
];

fn three_parties(host: &Host) {
    let ids = ["roundtrip/pipe/1/same-cpu", "roundtrip/unix-stream/1/same-cpu", "pingpong/futex/0/same-cpu"];
    let measured = measure(host, &ids.map(|id| id.parse().unwrap())).expect("none of these needs anything");
    check_turns(&measured);
}

fn slow_operations(host: &Host) {
    let ids = ["solo/memcpy/67108864/same-cpu", "roundtrip/pipe/1/same-cpu"];
    let ids = ids.map(|id| id.parse::<CaseId>().unwrap());
    let measured = measure_with(host, &ids, Timing { run_ns: 1, ..TIMING }).expect("a copy of 64 MiB");
    for party in &measured {
        assert_eq!(party.samples.len(), duet::LEAST_BLOCKS);
    }
}

fn failing_party(host: &Host) {
    let ids = ["roundtrip/pipe/1/same-cpu", "roundtrip/mock/1/same-cpu/fault=attach-fails"];
    let cases = ids.map(|id| prepare(host, &id.parse().unwrap()));
    let [Ok(pipe), Ok(mock)] = cases else { panic!("both exist: {cases:?}") };
    match run_set(host, &[&pipe, &mock], TIMING, SLICES) {
        SetOutcome::Failed { party: 1, step, .. } => assert_eq!(step, "attach"),
        other => panic!("{other:?}"),
    }
}

/// A ring whose ends spin has another hub than the pipe that it is compared with.
fn hubs_meet(host: &Host) {
    let ids = ["roundtrip/pipe/8/two-cpus", "roundtrip/ring-spin/8/two-cpus", "roundtrip/noop/8/same-cpu"];
    let Some(cases) = prepare_all(host, &ids.map(|id| id.parse().unwrap())) else { return };
    let settings = Settings {
        precision: 0.001,
        budget: Duration::from_secs(600),
        timing: Timing { run_ns: 40_000_000, ..TIMING },
        max_runs: 9,
        duet: true,
        ..SETTINGS
    };
    let interrupt = Interrupt::install().unwrap();
    let mut lines = Record::default();
    let session = Session::new(settings, coordinator(host, &interrupt), &interrupt, cases);
    let ended = session.run(&mut lines).unwrap();
    assert_eq!(ended, Ended::Complete);
    let lines = lines.0;
    let runs = |id: &str| {
        lines.iter().filter(|line| matches!(line, Line::Run(run) if run.case.to_string() == id)).count()
    };
    assert_eq!(ids.map(runs), [9, 9, 6], "the harness has no more runs than its first look needs");
    let mut meetings = Vec::new();
    for line in &lines {
        if let Line::Hub(hub) = line {
            meetings.extend(&hub.meetings);
        }
    }
    let [meeting] = meetings[..] else { panic!("two hubs meet in one pair: {meetings:?}") };
    assert_eq!(meeting.ratios.len(), 8, "{meeting:?}");
    let [low, high] = meeting.ci95.expect("eight sets");
    assert!(low <= meeting.ratio && meeting.ratio <= high, "{meeting:?}");
    let comparison = lines.iter().find_map(|line| match line {
        Line::Comparison(line) if line.case.mechanism == "ring-spin" => Some(line),
        _ => None,
    });
    let comparison = comparison.expect("the ring is compared with the pipe");
    assert!(comparison.ci95.is_some(), "{comparison:?}");
    assert_eq!(comparison.pairs, 8, "as many sets as the hubs met in, not pairs of rounds");
}

/// Lets the peers of a hub run on every CPU once they have begun. Those of the case have a socket more.
fn unpin_hub(every: &CpuSet) {
    for pid in children() {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let targets: Vec<String> =
            links.filter_map(|link| Some(fs::read_link(link.path()).ok()?.to_str()?.to_owned())).collect();
        let sockets = targets.iter().filter(|target| target.starts_with("socket:")).count();
        // Of the hub the pipes of both directions have come; nothing else has them.
        let has_memory = targets.iter().any(|target| target.contains("memfd:"));
        if sockets == 1 && has_memory {
            let _ = sched_setaffinity(Pid::from_raw(pid), every);
        }
    }
}

fn hub_strays(host: &Host) {
    if host.topology.cpus.len() < 2 {
        return skipped(Cause::Hardware("two CPUs"), "");
    }
    let mut every = CpuSet::new();
    host.topology.cpus.iter().for_each(|place| every.set(place.cpu as usize));
    let case = prepare(host, &"roundtrip/unix-stream/64/same-cpu".parse().unwrap()).unwrap();
    let settings = Settings {
        budget: Duration::from_secs(60),
        timing: Timing { run_ns: 200_000_000, ..TIMING },
        duet: true,
        ..SETTINGS
    };
    let interrupt = Interrupt::install().unwrap();
    let mut seen = Vec::new();
    for _ in 0..20 {
        let is_over = AtomicBool::new(false);
        let mut lines = Record::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    unpin_hub(&every);
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let session =
                Session::new(settings.clone(), coordinator(host, &interrupt), &interrupt, vec![case.clone()]);
            let ended = session.run(&mut lines);
            is_over.store(true, Ordering::Relaxed);
            ended.unwrap();
        });
        let why = |line: &Line| match line {
            Line::Skipped(skipped) => Some((skipped.step.clone(), skipped.why.clone())),
            _ => None,
        };
        let skipped: Vec<(String, String)> = lines.0.iter().filter_map(why).collect();
        let is_told = |(step, why): &(String, String)| {
            step == "conditions" && why.contains("its hub roundtrip/pipe") && why.contains("law `placed`")
        };
        if skipped.iter().any(is_told) {
            return;
        }
        seen.push(skipped);
    }
    panic!("a hub that may run on every CPU is not refused: {seen:?}");
}

/// The cases, unless one of them has no place here.
fn prepare_all(host: &Host, ids: &[CaseId]) -> Option<Vec<Prepared>> {
    ids.iter().map(|id| prepare_or_skip(host, id)).collect()
}

/// One set with default deadlines.
fn run_set(host: &Host, cases: &[&Prepared], timing: Timing, slices: SliceTiming) -> SetOutcome {
    let interrupt = Interrupt::install().unwrap();
    coordinator(host, &interrupt).run_set(cases, timing, slices)
}

/// One set of these cases, each of them measured.
pub fn measure(host: &Host, ids: &[CaseId]) -> Option<Vec<Measured>> {
    measure_with(host, ids, TIMING)
}

fn measure_with(host: &Host, ids: &[CaseId], timing: Timing) -> Option<Vec<Measured>> {
    let cases = prepare_all(host, ids)?;
    match run_set(host, &cases.iter().collect::<Vec<_>>(), timing, SLICES) {
        SetOutcome::Measured(measured) => Some(measured),
        other => panic!("{ids:?}: {other:?}"),
    }
}

fn takes_turns(host: &Host, id: &str) {
    let id: CaseId = id.parse().unwrap();
    let Some(case) = prepare_or_skip(host, &id) else { return };
    let hub = hub::of(&case).expect("a case that takes turns");
    if let Some(measured) = measure(host, &[id, hub]) {
        check_turns(&measured);
    }
}

/// Slices of one party at a time, in every block one of each, and nothing of the others' turns in its counts.
fn check_turns(measured: &[Measured]) {
    let mut slices = Vec::new();
    for (party, measured) in measured.iter().enumerate() {
        assert_eq!(measured.samples.len(), SLICES.blocks - duet::WARM_BLOCKS, "party {party}");
        slices.extend(measured.samples.iter().map(|sample| (sample.start_ns, sample.elapsed_ns, party)));
        let leader = measured.roles.iter().max_by_key(|role| role.counted.ops).expect("a party has roles");
        let switches = |role: &weighbridge_harness::peer::RoleReport| role.counted.task.voluntary_switches;
        let per_op = switches(leader) as f64 / leader.counted.ops.max(1) as f64;
        assert!(per_op < 40.0, "party {party}: {per_op} switches an operation");
    }
    slices.sort_unstable();
    for pair in slices.windows(2) {
        let [(start_ns, elapsed_ns, party), (next_ns, _, next)] = pair else { unreachable!() };
        assert!(start_ns + elapsed_ns <= *next_ns, "slices of {party} and {next} overlap");
    }
    for block in slices.chunks(measured.len()) {
        let mut parties: Vec<usize> = block.iter().map(|slice| slice.2).collect();
        parties.sort_unstable();
        assert_eq!(parties, (0..measured.len()).collect::<Vec<_>>());
    }
}
