//! What a case did that its hub did not do in the same slices; and departures that correlation of the samples cannot explain.

use super::{ALPHA, CaseRegime, RegimeKind, WORTH_SAYING, Within, chance, figure, gap_test};
use crate::correlation::{pooled_lag1, spacing};
use crate::evidence::Evidence;
use crate::order::{assert_finite, median};

/// Blocks of a set that are compared with one another are so far apart that their correlation is at most this.
const NEARLY_INDEPENDENT: f64 = 0.2;

/// Fewest blocks of a set that takes part.
const FEWEST_BLOCKS: usize = 9;

/// Fewest sets of which something is said.
pub const FEWEST_SETS: usize = 8;

/// A trend of its own within sets, or two modes of its own, of a case against its hub: `sets` are the log ratios of the blocks
/// of each set, in order of time ([`block_log_ratios`](crate::duet::block_log_ratios)), plus any constant that puts them into another
/// unit. What is smaller than `threshold` on logarithms is not reported; half of the width of the interval that is printed is a good
/// one, because less does not change what is read. Nor is a trend below [`WORTH_SAYING`].
///
/// Neighboring blocks may be correlated as they like; sets must be independent of each other. Nothing is said below eight sets.
/// * Trend ([`RegimeKind::Slope`]): each set gives one number, the median of its last third less that of its first. Where the case has no
///   trend of its own their middle is 0, whatever the correlation within a set; the p value over the sets ([`Evidence`]) decides.
/// * Two modes ([`RegimeKind::TwoModes`], levels in the unit of the values): [`gap_test`] on the sets' medians, and if they have one mode,
///   on blocks that are so far apart that their correlation is at most 0.2, by the correlation pooled over the sets.
///
/// # Panics
/// If a value is not finite or `threshold` is negative.
pub fn against_hub<S: AsRef<[f64]>>(sets: &[S], threshold: f64) -> Vec<CaseRegime> {
    find(sets, threshold, ["sets", "blocks", "scaled by the hub, "])
}

/// As [`against_hub`], of a case that was measured alone: `runs` are the logarithms of the samples of each run. Noise of the machine
/// that lasts no longer than a run is no trend; drifts and modes of the machine itself are found like those of the case.
pub fn of_correlated<S: AsRef<[f64]>>(runs: &[S], threshold: f64) -> Vec<CaseRegime> {
    find(runs, threshold, ["runs", "samples", ""])
}

/// `words` name a group of values and a value, and say what the values are.
fn find<S: AsRef<[f64]>>(groups: &[S], threshold: f64, words: [&str; 3]) -> Vec<CaseRegime> {
    assert!(threshold >= 0.0, "a threshold of {threshold}");
    let groups: Vec<&[f64]> =
        groups.iter().map(AsRef::as_ref).filter(|group| group.len() >= FEWEST_BLOCKS).collect();
    groups.iter().for_each(|group| assert_finite(group));
    if groups.len() < FEWEST_SETS {
        return vec![];
    }
    let trend = trend(&groups, threshold, words);
    two_modes(&groups, threshold, trend.is_none(), words).into_iter().chain(trend).collect()
}

fn trend(groups: &[&[f64]], threshold: f64, [group, _, scaled]: [&str; 3]) -> Option<CaseRegime> {
    let rise = |values: &&[f64]| {
        let third = values.len() / 3;
        median(&values[values.len() - third..]) - median(&values[..third])
    };
    let rises = Evidence::paired(groups.iter().map(rise).collect());
    // From the middle of the first third to that of the last are two thirds of a set.
    let (p, change) = (rises.p(), 1.5 * rises.log_ratio()?);
    if p > ALPHA || change.abs() < threshold.max(WORTH_SAYING) {
        return None;
    }
    let percent = figure(100.0 * change.exp_m1());
    let runs = groups.len();
    let detail =
        format!("{scaled}the level changes by {percent} % from end to end of {runs} {group} ({})", chance(p));
    Some(CaseRegime { kind: RegimeKind::Slope, within: Within::Samples, runs, levels: None, detail })
}

/// `looks_within` is false where a trend explains why the beginning and the end of the sets differ.
fn two_modes(
    groups: &[&[f64]],
    threshold: f64,
    looks_within: bool,
    [group, value, scaled]: [&str; 3],
) -> Option<CaseRegime> {
    let plain = |logs: Vec<f64>| logs.into_iter().map(f64::exp).collect::<Vec<_>>();
    let far =
        |values: &Vec<f64>| gap_test(values).filter(|gap| (gap.levels[1] / gap.levels[0]).ln() >= threshold);
    let found = |within: Within, runs: usize, what: String, values: &Vec<f64>| {
        let found = far(values)?.regime(values.len());
        let detail = format!("{scaled}of the {what}, {}", found.detail);
        Some(CaseRegime { kind: found.kind, within, runs, levels: found.levels, detail })
    };
    let medians = plain(groups.iter().map(|values| median(values)).collect());
    found(Within::Runs, 1, format!("medians of {group}"), &medians).or_else(|| {
        if !looks_within {
            return None;
        }
        let step = 1 + spacing(pooled_lag1(groups).unwrap_or(0.0), NEARLY_INDEPENDENT);
        let thinned =
            plain(groups.iter().flat_map(|set| set.iter().skip(step / 2).step_by(step).copied()).collect());
        found(Within::Samples, groups.len(), format!("{value} far apart"), &thinned)
    })
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
        assert!(
            of_sets[0].detail.starts_with("scaled by the hub, of the medians of sets, 8 of 12"),
            "{of_sets:?}"
        );
        assert_eq!((of_sets[0].within, of_sets[0].runs), (Within::Runs, 1));
        let within = against_hub(&sets(|set, block| if (block + set) % 10 < 5 { 0.3 } else { 0.0 }), 0.01);
        assert_eq!(within[0].kind, RegimeKind::TwoModes);
        assert!(within[0].detail.contains("blocks far apart"), "{within:?}");
        assert_eq!((within[0].within, within[0].runs), (Within::Samples, 12));
        let [low, high] = within[0].levels.unwrap();
        assert!((high / low - 0.3_f64.exp()).abs() < 0.03, "{within:?}");
    }

    #[test]
    fn samples_of_a_case_alone_are_called_samples_of_runs() {
        let found = of_correlated(&sets(|_, block| 7.0 + 0.002 * block as f64), 0.005);
        assert!(found[0].detail.starts_with("the level changes by 6."), "{found:?}");
        assert!(found[0].detail.contains("of 12 runs"), "{found:?}");
    }

    #[test]
    fn a_steady_case_and_too_few_sets_have_nothing_to_say() {
        assert_eq!(against_hub(&sets(|_, _| 0.5), 0.0), []);
        assert_eq!(against_hub(&sets(|_, block| 0.01 * block as f64)[..5], 0.0), []);
        assert_eq!(against_hub::<Vec<f64>>(&[], 0.0), []);
    }
}
