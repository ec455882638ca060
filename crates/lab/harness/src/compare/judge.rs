//! From the ratios of all sets to verdicts: pure, and the same for what was measured now and for records.

use weighbridge_record::{CaseId, CaseVerdict, Claims, ComparedSet, Control, PerOp, SystemCalls};
use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::discovery::{self, Claim, benjamini_hochberg};
use weighbridge_stats::evidence::Evidence;
use weighbridge_stats::interval::Interval;
use weighbridge_stats::sequential::{Look, Looks};
use weighbridge_stats::verdict::{
    CONTROL_CONFIDENCE, FEWEST_SETS, Resolution, Size, Verdict, has_two_groups, shape_changed, slow_starts,
    verdict,
};
use weighbridge_stats::{median, verdict::DEFAULT_MARGIN};

use super::builds::Builds;
use crate::summary::{self, ends};

/// Below so many sets there is no interval; for a verdict there must be [`FEWEST_SETS`].
const FEWEST_FOR_INTERVAL: usize = 6;

/// What counts as a difference, and how many of those claimed may be chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Costs that differ by no more than this are the same: 0.02 for 2 %.
    pub margin: f64,
    /// Largest share of the claimed differences that may be chance, on average.
    pub fdr: f64,
    /// Is a difference claimed that may be smaller than the margin?
    pub any_difference: bool,
}

impl Rules {
    /// The verdict as these rules have it.
    pub(super) fn apply(
        self,
        found: Verdict,
        interval: Option<Interval>,
        margin: f64,
        sets: usize,
    ) -> Verdict {
        if self.any_difference { found } else { found.beyond_margin(interval, margin, sets) }
    }

    /// The least cost of B above that of A, as a share, that would be claimed in eight of ten comparisons like this one.
    pub(super) fn detectable(self, evidence: &Evidence, margin: f64) -> Option<f64> {
        let from = if self.any_difference { 0.0 } else { margin };
        Some((1.0 + from) * evidence.detectable(CONFIDENCE)? - 1.0)
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { margin: DEFAULT_MARGIN, fdr: 0.05, any_difference: false }
    }
}

/// All that is known of a case before it is judged; of two each, the first is A's.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// The case as it was selected.
    pub(super) case: CaseId,
    /// What A and B are.
    pub(super) labels: [String; 2],
    pub(super) unit: String,
    /// Of the cost of B over that of A, at the look at which the case is.
    pub(super) evidence: Evidence,
    /// The logarithms of that ratio, one for each set.
    pub(super) log_ratios: Vec<f64>,
    /// Of the cost of a second A over that of the first.
    pub(super) control: Evidence,
    /// The figures, one for each set.
    pub(super) values: [Vec<f64>; 2],
    /// Median counts per operation.
    pub(super) per_op: [Option<PerOp>; 2],
    pub(super) system_calls: [Option<SystemCalls>; 2],
    /// Builds of both sides, where they are different ones.
    pub(super) builds: Option<[u32; 2]>,
    /// Sets that gave no ratio.
    pub(super) failed_sets: usize,
    /// What else has to be said.
    pub(super) remarks: Vec<String>,
}

impl Judged {
    pub(super) fn of_sets(
        case: CaseId,
        labels: [String; 2],
        unit: String,
        sets: &[ComparedSet],
        failed_sets: usize,
        correlation: f64,
        mut remarks: Vec<String>,
    ) -> Judged {
        let of_side = |side: usize| sets.iter().map(move |set| if side == 0 { &set.a } else { &set.b });
        let per_op = |side: usize| {
            let all: Vec<&PerOp> = of_side(side).map(|of| &of.per_op).collect();
            (!all.is_empty()).then(|| summary::median(&all))
        };
        for (side, name) in ["A", "B"].into_iter().enumerate() {
            let flagged: Vec<&String> =
                of_side(side).flat_map(|of| &of.flags).filter(|flag| !flag.starts_with("noisy")).collect();
            if let Some(last) = flagged.last().filter(|_| flagged.len() * 2 > sets.len()) {
                remarks.push(format!("{name}: in {} of {} sets: {last}", flagged.len(), sets.len()));
            }
        }
        let log_ratios: Vec<f64> = sets.iter().map(|set| set.log_ratio).collect();
        let builds = Builds::of(sets);
        let evidence = match &builds {
            Some(builds) if builds.are_several() => Evidence::grouped(&log_ratios, &builds.of_sets),
            _ => Evidence::paired(log_ratios.clone()),
        };
        Judged {
            case,
            labels,
            unit,
            evidence: evidence.correlated(correlation),
            log_ratios,
            control: Evidence::paired(sets.iter().filter_map(|set| set.control_log_ratio).collect())
                .correlated(correlation),
            values: [0, 1].map(|side| {
                let values: Vec<f64> = of_side(side).map(|of| of.value).collect();
                builds.as_ref().map_or_else(|| values.clone(), |builds| builds.levelled(side, &values))
            }),
            builds: builds.as_ref().map(Builds::counts),
            per_op: [0, 1].map(per_op),
            system_calls: [None, None],
            failed_sets,
            remarks,
        }
    }

