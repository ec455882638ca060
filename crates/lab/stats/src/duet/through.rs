//! Two cases with different hubs, compared through sets in which the hubs met.

use super::ToHub;
use crate::evidence::Evidence;
use crate::interval::Interval;

/// The cost of one case over that of another, through their hubs.
#[derive(Clone, Debug, PartialEq)]
pub struct Through {
    /// Candidate over baseline.
    pub ratio: f64,
    /// Its interval at 95 %; `None` where a part of the way has none, because it has fewer than six sets.
    pub interval: Option<Interval>,
    /// Sets of the part that has fewest.
    pub units: usize,
}

/// The cost of `candidate` over that of `baseline`: the candidate to its hub, that hub over `meetings` to the hub of the baseline, and the
/// inverse of the baseline to its hub. Each of `meetings` holds the logarithms of the cost of the hub nearer to the candidate over
/// that of the next one, one for each set in which the two met.
///
/// The parts are independent, and their intervals are put together by recovered variances: the lower end of a sum lies
/// √(Σ (θᵢ − lᵢ)²) below it, the upper one √(Σ (uᵢ − θᵢ)²) above it, with the ends of a subtracted part exchanged (Howe 1974; Zou and Donner
/// 2008). `None` where a meeting has no set.
pub fn through(candidate: &ToHub, meetings: &[Vec<f64>], baseline: &ToHub) -> Option<Through> {
    let of_case = Evidence::Paired(candidate.log_ratios.clone());
    let of_baseline = Evidence::Paired(baseline.log_ratios.clone()).reversed();
    let of_hubs = meetings.iter().map(|log_ratios| Evidence::Paired(log_ratios.clone()));
    let parts: Vec<Evidence> = [of_case, of_baseline].into_iter().chain(of_hubs).collect();
    let logs = parts.iter().map(Evidence::log_ratio).collect::<Option<Vec<f64>>>()?;
    let sum: f64 = logs.iter().sum();
    let intervals: Option<Vec<Interval>> = parts.iter().map(|part| part.log_interval(0.95)).collect();
    let arm = |end: &dyn Fn(&Interval, f64) -> f64, intervals: &[Interval]| {
        intervals.iter().zip(&logs).map(|(interval, log)| end(interval, *log).powi(2)).sum::<f64>().sqrt()
    };
    let interval = intervals.map(|intervals| Interval {
        low: (sum - arm(&|interval, log| log - interval.low, &intervals)).exp(),
        high: (sum + arm(&|interval, log| interval.high - log, &intervals)).exp(),
        confidence: 0.95,
    });
    Some(Through { ratio: sum.exp(), interval, units: parts.iter().map(Evidence::units).min().unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_hub(ratio: f64, scatter: f64, sets: usize) -> ToHub {
        let log = |set: usize| ratio.ln() + scatter * ((set * 7 % sets) as f64 / (sets - 1) as f64 - 0.5);
        ToHub { ratio, interval: None, log_ratios: (0..sets).map(log).collect() }
    }

    #[test]
    fn the_ratio_goes_from_case_to_hub_to_hub_to_case() {
        // The case costs 3 of a hub that costs half of the other hub, of which the baseline costs 2.
        let meeting = to_hub(0.5, 0.0, 8).log_ratios;
        let found = through(&to_hub(3.0, 0.0, 8), &[meeting], &to_hub(2.0, 0.0, 9)).unwrap();
        assert!((found.ratio - 0.75).abs() < 1e-9 && found.units == 8, "{found:?}");
        let two = [to_hub(0.5, 0.0, 8).log_ratios, to_hub(4.0, 0.0, 8).log_ratios];
        let found = through(&to_hub(3.0, 0.0, 8), &two, &to_hub(2.0, 0.0, 9)).unwrap();
        assert!((found.ratio - 3.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn every_part_makes_the_interval_wider_and_one_without_an_interval_has_none() {
        let width = |of_case, of_meeting, of_baseline| {
            let meeting = to_hub(0.5, of_meeting, 12).log_ratios;
            let found = through(&to_hub(3.0, of_case, 12), &[meeting], &to_hub(2.0, of_baseline, 12));
            let interval = found.unwrap().interval.unwrap();
            (interval.high / interval.low).ln()
        };
        let one = width(0.1, 0.0, 0.0);
        assert!((width(0.0, 0.1, 0.0) - one).abs() < 1e-9 && (width(0.0, 0.0, 0.1) - one).abs() < 1e-9);
        assert!((width(0.1, 0.1, 0.1) - one * 3_f64.sqrt()).abs() < 1e-9);
        let few = through(&to_hub(3.0, 0.1, 12), &[vec![0.1; 5]], &to_hub(2.0, 0.1, 12)).unwrap();
        assert_eq!((few.interval, few.units), (None, 5));
        assert_eq!(through(&to_hub(3.0, 0.1, 12), &[vec![]], &to_hub(2.0, 0.1, 12)), None);
    }
}
