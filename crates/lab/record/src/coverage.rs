//! The ledger of promises: what the intervals of a session foretold, and what the next session of the same case on the same machine
//! found. All statistics are `weighbridge-stats`'.

use std::collections::BTreeMap;

use serde::Serialize;
use weighbridge_stats::sessions::Figure;

use crate::earlier::{across_sessions, is_beside_a_load, machine, runs_of};
use crate::{CaseId, Earlier, Hub, Line, Summary};

/// Confidence of every interval of a record.
const PROMISED: f64 = 0.95;
/// So many cases of which most was not kept are named.
const WORST: usize = 10;
/// So many sessions before a session say what the machine does between sessions.
const MOST_EARLIER: usize = 20;

/// Which of the figures of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// The cost as a multiple of the hub's, with its interval.
    Ratio,
    /// The absolute figure with where it is expected in another session, by the sessions before; promised where five are known.
    Absolute,
    /// The absolute figure with its interval within one session, which promises nothing of another: how far off it would be.
    AbsoluteWithinSession,
}

/// Were the two sessions of a pair beside a load?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Neither was.
    Idle,
    /// Both were.
    Loaded,
    /// One was, and one was not: under other conditions nothing is promised.
    Changed,
}

/// What pairs of consecutive sessions came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Pairs.
    pub pairs: u32,
    /// Of these, the two figures differ by more than their arms together.
    pub beyond_arms: u32,
    /// The two intervals have nothing in common.
    pub apart: u32,
    /// Of a promise of another session ([`Promise::Absolute`]): its figure lies outside.
    pub outside: u32,
}

impl Count {
    fn add(&mut self, met: &Met) {
        self.pairs += 1;
        self.beyond_arms += u32::from(met.is_beyond);
        self.apart += u32::from(met.is_apart);
        self.outside += u32::from(met.is_outside);
    }

    /// Pairs that did not find what was foretold: of an interval the next figure outside, of two figures that claim to be the same more
    /// than their arms between them.
    pub fn missed(&self, promise: Promise) -> u32 {
        if promise == Promise::Absolute { self.outside } else { self.beyond_arms }
    }

    /// The share of the pairs that kept the promise; `None` without pairs.
    pub fn achieved(&self, promise: Promise) -> Option<f64> {
        (self.pairs > 0).then(|| 1.0 - f64::from(self.missed(promise)) / f64::from(self.pairs))
    }
}

/// A promise under one sort of conditions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which figure.
    pub promise: Promise,
    /// Placement of the cases; absent for all of them.
    pub placement: Option<String>,
    /// Beside a load or not; absent for pairs of both sorts, without those between which it changed.
    pub load: Option<Load>,
    /// The share that was promised; absent where nothing was.
    pub promised: Option<f64>,
    /// The share that was kept.
    pub achieved: f64,
    /// What it was counted from.
    #[serde(flatten)]
    pub count: Count,
}

/// A case with pairs that did not keep a promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// The case.
    pub case: CaseId,
    /// Which of its figures.
    pub promise: Promise,
    /// Pairs that did not keep it.
    pub missed: u32,
    /// Pairs.
    pub pairs: u32,
    /// The largest factor between two consecutive figures, above 1.
    pub largest_factor: f64,
}

/// All that the records say of promises.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Coverage {
    /// Records with a figure.
    pub records: u32,
    /// Of these, beside a load.
    pub loaded: u32,
    /// Machines.
    pub machines: Vec<String>,
    /// For each promise first all pairs, then by load and placement.
    pub rows: Vec<Row>,
    /// Cases with the largest share of promises not kept, under unchanged conditions.
    pub worst: Vec<Worst>,
}

/// What a session says of a case.
#[derive(Clone, Copy)]
struct Said {
    ratio: Option<Figure>,
    absolute: Option<Figure>,
    within: Option<Figure>,
}

/// What became of a promise in the next session.
struct Met {
    is_beyond: bool,
    is_apart: bool,
    is_outside: bool,
    factor: f64,
}

