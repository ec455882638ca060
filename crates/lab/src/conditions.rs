//! What a case says is what was run: each role tells where it ran and how, and a run whose roles differ from its case is void.
//!
//! Checked here are conditions, not counts ([`counter_check`](crate::counter_check) judges those): the CPU of each role before
//! and after the timed part, processes or threads, policy and nice value, and operations that were reported but not counted.

use crate::axis::{self, Peers};
use crate::contract::Prepared;
use crate::coordinator::Measured;
use crate::ctx::{Time, Whereabouts};
use crate::peer::RoleReport;

/// Everything in which a run differs from what its case says, a sentence each. Any of it makes the run void.
pub fn violations(case: &Prepared, measured: &Measured) -> Vec<String> {
    let mut found = Vec::new();
    let names = case.role_names();
    for report in &measured.roles {
        let name = names.get(report.role).copied().unwrap_or("a role");
        found.extend(misplaced(case, report, name));
        found.extend(mislabelled(case, report, name));
    }
    found.extend(not_apart(case, measured));
    found.extend(uncounted(case, measured));
    found
}

/// A pinned role that may run elsewhere, or does.
fn misplaced(case: &Prepared, report: &RoleReport, name: &str) -> Option<String> {
    let cpu = *case.params.cpus.get(report.role)?;
    let strays = |at: &&Whereabouts| at.allowed != [cpu] || at.cpu != cpu;
    let at = report.counted.whereabouts.iter().find(strays)?;
    Some(format!("{name} ran on CPU {} and may run on {:?}; its case says CPU {cpu}", at.cpu, at.allowed))
}

/// Policy or nice value, read back from the kernel.
fn mislabelled(case: &Prepared, report: &RoleReport, name: &str) -> Option<String> {
    ["nice", "policy"].into_iter().find_map(|fact| {
        let axis = if fact == "policy" { "sched" } else { fact };
        let wanted = axis::of_role(case.params.axis(axis), report.role);
        // The kernel's policy is written with a colon where an axis, which a colon would divide by roles, has a dash.
        let is = report.facts.get(fact)?.replace(':', "-");
        (is != wanted).then(|| format!("{name} has {fact} {is}; its case says {axis}={wanted}"))
    })
}

/// Threads where the case says processes, or the other way round.
fn not_apart(case: &Prepared, measured: &Measured) -> Option<String> {
    let mut processes: Vec<u32> = measured.roles.iter().map(|report| report.process).collect();
    processes.sort_unstable();
    processes.dedup();
    let (roles, processes) = (measured.roles.len(), processes.len());
    match case.params.choice() {
        Peers::Process if processes < roles => {
            Some(format!("{roles} roles ran in {processes} processes; the case says one process each"))
        }
        Peers::Thread if processes > 1 => {
            Some(format!("{roles} roles ran in {processes} processes; the case says threads of one"))
        }
        _ => None,
    }
}

/// Samples with more operations than the leading role has counted.
fn uncounted(case: &Prepared, measured: &Measured) -> Option<String> {
    if case.pattern.is_symmetric || case.target.time() == Time::Virtual {
        return None;
    }
    let sampled: u64 = measured.samples.iter().map(|sample| sample.ops).sum();
    let counted = measured.roles.iter().map(|report| report.counted.ops).max()?;
    (sampled > counted)
        .then(|| format!("the samples have {sampled} operations, of which only {counted} were counted"))
}
