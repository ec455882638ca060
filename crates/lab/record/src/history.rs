//! The cases of several records as series, and where their levels change. All statistics are `weighbridge-stats`'.

use std::collections::BTreeMap;

use serde::Serialize;
use weighbridge_stats::Interval;
use weighbridge_stats::history::{Point as Known, change_points};

use crate::{CaseId, Line, Summary};

/// The figure of a series that is a multiple of the hub's.
pub const TO_HUB: &str = "to_hub";
/// The figure of a series in the unit of its case.
pub const MEDIAN: &str = "median";

/// A case over the records that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The case.
    pub case: CaseId,
    /// Which figure: [`TO_HUB`] where all of its records have that, with the same hub; else [`MEDIAN`].
    pub figure: &'static str,
    /// Unit of the values: that of the case, or `times HUB`.
    pub unit: String,
    /// Is a larger value better?
    pub higher_is_better: bool,
    /// One for each record that has the case, in the order of the records.
    pub points: Vec<Point>,
    /// Where the level changes, in that order.
    pub changes: Vec<Change>,
}

/// The figure of one record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Index into the records that the series were made of.
    pub record: usize,
    /// The value.
    pub value: f64,
    /// Its interval at 95 %, where the record has one.
    pub ci95: Option<[f64; 2]>,
}

/// A change of level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Index into the points: the first of the new level.
    pub at: usize,
    /// Median of the points before, since the last change.
    pub before: f64,
    /// Median of the points after, until the next change.
    pub after: f64,
    /// New level over old one.
    pub ratio: f64,
    /// Its interval at 95 %; absent for fewer than four points on a side.
    pub ci95: Option<[f64; 2]>,
    /// The probability of so good a split where nothing changes.
    pub p: f64,
}

/// What a record says of a case.
#[derive(Clone, Copy)]
struct Said<'a> {
    record: usize,
    summary: &'a Summary,
    higher_is_better: bool,
}

/// A series for each case and unit of the records, whose lines come in the order of the history. Figures that are not
/// positive are left out.
pub fn series(records: &[&[Line]]) -> Vec<Series> {
    let mut all: BTreeMap<(&CaseId, &str), Vec<Said<'_>>> = BTreeMap::new();
    for (record, lines) in records.iter().enumerate() {
        let directions: BTreeMap<&CaseId, bool> = lines
            .iter()
            .filter_map(|line| match line {
                Line::Case(case) => Some((&case.case, case.higher_is_better)),
                _ => None,
            })
            .collect();
        for line in *lines {
            let Line::Summary(summary) = line else { continue };
            if !(summary.median > 0.0 && summary.median.is_finite()) {
                continue;
            }
            let higher_is_better =
                directions.get(&summary.case).copied().unwrap_or_else(|| summary.unit.ends_with("/s"));
            let said = Said { record, summary, higher_is_better };
            let of_case = all.entry((&summary.case, &summary.unit)).or_default();
            // A record has one summary of a case.
            if of_case.last().is_none_or(|last| last.record != record) {
                of_case.push(said);
            }
        }
    }
    all.into_iter().map(|((case, unit), said)| of_case(case, unit, &said)).collect()
}

fn of_case(case: &CaseId, unit: &str, said: &[Said<'_>]) -> Series {
    let hub = common_hub(said);
    let point = |said: &Said<'_>| {
        let (value, ci95) = match (&said.summary.to_hub, hub) {
            (Some(to_hub), Some(_)) => (to_hub.median, to_hub.ci95),
            _ => (said.summary.median, said.summary.ci95),
        };
        Point { record: said.record, value, ci95 }
    };
    let points: Vec<Point> = said.iter().map(point).collect();
    Series {
        case: case.clone(),
        figure: if hub.is_some() { TO_HUB } else { MEDIAN },
        unit: hub.map_or_else(|| unit.to_owned(), |hub| format!("times {hub}")),
        // A multiple of the hub's is a cost.
        higher_is_better: hub.is_none() && said.iter().all(|said| said.higher_is_better),
        changes: changes(&points),
        points,
    }
}

