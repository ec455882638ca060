//! Departures from one steady state, said in a few lines and in full.

use std::collections::HashMap;

use weighbridge_record::{Place, Regime, RegimeKind, Summary};

use crate::document::Item;
use crate::matrix::Matrix;
use crate::model::{Measured, Report};
use crate::notes::few;
use crate::units::{Scale, significant, size, with_unit};
use crate::words::{IMPORTED, at, listed, many, plain};

/// Few notes, those with the largest effect, and all of them.
pub fn notes(report: &Report, matrices: &[Matrix<'_>]) -> (Vec<Item>, Vec<Item>) {
    let scales: HashMap<_, _> =
        matrices.iter().map(|of| ((of.pattern, of.place, of.unit), &of.scale)).collect();
    let mut cases: Vec<Departure<'_>> = report
        .cases
        .iter()
        .filter_map(|case| {
            let summary = case.summary.as_ref().filter(|summary| !summary.regimes.is_empty())?;
            let key = (case.id.pattern.as_str(), case.id.place(), summary.unit.as_str());
            let scale = scales.get(&key).map(|scale| (*scale).clone());
            let scale = scale.unwrap_or_else(|| Scale::alone(&summary.unit, summary.median));
            Some(Departure { case, summary, scale })
        })
        .collect();
    let full: Vec<Item> = cases.iter().map(|departure| departure.full(report)).collect();
    cases.sort_by(|a, b| b.effect().total_cmp(&a.effect()));
    let items = few(cases.iter().map(|departure| departure.brief(report)).collect());
    if items.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let order = if items.len() > 1 { " Largest effect first:" } else { "" };
    (vec![Item { text: format!("{}{order}", shares(report)), items, ..Item::default() }], full)
}

/// `31 of 44 cases at two-cpus and 4 of 43 at same-cpu were not in one steady state.`
fn shares(report: &Report) -> String {
    let mut counts: Vec<(Place<'_>, usize, usize)> = Vec::new();
    for case in report.cases.iter().filter(|case| case.summary.is_some()) {
        let place = case.id.place();
        let index = counts.iter().position(|(known, ..)| *known == place).unwrap_or_else(|| {
            counts.push((place, 0, 0));
            counts.len() - 1
        });
        counts[index].1 += usize::from(case.has_regimes());
        counts[index].2 += 1;
    }
    counts.retain(|(_, some, _)| *some > 0);
    counts.sort_by_key(|(_, some, _)| std::cmp::Reverse(*some));
    let parts: Vec<String> = counts
        .iter()
        .enumerate()
        .map(|(index, (place, some, all))| match index {
            0 => format!("{some} of {}{}", many(*all, "case"), at(*place)),
            _ => format!("{some} of {all}{}", at(*place)),
        })
        .collect();
    let verb = if matches!(counts.as_slice(), [(_, 1, _)]) { "was" } else { "were" };
    plain(&format!("{} {verb} not in one steady state.", listed(parts.len(), parts)))
}

/// `pipe 64 KiB stream two-cpus`.
pub fn name(report: &Report, case: &Measured) -> String {
    let id = &case.id;
    let payload = if id.payload_bytes == 0 { String::new() } else { size(id.payload_bytes) + " " };
    let variant = report.variant(case.source, id);
    if id.pattern == IMPORTED {
        return plain(format!("{variant} {payload}").trim_end());
    }
    plain(&format!("{variant} {payload}{} {}", id.pattern, id.place()))
}

/// A case with what departs in it.
struct Departure<'a> {
    case: &'a Measured,
    summary: &'a Summary,
    /// That of the table in which the case stands.
    scale: Scale,
}

impl Departure<'_> {
    fn effect(&self) -> f64 {
        self.summary.regimes.iter().map(|regime| effect(self.summary, regime)).fold(0.0, f64::max)
    }

    /// `pipe 64 KiB stream two-cpus: two modes in 16 of 33 runs (1.21 and 3.51 GiB/s); a step in 8`.
    fn brief(&self, report: &Report) -> Item {
        let mut regimes: Vec<&Regime> = self.summary.regimes.iter().collect();
        regimes.sort_by(|a, b| effect(self.summary, b).total_cmp(&effect(self.summary, a)));
        let mut has_total = false;
        let part = |(index, regime): (usize, &&Regime)| {
            let place = match (is_among_runs(regime), has_total) {
                (true, _) => "among the runs".into(),
                (false, false) => {
                    has_total = true;
                    format!("in {} of {}", regime.runs, many(self.summary.runs as usize, "run"))
                }
                (false, true) => format!("in {}", regime.runs),
            };
            let levels = if index == 0 { self.levels(regime) } else { String::new() };
            plain(&format!("{} {place}{levels}", kind(regime)))
        };
        let further = regimes.iter().enumerate().map(part).collect();
        Item { text: name(report, self.case), further, ..Item::default() }
    }

    fn full(&self, report: &Report) -> Item {
        let sentence = |regime: &Regime| {
            let detail = if is_of_the_ratio(regime) {
                regime.detail.clone()
            } else {
                with_units(&regime.detail, &self.summary.unit)
            };
            plain(&format!("{}{}: {detail}", kind(regime), self.levels(regime))).into()
        };
        let items = self.summary.regimes.iter().map(sentence).collect();
        Item { text: name(report, self.case), items, ..Item::default() }
    }

    /// ` (1.21 and 3.51 GiB/s)`; of a time only `µs`, since the pattern stands beside it.
    fn levels(&self, regime: &Regime) -> String {
        let Some([first, second]) = regime.levels else { return String::new() };
        if is_of_the_ratio(regime) {
            return format!(" ({} and {} × the cost of the hub)", significant(first), significant(second));
        }
        let unit = if self.summary.unit.starts_with("ns") {
            self.scale.name.split('/').next().unwrap_or_default()
        } else {
            &self.scale.name
        };
        format!(" ({} and {} {unit})", self.scale.show(first), self.scale.show(second))
    }
}

