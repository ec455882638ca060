//! What is said of orders in real records: never less than their tables show, and never more than their sets hold.

use std::collections::BTreeMap;
use std::path::Path;

use weighbridge_record::derive::{Entry, contests, log_ratio_to_hub};
use weighbridge_record::{CaseId, Contest, Findings, Hub, Line, Run, Summary, read_file};
use weighbridge_stats::Evidence;
use weighbridge_stats::contest::FEWEST_SETS;
use weighbridge_stats::correlation::pooled_lag1;

/// Trimmed to what a comparison is made of: slices and values of the runs, hubs with their meetings, what a table shows.
const RECORDS: [&str; 4] = ["one-cpu", "two-cpus", "two-cpus-4096", "beside-a-load"];

#[derive(Default)]
struct Record {
    runs: BTreeMap<CaseId, Vec<Run>>,
    summaries: BTreeMap<CaseId, Summary>,
    hubs: Vec<Hub>,
}

impl Record {
    fn read(name: &str) -> Record {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/contests");
        let reading = read_file(&folder.join(name).with_extension("jsonl")).unwrap();
        assert_eq!(reading.problems, [], "{name}");
        let mut record = Record::default();
        for line in reading.lines {
            match line {
                Line::Run(run) => record.runs.entry(run.case.clone()).or_default().push(run),
                Line::Summary(of) => drop(record.summaries.insert(of.case.clone(), of)),
                Line::Hub(hub) => record.hubs.push(hub),
                _ => {}
            }
        }
        record
    }

    fn found(&self) -> (Vec<Contest>, Findings) {
        let entries: Vec<Entry<'_>> = self
            .runs
            .iter()
            .map(|(case, runs)| Entry {
                case,
                unit: "ns/roundtrip",
                higher_is_better: false,
                alternative_to: None,
                runs,
            })
            .collect();
        let (contests, findings) = contests(&entries, &self.hubs);
        (contests, findings.unwrap())
    }

    /// The logarithms of what the sets of a case cost: as multiples of the hub's, or as they are.
    fn logs(&self, case: &CaseId, is_to_hub: bool) -> Vec<f64> {
        let of = |run: &Run| {
            if is_to_hub { log_ratio_to_hub(run.slices.as_ref()?) } else { Some(run.value.ln()) }
        };
        self.runs[case].iter().filter_map(of).collect()
    }

    /// Correlation of neighboring sets of all cases.
    fn correlation(&self, is_to_hub: bool) -> f64 {
        let all: Vec<Vec<f64>> = self.runs.keys().map(|case| self.logs(case, is_to_hub)).collect();
        pooled_lag1(&all).unwrap_or(0.0)
    }

    fn hub(&self, case: &CaseId) -> &CaseId {
        &self.summaries[case].to_hub.as_ref().unwrap().hub
    }
}

/// The interval of a case alone.
fn interval(logs: Vec<f64>, correlation: f64, confidence: f64) -> Option<[f64; 2]> {
    let units = logs.len();
    let found = Evidence::paired(logs).correlated(correlation).log_interval(confidence)?;
    (units >= FEWEST_SETS).then_some([found.low, found.high])
}

/// A gap between two intervals that a reader sees.
const VISIBLE: f64 = 1.1;

/// Is the one surely ahead of the other, by what the line says?
fn is_sure(contest: &Contest, ahead: &CaseId, behind: &CaseId) -> bool {
    contest.sure.iter().any(|order| order.ahead.contains(ahead) && order.behind.contains(behind))
}

