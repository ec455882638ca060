//! Roles that are killed while they are timed.

use rustix::process::Signal;
use weighbridge_harness::coordinator::Outcome;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::shared::Step;
use weighbridge_record::CaseId;

use crate::runs::{beside, peers, prepare_or_skip, run, send};

/// So long that the killer is in time on any machine; it ends the run.
const LONG: Timing =
    Timing { sample_ns: 20_000_000, samples: 3000, least_samples: 3000, run_ns: 60_000_000_000 };

/// Every role in turn is killed in its timed part: the run fails with that step and names the role, and no role waits for
/// the dead.
pub fn killed(host: &Host, id: &CaseId, roles: &[&str]) {
    let Some(case) = prepare_or_skip(host, id) else { return };
    for (role, name) in roles.iter().enumerate() {
        let (outcome, _) = beside(
            || run(host, &case, LONG),
            |watched| {
                watched.await_step(role, Step::Batches)?;
                let pids = peers();
                assert_eq!(pids.len(), roles.len(), "a process for each role");
                send(pids[role], Signal::KILL);
                Some(())
            },
        );
        match outcome {
            Outcome::Failed { step, why } => {
                let expected = format!("{name} ended: signal 9 (SIGKILL)");
                assert_eq!((step.as_str(), why), ("batches", expected), "{id}");
            }
            other => panic!("{id}: the {name} was not killed: {other:?}"),
        }
    }
}
