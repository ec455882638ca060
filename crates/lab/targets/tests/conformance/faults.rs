//! Peers that are killed or stopped from outside, in a step of their life that is seen in the memory of the run.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use weighbridge_harness::contract::{Prepared, Target};
use weighbridge_harness::coordinator::{Deadlines, Outcome};
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::shared::{Shared, Step};
use weighbridge_record::CaseId;

use crate::runs::{SHORT, Watched, anywhere, beside, prepare, prepare_or_skip, run, run_within, send, with};

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

/// Runs until the meddler was in time and the run failed: step, reason, memory of the run.
fn fail_meddled(
    host: &Host,
    case: &Prepared,
    deadlines: Deadlines,
    meddle: impl Fn(&Watched<'_>) -> Option<()> + Send + Sync,
) -> (String, String, Shared) {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        last = match beside(|| run_within(host, case, LONG, deadlines), &meddle) {
            (Outcome::Failed { step, why }, Some((_, shared))) => return (step, why, shared),
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
    let Some(case) = roundtrip(host, target) else { return };
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
    let Some(case) = roundtrip(host, target) else { return };
    for wait in target.waits {
        let id = case.params.id.clone().with("wait", wait.name());
        let Some(case) = prepare_or_skip(host, &id) else { continue };
        let was_stopped = (1..=ATTEMPTS).any(|attempt| {
            let samples = 5 * attempt;
            let run_ns = LONG.sample_ns * samples as u64;
            let timing = Timing { samples, least_samples: samples, run_ns, ..LONG };
            let (outcome, in_time) = beside(|| run(host, &case, timing), stop_and_continue);
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
        watched.stop(pid)?;
        // Without its partner the other one comes to wait, and is stopped while it does.
        thread::sleep(Duration::from_millis(2));
    }
    peers.iter().for_each(|pid| send(*pid, Signal::CONT));
    Some(())
}

/// A server that is stopped at once keeps the client in verify, where it is killed. Sometimes the server was quicker
/// than the signal; then once more.
pub fn killed_in_verify(host: &Host) {
    for mechanism in ["pipe", "unix-seqpacket", "msg-sysv", "ring-futex", "process-vm"] {
        let case = prepare(host, &CaseId::new("roundtrip", mechanism, 8000, "free")).unwrap();
        let is_in_verify = || {
            let (step, why, shared) = fail_meddled(host, &case, Deadlines::default(), |watched| {
                watched.stop(watched.peer(1)?)?;
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
    for (pattern, mechanism, role, step) in [
        ("stream", "pipe", 0, Step::Batches),
        ("stream", "mq-posix", 1, Step::Batches),
        ("stream", "memfd-pass", 0, Step::Batches),
        ("stream", "process-vm", 1, Step::Batches),
        ("roundtrip", "unix-dgram", 1, Step::Hello),
    ] {
        let case = prepare(host, &CaseId::new(pattern, mechanism, 64, "free")).unwrap();
        let (told, why, shared) = fail_meddled(host, &case, SOON, |watched| {
            let pid = watched.peer(role)?;
            watched.await_step(role, step)?;
            send(pid, Signal::STOP);
            Some(())
        });
        assert_eq!(told, shared.step(0).min(shared.step(1)).name(), "{why}");
        assert!(why.contains("no progress: stopped after") && why.contains(&format!(" in {told}")), "{why}");
    }
}

/// A run that is longer than the peers may take to start: the deadline for that does not wake the coordinator meanwhile.
pub fn coordinator_sleeps_past_the_start(host: &Host) {
    const EARLY: Deadlines = Deadlines { run: Duration::from_secs(60), ..SOON };
    const LONGER: Timing =
        Timing { sample_ns: 100_000_000, samples: 60, least_samples: 60, run_ns: 6_000_000_000 };
    // On one CPU: between two, a pipe may become several times as fast after its samples were planned.
    let id = CaseId::new("roundtrip", "pipe", 64, "same-cpu");
    let case = prepare(host, &id).expect("a pipe runs everywhere");
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
            let id = with(CaseId::new("roundtrip", "mock", 1, "free"), &[("fault", fault), ("peers", peers)]);
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
