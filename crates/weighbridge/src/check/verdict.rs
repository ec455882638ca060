//! Does a ratio lie where it is expected?

use weighbridge_stats::stopping::LOOKS;
use weighbridge_stats::{Interval, Ratio, compare, paired_ratio};

/// The fewest turns that give an interval.
pub const FEWEST_TURNS: usize = LOOKS[0];

/// What may be said of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies in the band.
    Inside,
    /// The whole interval lies outside the band.
    Outside,
    /// The interval reaches over an end of the band, or there is none.
    Inconclusive,
}

impl Verdict {
    /// The word for the verdict in tables and records.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Inside => "inside",
            Verdict::Outside => "outside",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// The ratio ours over theirs of `pairs` of (theirs, ours), and what may be said of it. `None` without a pair.
pub fn judge(pairs: &[(f64, f64)], band: [f64; 2]) -> Option<(Ratio, Verdict)> {
    let ratio = (!pairs.is_empty()).then(|| paired_ratio(pairs, compare::CONFIDENCE))?;
    let verdict = ratio.interval.map_or(Verdict::Inconclusive, |interval| verdict(interval, band));
    Some((ratio, verdict))
}

fn verdict(interval: Interval, [low, high]: [f64; 2]) -> Verdict {
    if interval.low >= low && interval.high <= high {
        Verdict::Inside
    } else if interval.high < low || interval.low > high {
        Verdict::Outside
    } else {
        Verdict::Inconclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ratios: &[f64]) -> Option<Verdict> {
        let pairs: Vec<(f64, f64)> = ratios.iter().map(|ratio| (10.0, 10.0 * ratio)).collect();
        judge(&pairs, [0.85, 1.15]).map(|(_, verdict)| verdict)
    }

    #[test]
    fn the_whole_interval_decides() {
        assert_eq!(of(&[0.95, 0.97, 0.99, 1.0, 1.02, 1.1]), Some(Verdict::Inside));
        assert_eq!(of(&[1.2, 1.3, 1.25, 1.4, 1.22, 1.5]), Some(Verdict::Outside));
        assert_eq!(of(&[0.95, 0.97, 0.99, 1.0, 1.02, 1.2]), Some(Verdict::Inconclusive));
        assert_eq!(of(&[0.5, 0.9, 1.0, 1.0, 1.1, 2.0]), Some(Verdict::Inconclusive), "wider than the band");
    }

    #[test]
    fn too_few_turns_decide_nothing() {
        assert_eq!(of(&[1.0; 5]), Some(Verdict::Inconclusive));
        assert_eq!(of(&[]), None);
    }
}
