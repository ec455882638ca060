//! Comparisons as sentences: which order of mechanisms is sure, then pairs that belong to no such order.

use std::collections::{HashMap, HashSet};

use weighbridge_record::{CaseId, Comparison, Contest, Contestant, Findings, Place};

use crate::document::{Cell, Table};
use crate::model::{HARNESS, Report, Sourced};
use crate::units::{count, significant, size};
use crate::words::{self, many, plain};

/// How clear a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clarity {
    /// The interval of the ratio is on one side of 1.
    Clear,
    /// The interval includes 1.
    NoDifference,
    /// Too few pairs for an interval.
    TooFew,
}

/// One sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How clear it is.
    pub clarity: Clarity,
    /// `At 4 KiB on one CPU ring-futex is 1.3 × faster than pipe (interval 1.2–1.4).`
    pub sentence: String,
}

/// All contests by pattern and place in the order of the cases; sizes ascending.
pub fn contests(report: &Report) -> Vec<&Sourced<Contest>> {
    let mut ranks = HashMap::new();
    for id in report.cases.iter().map(|case| &case.id).chain(report.contests.iter().map(place_of)) {
        let next = ranks.len();
        ranks.entry((id.pattern.as_str(), id.place())).or_insert(next);
    }
    let mut contests: Vec<&Sourced<Contest>> = report.contests.iter().collect();
    contests.sort_by_key(|contest| {
        let id = place_of(contest);
        (ranks[&(id.pattern.as_str(), id.place())], id.payload_bytes, contest.source)
    });
    contests
}

/// Any case of a contest: pattern, size and placement are those of all.
fn place_of(contest: &Sourced<Contest>) -> &CaseId {
    &contest.what.contestants[0].case
}

/// Comparisons whose cases are in no contest together.
pub fn others(report: &Report) -> Vec<Finding> {
    let is_in = |contest: &Contest, id: &CaseId| contest.contestants.iter().any(|one| one.case == *id);
    let rest = report.comparisons.iter().filter(|Sourced { source, what }| {
        let known = report.contests.iter().any(|contest| {
            contest.source == *source
                && is_in(&contest.what, &what.case)
                && is_in(&contest.what, &what.baseline)
        });
        !known && !is_of_the_harness(what)
    });
    rest.map(|comparison| finding(report, comparison)).collect()
}

fn is_of_the_harness(comparison: &Comparison) -> bool {
    comparison.case.mechanism == HARNESS || comparison.baseline.mechanism == HARNESS
}

/// At most `count` contests: of each pattern and placement first the smallest size, then the largest, then others.
pub fn chosen<'a>(contests: &[&'a Sourced<Contest>], count: usize) -> Vec<&'a Sourced<Contest>> {
    let mut places: Vec<(&str, Place<'_>, Vec<usize>)> = Vec::new();
    for (index, contest) in contests.iter().enumerate() {
        let id = place_of(contest);
        let (pattern, at) = (id.pattern.as_str(), id.place());
        match places.iter_mut().find(|place| (place.0, place.1) == (pattern, at)) {
            Some(place) => place.2.push(index),
            None => places.push((pattern, at, vec![index])),
        }
    }
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    for (_, _, indices) in &places {
        let last = indices.len() - 1;
        let mut order = vec![0, last, last / 2];
        order.extend(0..=last);
        let mut seen = HashSet::new();
        let distinct = order.into_iter().filter(|at| seen.insert(*at));
        ranked.extend(distinct.enumerate().map(|(rank, at)| (rank, indices[at])));
    }
    ranked.sort_unstable();
    let mut kept: Vec<usize> = ranked.into_iter().take(count).map(|(_, index)| index).collect();
    kept.sort_unstable();
    kept.into_iter().map(|index| contests[index]).collect()
}

