//! What the statistics are in a steady series: drawn once for each length, always the same.

use std::sync::OnceLock;

use super::gap::widest_gap;
use crate::random::Random;

/// Shuffles behind each table: p values are multiples of 1/10 000.
const SHUFFLES: usize = 9_999;

/// Beyond this length the scaled statistics hardly depend on it any more, and its table serves for all.
const LONGEST: usize = 256;

/// Statistics of shuffled ranks, in ascending order.
pub(super) struct Null {
    /// Of [`split_statistic`].
    pub(super) split: Vec<f64>,
    /// Of [`lag1_statistic`].
    pub(super) lag1: Vec<f64>,
}

/// The table for series of `n` values. A memo: its content depends on `n` alone.
pub(super) fn null(n: usize) -> &'static Null {
    static TABLES: [OnceLock<Null>; LONGEST + 1] = [const { OnceLock::new() }; LONGEST + 1];
    let n = n.min(LONGEST);
    TABLES[n].get_or_init(|| draw(n))
}

fn draw(n: usize) -> Null {
    let mut random = Random::new(n as u64);
    let mut scores = centered(&(1..=n).map(|rank| rank as f64).collect::<Vec<_>>());
    let mut out = Null { split: Vec::with_capacity(SHUFFLES), lag1: Vec::with_capacity(SHUFFLES) };
    for _ in 0..SHUFFLES {
        random.shuffle(&mut scores);
        out.split.push(split_statistic(&scores).1);
        out.lag1.push(lag1_statistic(&scores));
    }
    out.split.sort_unstable_by(f64::total_cmp);
    out.lag1.sort_unstable_by(f64::total_cmp);
    out
}

/// Beyond this length the five-fold gap is rarer than the table can show.
const LONGEST_FOR_GAP: usize = 50;

/// The widest gap over the scatter in samples of `n` from a normal distribution, in ascending order. Drawn apart from
/// the other table because it is seldom asked for.
pub(super) fn gap_null(n: usize) -> &'static [f64] {
    static TABLES: [OnceLock<Vec<f64>>; LONGEST_FOR_GAP + 1] =
        [const { OnceLock::new() }; LONGEST_FOR_GAP + 1];
    let n = n.min(LONGEST_FOR_GAP);
    TABLES[n].get_or_init(|| {
        let mut random = Random::new(n as u64);
        let mut draw = || {
            let mut values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
            values.sort_unstable_by(f64::total_cmp);
            widest_gap(&values).1
        };
        let mut table: Vec<f64> = (0..SHUFFLES).map(|_| draw()).collect();
        table.sort_unstable_by(f64::total_cmp);
        table
    })
}

/// Part of the shuffles with at least this statistic, the series itself counted as one of them (Davison and Hinkley
/// 1997, §4.3), so never 0.
pub(super) fn p_value(table: &[f64], statistic: f64) -> f64 {
    let below = table.partition_point(|drawn| *drawn < statistic - 1e-9);
    (table.len() - below + 1) as f64 / (table.len() + 1) as f64
}

/// Ranks less their mean.
pub(super) fn centered(ranks: &[f64]) -> Vec<f64> {
    let mean = (ranks.len() + 1) as f64 / 2.0;
    ranks.iter().map(|rank| rank - mean).collect()
}

/// The values on each side of a split are at least three and at least a tenth.
pub(super) fn shortest_side(n: usize) -> usize {
    n.div_ceil(10).max(3)
}

/// The best split and (n − 1) times the part of the scores' variance that it explains. The t statistic of the two
/// sides grows with that part, so the split is that of the largest t.
pub(super) fn split_statistic(scores: &[f64]) -> (usize, f64) {
    let n = scores.len();
    let side = shortest_side(n);
    let total: f64 = scores.iter().map(|score| score * score).sum();
    let mut sum = 0.0;
    let (mut best, mut most) = (side, 0.0);
    for (i, score) in scores[..n.saturating_sub(side)].iter().enumerate() {
        sum += score;
        let before = i + 1;
        // Between-sides sum of squares, since the scores' total is 0.
        let explained = sum * sum * n as f64 / (before * (n - before)) as f64;
        if before >= side && explained > most {
            (best, most) = (before, explained);
        }
    }
    (best, (n - 1) as f64 * most / total)
}

/// √n · (lag-1 correlation + 1/n), which has mean 0 in a shuffled series and soon a deviation of 1.
pub(super) fn lag1_statistic(scores: &[f64]) -> f64 {
    let n = scores.len() as f64;
    n.sqrt() * (lag1_correlation(scores) + 1.0 / n)
}

pub(super) fn lag1_correlation(scores: &[f64]) -> f64 {
    let total: f64 = scores.iter().map(|score| score * score).sum();
    scores.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_separation_of_ten_has_the_p_value_of_counting() {
        // 5 + 5: only two of the 252 arrangements separate at the middle; unequal separations explain less.
        let (after, statistic) = split_statistic(&centered(&(1..=10).map(f64::from).collect::<Vec<_>>()));
        assert_eq!(after, 5);
        let p = p_value(&null(10).split, statistic);
        assert!((p - 2.0 / 252.0).abs() < 0.003, "{p}");
    }

    #[test]
    fn the_correlation_of_shuffled_ranks_is_centered() {
        let table = &null(20).lag1;
        let mean = table.iter().sum::<f64>() / table.len() as f64;
        assert!(mean.abs() < 0.03, "{mean}");
    }
}