/// The hub that every record has for the case.
fn common_hub<'a>(said: &[Said<'a>]) -> Option<&'a CaseId> {
    let of = |said: &Said<'a>| {
        let to_hub = said.summary.to_hub.as_ref()?;
        (to_hub.median > 0.0 && to_hub.median.is_finite()).then_some(&to_hub.hub)
    };
    let first = of(said.first()?)?;
    said.iter().all(|said| of(said) == Some(first)).then_some(first)
}

fn changes(points: &[Point]) -> Vec<Change> {
    let known = |point: &Point| {
        let interval = point.ci95.filter(|[low, high]| *low > 0.0 && low <= high && high.is_finite());
        let interval = interval.map(|[low, high]| Interval { low, high, confidence: 0.95 });
        Known { value: point.value, interval }
    };
    let change = |found: weighbridge_stats::history::ChangePoint| Change {
        at: found.at,
        before: found.levels[0],
        after: found.levels[1],
        ratio: found.ratio,
        ci95: found.interval.map(|interval| [interval.low, interval.high]),
        p: found.p,
    };
    change_points(&points.iter().map(known).collect::<Vec<_>>()).into_iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoppedBy, ToHub};

    fn summary(value: f64, to_hub: Option<f64>) -> Line {
        let case = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let hub = CaseId::new("roundtrip", "pipe", 64, "same-cpu");
        Line::Summary(Summary {
            ci95: Some([value * 0.995, value * 1.005]),
            to_hub: to_hub.map(|median| ToHub { hub, median, ci95: None, sets: 6 }),
            stopped_by: StoppedBy::Precision,
            ..Summary::new(case, "ns/roundtrip", 6, value)
        })
    }

    fn of(values: impl Iterator<Item = (f64, Option<f64>)>) -> Series {
        let records: Vec<Vec<Line>> = values.map(|(value, to_hub)| vec![summary(value, to_hub)]).collect();
        let records: Vec<&[Line]> = records.iter().map(Vec::as_slice).collect();
        let mut all = series(&records);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// Between −0.5 and 0.5 %.
    fn scatter(index: usize) -> f64 {
        1.0 + 0.001 * ((index * 7 % 11) as f64 - 5.0)
    }

    #[test]
    fn a_step_of_a_tenth_at_record_12_of_20_is_found_there_and_none_in_constant_noise() {
        let level = |index: usize| if index < 12 { 100.0 } else { 110.0 };
        let found = of((0..20).map(|index| (level(index) * scatter(index), None)));
        assert_eq!((found.figure, found.changes.len(), found.changes[0].at), (MEDIAN, 1, 12));
        let change = &found.changes[0];
        assert!((change.ratio - 1.1).abs() < 0.01 && change.ci95.is_some() && change.p < 0.05, "{change:?}");
        assert!((change.before - 100.0).abs() < 1.0 && (change.after - 110.0).abs() < 1.0, "{change:?}");
        assert_eq!(of((0..20).map(|index| (100.0 * scatter(index), None))).changes, []);
    }

    #[test]
    fn the_multiple_of_the_hub_is_taken_only_where_every_record_has_it() {
        let drifting = |index: usize| (100.0 * (1.0 + index as f64 * 0.1), Some(2.0 * scatter(index)));
        let found = of((0..12).map(drifting));
        assert_eq!((found.figure, found.changes.len()), (TO_HUB, 0), "the machine drifts, the case does not");
        assert_eq!(found.unit, "times roundtrip/pipe/64/same-cpu");
        let found = of((0..12).map(|index| (drifting(index).0, drifting(index).1.filter(|_| index > 0))));
        assert_eq!((found.figure, found.unit.as_str()), (MEDIAN, "ns/roundtrip"));
    }
}
