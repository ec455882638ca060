//! Earlier sessions of a machine: what its yardsticks came to in each, and where another session is expected.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weighbridge_stats::quantile;
use weighbridge_stats::sessions::{Figure, further};

use crate::{CaseId, Header, Hub, Line, Run, Summary};

/// Of a session with fewer sets the median is one of few, which says more of them than of the machine.
const FEWEST_SETS: u32 = 6;
/// Confidence of what is said of another session.
const CONFIDENCE: f64 = 0.95;
/// A share of the time.
const WAITED_MOSTLY: f64 = 0.55;

/// A yardstick in earlier sessions of the same machine: a hub, or a case that was measured alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierSessions {
    /// Its median in each of them, the oldest first, in the unit of the line.
    pub medians: Vec<f64>,
    /// Where it is expected in another session, by these and this one, at 95 %; absent with fewer than five sessions
    /// altogether.
    pub expected: Option<[f64; 2]>,
}

impl EarlierSessions {
    /// With the median of this session.
    fn with(medians: &[f64], now: f64) -> EarlierSessions {
        let all: Vec<f64> = medians.iter().copied().chain([now]).collect();
        let expected = further(&all, CONFIDENCE).map(|interval| [interval.low, interval.high]);
        EarlierSessions { medians: medians.to_vec(), expected }
    }
}

/// Medians in the order in which they were measured.
type Medians = Vec<f64>;

/// What earlier records of one machine say of its yardsticks: beside a load they are others.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    hubs: BTreeMap<(CaseId, bool), Medians>,
    /// Of cases that were measured alone, by their unit.
    alone: BTreeMap<(CaseId, String, bool), Medians>,
}

impl Earlier {
    /// Nothing is known.
    pub const fn none() -> Earlier {
        Earlier { hubs: BTreeMap::new(), alone: BTreeMap::new() }
    }

    /// Adds what a later record says.
    pub fn add(&mut self, record: &[Line]) {
        let is_usable = |median: f64| median > 0.0 && median.is_finite();
        let is_loaded = is_beside_a_load(runs_of(record));
        for line in record {
            match line {
                Line::Hub(hub) if hub.sets >= FEWEST_SETS && is_usable(hub.median) => {
                    self.hubs.entry((hub.case.clone(), is_loaded)).or_default().push(hub.median);
                }
                Line::Summary(of)
                    if of.to_hub.is_none() && of.runs >= FEWEST_SETS && is_usable(of.median) =>
                {
                    let key = (of.case.clone(), of.unit.clone(), is_loaded);
                    self.alone.entry(key).or_default().push(of.median);
                }
                _ => {}
            }
        }
    }

    /// Of a hub in a session that has this median, beside a load or not; nothing where no earlier session of that sort had it.
    pub fn of_hub(&self, hub: &CaseId, median: f64, is_loaded: bool) -> Option<EarlierSessions> {
        Some(EarlierSessions::with(self.hubs.get(&(hub.clone(), is_loaded))?, median))
    }

    /// Of a case that was measured alone, likewise.
    pub fn of_case(&self, of: &Summary, is_loaded: bool) -> Option<EarlierSessions> {
        let key = (of.case.clone(), of.unit.clone(), is_loaded);
        Some(EarlierSessions::with(self.alone.get(&key)?, of.median))
    }
}

/// The runs of a record.
pub fn runs_of(record: &[Line]) -> impl Iterator<Item = &Run> {
    record.iter().filter_map(|line| if let Line::Run(run) = line { Some(run) } else { None })
}

/// Did something else use the CPUs during a session? Some task of the machine waited for a CPU most of the time, in three of four
/// runs. Roles that share a CPU wait for it for up to half of the time themselves, and those of two CPUs for a sixth; beside a load it was six
/// tenths and more. Not where the kernel does not count it.
pub fn is_beside_a_load<'a>(runs: impl Iterator<Item = &'a Run>) -> bool {
    let pressures: Vec<f64> =
        runs.filter_map(|run| run.noise.cpu_pressure).filter(|of| of.is_finite()).collect();
    !pressures.is_empty() && quantile(&pressures, 0.25) > WAITED_MOSTLY
}

/// Host and CPU: a host with another CPU is another machine, and a clone of an image is one too. The host by its label, where it has one:
/// containers have a host name each.
pub fn machine(header: &Header) -> String {
    let machine = &header.machine;
    let label = header.identity.as_ref().filter(|identity| identity.machine_from == "label");
    let host = label.map_or(&machine.hostname, |identity| &identity.machine);
    format!("{host}, {}", machine.cpu_model)
}

/// The range in which the machine was during a session, at the figure of a case: what 90 % of the slices of its hub came to, or the
/// lowest and the highest run of a case that was measured alone.
pub fn session_range(summary: &Summary, hub: Option<&Hub>, higher_is_better: bool) -> Option<[f64; 2]> {
    if summary.to_hub.is_none() {
        return (summary.runs > 1).then_some(summary.range);
    }
    let hub = hub.filter(|hub| hub.median > 0.0)?;
    let factors = hub.range.map(|end| end / hub.median);
    Some(scaled(summary.median, factors, higher_is_better))
}

