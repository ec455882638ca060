//! Roles that are killed while they are timed.

use std::fs::{self, OpenOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::Outcome;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::shared::{Shared, Step};
use weighbridge_record::CaseId;

use crate::runs::{self, prepare_or_skip, run};

/// So long that the killer is in time on any machine; it ends the run.
const LONG: Timing =
    Timing { sample_ns: 20_000_000, samples: 3000, least_samples: 3000, run_ns: 60_000_000_000 };

/// Every role in turn is killed in its timed part: the run fails with that step and names the role, and no role waits for
/// the dead.
pub fn killed(host: &Host, id: &CaseId, roles: &[&str]) {
    let Some(case) = prepare_or_skip(host, id) else { return };
    for (role, name) in roles.iter().enumerate() {
        match run_and_kill(host, &case, role, roles.len()) {
            Outcome::Failed { step, why } => {
                let expected = format!("{name} ended: signal 9 (SIGKILL)");
                assert_eq!((step.as_str(), why), ("batches", expected), "{id}");
            }
            other => panic!("{id}: the {name} was not killed: {other:?}"),
        }
    }
}

fn run_and_kill(host: &Host, case: &Prepared, role: usize, roles: usize) -> Outcome {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let shared = until(&is_over, memory_of_the_run)?;
            until(&is_over, || (shared.step(role) >= Step::Batches).then_some(()))?;
            let pids = runs::peers();
            assert_eq!(pids.len(), roles, "a process for each role");
            kill_process(Pid::from_raw(pids[role]).unwrap(), Signal::KILL).unwrap();
            Some(())
        });
        let outcome = run(host, case, LONG);
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}

/// The words of the run that this process coordinates, by the name of their memory.
fn memory_of_the_run() -> Option<Shared> {
    fs::read_dir("/proc/self/fd").unwrap().flatten().find_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        if !link.to_str()?.starts_with("/memfd:weighbridge-run") {
            return None;
        }
        let file = OpenOptions::new().read(true).write(true).open(entry.path()).ok()?;
        Shared::open(file.into()).ok()
    })
}

fn until<T>(is_over: &AtomicBool, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        thread::sleep(Duration::from_micros(50));
    }
}