    /// How many sets gave a ratio.
    fn sets(&self) -> usize {
        self.log_ratios.len()
    }

    /// Has a side several builds, so that pairs of them are the units?
    fn has_several_builds(&self) -> bool {
        self.builds.is_some_and(|builds| builds.iter().any(|count| *count > 1))
    }

    /// What A against itself would show with as many sets as B against A has.
    fn resolution(&self) -> Option<f64> {
        let sets = Some(self.sets()).filter(|sets| *sets > 0)?;
        Some(Resolution::of(&self.control)?.with_sets(sets))
    }

    /// Are there enough sets for a verdict, and enough with a second A to void it?
    fn has_enough_sets(&self) -> bool {
        self.sets().min(self.control.units()) >= FEWEST_SETS
    }

    /// The margin that counts.
    fn margin(&self, asked: f64) -> f64 {
        match Resolution::of(&self.control) {
            Some(resolution) if self.sets() > 0 => resolution.margin(asked, self.sets()),
            _ => asked,
        }
    }
}

/// May one stop measuring a case, one of so many? Only at a look; a difference must hold whatever the other cases come to, and
/// costs must be the same within the margin that was asked for.
pub(super) fn is_clear(case: &Judged, rules: Rules, looks: &Looks, cases: usize) -> bool {
    let sets = case.sets();
    let margin = case.margin(rules.margin);
    let interval = case.evidence.interval(CONFIDENCE);
    if !matches!(looks.look(sets), Look::At { .. }) || !case.has_enough_sets() {
        return false;
    }
    match rules.apply(verdict(interval, margin, sets), interval, margin, sets) {
        Verdict::Equivalent => margin <= rules.margin && !has_two_groups(&case.log_ratios, margin),
        Verdict::Regressed(_) | Verdict::Improved(_) => case.evidence.p() <= rules.fdr / cases as f64,
        _ => false,
    }
}

/// Did so many of the sets of a case fail that the others say nothing of the whole?
pub fn failed_too_often(verdict: &CaseVerdict) -> bool {
    verdict.failed_sets > 0 && verdict.failed_sets >= verdict.sets
}

/// The verdict on each case, and what holds of all of them together. Panics where a value is not finite or a rule no share.
pub(super) fn judge(cases: &[Judged], rules: Rules) -> (Vec<CaseVerdict>, Claims) {
    let measured: Vec<&Judged> = cases.iter().filter(|case| case.evidence.units() > 0).collect();
    let evidence: Vec<Evidence> = measured.iter().map(|case| case.evidence.clone()).collect();
    let claims = discovery::claims(&evidence, rules.fdr);
    // A control that moves by chance must not become likelier with the number of cases.
    let control_p: Vec<f64> = measured.iter().map(|case| case.control.p()).collect();
    let moved = benjamini_hochberg(&control_p, 1.0 - CONTROL_CONFIDENCE);
    let is_displaced =
        |case: &&Judged| Resolution::of(&case.control).is_some_and(|of| of.is_displaced(rules.margin));
    let moved = moved.into_iter().zip(&measured).map(|(moved, case)| moved || is_displaced(case));
    let mut of_measured = claims.claims.iter().zip(moved);
    let verdicts: Vec<CaseVerdict> = cases
        .iter()
        .map(|case| match case.evidence.units() {
            0 => case_verdict(case, None, false, rules, 1),
            _ => {
                let (claim, moved) = of_measured.next().expect("a claim for each case with evidence");
                case_verdict(case, Some(claim), moved, rules, measured.len())
            }
        })
        .collect();
    let resolutions: Vec<f64> = verdicts.iter().filter_map(|verdict| verdict.resolution).collect();
    let resolution = (!resolutions.is_empty()).then(|| median(&resolutions));
    let claims = Claims { resolution, ..claims_of(&verdicts, rules, measured.len()) };
    (verdicts, claims)
}

