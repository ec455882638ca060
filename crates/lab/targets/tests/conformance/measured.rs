//! One run that must give numbers, and the figures that it kept.

use weighbridge_harness::coordinator::Measured;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_record::CaseId;

use crate::runs::{self, SHORT, prepare_or_skip};

/// Intervals of 5 ms: roles that share a CPU take a turn or two in each, and buffers fill.
pub const TIMING: Timing = Timing { run_ns: 5_000_000, ..SHORT };

/// One run that must give numbers: `None` and a printed reason where the machine does not allow it.
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
