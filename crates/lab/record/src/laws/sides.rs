//! Ratios of two sides: those of `compare`, set by set and as a verdict, of `check` with another tool, and counts of one thing by two means.

use std::collections::BTreeMap;

use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::duet::{Party, Slice, set_log_ratio};
use weighbridge_stats::{median, paired_ratio};

use super::found::{DEFECT, Found, is_same};
use super::slices::{CLEAR, apart_by, are_opposite, costs_ns};
use crate::{CaseId, CaseVerdict, Check, ComparedSet, Observation, SideOfSet};

/// The first sets of a case have a control each, so that a verdict at the first look can be void.
const CONTROLS_FIRST: u32 = 10;
/// So many controls that are exactly 1 were not measured.
const ENOUGH_CONTROLS: usize = 3;

/// What the sets of a case came to.
#[derive(Debug, Default)]
struct OfCase {
    log_ratios: Vec<f64>,
    controls: Vec<f64>,
    values: Vec<(f64, f64)>,
}

/// The sets so far.
#[derive(Debug, Default)]
pub(super) struct Sides {
    cases: BTreeMap<CaseId, OfCase>,
}

/// The slices of the sides that took turns, in order of time.
fn slices(set: &ComparedSet) -> Option<Vec<Slice>> {
    let sides = [Some(&set.a), Some(&set.b), set.control.as_ref()];
    let mut all = Vec::new();
    for (party, side) in sides.into_iter().enumerate() {
        let Some(side) = side else { continue };
        let of = side.slices.as_ref()?;
        let each = of.start_ns.iter().zip(&of.elapsed_ns).zip(&of.ops).filter(|(_, ops)| **ops > 0);
        all.extend(each.map(|((start_ns, elapsed_ns), ops)| Slice {
            start_ns: *start_ns,
            elapsed_ns: *elapsed_ns,
            ops: *ops,
            party: Party::Case(party),
        }));
    }
    all.sort_by_key(|slice| slice.start_ns);
    Some(all)
}

/// How far the slices of one side are apart from those of the first, as [`apart_by`].
fn slices_apart_by(set: &ComparedSet, side: &SideOfSet) -> f64 {
    let costs = side.slices.as_ref().map(costs_ns).zip(set.a.slices.as_ref().map(costs_ns));
    costs.map_or(0.0, |(own, base)| apart_by(&own, &base))
}

/// The logarithm of the cost of one side over that of the first, of sides that ran one after the other.
fn of_values(set: &ComparedSet, side: &SideOfSet) -> Option<f64> {
    let is_apart = set.slice_ms.is_none() && side.value > 0.0 && set.a.value > 0.0;
    if is_apart { cost_of_values(&set.case, set.a.value, side.value) } else { None }
}

/// The logarithm of a ratio of costs from figures of a case: of patterns that are always measured as times, or always as rates.
fn cost_of_values(case: &CaseId, base: f64, own: f64) -> Option<f64> {
    let log = (own / base).ln();
    match case.pattern.as_str() {
        "roundtrip" | "pingpong" | "fan-out" => Some(log),
        "stream" | "fan-in" | "all-to-all" => Some(-log),
        _ => None,
    }
}

impl Sides {
    /// The ratio of a set follows from its slices, and has the direction in which these are apart.
    pub(super) fn set(&mut self, set: &ComparedSet, found: &mut Found) {
        const LAW: &str = "side-ratio";
        let all = slices(set);
        let ratios =
            [(1, Some(&set.b), Some(set.log_ratio)), (2, set.control.as_ref(), set.control_log_ratio)];
        for (party, side, log_ratio) in ratios {
            let (Some(side), Some(log_ratio)) = (side, log_ratio) else { continue };
            let name = ["A", "B", "the second A"][party];
            let ratio_of = |all: &Vec<Slice>| set_log_ratio(all, Party::Case(party), Party::Case(0));
            let follows = all.as_ref().and_then(ratio_of).or_else(|| of_values(set, side));
            let said = || format!("set {}: {name} is said to cost {:.4} times A", set.set, log_ratio.exp());
            if let Some(follows) = follows.filter(|of| (of - log_ratio).abs() > 1e-6) {
                let expected = format!("what its slices or figures come to, {:.4}", follows.exp());
                return found.broken(LAW, &set.case, said(), expected, DEFECT);
            }
            let apart = slices_apart_by(set, side);
            if are_opposite(log_ratio, apart, CLEAR) {
                let expected =
                    format!("the direction in which most slices of both are apart, {:.4}", apart.exp());
                return found.broken(LAW, &set.case, said(), expected, DEFECT);
            }
        }
        if set.set < CONTROLS_FIRST && (set.control.is_none() || set.control_log_ratio.is_none()) {
            let said = format!("set {} has no second A", set.set);
            found.broken(
                "control",
                &set.case,
                said,
                format!("one in each of the first {CONTROLS_FIRST}"),
                DEFECT,
            );
        }
        let of = self.cases.entry(set.case.clone()).or_default();
        of.log_ratios.push(set.log_ratio);
        of.controls.extend(set.control_log_ratio);
        of.values.push((set.a.value, set.b.value));
    }