/// What holds of all verdicts together, of which so many cases could be tested.
pub(super) fn claims_of(verdicts: &[CaseVerdict], rules: Rules, cases: usize) -> Claims {
    let is_claimed = |verdict: &&CaseVerdict| verdict.is_regression() || verdict.verdict == "improved";
    let claimed = verdicts.iter().filter(is_claimed).count();
    Claims {
        margin: rules.margin,
        fdr: rules.fdr,
        cases: cases as u32,
        claimed: claimed as u32,
        expected_by_chance: rules.fdr * claimed as f64,
        ..Claims::default()
    }
}

/// A difference that does not hold among so many cases is none, which is said.
pub(super) fn unless_by_chance(found: Verdict, holds: bool, remarks: &mut Vec<String>) -> Verdict {
    if holds || !matches!(found, Verdict::Regressed(_) | Verdict::Improved(_)) {
        return found;
    }
    remarks
        .push("a difference that would be claimed of this case alone, but not of one among so many".into());
    Verdict::Inconclusive { settled_by: None }
}

/// What the rules make of a verdict; where that is less than what was found, it is said why.
pub(super) fn said(by_rules: Verdict, found: Verdict, remarks: &mut Vec<String>) -> Verdict {
    if by_rules != found {
        let more = if matches!(found, Verdict::Regressed(_)) { "more" } else { "less" };
        remarks.push(format!("B costs {more}; whether by more than the margin is not settled (--any-difference claims it all the same)"));
    }
    by_rules
}

/// The line of a verdict on so many sets, with nothing in it that only one way of comparing knows.
pub(super) fn line(
    case: &CaseId,
    [a, b]: [&str; 2],
    found: Verdict,
    interval: Option<Interval>,
    sets: usize,
) -> CaseVerdict {
    CaseVerdict {
        case: case.clone(),
        a: a.into(),
        b: b.into(),
        ci95: ends(interval),
        verdict: found.as_str().into(),
        beyond_margin: match found {
            Verdict::Regressed(size) | Verdict::Improved(size) => Some(size == Size::BeyondMargin),
            _ => None,
        },
        sets: sets as u32,
        settled_by: match found {
            Verdict::Inconclusive { settled_by } => settled_by.map(|sets| sets as u32),
            _ => None,
        },
        ..CaseVerdict::default()
    }
}

