//! Two cases in pairs of runs of one round: neighbours in time, so that what drifts is in both.

use std::collections::BTreeMap;

use weighbridge_record::Run;

use crate::model::Measured;

/// What the runs of two cases of one record have, (`base`, `case`), round by round. A record may come from anywhere: what has
/// no logarithm is left out.
pub fn pairs(
    base: &Measured,
    case: &Measured,
    of: impl Fn(&Measured, &Run) -> Option<f64>,
) -> Vec<(f64, f64)> {
    if base.source != case.source {
        return Vec::new();
    }
    let usable =
        |measured: &Measured, run: &Run| of(measured, run).filter(|value| value.is_finite() && *value > 0.0);
    let by_round: BTreeMap<u32, f64> =
        base.runs.iter().filter_map(|run| Some((run.round, usable(base, run)?))).collect();
    case.runs.iter().filter_map(|run| Some((*by_round.get(&run.round)?, usable(case, run)?))).collect()
}