/// How many orders are claimed in a record, and how many of them chance is expected to make.
pub fn by_chance(findings: &Findings) -> String {
    let Findings { contests, claimed, fdr, expected_by_chance } = findings;
    format!(
        "Some order is sure in {claimed} of {}. Of these, at most {} % are expected to be wrong by chance: {}.",
        many(*contests as usize, "line"),
        count(fdr * 100.0),
        count(*expected_by_chance)
    )
}

/// `roundtrip 64 KiB same-cpu: ring-futex is surely ahead of pipe and fifo; pipe costs 1.31 × as much as ring-futex (1.24–1.40).`
pub fn line(report: &Report, contest: &Sourced<Contest>) -> String {
    let id = place_of(contest);
    let payload = if id.payload_bytes == 0 { String::new() } else { size(id.payload_bytes) + " " };
    plain(&format!("{} {payload}{}: {}.", id.pattern, id.place(), order(report, contest)))
}

/// Every contestant with its tier.
pub fn table(report: &Report, contest: &Sourced<Contest>) -> Table {
    let first = name(report, contest, &contest.what.contestants[0]);
    let heads = [
        "tier",
        "mechanism",
        "may be the fastest",
        &format!("times the cost of {first}"),
        "interval",
        "sets",
    ];
    let row = |one: &Contestant| -> Vec<Cell> {
        let interval =
            one.interval.map_or(String::new(), |[low, high]| format!("{} to {}", ratio(low), ratio(high)));
        let cells = [
            (one.tier + 1).to_string(),
            name(report, contest, one),
            if one.may_be_best { "yes" } else { "no" }.to_owned(),
            ratio(one.times_first),
            interval,
            one.sets.to_string(),
        ];
        cells.map(Cell::from).into()
    };
    let mut table =
        Table::new("", heads.map(String::from), contest.what.contestants.iter().map(row).collect());
    table.columns[1].is_text = true;
    table.columns[2].is_text = true;
    table.labels = 2;
    table
}

fn name(report: &Report, contest: &Sourced<Contest>, one: &Contestant) -> String {
    report.variant(contest.source, &one.case)
}

/// What is sure of an order, and between which of the leaders none is.
fn order(report: &Report, contest: &Sourced<Contest>) -> String {
    let all = &contest.what.contestants;
    let of_tier = |tier: u32| all.iter().filter(move |one| one.tier == tier);
    let names = |of: &mut dyn Iterator<Item = &Contestant>| -> Vec<String> {
        of.map(|one| name(report, contest, one)).collect()
    };
    let tier = |tier: u32| names(&mut of_tier(tier));
    let leaders = tier(0);
    let Some(next) = of_tier(1).next() else { return without_tiers(report, contest) };
    let last = all.iter().map(|one| one.tier).max().unwrap_or(0);
    if leaders.len() > NAMED + 1 {
        let behind: Vec<String> = (1..=last).map(|index| listed(tier(index))).collect();
        let (first, behind) = (leaders.len(), behind.join(", then "));
        return format!("{}; surely behind the first {first}: {behind}", candidates(report, contest));
    }
    let mut text = if last == 1 {
        let verb = if leaders.len() == 1 { "is" } else { "are" };
        format!("{} {verb} surely ahead of {}", listed(leaders.clone()), listed(tier(1)))
    } else {
        let tiers: Vec<String> = (0..=last).map(|index| listed(tier(index))).collect();
        format!("surely in this order: {}", tiers.join(", then "))
    };
    if let Some([low, high]) = next.interval {
        let (first, next_name) = (&leaders[0], name(report, contest, next));
        let times = ratio(next.times_first);
        text += &format!("; {next_name} costs {times} × as much as {first} ({}–{})", ratio(low), ratio(high));
    }
    if leaders.len() > 1 {
        let is_leader = |id: &CaseId| of_tier(0).any(|one| one.case == *id);
        let some_is_sure = contest
            .what
            .sure
            .iter()
            .any(|order| order.ahead.iter().any(is_leader) && order.behind.iter().any(is_leader));
        text += &if !some_is_sure {
            format!("; between {} no order is sure", listed(leaders))
        } else {
            format!("; {}", candidates(report, contest))
        };
    }
    text
}