fn case_verdict(
    case: &Judged,
    claim: Option<&Claim>,
    moved: bool,
    rules: Rules,
    cases: usize,
) -> CaseVerdict {
    let sets = case.sets();
    let margin = case.margin(rules.margin);
    let mut remarks = case.remarks.clone();
    // Of the interval: pairs of builds, where there are several.
    let units = case.evidence.units();
    let looked = (sets >= FEWEST_FOR_INTERVAL).then(|| case.evidence.interval(CONFIDENCE)).flatten();
    let holds = claim.is_some_and(|claim| claim.holds);
    let interval = match claim.and_then(|claim| claim.interval) {
        Some(widened) if holds => looked.map(|looked| Interval {
            low: looked.low.min(widened.low),
            high: looked.high.max(widened.high),
            confidence: looked.confidence.max(widened.confidence),
        }),
        _ => looked,
    };
    let mut found = match (verdict(interval, margin, units), verdict(interval, rules.margin, units)) {
        // Within what the machine resolves, and not within what was asked for.
        (Verdict::Equivalent, Verdict::Inconclusive { settled_by }) => Verdict::Inconclusive { settled_by },
        (Verdict::Equivalent, Verdict::Regressed(_) | Verdict::Improved(_)) => {
            Verdict::Inconclusive { settled_by: None }
        }
        (found, _) => found,
    };
    found = unless_by_chance(found, holds, &mut remarks);
    found = said(rules.apply(found, interval, margin, units), found, &mut remarks);
    if case.has_several_builds()
        && let Verdict::Inconclusive { settled_by: Some(pairs) } = found
    {
        remarks.push(format!(
            "the interval is that of {units} pairs of builds: about {pairs} builds a side would settle it"
        ));
        found = Verdict::Inconclusive { settled_by: None };
    }
    if found == Verdict::Equivalent && has_two_groups(&case.log_ratios, margin) {
        remarks.push("the sets fall into two groups that are further apart than the margin, so the sides are not called equivalent".into());
        found = Verdict::Inconclusive { settled_by: None };
    }
    if let [a, b] = &case.values
        && a.iter().chain(b).all(|value| *value > 0.0)
        && let Some(change) = shape_changed(a, b, margin, rules.fdr / cases as f64)
    {
        let ([low, high], name) = (change.levels, if change.is_in_b { "B" } else { "A" });
        remarks.push(format!("{name} alone has two modes: {low:.4} and {high:.4} {}", case.unit));
        found = Verdict::ChangedShape;
    }
    if sets > 0 && !case.has_enough_sets() {
        let controls = case.control.units();
        remarks.push(format!(
            "{sets} sets, {controls} of them with a second A: a verdict needs {FEWEST_SETS} of either"
        ));
        found = Verdict::Inconclusive { settled_by: Some(FEWEST_SETS).filter(|needed| *needed > sets) };
    }
    if case.failed_sets > 0 && case.failed_sets >= sets {
        found = Verdict::Inconclusive { settled_by: None };
    }
    if moved {
        remarks.push(
            "A against itself is not 1, so B against A means nothing; measure again on a quieter machine"
                .into(),
        );
        found = Verdict::Void;
    }
    let middle = |values: &Vec<f64>| (!values.is_empty()).then(|| median(values));
    let [a_value, b_value] = case.values.each_ref().map(middle);
    let [a_per_op, b_per_op] = case.per_op.clone();
    let [a_system_calls, b_system_calls] = case.system_calls.clone();
    CaseVerdict {
        ratio: case.evidence.ratio(),
        failed_sets: case.failed_sets as u32,
        builds: case.builds,
        margin,
        minimum_detectable_effect: rules.detectable(&case.evidence, margin),
        slow_starts_not_excluded: slow_starts(&case.log_ratios, margin).map(|slow| slow.not_excluded),
        p: (sets > 0).then(|| case.evidence.p()),
        control: case.control.ratio().map(|ratio| Control {
            ratio,
            ci95: ends(case.control.interval(CONFIDENCE)),
            pairs: case.control.units() as u32,
            has_moved: moved,
        }),
        resolution: case.resolution().map(f64::exp_m1),
        unit: case.unit.clone(),
        a_value,
        b_value,
        a_per_op,
        b_per_op,
        a_system_calls,
        b_system_calls,
        remarks,
        ..line(&case.case, case.labels.each_ref().map(String::as_str), found, interval, sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets with this ratio, and noise of ± 1 %, the same in the control.
    fn case(ratio: f64, sets: usize, control: f64) -> Judged {
        let noise = |i: usize| 0.01 * ((i * 7 % 12) as f64 - 5.5) / 5.5;
        let values = |by: f64| (0..sets).map(|i| 1000.0 * by * noise(i).exp()).collect();
        Judged {
            case: CaseId::new("roundtrip", "pipe", 1, "same-cpu"),
            labels: ["a".into(), "b".into()],
            unit: "ns/roundtrip".into(),
            evidence: Evidence::paired((0..sets).map(|i| ratio.ln() + noise(i)).collect())
                .looked_at(Looks::default().stage(sets)),
            log_ratios: (0..sets).map(|i| ratio.ln() + noise(i)).collect(),
            control: Evidence::paired((0..sets).map(|i| control.ln() + noise(i + 3)).collect()),
            values: [values(1.0), values(ratio)],
            builds: None,
            per_op: [None, None],
            system_calls: [None, None],
            failed_sets: 0,
            remarks: Vec::new(),
        }
    }

    fn verdict_of(case: Judged) -> CaseVerdict {
        judge(&[case], Rules::default()).0.remove(0)
    }

    #[test]
    fn an_injected_ratio_is_found_with_its_sign_and_nothing_is_found_in_equal_sides() {
        let found = [1.2, 1.0 / 1.2, 1.0].map(|ratio| verdict_of(case(ratio, 18, 1.0)));
        let words = found.each_ref().map(|verdict| (verdict.verdict.as_str(), verdict.beyond_margin));
        assert_eq!(words, [("regressed", Some(true)), ("improved", Some(true)), ("equivalent", None)]);
        assert!((found[0].ratio.unwrap() - 1.2).abs() < 0.01, "{:?}", found[0]);
        assert!(found[0].ci95.unwrap()[0] > 1.15);
        let moved = verdict_of(case(1.2, 18, 1.1));
        assert!(moved.is_void() && moved.control.unwrap().has_moved);
    }

    #[test]
    fn the_margin_is_at_least_twice_what_a_against_itself_shows() {
        let noisy = Judged {
            control: Evidence::paired((0..12).map(|i| 0.012 * (f64::from(i * 5 % 12) - 5.5)).collect()),
            ..case(1.03, 12, 1.0)
        };
        let found = verdict_of(noisy);
        let resolution = found.resolution.unwrap();
        assert!(found.margin > 0.02 && (found.margin - 2.0 * resolution).abs() < 1e-9, "{found:?}");
        assert!(found.is_inconclusive(), "3 % cannot be told apart there, and are no equality within 2 %");
    }

    #[test]
    fn few_sets_and_failed_sets_say_nothing() {
        for (sets, failed_sets, verdict, too_often) in [
            (5, 0, "inconclusive", false),
            (9, 0, "inconclusive", false),
            (12, 12, "inconclusive", true),
            (12, 1, "regressed", false),
            (0, 0, "inconclusive", false),
        ] {
            let found = verdict_of(Judged { failed_sets, ..case(1.5, sets, 1.0) });
            let of = (found.verdict.as_str(), failed_too_often(&found), found.ratio.is_some());
            assert_eq!(of, (verdict, too_often, sets > 0), "{failed_sets} of {sets} sets failed");
        }
    }

    #[test]
    fn a_case_is_clear_at_a_look_only_and_among_many_only_if_it_holds_there() {
        for (ratio, sets, cases, clear) in [
            (1.2, 15, 1, true),
            (1.2, 16, 1, false),
            (1.2, 9, 1, false),
            (1.019, 15, 90, false),
            (1.2, 22, 90, true),
            (1.0, 40, 1, true),
        ] {
            let found = is_clear(&case(ratio, sets, 1.0), Rules::default(), &Looks::default(), cases);
            assert_eq!(found, clear, "{ratio} in {sets} sets among {cases}");
        }
    }

    #[test]
    fn a_difference_within_the_margin_is_regressed_only_where_any_is() {
        let found = |any_difference| {
            let rules = Rules { any_difference, ..Rules::default() };
            judge(&[case(1.021, 40, 1.0)], rules).0.remove(0)
        };
        let (by_default, any) = (found(false), found(true));
        assert!(by_default.is_inconclusive() && by_default.settled_by > Some(40), "{by_default:?}");
        assert!(by_default.remarks[0].starts_with("B costs more; whether"), "{by_default:?}");
        assert!(any.is_regression() && any.beyond_margin == Some(false), "{any:?}");
        let [by_default, any] = [by_default, any].map(|of| of.minimum_detectable_effect.unwrap());
        assert!(any > 0.0 && any < 0.01 && (by_default - any - 0.02).abs() < 1e-3, "{by_default} {any}");
    }

    #[test]
    fn sets_in_two_groups_are_not_equivalent_and_what_was_not_seen_is_said() {
        let mut of = case(1.0, 40, 1.0);
        for set in [3, 17, 21, 38] {
            of.log_ratios[set] += 0.4;
        }
        of.evidence = Evidence::paired(of.log_ratios.clone());
        let found = verdict_of(of);
        assert!(found.is_inconclusive() && found.remarks[0].contains("two groups"), "{found:?}");
        let even = verdict_of(case(1.0, 40, 1.0));
        assert_eq!(even.verdict, "equivalent");
        assert!((even.slow_starts_not_excluded.unwrap() - 0.072).abs() < 0.001, "{even:?}");
    }

    #[test]
    fn differences_are_claimed_of_all_cases_together() {
        let mut cases: Vec<Judged> = (0..19).map(|_| case(1.0, 18, 1.0)).collect();
        cases.push(case(1.3, 18, 1.0));
        let (verdicts, claims) = judge(&cases, Rules::default());
        assert_eq!((claims.cases, claims.claimed), (20, 1));
        assert!((claims.expected_by_chance - 0.05).abs() < 1e-12);
        assert!(verdicts[19].is_regression() && verdicts[..19].iter().all(|of| of.verdict == "equivalent"));
        assert!(claims.resolution.unwrap() > 0.0);
    }
}
