//! What is left after many runs: nothing, of anything.

use std::fs;

use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Caps, Prepared, Target};
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

use crate::runs::{SHORT, measured, prepare};

/// Says how many runs there shall be; a thousand take minutes where peers are slow to start.
const RUNS: &str = "WEIGHBRIDGE_TEST_RUNS";
const USUAL_RUNS: usize = 100;

/// Every target in its first pattern, small, in the first place that it can have.
fn case(host: &Host, target: &Target) -> Option<Prepared> {
    let pattern = target.patterns.first()?;
    let payload = if target.caps.has(Caps::PAYLOAD) { 64 } else { 0 };
    ["same-cpu", "two-cpus"].into_iter().find_map(|place| {
        let id = CaseId::new(pattern.id, target.id, payload, place);
        let few = [("streams", "20"), ("receivers", "3")].into_iter();
        let has = |axis: &str| target.axes_in(pattern).iter().any(|own| own.name == axis);
        let id = few.filter(|(axis, _)| has(axis)).fold(id, |id, (axis, value)| id.with(axis, value));
        prepare(host, &id).ok()
    })
}

fn resident_anonymous_kib() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Descriptors, threads, children and names are counted after every test, this one included; here it is memory, too.
pub fn nothing_is_left(host: &Host) {
    let runs = std::env::var(RUNS).map_or(USUAL_RUNS, |runs| runs.parse().expect("a number of runs"));
    let cases: Vec<Prepared> = catalogue::all()
        .filter(|target| !target.caps.has(Caps::VIRTUAL_TIME))
        .filter_map(|target| case(host, target))
        .collect();
    assert!(cases.len() > 40, "only {} cases can run here", cases.len());
    let run_all = |count: usize| {
        cases.iter().cycle().take(count).for_each(|case| drop(measured(host, case, SHORT)));
    };
    // What is made once and kept is made now.
    run_all(cases.len());
    let before = resident_anonymous_kib();
    run_all(runs);
    let grown = resident_anonymous_kib() - before;
    // One unreturned page a run would be four times as much.
    let allowed = 200 + runs as i64;
    assert!(grown < allowed, "{grown} KiB more after {runs} runs");
}
