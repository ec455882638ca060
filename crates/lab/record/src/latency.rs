//! What single operations took, in cases that time each of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weighbridge_stats::{CasePercentile, case_percentiles};

/// What single operations of a run took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Nanoseconds, ascending, with the number of operations that took so long, to within 1 %.
    pub counts: Vec<(u64, u64)>,
    /// The longest, in nanoseconds, to the nanosecond.
    pub max_ns: u64,
    /// What one reading of the clock costs; one is in each figure.
    pub clock_read_ns: f64,
}

impl Latencies {
    /// What several roles have seen of a run, as one lot; nothing where none has seen any.
    pub fn together<'a>(of_roles: impl IntoIterator<Item = &'a Latencies>) -> Option<Latencies> {
        let of_roles: Vec<&Latencies> = of_roles.into_iter().collect();
        let mut counts = BTreeMap::new();
        for (ns, count) in of_roles.iter().flat_map(|latencies| &latencies.counts) {
            *counts.entry(*ns).or_insert(0) += count;
        }
        Some(Latencies {
            counts: counts.into_iter().collect(),
            max_ns: of_roles.iter().map(|latencies| latencies.max_ns).max()?,
            clock_read_ns: of_roles.iter().map(|latencies| latencies.clock_read_ns).fold(0.0, f64::max),
        })
    }
}

/// A percentile of what single operations of a case took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// 0.99 for the 99th.
    pub p: f64,
    /// Nanoseconds: the median over the runs, or of all observations where single runs have too few.
    pub ns: f64,
    /// At least 95 %: over the runs, or binomial over all observations.
    pub ci95: Option<[f64; 2]>,
    /// Are all observations taken as one lot?
    pub pooled: bool,
}

/// How single operations of a case are distributed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Those for which there are at least ten observations beyond.
    pub percentiles: Vec<Percentile>,
    /// Operations timed, in all runs.
    pub observations: u64,
    /// The longest of all, in nanoseconds.
    pub max_ns: u64,
}

impl Distribution {
    /// How what the runs of a case timed is distributed; nothing where no run timed single operations. `correlation` is that of neighboring
    /// runs, where a session knows it.
    pub fn of(timed: &[&Latencies], correlation: Option<f64>) -> Option<Distribution> {
        let max_ns = timed.iter().map(|latencies| latencies.max_ns).max()?;
        let counts: Vec<Vec<(f64, u64)>> = timed
            .iter()
            .map(|latencies| latencies.counts.iter().map(|&(ns, count)| (ns as f64, count)).collect())
            .collect();
        Some(Distribution {
            percentiles: case_percentiles(&counts, correlation).into_iter().map(Percentile::from).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_roles_have_seen_is_one_lot_in_ascending_order() {
        let of = |counts: &[(u64, u64)], max_ns| Latencies {
            counts: counts.to_vec(),
            max_ns,
            clock_read_ns: 20.0,
        };
        let roles = [of(&[(100, 2), (300, 1)], 301), of(&[(100, 5), (200, 4)], 203)];
        let found = Latencies::together(&roles).unwrap();
        assert_eq!((found.counts, found.max_ns), (vec![(100, 7), (200, 4), (300, 1)], 301));
        assert_eq!(Latencies::together([]), None);
    }

    #[test]
    fn the_operations_of_all_runs_are_counted_and_the_longest_is_the_longest_of_all() {
        let run = |ns: u64, max_ns: u64| Latencies { counts: vec![(ns, 400)], max_ns, clock_read_ns: 20.0 };
        let runs = [run(100, 900), run(120, 700), run(110, 800)];
        let found = Distribution::of(&runs.iter().collect::<Vec<_>>(), Some(0.0)).unwrap();
        assert_eq!((found.observations, found.max_ns), (1200, 900));
        let middle = found.percentiles.iter().find(|percentile| percentile.p == 0.5).unwrap();
        assert_eq!((middle.ns, middle.pooled), (110.0, false), "the median over the runs");
        assert_eq!(Distribution::of(&[], None), None);
    }
}
