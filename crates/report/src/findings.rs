//! Comparisons as sentences: which is best, and then each by itself.

use std::collections::{HashMap, HashSet};

use weighbridge_record::{CaseId, Comparison};

use crate::model::{HARNESS, Report, Sourced};
use crate::units::{significant, size};
use crate::words::{many, placement, plain};

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

/// The cases that were compared with one baseline: all of one pattern, placement and size.
#[derive(Debug)]
pub struct Contest<'a> {
    /// Index of the record.
    source: usize,
    /// The case that all others were compared with.
    pub baseline: &'a CaseId,
    /// Fastest first. This is the order of the figures; whether it is clear, [`Contest::verdict`] says.
    comparisons: Vec<&'a Sourced<Comparison>>,
}

/// What was compared with what, in the order of the cases; sizes of one pattern and placement ascending.
pub fn contests(report: &Report) -> Vec<Contest<'_>> {
    let mut contests: Vec<Contest<'_>> = Vec::new();
    for comparison in report.comparisons.iter().filter(|comparison| is_fair(&comparison.what)) {
        let (source, baseline) = (comparison.source, &comparison.what.baseline);
        match contests.iter_mut().find(|known| known.source == source && known.baseline == baseline) {
            Some(contest) => contest.comparisons.push(comparison),
            None => contests.push(Contest { source, baseline, comparisons: vec![comparison] }),
        }
    }
    for contest in &mut contests {
        contest.comparisons.sort_by(|a, b| b.what.speedup.total_cmp(&a.what.speedup));
    }
    let cases = report.cases.iter().filter(|case| !case.is_harness()).map(|case| &case.id);
    let baselines = report.comparisons.iter().map(|comparison| &comparison.what.baseline);
    let mut ranks = HashMap::new();
    for id in cases.chain(baselines) {
        let next = ranks.len();
        ranks.entry((id.pattern.as_str(), id.placement.as_str())).or_insert(next);
    }
    contests.sort_by_key(|contest| {
        let id = contest.baseline;
        (ranks[&(id.pattern.as_str(), id.placement.as_str())], id.payload_bytes, contest.source)
    });
    contests
}

/// Comparisons of cases that differ in more than the mechanism and its settings.
pub fn others(report: &Report) -> Vec<Finding> {
    let rest = report.comparisons.iter().filter(|comparison| !is_fair(&comparison.what));
    rest.map(|comparison| finding(report, comparison)).collect()
}

