//! What a case did that its hub did not do in the same slices.

use super::{ALPHA, Regime, RegimeKind, chance, figure, gap_test};
use crate::correlation::{pooled_lag1, spacing};
use crate::evidence::Evidence;
use crate::order::{assert_finite, median};

/// Blocks of a set that are compared with one another are so far apart that their correlation is at most this.
const NEARLY_INDEPENDENT: f64 = 0.2;

/// Fewest blocks of a set that takes part.
const FEWEST_BLOCKS: usize = 9;

/// Fewest sets: eight signed ranks can reach a probability of 0.008.
const FEWEST_SETS: usize = 8;

/// A trend of its own within sets, or two modes of its own, of a case against its hub: `sets` are the log ratios of the blocks
/// of each set, in order of time ([`block_log_ratios`](crate::duet::block_log_ratios)). What is smaller than `threshold` on
/// logarithms is not reported; half of the half-width of the interval that is printed is a good one, because less does not
/// change what is read.
///
/// Neighbouring blocks may be correlated as they like; sets must be independent of each other. Nothing is said below eight sets.
/// * Trend ([`RegimeKind::Slope`]): each set gives one number, the median of its last third less that of its first. Where the case has no
///   trend of its own these are symmetric about 0, whatever the correlation within a set; the signed-rank test over the sets decides.
/// * Two modes ([`RegimeKind::TwoModes`], levels as ratios to the hub): [`gap_test`] on the sets' medians, and if they have one mode, on
///   blocks that are so far apart that their correlation is at most 0.2, by the correlation pooled over the sets.
///
/// # Panics
/// If a value is not finite or `threshold` is negative.
pub fn against_hub<S: AsRef<[f64]>>(sets: &[S], threshold: f64) -> Vec<Regime> {
    assert!(threshold >= 0.0, "a threshold of {threshold}");
    let sets: Vec<&[f64]> = sets.iter().map(AsRef::as_ref).filter(|set| set.len() >= FEWEST_BLOCKS).collect();
    sets.iter().for_each(|set| assert_finite(set));
    if sets.len() < FEWEST_SETS {
        return vec![];
    }
    let trend = trend(&sets, threshold);
    two_modes(&sets, threshold, trend.is_none()).into_iter().chain(trend).collect()
}

fn trend(sets: &[&[f64]], threshold: f64) -> Option<Regime> {
    let rise = |set: &&[f64]| {
        let third = set.len() / 3;
        median(&set[set.len() - third..]) - median(&set[..third])
    };
    let rises = Evidence::Paired(sets.iter().map(rise).collect());
    let (p, change) = (rises.p(), rises.log_ratio()?);
    // From the middle of the first third to that of the last are two thirds of a set.
    if p > ALPHA || change.abs() * 1.5 < threshold {
        return None;
    }
    let percent = figure(100.0 * (1.5 * change).exp_m1());
    let detail = format!(
        "the ratio to the hub changes by {percent} % within a set, over {} sets ({})",
        sets.len(),
        chance(p)
    );
    Some(Regime { kind: RegimeKind::Slope, levels: None, p, detail })
}

/// `looks_within` is false where a trend explains why the beginning and the end of the sets differ.
fn two_modes(sets: &[&[f64]], threshold: f64, looks_within: bool) -> Option<Regime> {
    let ratios = |logs: Vec<f64>| logs.into_iter().map(f64::exp).collect::<Vec<_>>();
    let far =
        |values: &Vec<f64>| gap_test(values).filter(|gap| (gap.levels[1] / gap.levels[0]).ln() >= threshold);
    let medians = ratios(sets.iter().map(|set| median(set)).collect());
    let thinned = || {
        let step = 1 + spacing(pooled_lag1(sets).unwrap_or(0.0), NEARLY_INDEPENDENT);
        ratios(sets.iter().flat_map(|set| set.iter().skip(step / 2).step_by(step).copied()).collect())
    };
    let (gap, n, what) = match far(&medians) {
        Some(gap) => (gap, medians.len(), "sets"),
        None if !looks_within => return None,
        None => {
            let blocks = thinned();
            (far(&blocks)?, blocks.len(), "blocks far apart")
        }
    };
    let found = gap.regime(n);
    Some(Regime { detail: format!("of the ratios to the hub of {what}, {}", found.detail), ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve sets of 30 blocks without order, with a scatter of ± 1 %.
    fn sets(more: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
        let scatter = |set: usize, block: usize| 0.001 * (((set * 17 + block * 7) % 21) as f64 - 10.0);
        (0..12).map(|set| (0..30).map(|block| scatter(set, block) + more(set, block)).collect()).collect()
    }

    #[test]
    fn a_trend_of_the_case_alone_is_found_with_its_size_and_direction() {
        let found = against_hub(&sets(|_, block| 0.002 * block as f64), 0.005);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].kind, RegimeKind::Slope);
        assert!(found[0].detail.contains("changes by 6."), "{}", found[0].detail);
        let falls = against_hub(&sets(|_, block| -0.002 * block as f64), 0.005);
        assert!(falls[0].detail.contains("changes by -5."), "{}", falls[0].detail);
        assert_eq!(against_hub(&sets(|_, block| 0.002 * block as f64), 0.1), []);
    }

    #[test]
    fn modes_of_sets_and_modes_within_sets_are_told_apart() {
        let of_sets = against_hub(&sets(|set, _| if set.is_multiple_of(3) { 0.3 } else { 0.0 }), 0.01);
        assert!(of_sets[0].detail.starts_with("of the ratios to the hub of sets, 8 of 12"), "{of_sets:?}");
        let within = against_hub(&sets(|set, block| if (block + set) % 10 < 5 { 0.3 } else { 0.0 }), 0.01);
        assert_eq!(within[0].kind, RegimeKind::TwoModes);
        assert!(within[0].detail.contains("blocks far apart"), "{within:?}");
        let [low, high] = within[0].levels.unwrap();
        assert!((high / low - 0.3_f64.exp()).abs() < 0.03, "{within:?}");
    }

    #[test]
    fn a_steady_case_and_too_few_sets_have_nothing_to_say() {
        assert_eq!(against_hub(&sets(|_, _| 0.5), 0.0), []);
        assert_eq!(against_hub(&sets(|_, block| 0.01 * block as f64)[..5], 0.0), []);
        assert_eq!(against_hub::<Vec<f64>>(&[], 0.0), []);
    }
}
