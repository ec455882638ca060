//! Peers that are killed or stopped from outside, in a step of their life that is seen in the memory of the run.

use std::fs::{self, OpenOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weighbridge_harness::contract::{Prepared, Target};
use weighbridge_harness::coordinator::{Deadlines, Outcome};
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::shared::{Shared, Step};
use weighbridge_record::CaseId;

use crate::runs::{self, SHORT, anywhere, prepare, run_within};

/// Long enough to be caught in it.
const LONG: Timing = Timing { sample_ns: 2_000_000, samples: 50, least_samples: 50, run_ns: 100_000_000 };
/// A stall is waited for no longer than this; peers start in this time on a busy machine, too.
const SOON: Deadlines = Deadlines {
    setup: Duration::from_secs(3),
    run: Duration::from_millis(100),
    grace: Duration::from_millis(100),
};
/// A machine that is busy may end a run before the meddler comes to it; then once more.
const ATTEMPTS: usize = 10;

/// The run that the main thread makes, as seen by a thread beside it. What it waits for may never come: `None` says that
/// the run is over.
struct Watched<'a> {
    shared: Shared,
    is_over: &'a AtomicBool,
}

impl<'a> Watched<'a> {
    /// Finds it by the name of its memory.
    fn find(is_over: &'a AtomicBool) -> Option<Watched<'a>> {
        let mut found = None;
        until(is_over, || {
            found = fs::read_dir("/proc/self/fd").unwrap().flatten().find_map(|entry| {
                let link = fs::read_link(entry.path()).ok()?;
                if !link.to_str()?.starts_with("/memfd:weighbridge-run") {
                    return None;
                }
                let file = OpenOptions::new().read(true).write(true).open(entry.path()).ok()?;
                Shared::open(file.into()).ok()
            });
            found.is_some()
        })?;
        found.map(|shared| Watched { shared, is_over })
    }

    /// The peer of a role, once it runs this program as a peer.
    fn peer(&self, role: usize) -> Option<i32> {
        let mut pids = Vec::new();
        until(self.is_over, || {
            pids = runs::peers();
            pids.len() > role
        })?;
        Some(pids[role])
    }

    fn await_step(&self, role: usize, step: Step) -> Option<()> {
        until(self.is_over, || self.shared.step(role) >= step)
    }

    /// Waits until a process is stopped, or gone.
    fn await_stopped(&self, pid: i32) -> Option<()> {
        until(self.is_over, || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
        })
    }
}

fn until(is_over: &AtomicBool, mut is_so: impl FnMut() -> bool) -> Option<()> {
    while !is_so() {
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        thread::sleep(Duration::from_micros(50));
    }
    Some(())
}

/// Sends a signal; to somebody who is gone already, it is not sent.
fn send(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// Makes a run while `meddle` does something to it from a thread beside. Returns the memory of the run, too, unless it
/// was over before the meddler was done.
fn run_meddled(
    host: &Host,
    case: &Prepared,
    timing: Timing,
    deadlines: Deadlines,
    meddle: impl FnOnce(&Watched<'_>) -> Option<()> + Send,
) -> (Outcome, Option<Shared>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let meddler = scope.spawn(|| {
            let watched = Watched::find(&is_over)?;
            meddle(&watched)?;
            Some(watched.shared)
        });
        let outcome = run_within(host, case, timing, deadlines);
        is_over.store(true, Ordering::Relaxed);
        (outcome, meddler.join().expect("the meddler does not panic"))
    })
}

/// As [`run_meddled`], until the meddler was in time and the run failed: step, reason, memory of the run.
fn fail_meddled(
    host: &Host,
    case: &Prepared,
    deadlines: Deadlines,
    meddle: impl Fn(&Watched<'_>) -> Option<()> + Send + Sync,
) -> (String, String, Shared) {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        last = match run_meddled(host, case, LONG, deadlines, &meddle) {
            (Outcome::Failed { step, why }, Some(shared)) => return (step, why, shared),
            (Outcome::Measured(_), _) => "was measured".into(),
            (other, _) => format!("{other:?}"),
        };
    }
    panic!("{}: no run failed after it was meddled with; the last one: {last}", case.params.id)
}

fn roundtrip(host: &Host, target: &Target) -> Option<Prepared> {
    let placement = anywhere(target, host)?;
    Some(prepare(host, &CaseId::new("roundtrip", target.id, 64, placement)).unwrap())
}

/// Either peer is killed in its timed part.
pub fn killed_while_it_exchanges(host: &Host, target: &'static Target) {
    let Some(case) = roundtrip(host, target) else {
        return eprintln!("skipped: {} spins and needs two CPUs", target.id);
    };
    for (role, name) in ["client", "server"].into_iter().enumerate() {
        let is_in_batches = || {
            let (step, why, shared) = fail_meddled(host, &case, Deadlines::default(), |watched| {
                let pid = watched.peer(role)?;
                watched.await_step(role, Step::Batches)?;
                send(pid, Signal::KILL);
                Some(())
            });
            assert_eq!(step, shared.step(role).name());
            assert_eq!(why, format!("{name} ended: signal 9 (SIGKILL)"));
            step == "batches"
        };
        assert!((0..ATTEMPTS).any(|_| is_in_batches()), "{}: the {name} was always quicker", target.id);
    }
}