/// At most `count` contests: of each pattern and placement first the smallest size, then the largest, then others.
pub fn chosen<'a, 'b>(contests: &'b [Contest<'a>], count: usize) -> Vec<&'b Contest<'a>> {
    let mut places: Vec<(&str, &str, Vec<usize>)> = Vec::new();
    for (index, contest) in contests.iter().enumerate() {
        let (pattern, placement) = (contest.baseline.pattern.as_str(), contest.baseline.placement.as_str());
        match places.iter_mut().find(|place| (place.0, place.1) == (pattern, placement)) {
            Some(place) => place.2.push(index),
            None => places.push((pattern, placement, vec![index])),
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
    kept.into_iter().map(|index| &contests[index]).collect()
}

impl Contest<'_> {
    /// `roundtrip 64 KiB same-cpu: ring-futex is fastest, 1.31 × faster than pipe (1.24–1.40).`
    pub fn line(&self, report: &Report) -> String {
        let id = self.baseline;
        let payload = if id.payload_bytes == 0 { String::new() } else { size(id.payload_bytes) + " " };
        plain(&format!("{} {payload}{}: {}.", id.pattern, id.placement, self.verdict(report)))
    }

    /// One sentence for each comparison, fastest first.
    pub fn findings(&self, report: &Report) -> Vec<Finding> {
        self.comparisons.iter().map(|comparison| finding(report, comparison)).collect()
    }

    /// Which is best, as far as the intervals of the ratios tell it, and which have none.
    fn verdict(&self, report: &Report) -> String {
        let known: Vec<(&Comparison, [f64; 2])> =
            self.comparisons.iter().filter_map(|one| Some((&one.what, one.what.ci95?))).collect();
        let unknown: Vec<String> = self
            .comparisons
            .iter()
            .filter(|one| one.what.ci95.is_none())
            .map(|one| report.variant(self.source, &one.what.case))
            .collect();
        let few = |names| format!("too few pairs of runs to place {names}");
        match (known.is_empty(), unknown.is_empty()) {
            (true, _) => {
                format!("{} against {}", few(listed(unknown)), report.variant(self.source, self.baseline))
            }
            (false, true) => self.best(report, &known),
            (false, false) => format!("{}; {}", self.best(report, &known), few(listed(unknown))),
        }
    }

    /// Which is best of those with an interval. Where two intervals overlap, no order is claimed.
    fn best(&self, report: &Report, known: &[(&Comparison, [f64; 2])]) -> String {
        let name = |id: &CaseId| report.variant(self.source, id);
        let base = name(self.baseline);
        // The baseline takes part with a ratio that is certain.
        let bar = known.iter().map(|(_, [low, _])| *low).fold(1.0, f64::max);
        let leaders: Vec<_> = known.iter().filter(|(_, [_, high])| *high >= bar).collect();
        let list = || {
            let one = |(at, (one, [low, high])): (usize, &&(&Comparison, [f64; 2]))| {
                let against = if at == 0 { format!(" as fast as {base}") } else { String::new() };
                let factor = ratio(one.speedup);
                format!("{} ({factor} ×{against}, {}–{})", name(&one.case), ratio(*low), ratio(*high))
            };
            listed(leaders.iter().enumerate().map(one).collect())
        };
        match (leaders.as_slice(), known) {
            ([], [(one, [_, high])]) => {
                format!("{base} is faster than {}, at least {} ×", name(&one.case), ratio(1.0 / high))
            }
            ([], _) => {
                let nearest = known.iter().map(|(_, [_, high])| *high).fold(0.0, f64::max);
                format!("{base} is fastest, all others at least {} × slower", ratio(1.0 / nearest))
            }
            ([(best, [low, high])], _) if bar > 1.0 => {
                let which = if known.len() > 1 { "fastest, " } else { "" };
                let interval = format!("{}–{}", ratio(*low), ratio(*high));
                let factor = ratio(best.speedup);
                format!("{} is {which}{factor} × faster than {base} ({interval})", name(&best.case))
            }
            _ if bar > 1.0 => format!("no clear order among the fastest: {}", list()),
            _ => format!("none clearly faster than {base}; no clear difference to {}", list()),
        }
    }
}

/// Number of mechanisms that a sentence names where more are about as fast; the others are counted.
const NAMED: usize = 2;

/// Do the two differ only in mechanism and settings, so that a reader could choose between them?
fn is_fair(Comparison { case, baseline, .. }: &Comparison) -> bool {
    let place = |id: &CaseId| (id.pattern.clone(), id.payload_bytes, id.placement.clone());
    place(case) == place(baseline) && case.mechanism != HARNESS && baseline.mechanism != HARNESS
}

/// The first few and how many more: `a, b and 3 more`.
fn listed(mut names: Vec<String>) -> String {
    if names.len() > NAMED + 1 {
        let more = names.len() - NAMED;
        names.truncate(NAMED);
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
        && case.placement == baseline.placement;
    let (place, left, right) = match alike {
        true => (
            place(case.payload_bytes, &case.placement),
            report.variant(comparison.source, case),
            report.variant(comparison.source, baseline),
        ),
        false => ("Of two cases".into(), case.to_string(), baseline.to_string()),
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

fn place(payload_bytes: u64, at: &str) -> String {
    let at = placement(at);
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
    use weighbridge_record::CaseId;

    use super::*;

    fn sentence(speedup: f64, ci95: Option<[f64; 2]>) -> String {
        let case = |mechanism| CaseId::new("roundtrip", mechanism, 4096, "same-cpu");
        let what = Comparison { case: case("ring-futex"), baseline: case("pipe"), speedup, ci95, pairs: 4 };
        finding(&Report::default(), &Sourced { source: 0, what }).sentence
    }

    fn line(ratios: &[(&str, f64, Option<[f64; 2]>)]) -> String {
        let case = |mechanism: &str| CaseId::new("roundtrip", mechanism, 4096, "same-cpu");
        let one = |(name, speedup, ci95): &(&str, f64, Option<[f64; 2]>)| Sourced {
            source: 0,
            what: Comparison {
                case: case(name),
                baseline: case("pipe"),
                speedup: *speedup,
                ci95: *ci95,
                pairs: 4,
            },
        };
        let report = Report { comparisons: ratios.iter().map(one).collect(), ..Report::default() };
        contests(&report)[0].line(&report)
    }

    #[test]
    fn the_best_is_named_where_its_interval_is_above_all_others() {
        let text = line(&[
            ("fifo", 0.9, Some([0.8, 1.0])),
            ("ring", 1.3, Some([1.2, 1.4])),
            ("tcp", 1.1, Some([0.7, 1.19])),
        ]);
        assert_eq!(text, "roundtrip 4 KiB same-cpu: ring is fastest, 1.30 × faster than pipe (1.20–1.40).");
    }

    #[test]
    fn no_order_is_claimed_where_intervals_overlap() {
        let text = line(&[
            ("b", 1.25, Some([1.2, 1.3])),
            ("a", 1.3, Some([1.1, 1.5])),
            ("c", 1.1, Some([0.9, 1.2])),
        ]);
        let list = "a (1.30 × as fast as pipe, 1.10–1.50), b (1.25 ×, 1.20–1.30) and c (1.10 ×, 0.90–1.20).";
        assert_eq!(text, format!("roundtrip 4 KiB same-cpu: no clear order among the fastest: {list}"));
    }

    #[test]
    fn the_baseline_takes_part_in_the_order() {
        let text = line(&[("a", 1.2, Some([0.9, 1.5])), ("b", 0.5, Some([0.4, 0.6]))]);
        let says =
            "none clearly faster than pipe; no clear difference to a (1.20 × as fast as pipe, 0.90–1.50).";
        assert!(text.ends_with(says), "{text}");
        let text = line(&[("a", 0.8, Some([0.7, 0.9])), ("b", 0.5, Some([0.4, 0.6]))]);
        assert!(text.ends_with("pipe is fastest, all others at least 1.11 × slower."), "{text}");
    }

    #[test]
    fn a_ratio_without_an_interval_is_never_the_best() {
        let text = line(&[("a", 9.0, None), ("b", 1.5, Some([1.4, 1.6]))]);
        let says = "b is 1.50 × faster than pipe (1.40–1.60); too few pairs of runs to place a.";
        assert!(text.ends_with(says), "{text}");
        let text = line(&[("a", 9.0, None), ("b", 1.5, None)]);
        assert!(text.ends_with("too few pairs of runs to place a and b against pipe."), "{text}");
    }

    #[test]
    fn few_contests_are_chosen_from_all_places_and_from_both_ends_of_the_sizes() {
        let mut report = Report::default();
        for placement in ["same-cpu", "two-cpus"] {
            for size in [1, 2, 4, 8, 16] {
                let case = |mechanism: &str| CaseId::new("stream", mechanism, size, placement);
                let (case, baseline) = (case("tcp"), case("pipe"));
                let what = Comparison { case, baseline, speedup: 1.0, ci95: None, pairs: 4 };
                report.comparisons.push(Sourced { source: 0, what });
            }
        }
        let all = contests(&report);
        let sizes =
            |count| chosen(&all, count).iter().map(|one| one.baseline.payload_bytes).collect::<Vec<_>>();
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