/// A table whose intervals have nothing in common must not stand beside "no order is sure": neither where each interval has the confidence
/// that its contest has for each pair, nor, once the gap is one that is seen, where those of all cases hold together at 95 %.
#[test]
fn where_simultaneous_intervals_do_not_touch_the_order_is_sure() {
    let mut pairs = 0;
    for name in RECORDS {
        let record = Record::read(name);
        let (contests, _) = record.found();
        let count = record.runs.len();
        for contest in &contests {
            let ids: Vec<&CaseId> = contest.contestants.iter().map(|one| &one.case).collect();
            for (ahead, behind) in ids.iter().flat_map(|a| ids.iter().map(move |b| (*a, *b))) {
                // Multiples of one hub compare; of two hubs, what the table shows beside them does.
                let is_to_hub = record.hub(ahead) == record.hub(behind);
                let gap = |confidence: f64| {
                    let logs = |case| record.logs(case, is_to_hub);
                    let of = |case| interval(logs(case), record.correlation(is_to_hub), confidence);
                    let ([_, high], [low, _]) = of(ahead).zip(of(behind))?;
                    Some((low - high).exp())
                };
                let comparisons = ids.len() * (ids.len() - 1);
                let of_pair = gap(1.0 - (1.0 - contest.confidence) / comparisons as f64);
                let of_all = gap(1.0 - 0.05 / count as f64);
                let Some(times) =
                    of_pair.filter(|times| *times > 1.0).or(of_all.filter(|times| *times > VISIBLE))
                else {
                    continue;
                };
                pairs += 1;
                assert!(
                    is_sure(contest, ahead, behind),
                    "{name}: {ahead}, {behind}: apart by {times}, not sure"
                );
                let place = |case: &CaseId| contest.contestants.iter().find(|one| one.case == *case).unwrap();
                assert!(!place(behind).may_be_best, "{name}: {behind} may not be the best beside {ahead}");
            }
        }
    }
    assert!(pairs > 40, "{pairs} pairs");
}

/// What is called sure has six sets on each side, an interval in its own line that says so, and is what the sets say without any
/// correction for the number of comparisons.
#[test]
fn what_is_called_sure_is_in_the_record() {
    let mut orders = 0;
    for name in RECORDS {
        let record = Record::read(name);
        let (contests, findings) = record.found();
        assert_eq!(findings.claimed as usize, contests.iter().filter(|one| !one.sure.is_empty()).count());
        for contest in &contests {
            let pairs = contest.sure.iter().flat_map(|order| {
                order
                    .ahead
                    .iter()
                    .flat_map(move |ahead| order.behind.iter().map(move |behind| (ahead, behind)))
            });
            for (ahead, behind) in pairs {
                orders += 1;
                assert!(!is_sure(contest, behind, ahead), "{name}: {ahead} and {behind} both ways");
                let is_to_hub = record.hub(ahead) == record.hub(behind);
                let [one, other] = [ahead, behind].map(|case| record.logs(case, is_to_hub));
                assert!(one.len() >= FEWEST_SETS && other.len() >= FEWEST_SETS, "{name}: {ahead}, {behind}");
                let plain = Evidence::independent(&other, &one).log_interval(0.95).unwrap();
                // What is chained through hubs is surer than the values, in which the machine is.
                assert!(!is_to_hub || plain.low > 0.0, "{name}: {ahead}, {behind}: {plain:?}");
                let median = |case| record.summaries[case].median;
                assert!(
                    median(ahead) < median(behind),
                    "{name}: the table has {ahead} and {behind} the other way"
                );
            }
            let first = &contest.contestants[0].case;
            for one in &contest.contestants[1..] {
                let [low, _] = one.interval.unwrap_or([0.0; 2]);
                assert_eq!(is_sure(contest, first, &one.case), low > 1.0, "{name}: {first}, {one:?}");
            }
        }
    }
    assert!(orders > 40, "{orders} orders");
}

/// A ring whose ends spin has another hub than what sleeps, and costs a hundredth.
#[test]
fn a_factor_of_a_hundred_between_cases_of_two_hubs_is_sure() {
    let record = Record::read("two-cpus");
    let (contests, _) = record.found();
    let ring = record.runs.keys().find(|case| case.mechanism == "causeway-sw").unwrap();
    for other in record.runs.keys().filter(|case| *case != ring) {
        assert_ne!(record.hub(ring), record.hub(other));
        assert!(is_sure(&contests[0], ring, other), "{ring}, {other}");
    }
    let tcp = contests[0].contestants.iter().find(|one| one.case.mechanism == "tcp").unwrap();
    assert!(tcp.tier > 0 && tcp.interval.unwrap()[0] > 50.0, "{tcp:?}");
    // The same sets with hubs that met in too few of them: all runs of both say it.
    let mut apart = record;
    apart.hubs.iter_mut().flat_map(|hub| &mut hub.meetings).for_each(|of| of.ratios.truncate(3));
    let (contests, _) = apart.found();
    let ring = apart.runs.keys().find(|case| case.mechanism == "causeway-sw").unwrap();
    assert!(apart.runs.keys().filter(|case| *case != ring).all(|other| is_sure(&contests[0], ring, other)));
}
