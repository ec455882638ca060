//! One set: the slices of a case and its hub, the samples that they are, and the ratio that they come to.

use weighbridge_stats::{quantile, run_value};

use super::found::{DEFECT, Found, is_same};
use crate::derive::log_ratio_to_hub;
use crate::{Case, Run, SliceSeries};

pub(super) fn check(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "samples";
    let usable = !run.samples.is_empty() && run.samples.iter().all(|sample| sample.is_finite());
    if usable && !is_same(run.value, run_value(&run.samples)) {
        let said = format!("the value of a run is {}", run.value);
        let expected = format!("the median of its samples, {}", run_value(&run.samples));
        found.broken(LAW, &run.case, said, expected, DEFECT);
    }
    if run.slices.is_some() && usable {
        reproduces(case, run, found);
        turns(run, found);
    }
}

/// Costs of the slices of a party, in nanoseconds an operation.
pub(super) fn costs_ns(series: &SliceSeries) -> Vec<f64> {
    let each = series.elapsed_ns.iter().zip(&series.ops).filter(|(_, ops)| **ops > 0);
    each.map(|(elapsed_ns, ops)| (*elapsed_ns).max(1) as f64 / *ops as f64).collect()
}

/// The slices of the case are its samples, one by one.
fn reproduces(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "slices";
    let Some(slices) = &run.slices else { return };
    let value = |cost_ns: f64| if case.unit.starts_with("ns/") { cost_ns } else { 1e9 / cost_ns };
    let of_slices: Vec<f64> = costs_ns(&slices.of_case).into_iter().map(value).collect();
    let of_samples: Vec<f64> = run.samples.iter().copied().filter(|sample| *sample > 0.0).collect();
    let differs = of_slices.iter().zip(&of_samples).position(|(one, other)| !is_same(*one, *other));
    let said = match differs {
        Some(at) => format!("slice {at} of the case comes to {} {}", of_slices[at], case.unit),
        None if of_slices.len() != of_samples.len() => format!("{} slices of the case", of_slices.len()),
        None => return,
    };
    let expected = match differs {
        Some(at) => format!("its sample, {}", of_samples[at]),
        None => format!("one for each of {} samples", of_samples.len()),
    };
    found.broken(LAW, &run.case, said, expected, DEFECT);
}

/// Two figures say opposite things where both are beyond this, as a logarithm: a disturbance that hits one party more does not reach so far.
pub(super) const CLEAR: f64 = 0.7;

/// How far the costs of two parties are apart, as a logarithm: four fifths of the one are above four fifths of the other by so much; 0 where
/// they overlap.
///
/// Then three fifths of all pairs, and of all neighbors, have that direction, and so has the median of their ratios. Medians alone do not say
/// that: where the machine has two states that hit one party more, the one with the higher median may be the cheaper one beside each neighbor.
pub(super) fn apart_by(own: &[f64], base: &[f64]) -> f64 {
    if own.is_empty() || base.is_empty() {
        return 0.0;
    }
    let above = quantile(own, 0.2) / quantile(base, 0.8);
    let below = quantile(own, 0.8) / quantile(base, 0.2);
    if above > 1.0 {
        above.ln()
    } else if below < 1.0 {
        below.ln()
    } else {
        0.0
    }
}

/// Do two logarithms that say the same say opposite things?
pub(super) fn are_opposite(one: f64, other: f64, clear: f64) -> bool {
    one.abs() > clear && other.abs() > clear && one.signum() != other.signum()
}

/// The ratio to the hub, by blocks of neighbors, has the direction in which the slices of both are apart.
fn turns(run: &Run, found: &mut Found) {
    const LAW: &str = "turns";
    let Some(slices) = &run.slices else { return };
    let Some(log_ratio) = log_ratio_to_hub(slices) else { return };
    let apart = apart_by(&costs_ns(&slices.of_case), &costs_ns(&slices.of_hub));
    if are_opposite(log_ratio, apart, CLEAR) {
        let said = format!("slice by slice it costs {:.3} times its hub", log_ratio.exp());
        let expected =
            format!("the direction in which most slices of both are apart, {:.3} times", apart.exp());
        found.broken(LAW, &run.case, said, expected, DEFECT);
    }
}