/// Stopped and continued (as by Ctrl-Z, or a debugger), in each way to wait: some calls return then although nothing
/// came.
pub fn stopped_for_a_while(host: &Host, target: &'static Target) {
    for wait in target.waits {
        let Some(case) = roundtrip(host, target)
            .and_then(|case| prepare(host, &case.params.id.with("wait", wait.name())).ok())
        else {
            // Spinning needs two CPUs, io_uring a kernel that allows it.
            continue;
        };
        let was_stopped = (1..=ATTEMPTS).any(|attempt| {
            let samples = 5 * attempt;
            let run_ns = LONG.sample_ns * samples as u64;
            let timing = Timing { samples, least_samples: samples, run_ns, ..LONG };
            let (outcome, in_time) =
                run_meddled(host, &case, timing, Deadlines::default(), stop_and_continue);
            assert!(matches!(outcome, Outcome::Measured(_)), "{}: {outcome:?}", case.params.id);
            in_time.is_some()
        });
        assert!(was_stopped, "{}: every run was quicker", case.params.id);
    }
}

fn stop_and_continue(watched: &Watched<'_>) -> Option<()> {
    watched.await_step(1, Step::Calibrate)?;
    let peers = [watched.peer(1)?, watched.peer(0)?];
    for pid in peers {
        send(pid, Signal::STOP);
        watched.await_stopped(pid)?;
        // Without its partner the other one comes to wait, and is stopped while it does.
        thread::sleep(Duration::from_millis(2));
    }
    for pid in peers {
        send(pid, Signal::CONT);
    }
    Some(())
}

/// A server that is stopped at once keeps the client in verify, where it is killed. Sometimes the server was quicker
/// than the signal; then once more.
pub fn killed_in_verify(host: &Host) {
    for mechanism in ["pipe", "unix-seqpacket", "msg-sysv", "ring-futex", "process-vm"] {
        let case = prepare(host, &CaseId::new("roundtrip", mechanism, 8000, "free")).unwrap();
        let is_in_verify = || {
            let (step, why, shared) = fail_meddled(host, &case, Deadlines::default(), |watched| {
                let server = watched.peer(1)?;
                send(server, Signal::STOP);
                watched.await_stopped(server)?;
                watched.await_step(0, Step::Verify)?;
                send(watched.peer(0)?, Signal::KILL);
                Some(())
            });
            assert_eq!(step, shared.step(0).name());
            assert_eq!(why, "client ended: signal 9 (SIGKILL)");
            step == "verify"
        };
        assert!((0..50).any(|_| is_in_verify()), "{mechanism}: the server was always quicker");
    }
}

/// Stopped in the timed part, and before it: the step that is told is that of the role furthest behind.
pub fn stopped_for_good(host: &Host) {
    let check = |pattern, mechanism, meddle: &(dyn Fn(&Watched<'_>) -> Option<()> + Send + Sync)| {
        let case = prepare(host, &CaseId::new(pattern, mechanism, 64, "free")).unwrap();
        let (step, why, shared) = fail_meddled(host, &case, SOON, meddle);
        assert_eq!(step, shared.step(0).min(shared.step(1)).name(), "{why}");
        assert!(why.contains("no progress: stopped after") && why.contains(&format!(" in {step}")), "{why}");
    };
    for (mechanism, role) in [("pipe", 0), ("mq-posix", 1), ("memfd-pass", 0), ("process-vm", 1)] {
        check("stream", mechanism, &move |watched| {
            let pid = watched.peer(role)?;
            watched.await_step(role, Step::Batches)?;
            send(pid, Signal::STOP);
            Some(())
        });
    }
    check("roundtrip", "unix-dgram", &|watched| {
        send(watched.peer(1)?, Signal::STOP);
        Some(())
    });
}

/// A run that is longer than the peers may take to start: the deadline for that does not wake the coordinator meanwhile.
pub fn coordinator_sleeps_past_the_start(host: &Host) {
    const EARLY: Deadlines =
        Deadlines { setup: SOON.setup, run: Duration::from_secs(60), grace: Duration::from_millis(100) };
    const LONGER: Timing =
        Timing { sample_ns: 100_000_000, samples: 60, least_samples: 60, run_ns: 6_000_000_000 };
    // On one CPU: between two, a pipe may become several times as fast after its samples were planned.
    let case =
        prepare(host, &CaseId::new("roundtrip", "pipe", 64, "same-cpu")).expect("a pipe runs everywhere");
    match run_within(host, &case, LONGER, EARLY) {
        Outcome::Measured(measured) => {
            assert!(measured.elapsed_ms > EARLY.setup.as_millis() as f64, "{} ms", measured.elapsed_ms);
            assert_eq!(measured.roles[0].counted.coordinator_switches, Some(0));
        }
        other => panic!("{other:?}"),
    }
}

/// What a mechanism itself may do to its peer.
pub fn mock_faults(host: &Host) {
    for (fault, step_of_fault, words) in [
        ("attach-fails", "attach", "server: permission denied"),
        ("dies", "attach", "server ended: signal 6 (SIGABRT)"),
        ("stalls", "attach", "no progress: stopped after"),
        ("panics", "attach", "server: a defect of this program: it panicked: the mock was told to"),
        ("facts-fail", "prefault", "server: reading back the settings of mock: permission denied"),
    ] {
        for peers in ["process", "thread"] {
            let id = CaseId::new("roundtrip", "mock", 1, "free").with("fault", fault).with("peers", peers);
            let deadlines = if fault == "stalls" { SOON } else { Deadlines::default() };
            let outcome = run_within(host, &prepare(host, &id).unwrap(), SHORT, deadlines);
            let Outcome::Failed { step, why } = outcome else { panic!("{id}: {outcome:?}") };
            // All roles of one process end with it, and the first of them speaks for it.
            let why = if peers == "thread" { why.replace("client ended", "server ended") } else { why };
            assert!(why.starts_with(words), "{id}: {why}");
            assert!(peers == "thread" || step == step_of_fault, "{id}: {step}");
        }
    }
}