/// How much it can change the figure: the distance of the levels, and in how many of the runs it is there.
fn effect(summary: &Summary, regime: &Regime) -> f64 {
    let Some([first, second]) = regime.levels else { return 0.0 };
    let share =
        if is_among_runs(regime) { 1.0 } else { f64::from(regime.runs) / f64::from(summary.runs.max(1)) };
    let distance = (second / first).ln().abs() * share;
    if distance.is_finite() { distance } else { 0.0 }
}

/// Are its levels multiples of the hub's cost, and not in the unit of the case?
fn is_of_the_ratio(regime: &Regime) -> bool {
    regime.detail.contains("to the hub")
}

fn is_among_runs(regime: &Regime) -> bool {
    regime.within == "runs"
}

fn kind(regime: &Regime) -> &'static str {
    match regime.regime {
        RegimeKind::TwoModes => "two modes",
        RegimeKind::Step => "a step",
        RegimeKind::Slope => "a slope",
        RegimeKind::Correlated => "correlated neighbors",
    }
}

/// The sentence of the record with units: its levels are bare numbers, in the unit of the case, behind `near`, `from … to`
/// and `between … and`.
fn with_units(detail: &str, unit: &str) -> String {
    let mut is_between = false;
    let mut before = "";
    let mut words = Vec::new();
    for word in detail.split(' ') {
        is_between |= word == "between";
        let is_level =
            matches!(before, "near" | "from" | "to" | "between") || (before == "and" && is_between);
        let number = word.trim_end_matches(',');
        words.push(match number.parse::<f64>() {
            Ok(value) if is_level => with_unit(unit, value) + &word[number.len()..],
            _ => word.to_owned(),
        });
        is_between &= before != "and";
        before = word;
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_in_a_sentence_of_the_record_gets_its_unit_and_a_count_does_not() {
        let detail = "in 16 of 33 runs; in the clearest, 10 of 15 lie near 1346 and 5 near 3.813e9, none between 1e4 and 2e4 (p < 0.001)";
        let says = "in 16 of 33 runs; in the clearest, 10 of 15 lie near 1.35 µs/op and 5 near 3.81 s/op, none between 10.0 µs/op \
                    and 20.0 µs/op (p < 0.001)";
        assert_eq!(with_units(detail, "ns/op"), says);
        let step = "the level changes from 4.444e10 to 5e10 after 6 of 14 values (p = 0.001)";
        let says = "the level changes from 41.4 GiB/s to 46.6 GiB/s after 6 of 14 values (p = 0.001)";
        assert_eq!(with_units(step, "bytes/s"), says);
    }

    #[test]
    fn levels_of_the_ratio_to_the_hub_have_no_unit_of_the_case() {
        let regime = Regime {
            regime: RegimeKind::TwoModes,
            within: "runs".into(),
            runs: 1,
            detail: "of the ratios to the hub of sets, 5 of 9 lie near 1.2 and 4 near 1.5".into(),
            levels: Some([1.2, 1.5]),
        };
        assert!(is_of_the_ratio(&regime));
        assert!(!is_of_the_ratio(&Regime {
            detail: "5 of 9 lie near 1200 and 4 near 1500".into(),
            ..regime
        }));
    }
}