/// Where no cut through the whole order is sure, some pairs may be.
fn without_tiers(report: &Report, contest: &Sourced<Contest>) -> String {
    let Contest { contestants: all, sure, .. } = &contest.what;
    let names = |of: &[CaseId]| listed(of.iter().map(|id| report.variant(contest.source, id)).collect());
    let everyone = || listed(all.iter().map(|one| name(report, contest, one)).collect());
    let has_interval = all.iter().any(|one| one.interval.is_some());
    if sure.is_empty() && !has_interval {
        let fewest = all.iter().map(|one| one.sets).min().unwrap_or(0) as usize;
        return format!("{} of {} are too few for any order", many(fewest, "set"), everyone());
    }
    if sure.is_empty() {
        return format!("between {} no order is sure", everyone());
    }
    let told = sure.iter().take(STATEMENTS).map(|order| {
        let verb = if order.ahead.len() == 1 { "is" } else { "are" };
        format!("{} {verb} surely ahead of {}", names(&order.ahead), names(&order.behind))
    });
    let told: Vec<String> = told.collect();
    format!("{}; {}", told.join("; "), candidates(report, contest))
}

/// Which may be the fastest.
fn candidates(report: &Report, contest: &Sourced<Contest>) -> String {
    let may: Vec<String> = contest
        .what
        .contestants
        .iter()
        .filter(|one| one.may_be_best)
        .map(|one| name(report, contest, one))
        .collect();
    match may.as_slice() {
        [only] => format!("{only} is surely the fastest"),
        _ => format!("the fastest is one of {}", listed_up_to(CANDIDATES, may)),
    }
}

/// Number of statements in a line; the table has the rest.
const STATEMENTS: usize = 2;

/// Number of mechanisms that a sentence names where there are more; the others are counted.
const NAMED: usize = 3;

/// The same of those that may be the fastest.
const CANDIDATES: usize = 6;

/// The first few and how many more: `a, b and 3 more`.
fn listed(names: Vec<String>) -> String {
    listed_up_to(NAMED, names)
}

