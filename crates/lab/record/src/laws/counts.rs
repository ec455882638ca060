//! Counts per operation and intervals, which are printed beside the figures: they follow from the same runs.

use weighbridge_stats::correlation::widened_at_most;
use weighbridge_stats::{Interval, median};

use super::found::{DEFECT, Found, is_same};
use crate::{Case, PerOp, Run, Summary};

const COUNTS: &str = "counts";

/// The counts of a run are those of its roles, and of an auxiliary process, together.
pub(super) fn of_run(case: &Case, run: &Run, found: &mut Found) {
    let all: Vec<&PerOp> = run.roles.iter().map(|role| &role.per_op).collect();
    if all.is_empty() {
        return;
    }
    let sum = PerOp::fold(&all, |values| values.iter().sum());
    let pooled = pooled(case, run);
    // Where it is not told whether all roles do the same, either may be meant.
    let expected = match case.has("symmetric") {
        Some(true) => [&pooled, &pooled],
        Some(false) => [&sum, &sum],
        None => [&sum, &pooled],
    };
    let differs = expected.map(|expected| difference(&run.per_op, expected));
    if let [Some((name, told, follows)), Some(_)] = differs {
        let said = format!("a run has {told} {name} an operation");
        let expected = format!("what its roles have together, {follows}");
        found.broken(COUNTS, &run.case, said, expected, DEFECT);
    }
}

/// Of roles that have operations of their own: all that was counted over all that was done.
fn pooled(case: &Case, run: &Run) -> PerOp {
    let own = &run.roles[..run.roles.len().min(case.roles.len())];
    let ops: f64 = own.iter().map(|role| role.ops as f64).sum();
    let share = |ops_of_role: u64| ops_of_role as f64 / ops.max(1.0);
    let scaled: Vec<PerOp> =
        own.iter().map(|role| PerOp::fold(&[&role.per_op], |values| values[0] * share(role.ops))).collect();
    PerOp::fold(&scaled.iter().collect::<Vec<_>>(), |values| values.iter().sum())
}

/// The counts of a summary are the medians of those of its runs.
pub(super) fn of_summary(summary: &Summary, runs: &[PerOp], found: &mut Found) {
    if runs.is_empty() {
        return;
    }
    let follows = PerOp::fold(&runs.iter().collect::<Vec<_>>(), median);
    if let Some((name, told, follows)) = difference(&summary.per_op, &follows) {
        let said = format!("it has {told} {name} an operation");
        found.broken(COUNTS, &summary.case, said, format!("the median of its runs, {follows}"), DEFECT);
    }
}

/// The first count in which two differ, with both.
fn difference(told: &PerOp, follows: &PerOp) -> Option<(&'static str, f64, f64)> {
    let fields = |of: &PerOp| {
        [
            ("voluntary_switches", Some(of.voluntary_switches)),
            ("involuntary_switches", Some(of.involuntary_switches)),
            ("minor_faults", Some(of.minor_faults)),
            ("major_faults", Some(of.major_faults)),
            ("cpu_ns", Some(of.cpu_ns)),
            ("user_ns", of.user_ns),
            ("kernel_ns", of.kernel_ns),
            ("migrations", of.migrations),
            ("cycles", of.cycles),
            ("instructions", of.instructions),
        ]
    };
    let pairs = fields(told).into_iter().zip(fields(follows));
    let both = pairs.filter_map(|((name, told), (_, follows))| Some((name, told?, follows?)));
    both.into_iter().find(|(_, told, follows)| !is_same(*told, *follows))
}

const INTERVAL: &str = "interval";
/// Fewer runs give no interval, so none is judged by them.
const FEWEST: usize = 6;

/// An interval has the figure inside and reaches no further than its runs do, widened by the largest correlation of neighbors; with a hub it is
/// the one of the ratio at the scale of the figure.
pub(super) fn interval(summary: &Summary, values: &[f64], ratios: &[f64], found: &mut Found) {
    let mut check = |what: &str, figure: f64, ci95: Option<[f64; 2]>, of_runs: &[f64]| {
        let Some([low, high]) = ci95 else { return true };
        let said = || format!("the interval of its {what} is {low} to {high}");
        let is_inside = |value: f64| low <= value || is_same(low, value);
        if !is_inside(figure) || !(figure <= high || is_same(figure, high)) {
            found.broken(INTERVAL, &summary.case, said(), format!("one with {figure} inside"), DEFECT);
            return false;
        }
        let lowest = of_runs.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = of_runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if of_runs.len() < FEWEST || !(lowest <= figure && figure <= highest) {
            return true;
        }
        let range = Interval { low: lowest, high: highest, confidence: 0.95 };
        let most = widened_at_most(range, figure, of_runs.len());
        if low < most.low && !is_same(low, most.low) || high > most.high && !is_same(high, most.high) {
            let expected = format!("none that reaches further than its runs, {lowest} to {highest}");
            found.broken(INTERVAL, &summary.case, said(), expected, DEFECT);
            return false;
        }
        true
    };
    let Some(to_hub) = &summary.to_hub else {
        check("figure", summary.median, summary.ci95, values);
        return;
    };
    // The runs of a case that took turns scatter with the machine, and its figure is none of them.
    let is_sound = check("ratio to the hub", to_hub.median, to_hub.ci95, ratios)
        && check("figure", summary.median, summary.ci95, &[]);
    let Some(([low, high], [ratio_low, ratio_high])) = summary.ci95.zip(to_hub.ci95).filter(|_| is_sound)
    else {
        return;
    };
    let is_positive = |value: f64| value > 0.0;
    if ![low, high, summary.median, ratio_low, ratio_high, to_hub.median].into_iter().all(is_positive) {
        return;
    }
    let arms = [summary.median / low, high / summary.median];
    let of_ratio = [to_hub.median / ratio_low, ratio_high / to_hub.median];
    let is_scaled = |[one, other]: [f64; 2]| is_same(arms[0], one) && is_same(arms[1], other);
    // A rate falls as the ratio rises.
    if !is_scaled(of_ratio) && !is_scaled([of_ratio[1], of_ratio[0]]) {
        let said = format!("the interval of its figure is {low} to {high}");
        let expected = format!("that of its ratio to the hub, {ratio_low} to {ratio_high}, at its scale");
        found.broken(INTERVAL, &summary.case, said, expected, DEFECT);
    }
}
