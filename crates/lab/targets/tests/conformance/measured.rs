//! One run that must give numbers, and the figures that it kept.

use weighbridge_harness::coordinator::Measured;
use weighbridge_harness::ctx::LATE_NS;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_record::CaseId;

use crate::runs::{self, SHORT, prepare_or_skip};

/// Intervals of 5 ms: roles that share a CPU take a turn or two in each, and buffers fill.
pub const TIMING: Timing = Timing { run_ns: 5_000_000, ..SHORT };

/// One run that must give numbers: `None` and the skip of the current test where the machine does not allow it.
pub fn measure(host: &Host, id: &CaseId) -> Option<Measured> {
    let measured = runs::measured(host, &prepare_or_skip(host, id)?, TIMING);
    assert!(measured.samples.iter().all(|sample| sample.ops > 0), "{id}");
    Some(measured)
}

/// What the leading role kept of each sample under a name.
pub fn series<'a>(measured: &'a Measured, name: &str) -> &'a [f64] {
    let series = &measured.roles[0].counted.series;
    series.get(name).unwrap_or_else(|| panic!("no series {name} among {:?}", series.keys()))
}

/// What a run promises whose operations were due so many times a second, each of so many messages: all were timed, by each of those who receive
/// them; none was done before it was due, and each role counted its own CPU time in time that passed.
pub fn at_a_rate(id: &CaseId, measured: &Measured, messages_each: u64, per_s: u64) {
    let ops: u64 = measured.samples.iter().map(|sample| sample.ops).sum();
    let timed: Vec<u64> = measured
        .roles
        .iter()
        .filter_map(|role| role.counted.latencies.as_ref())
        .map(|latencies| latencies.counts.iter().map(|(_, count)| count).sum())
        .collect();
    assert!(!timed.is_empty() && timed.iter().all(|count| *count == ops), "{id}: {timed:?} of {ops} timed");
    let paced = measured.roles[0].counted.paced.unwrap_or_else(|| panic!("{id}: it had no pace"));
    assert_eq!(paced.operations * messages_each, ops, "{id}");
    let least_ns = (paced.operations - 1) * (1_000_000_000 / per_s);
    assert!(paced.wall_ns >= least_ns, "{id}: {} operations in {} ns", paced.operations, paced.wall_ns);
    assert_eq!(series(measured, LATE_NS).len(), measured.samples.len(), "{id}");
    for (index, role) in measured.roles.iter().enumerate() {
        let cpu_ns = role.counted.sampled.cpu_ns;
        assert!(cpu_ns <= paced.wall_ns + paced.wall_ns / 20, "{id}: role {index} used {cpu_ns} ns");
    }
}
