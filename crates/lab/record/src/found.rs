//! What `weighbridge-stats` finds, in the record's words.
//!
//! It is here because who writes a summary and who makes up for one that is missing both need it, and neither knows the
//! other.

use weighbridge_stats::summary::CaseRegime;
use weighbridge_stats::{CasePercentile, RegimeKind as Found, case_percentiles};

use crate::{Distribution, Latencies, Percentile, Regime, RegimeKind};

impl Distribution {
    /// How what the runs of a case timed is distributed; nothing where no run timed single operations.
    pub fn of(timed: &[&Latencies]) -> Option<Distribution> {
        let max_ns = timed.iter().map(|latencies| latencies.max_ns).max()?;
        let counts: Vec<Vec<(f64, u64)>> = timed
            .iter()
            .map(|latencies| latencies.counts.iter().map(|&(ns, count)| (ns as f64, count)).collect())
            .collect();
        Some(Distribution {
            percentiles: case_percentiles(&counts).into_iter().map(Percentile::from).collect(),
            observations: counts.iter().flatten().map(|(_, count)| count).sum(),
            max_ns,
        })
    }
}

impl From<CasePercentile> for Percentile {
    fn from(found: CasePercentile) -> Percentile {
        Percentile {
            p: found.p,
            ns: found.value,
            ci95: found.interval.map(|interval| [interval.low, interval.high]),
            pooled: found.is_pooled,
        }
    }
}

impl From<CaseRegime> for Regime {
    fn from(found: CaseRegime) -> Regime {
        Regime {
            regime: match found.kind {
                Found::TwoModes => RegimeKind::TwoModes,
                Found::Step => RegimeKind::Step,
                Found::Slope => RegimeKind::Slope,
                Found::Correlated => RegimeKind::Correlated,
            },
            within: found.within.as_str().into(),
            runs: found.runs as u32,
            detail: found.detail,
            levels: found.levels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_all_runs_are_counted_and_the_longest_is_the_longest_of_all() {
        let run = |ns: u64, max_ns: u64| Latencies { counts: vec![(ns, 400)], max_ns, clock_read_ns: 20.0 };
        let runs = [run(100, 900), run(120, 700), run(110, 800)];
        let found = Distribution::of(&runs.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((found.observations, found.max_ns), (1200, 900));
        let middle = found.percentiles.iter().find(|percentile| percentile.p == 0.5).unwrap();
        assert_eq!((middle.ns, middle.pooled), (110.0, false), "the median over the runs");
        assert_eq!(Distribution::of(&[]), None);
    }
}