fn listed_up_to(most: usize, mut names: Vec<String>) -> String {
    if names.len() > most + 1 {
        let more = names.len() - most;
        names.truncate(most);
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn finding(report: &Report, comparison: &Sourced<Comparison>) -> Finding {
    let Comparison { case, baseline, speedup, ci95, pairs } = &comparison.what;
    let alike = case.pattern == baseline.pattern
        && case.payload_bytes == baseline.payload_bytes
        && case.place() == baseline.place();
    let (place, left, right) = if alike {
        (
            place(case.payload_bytes, case.place()),
            report.variant(comparison.source, case),
            report.variant(comparison.source, baseline),
        )
    } else {
        ("Of two cases".into(), case.to_string(), baseline.to_string())
    };
    let (clarity, text) = match ci95 {
        Some([low, high]) if *low <= 1.0 && *high >= 1.0 => (
            Clarity::NoDifference,
            format!(
                "{place} there is no clear difference between {left} and {right} (speed ratio {}, interval {}–{}).",
                ratio(*speedup),
                ratio(*low),
                ratio(*high)
            ),
        ),
        Some([low, high]) if *speedup >= 1.0 => (
            Clarity::Clear,
            format!(
                "{place} {left} is {} × faster than {right} (interval {}–{}).",
                ratio(*speedup),
                ratio(*low),
                ratio(*high)
            ),
        ),
        // The same ratio told from the other side, so that the reader never divides.
        Some([low, high]) => (
            Clarity::Clear,
            format!(
                "{place} {left} is {} × slower than {right} (interval {}–{}).",
                ratio(1.0 / speedup),
                ratio(1.0 / high),
                ratio(1.0 / low)
            ),
        ),
        None => (
            Clarity::TooFew,
            format!(
                "{place} {left} and {right} were compared in {} only, too few for an interval (speed ratio {}).",
                many(*pairs as usize, "pair"),
                ratio(*speedup)
            ),
        ),
    };
    Finding { clarity, sentence: plain(&text) }
}

fn place(payload_bytes: u64, at: Place<'_>) -> String {
    let at = words::place(at);
    match payload_bytes {
        0 => at[..1].to_uppercase() + &at[1..],
        bytes => format!("At {} {at}", size(bytes)),
    }
}

/// Two decimals near 1, where they matter; three where two would read `1.00 × faster`; three digits elsewhere.
fn ratio(value: f64) -> String {
    match value {
        _ if value != 1.0 && (0.995..1.005).contains(&value) => format!("{value:.3}"),
        _ if (0.1..10.0).contains(&value) => format!("{value:.2}"),
        _ => significant(value),
    }
}

#[cfg(test)]
mod tests {
    use weighbridge_record::{CaseId, SureOrder};

    use super::*;

    fn sentence(speedup: f64, ci95: Option<[f64; 2]>) -> String {
        let case = |mechanism| CaseId::new("roundtrip", mechanism, 4096, "same-cpu");
        let what = Comparison { case: case("ring-futex"), baseline: case("pipe"), speedup, ci95, pairs: 4 };
        finding(&Report::default(), &Sourced { source: 0, what }).sentence
    }

    /// A contest of cases with tier, times the first, interval.
    fn contest(
        of: &[(&str, u32, f64, Option<[f64; 2]>)],
        sure: &[(&[&str], &[&str])],
        size: u64,
    ) -> Sourced<Contest> {
        let case = |mechanism: &str| CaseId::new("roundtrip", mechanism, size, "same-cpu");
        let contestant =
            |(mechanism, tier, times_first, interval): &(&str, u32, f64, Option<[f64; 2]>)| Contestant {
                case: case(mechanism),
                tier: *tier,
                may_be_best: *tier == 0,
                times_first: *times_first,
                interval: *interval,
                sets: 4,
            };
        let ids = |names: &[&str]| names.iter().map(|name| case(name)).collect();
        let sure = sure.iter().map(|(ahead, behind)| SureOrder { ahead: ids(ahead), behind: ids(behind) });
        let contestants = of.iter().map(contestant).collect();
        Sourced { source: 0, what: Contest { contestants, sure: sure.collect(), confidence: 0.95 } }
    }

    fn order_of(of: &[(&str, u32, f64, Option<[f64; 2]>)], sure: &[(&[&str], &[&str])]) -> String {
        let text = line(&Report::default(), &contest(of, sure, 4096));
        text.strip_prefix("roundtrip 4 KiB same-cpu: ").unwrap().to_owned()
    }

    #[test]
    fn tiers_that_are_sure_are_told_with_the_distance_to_the_next_one() {
        let (a, b) = (("a", 0, 1.0, None), ("b", 0, 1.02, Some([0.98, 1.07])));
        let c = ("c", 1, 1.3, Some([1.2, 1.4]));
        let d = ("d", 1, 1.4, Some([1.3, 1.5]));
        let e = ("e", 2, 9.0, Some([8.0, 9.9]));
        let sure: (&[&str], &[&str]) = (&["a", "b"], &["c", "d"]);
        assert_eq!(
            order_of(&[a, b, c, d], &[sure]),
            "a and b are surely ahead of c and d; c costs 1.30 × as much as a (1.20–1.40); between a and b no order is sure."
        );
        assert_eq!(
            order_of(&[a, c, d, e], &[sure]),
            "surely in this order: a, then c and d, then e; c costs 1.30 × as much as a (1.20–1.40)."
        );
    }

    #[test]
    fn of_a_crowd_in_front_those_that_may_be_the_fastest_are_named() {
        let mut all = ["a", "b", "c", "d", "e"].map(|name| (name, 0, 1.0, Some([0.9, 1.1]))).to_vec();
        all.extend([("x", 1, 2.0, Some([1.8, 2.2])), ("y", 2, 3.0, Some([2.8, 3.2]))]);
        let says = "the fastest is one of a, b, c, d and e; surely behind the first 5: x, then y.";
        assert_eq!(order_of(&all, &[]), says);
    }

    #[test]
    fn without_a_cut_sure_pairs_are_told_and_which_may_be_the_fastest() {
        let all = [("a", 0, 1.0, None), ("b", 0, 1.1, Some([0.9, 1.3])), ("c", 0, 1.3, Some([1.1, 1.5]))];
        let sure: (&[&str], &[&str]) = (&["a"], &["c"]);
        assert_eq!(order_of(&all, &[sure]), "a is surely ahead of c; the fastest is one of a, b and c.");
        assert_eq!(order_of(&all, &[]), "between a, b and c no order is sure.");
    }

    #[test]
    fn too_few_sets_are_said_to_be_too_few() {
        let all = ["a", "b", "c", "d", "e"].map(|name| (name, 0, 1.0, None));
        assert_eq!(order_of(&all, &[]), "4 sets of a, b, c and 2 more are too few for any order.");
    }

    #[test]
    fn how_many_claims_are_chance_is_said_in_one_sentence() {
        let text = by_chance(&Findings { contests: 14, claimed: 12, fdr: 0.05, expected_by_chance: 0.6 });
        let says = "Some order is sure in 12 of 14 lines. Of these, at most 5 % are expected to be wrong by chance: 0.6.";
        assert_eq!(text, says);
    }

    #[test]
    fn few_contests_are_chosen_from_all_places_and_from_both_ends_of_the_sizes() {
        let mut report = Report::default();
        for placement in ["same-cpu", "two-cpus"] {
            for size in [1, 2, 4, 8, 16] {
                let mut contest = contest(&[("a", 0, 1.0, None), ("b", 0, 1.0, None)], &[], size);
                contest.what.contestants.iter_mut().for_each(|one| one.case.placement = placement.into());
                report.contests.push(contest);
            }
        }
        let all = contests(&report);
        let sizes =
            |count| chosen(&all, count).iter().map(|one| place_of(one).payload_bytes).collect::<Vec<_>>();
        assert_eq!(sizes(4), [1, 16, 1, 16]);
        assert_eq!(sizes(6), [1, 4, 16, 1, 4, 16]);
        assert_eq!(sizes(99), [1, 2, 4, 8, 16, 1, 2, 4, 8, 16]);
    }

    #[test]
    fn a_clear_ratio_says_which_side_is_faster() {
        assert_eq!(
            sentence(1.3, Some([1.2, 1.4])),
            "At 4 KiB on one CPU ring-futex is 1.30 × faster than pipe (interval 1.20–1.40)."
        );
        assert_eq!(
            sentence(0.5, Some([0.4, 0.8])),
            "At 4 KiB on one CPU ring-futex is 2.00 × slower than pipe (interval 1.25–2.50)."
        );
    }

    #[test]
    fn a_clear_ratio_close_to_one_is_not_called_one() {
        let says = "ring-futex is 1.004 × faster than pipe (interval 1.002–1.01).";
        assert_eq!(sentence(1.004, Some([1.002, 1.006])), format!("At 4 KiB on one CPU {says}"));
    }

    #[test]
    fn an_interval_that_includes_one_is_no_difference() {
        for ci95 in [[0.9, 1.1], [1.0, 1.2], [0.8, 1.0]] {
            let text = sentence(1.05, Some(ci95));
            assert!(text.contains("no clear difference between ring-futex and pipe"), "{text}");
        }
    }

    #[test]
    fn without_an_interval_nothing_is_claimed() {
        let text = sentence(3.0, None);
        assert!(text.contains("4 pairs only") && !text.contains("faster"), "{text}");
    }
}