impl Met {
    fn of(before: &Figure, after: &Figure) -> Met {
        let quotient = after.value / before.value;
        Met {
            is_beyond: before.differs_from(after),
            is_apart: before.is_apart_from(after),
            is_outside: !before.contains(after.value),
            factor: quotient.max(1.0 / quotient),
        }
    }
}

/// The ledger of records, which come in the order of time. A pair is two consecutive sessions that have the case, of one machine; sessions
/// beside a load make pairs among themselves, and those between which that changed stand apart.
pub fn coverage(records: &[&[Line]]) -> Coverage {
    let mut ledger = Ledger::default();
    let mut machines: BTreeMap<String, Vec<&[Line]>> = BTreeMap::new();
    for lines in records {
        let header = lines.iter().find_map(|line| if let Line::Header(of) = line { Some(of) } else { None });
        machines.entry(header.map_or(String::new(), |header| machine(header))).or_default().push(lines);
    }
    for records in machines.values() {
        let mut last: BTreeMap<(&CaseId, bool), (usize, Said)> = BTreeMap::new();
        for (index, lines) in records.iter().enumerate() {
            let is_loaded = is_beside_a_load(runs_of(lines));
            let mut earlier = Earlier::none();
            records[index.saturating_sub(MOST_EARLIER)..index].iter().for_each(|lines| earlier.add(lines));
            let all = said(lines, &earlier, is_loaded);
            ledger.records += u32::from(!all.is_empty());
            ledger.loaded += u32::from(!all.is_empty() && is_loaded);
            for (case, now) in all {
                let load = if is_loaded { Load::Loaded } else { Load::Idle };
                let before = last.insert((case, is_loaded), (index, now));
                if let Some((_, before)) = &before {
                    ledger.add(case, load, before, &now);
                }
                // The other sort, where that was the last one.
                let other = last.get(&(case, !is_loaded));
                let is_last = |at: usize| before.as_ref().is_none_or(|(own, _)| *own < at);
                if let Some((_, before)) = other.filter(|(at, _)| is_last(*at)) {
                    ledger.add(case, Load::Changed, before, &now);
                }
            }
        }
    }
    ledger.finish(machines.into_keys().collect())
}

/// What a record says of each of its cases, once.
fn said<'a>(lines: &'a [Line], earlier: &Earlier, is_loaded: bool) -> BTreeMap<&'a CaseId, Said> {
    let hubs: BTreeMap<&CaseId, Hub> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Hub(hub) => {
                let known = hub.earlier.clone().or_else(|| earlier.of_hub(&hub.case, hub.median, is_loaded));
                Some((&hub.case, Hub { earlier: known, ..hub.clone() }))
            }
            _ => None,
        })
        .collect();
    let rates: Vec<&CaseId> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Case(case) if case.higher_is_better => Some(&case.case),
            _ => None,
        })
        .collect();
    let of = |summary: &Summary| {
        let figure = |value: f64, [low, high]: [f64; 2]| {
            let is_sound = low > 0.0 && low <= value && value <= high && high.is_finite();
            is_sound.then_some(Figure { value, low, high })
        };
        let ratio = summary.to_hub.as_ref().and_then(|of| figure(of.median, of.ci95?));
        let known = Summary {
            earlier: summary.earlier.clone().or_else(|| earlier.of_case(summary, is_loaded)),
            ..summary.clone()
        };
        let hub = summary.to_hub.as_ref().and_then(|of| hubs.get(&of.hub));
        let across = || across_sessions(&known, hub, rates.contains(&&summary.case));
        let absolute = summary.across_sessions.or_else(across).and_then(|ends| figure(summary.median, ends));
        Said { ratio, absolute, within: summary.ci95.and_then(|ends| figure(summary.median, ends)) }
    };
    let summaries = lines.iter().filter_map(|line| match line {
        Line::Summary(summary) if summary.median > 0.0 && summary.median.is_finite() => {
            Some((&summary.case, of(summary)))
        }
        _ => None,
    });
    summaries.collect()
}

#[derive(Default)]
struct Ledger {
    records: u32,
    loaded: u32,
    counts: BTreeMap<(Promise, Load, String), Count>,
    cases: BTreeMap<(CaseId, Promise), (Count, f64)>,
}