    /// A verdict follows from its sets.
    pub(super) fn verdict(&self, verdict: &CaseVerdict, found: &mut Found) {
        let Some(of) = self.cases.get(&verdict.case).filter(|of| !of.log_ratios.is_empty()) else { return };
        // In virtual time nothing scatters, neither the control nor the ratio.
        let is_exact = of.log_ratios.windows(2).all(|pair| pair[0] == pair[1])
            && of.values.windows(2).all(|pair| pair[0] == pair[1]);
        let is_zero = of.controls.iter().all(|log| *log == 0.0);
        if is_zero && of.controls.len() >= ENOUGH_CONTROLS && !is_exact {
            let said = format!("A against itself is exactly 1 in all of {} sets", of.controls.len());
            found.broken("control", &verdict.case, said, "what two starts of A differ by", DEFECT);
        }
        let Some(ratio) = verdict.ratio.filter(|ratio| *ratio > 0.0) else { return };
        let said = format!("B is said to cost {ratio:.4} times A");
        let by_sets = median(&of.log_ratios);
        if are_opposite(ratio.ln(), by_sets, 0.2) {
            let expected = format!("the direction of its sets, {:.4}", by_sets.exp());
            return found.broken("verdict", &verdict.case, said, expected, DEFECT);
        }
        let positive = of.values.iter().all(|(a, b)| *a > 0.0 && *b > 0.0);
        // The middle of pairs of builds is another one than that of sets, where builds differ.
        let are_several = verdict.builds.is_some_and(|builds| builds.iter().any(|count| *count > 1));
        if !positive || are_several {
            return;
        }
        let of_side = |side: fn(&(f64, f64)) -> f64| of.values.iter().map(side).collect::<Vec<_>>();
        let (a, b) = (of_side(|of| of.0), of_side(|of| of.1));
        let more = apart_by(&b, &a);
        let cost = if verdict.unit.ends_with("/s") { -more } else { more };
        if are_opposite(ratio.ln(), cost, CLEAR) {
            let expected = format!(
                "the direction of the figures of both sides, {} and {} {}",
                median(&a),
                median(&b),
                verdict.unit
            );
            found.broken("verdict", &verdict.case, said, expected, DEFECT);
        }
    }
}

/// The figures of a check follow from its turns.
pub(super) fn check(check: &Check, found: &mut Found) {
    let figures = |of: fn(&crate::Turn) -> f64| check.turns.iter().map(of).collect::<Vec<_>>();
    let (theirs, ours) = (figures(|turn| turn.theirs), figures(|turn| turn.ours));
    if theirs.is_empty() || theirs.iter().chain(&ours).any(|value| value.is_nan() || *value <= 0.0) {
        return;
    }
    let pairs: Vec<(f64, f64)> = theirs.iter().copied().zip(ours.iter().copied()).collect();
    let ratio = paired_ratio(&pairs, CONFIDENCE).median;
    for (name, told, follows) in [
        ("their figure", check.theirs, median(&theirs)),
        ("our figure", check.ours, median(&ours)),
        ("the ratio", check.ratio, ratio),
    ] {
        if let Some(told) = told.filter(|told| !is_same(*told, follows)) {
            let said = format!("{}: {name} is {told}", check.check);
            found.broken("check", &check.case, said, format!("the median of its turns, {follows}"), DEFECT);
        }
    }
}

/// The tracepoint of every system call.
const ALL_CALLS: &str = "raw_syscalls:sys_enter";

/// System calls that a tracer sees, the kernel's tracepoint sees too; that one sees those of others besides.
pub(super) fn observation(observation: &Observation, found: &mut Found) {
    let of_calls = observation.counts.iter().find(|count| count.event == ALL_CALLS);
    let (Some(count), Some(traced)) = (of_calls, &observation.system_calls) else { return };
    if traced.per_op > 1.2 * count.per_op.max(count.range[1]) + 0.5 {
        let said = format!(
            "a tracer counts {:.2} system calls an operation, and the tracepoint {:.2}",
            traced.per_op, count.per_op
        );
        found.broken("two-counts", &observation.case, said, "no more than the tracepoint sees", DEFECT);
    }
}