/// Where the figure of a case is expected in another session of the machine, at 95 %: its ratio to the hub with its interval times what
/// the hub is expected to cost there; of a case that was measured alone, by its own earlier sessions. `None` where too few are
/// known.
pub fn across_sessions(summary: &Summary, hub: Option<&Hub>, higher_is_better: bool) -> Option<[f64; 2]> {
    let Some(to_hub) = &summary.to_hub else { return summary.earlier.as_ref()?.expected };
    let hub = hub?;
    let ([low, high], [ratio_low, ratio_high]) = (hub.earlier.as_ref()?.expected?, to_hub.ci95?);
    let ratio = Figure { value: to_hub.median, low: ratio_low, high: ratio_high };
    let cost = ratio.times(Figure { value: hub.median, low, high });
    let factors = [cost.low, cost.high].map(|end| end / cost.value);
    Some(scaled(summary.median, factors, higher_is_better))
}

/// A figure at these factors of its cost.
fn scaled(value: f64, [low, high]: [f64; 2], is_rate: bool) -> [f64; 2] {
    if is_rate { [value / high, value / low] } else { [value * low, value * high] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Noise, ToHub};

    fn id(mechanism: &str) -> CaseId {
        CaseId::new("roundtrip", mechanism, 1, "same-cpu")
    }

    fn hub(median: f64, sets: u32) -> Hub {
        let unit = "ns/roundtrip".into();
        let range = [0.9 * median, 1.2 * median];
        Hub {
            case: id("pipe"),
            unit,
            median,
            range,
            sets,
            doubled_slices: None,
            meetings: vec![],
            earlier: None,
        }
    }

    fn beside(cpu_pressure: f64) -> Line {
        let noise = Noise { cpu_pressure: Some(cpu_pressure), ..Noise::default() };
        Line::Run(Run { noise, ..Run::default() })
    }

    fn summary(unit: &str, median: f64) -> Summary {
        let to_hub = ToHub { hub: id("pipe"), median: 2.0, ci95: Some([1.96, 2.04]), sets: 9 };
        Summary { to_hub: Some(to_hub), ..Summary::new(id("tcp"), unit, 9, median) }
    }

    #[test]
    fn the_range_of_a_session_is_that_of_its_hub_and_turned_round_for_rates() {
        let hub = hub(1000.0, 9);
        assert_eq!(
            session_range(&summary("ns/roundtrip", 2000.0), Some(&hub), false),
            Some([1800.0, 2400.0])
        );
        let [low, high] = session_range(&summary("bytes/s", 1200.0), Some(&hub), true).unwrap();
        assert!((low - 1000.0).abs() < 1e-9 && (high - 1200.0 / 0.9).abs() < 1e-9, "{low} {high}");
        let alone = Summary { to_hub: None, range: [3.0, 5.0], ..summary("ns/roundtrip", 4.0) };
        assert_eq!(session_range(&alone, None, false), Some([3.0, 5.0]));
    }

    #[test]
    fn another_session_is_expected_once_five_are_known_and_no_nearer_than_they_were_apart() {
        let mut earlier = Earlier::none();
        let mut expected = |median: f64, sets: u32| {
            let hub = Hub { earlier: earlier.of_hub(&id("pipe"), 1000.0, false), ..hub(1000.0, 9) };
            earlier.add(&[Line::Hub(self::hub(median, sets))]);
            // What it was beside a load is another story.
            earlier.add(&[beside(0.9), beside(0.8), Line::Hub(self::hub(5000.0, 9))]);
            across_sessions(&summary("ns/roundtrip", 2000.0), Some(&hub), false)
        };
        // A session of two sets does not count.
        for (median, sets) in [(1000.0, 9), (1300.0, 9), (9000.0, 2), (1010.0, 9), (990.0, 9)] {
            assert_eq!(expected(median, sets), None);
        }
        let [low, high] = expected(1000.0, 9).unwrap();
        assert!(high > 1.3 * 2040.0 && low < 1900.0, "{low} {high}");
    }

    #[test]
    fn a_session_is_beside_a_load_where_tasks_wait_for_a_cpu_in_most_of_its_runs() {
        let is_loaded = |pressures: &[f64]| {
            let lines: Vec<Line> = pressures.iter().map(|of| beside(*of)).collect();
            is_beside_a_load(runs_of(&lines))
        };
        assert!(!is_loaded(&[]) && !is_loaded(&[0.14, 0.2, 0.13, 0.9]) && !is_loaded(&[0.45, 0.5, 0.43]));
        assert!(is_loaded(&[0.6, 0.79, 0.8, 0.9, 0.9, 1.0]));
    }

    #[test]
    fn a_case_that_is_measured_alone_is_its_own_yardstick() {
        let of = |median: f64| Summary { to_hub: None, ..summary("ns/roundtrip", median) };
        let mut earlier = Earlier::none();
        [50.0, 52.0, 51.0, 60.0].iter().for_each(|median| earlier.add(&[Line::Summary(of(*median))]));
        let now = Summary { earlier: earlier.of_case(&of(50.0), false), ..of(50.0) };
        assert!(across_sessions(&now, None, false).unwrap()[1] >= 60.0);
        assert_eq!(earlier.of_case(&Summary { unit: "bytes/s".into(), ..of(50.0) }, false), None);
    }
}