impl Ledger {
    fn add(&mut self, case: &CaseId, load: Load, before: &Said, after: &Said) {
        // The next session need not foretell anything itself for a promise to be kept.
        let next = after.absolute.or(after.within);
        let promises = [
            (Promise::Ratio, before.ratio.zip(after.ratio)),
            (Promise::Absolute, before.absolute.zip(next)),
            (Promise::AbsoluteWithinSession, before.within.zip(after.within)),
        ];
        for (promise, pair) in promises {
            let Some((before, after)) = pair else { continue };
            let met = Met::of(&before, &after);
            self.counts.entry((promise, load, case.placement.clone())).or_default().add(&met);
            if load != Load::Changed {
                let (count, largest) =
                    self.cases.entry((case.clone(), promise)).or_insert((Count::default(), 1.0));
                count.add(&met);
                *largest = largest.max(met.factor);
            }
        }
    }

    fn finish(self, machines: Vec<String>) -> Coverage {
        let mut rows = Vec::new();
        for promise in [Promise::Ratio, Promise::Absolute, Promise::AbsoluteWithinSession] {
            let mut row = |load: Option<Load>, placement: Option<&str>| {
                let is_counted = |of: &Load| load.map_or(*of != Load::Changed, |load| load == *of);
                let mut all = Count::default();
                for ((of, at, place), count) in &self.counts {
                    if *of == promise && is_counted(at) && placement.is_none_or(|known| known == place) {
                        all.pairs += count.pairs;
                        all.beyond_arms += count.beyond_arms;
                        all.apart += count.apart;
                        all.outside += count.outside;
                    }
                }
                let is_promised = promise != Promise::AbsoluteWithinSession && load != Some(Load::Changed);
                rows.extend(all.achieved(promise).map(|achieved| Row {
                    promise,
                    placement: placement.map(str::to_owned),
                    load,
                    promised: is_promised.then_some(PROMISED),
                    achieved,
                    count: all,
                }));
            };
            row(None, None);
            let mut places: Vec<&str> = self.counts.keys().map(|(.., place)| place.as_str()).collect();
            places.sort_unstable();
            places.dedup();
            for load in [Load::Idle, Load::Loaded, Load::Changed] {
                places.iter().for_each(|place| row(Some(load), Some(place)));
            }
        }
        Coverage { records: self.records, loaded: self.loaded, machines, rows, worst: worst(self.cases) }
    }
}

/// Those with the largest share of promises not kept, of those that were promised.
fn worst(cases: BTreeMap<(CaseId, Promise), (Count, f64)>) -> Vec<Worst> {
    let mut all: Vec<Worst> = cases
        .into_iter()
        .filter(|((_, promise), (count, _))| {
            *promise != Promise::AbsoluteWithinSession && count.missed(*promise) > 0
        })
        .map(|((case, promise), (count, largest_factor))| Worst {
            case,
            promise,
            missed: count.missed(promise),
            pairs: count.pairs,
            largest_factor,
        })
        .collect();
    let share = |of: &Worst| f64::from(of.missed) / f64::from(of.pairs);
    all.sort_by(|a, b| share(b).total_cmp(&share(a)).then(b.largest_factor.total_cmp(&a.largest_factor)));
    all.truncate(WORST);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Noise, Run, ToHub};

    fn id(mechanism: &str) -> CaseId {
        CaseId::new("roundtrip", mechanism, 1, "same-cpu")
    }

    /// A session in which a case costs this ratio of a hub that costs so much, beside a load or not.
    fn session(ratio: f64, hub: f64, is_loaded: bool) -> Vec<Line> {
        let pressure = if is_loaded { 0.9 } else { 0.2 };
        let noise = Noise { cpu_pressure: Some(pressure), ..Noise::default() };
        let arms = |value: f64| Some([value / 1.02, value * 1.02]);
        let to_hub = ToHub { hub: id("pipe"), median: ratio, ci95: arms(ratio), sets: 9 };
        let median = ratio * hub;
        let summary =
            Summary { ci95: arms(median), to_hub: Some(to_hub), ..Summary::new(id("tcp"), "ns", 9, median) };
        let hub = Hub {
            case: id("pipe"),
            unit: "ns".into(),
            median: hub,
            range: [0.9 * hub, 1.1 * hub],
            sets: 30,
            doubled_slices: None,
            meetings: Vec::new(),
            earlier: None,
        };
        vec![
            Line::Header(Box::default()),
            Line::Run(Run { case: id("tcp"), noise, ..Run::default() }),
            Line::Summary(summary),
            Line::Hub(hub),
        ]
    }

    fn of(sessions: &[(f64, f64, bool)]) -> Coverage {
        let records: Vec<Vec<Line>> =
            sessions.iter().map(|(ratio, hub, is_loaded)| session(*ratio, *hub, *is_loaded)).collect();
        coverage(&records.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    fn row(of: &Coverage, promise: Promise, load: Option<Load>) -> Option<&Row> {
        of.rows.iter().find(|row| row.promise == promise && row.load == load)
    }

    #[test]
    fn a_machine_that_moves_breaks_intervals_of_absolute_figures_within_a_session_and_no_others() {
        // The hub scatters by 20 %, the ratio by 1 %.
        let sessions: Vec<(f64, f64, bool)> = (0..12)
            .map(|of| (2.0 + 0.02 * f64::from(of % 2), 1000.0 * (1.0 + 0.1 * f64::from(of * 5 % 3)), false))
            .collect();
        let found = of(&sessions);
        let all = |promise| row(&found, promise, None).unwrap();
        let ratio = all(Promise::Ratio);
        assert_eq!((ratio.count.pairs, ratio.count.beyond_arms, ratio.promised), (11, 0, Some(0.95)));
        let within = all(Promise::AbsoluteWithinSession);
        assert_eq!((within.count.pairs, within.count.beyond_arms, within.promised), (11, 11, None));
        // The first four sessions foretell nothing.
        let absolute = all(Promise::Absolute);
        assert_eq!((absolute.count.pairs, absolute.count.outside, absolute.achieved), (7, 0, 1.0));
        assert_eq!((found.records, found.loaded, found.worst.len()), (12, 0, 0));
    }

    #[test]
    fn a_session_where_the_machine_has_never_been_lies_outside_of_what_was_foretold() {
        let mut sessions = vec![(2.0, 1000.0, false); 6];
        sessions.push((2.0, 1500.0, false));
        let found = of(&sessions);
        let absolute = row(&found, Promise::Absolute, None).unwrap();
        assert_eq!((absolute.count.pairs, absolute.count.outside), (2, 1));
        assert_eq!((found.worst.len(), found.worst[0].promise), (1, Promise::Absolute));
        assert!((found.worst[0].largest_factor - 1.5).abs() < 1e-9);
    }

    #[test]
    fn sessions_beside_a_load_are_compared_with_each_other_and_the_change_stands_apart() {
        let found = of(&[
            (2.0, 1000.0, false),
            (2.0, 1000.0, false),
            (9.0, 3000.0, true),
            (2.0, 1000.0, false),
            (9.0, 3000.0, true),
        ]);
        let pairs =
            |load| row(&found, Promise::Ratio, load).map(|row| (row.count.pairs, row.count.beyond_arms));
        assert_eq!(pairs(None), Some((3, 0)));
        assert_eq!((pairs(Some(Load::Idle)), pairs(Some(Load::Loaded))), (Some((2, 0)), Some((1, 0))));
        assert_eq!(pairs(Some(Load::Changed)), Some((3, 3)));
        let changed = row(&found, Promise::Ratio, Some(Load::Changed)).unwrap();
        assert_eq!((changed.promised, found.worst.len()), (None, 0));
    }

    #[test]
    fn sessions_of_two_machines_are_no_pair() {
        let mut one = session(2.0, 1000.0, false);
        let mut header = Header::default();
        header.machine.hostname = "other".into();
        one[0] = Line::Header(Box::new(header));
        let found = coverage(&[&one, &session(9.0, 1000.0, false)]);
        assert_eq!((found.rows.len(), found.machines.len()), (0, 2));
    }
}
