//! A case over commits, kernels or days: where did its level change?

use crate::evidence::Evidence;
use crate::interval::Interval;
use crate::order::median;
use crate::random::Random;

/// Fewest points on each side of a change.
pub const SHORTEST: usize = 3;

/// Fewest points on each side of a change whose ratio has an interval.
const FEWEST_FOR_INTERVAL: usize = 4;

/// Three records stay together where there are nineteen or more: of fewer, six blocks have too few orders for a change that only the last
/// few records tell.
const LENGTHENED: f64 = 1.45;

/// Permutations behind each p value: multiples of 1/1000.
const PERMUTATIONS: usize = 999;

/// Probability with which a level that does not change is said to.
pub const ALPHA: f64 = 0.05;

/// Relative change below which nothing is reported, however sure: 1 %.
pub const WORTH_SAYING: f64 = 0.01;

/// A record's value of a case, in the order of the history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Median or ratio to the hub; positive.
    pub value: f64,
    /// Its own interval, where the record has one.
    pub interval: Option<Interval>,
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first point of the new level.
    pub at: usize,
    /// Medians of the segments before and after.
    pub levels: [f64; 2],
    /// New level over old one ([`Evidence`]).
    pub ratio: f64,
    /// Its interval at 95 % from the points of both segments; `None` for fewer than four on a side.
    pub interval: Option<Interval>,
    /// The probability of so good a split where nothing changes, from permutations.
    pub p: f64,
}

/// All changes of level, in order: E-divisive (Matteson and James 2014) on the logarithms of the values.
///
/// Each step finds, in every segment found so far, the split with the largest energy statistic
/// Q = nm/(n + m)·(2·mean|x − y| − mean|x − x′| − mean|y − y′|) with exponent 1, takes the largest of them, and keeps it where at most
/// 5 % of 999 permutations of blocks within the segments have a larger one: records of one day resemble each other. Of fewer than
/// fifteen records there are too few such permutations for most changes, and of more for most that have three records on a side.
/// The search ends with the first split that does not hold. The right side of a split is the whole rest of its segment; the paper's
/// second search, for where the right side ends, is left out: what it finds is found by the next step, and the cost falls by the length
/// of the series.
///
/// A split holds only if its levels differ by [`WORTH_SAYING`] and by the half-width of the points' own intervals (their median),
/// because points that are known to 5 % cannot show a change of 2 %. The seed is fixed.
///
/// # Panics
/// If a value is not positive and finite.
pub fn change_points(points: &[Point]) -> Vec<ChangePoint> {
    assert!(points.iter().all(|point| point.value > 0.0), "a history of values that are not positive");
    let logs: Vec<f64> = points.iter().map(|point| point.value.ln()).collect();
    crate::order::assert_finite(&logs);
    let least = least_change(points);
    let mut random = Random::new(points.len() as u64);
    // Borders of segments, the ends included.
    let mut borders = vec![0, points.len()];
    let mut p_of = vec![];
    while let Some((at, statistic)) = best_split(&logs, &borders) {
        let p = permutation_p(&logs, &borders, statistic, &mut random);
        if p > ALPHA {
            break;
        }
        let place = borders.partition_point(|border| *border < at);
        borders.insert(place, at);
        p_of.push((at, p));
    }
    let p_at = |at: usize| p_of.iter().find(|(found, _)| *found == at).expect("a border that was found").1;
    significant(points, &mut borders, least);
    let describe = |window: &[usize]| {
        let (from, at, to) = (window[0], window[1], window[2]);
        change(points, from, at, to, p_at(at))
    };
    borders.windows(3).map(describe).collect()
}

/// Takes away, smallest first, borders whose levels differ by less than `least`.
fn significant(points: &[Point], borders: &mut Vec<usize>, least: f64) {
    loop {
        let size = |window: &[usize]| {
            let level = |from: usize, to: usize| median(&values(&points[from..to])).ln();
            (level(window[1], window[2]) - level(window[0], window[1])).abs()
        };
        let sizes: Vec<f64> = borders.windows(3).map(size).collect();
        let smallest = sizes.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        match smallest {
            Some((index, size)) if *size < least => borders.remove(index + 1),
            _ => return,
        };
    }
}

/// Logarithm of the least change that is reported.
fn least_change(points: &[Point]) -> f64 {
    let half_width = |point: &Point| Some(point.interval?.relative_half_width(point.value));
    let known: Vec<f64> = points.iter().filter_map(half_width).filter(|width| width.is_finite()).collect();
    let own = if known.is_empty() { 0.0 } else { median(&known) };
    own.max(WORTH_SAYING).ln_1p()
}

fn values(points: &[Point]) -> Vec<f64> {
    points.iter().map(|point| point.value).collect()
}

fn change(points: &[Point], from: usize, at: usize, to: usize, p: f64) -> ChangePoint {
    let (before, after) = (values(&points[from..at]), values(&points[at..to]));
    let evidence = Evidence::of_groups(&before, &after);
    ChangePoint {
        at,
        levels: [median(&before), median(&after)],
        ratio: evidence.ratio().expect("segments with points"),
        interval: evidence.interval(0.95).filter(|_| evidence.units() >= FEWEST_FOR_INTERVAL),
        p,
    }
}

/// The split with the largest statistic over all segments.
fn best_split(logs: &[f64], borders: &[usize]) -> Option<(usize, f64)> {
    let of_segment = |window: &[usize]| {
        let (at, statistic) = best_split_of_segment(&logs[window[0]..window[1]])?;
        Some((window[0] + at, statistic))
    };
    borders.windows(2).filter_map(of_segment).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The sums of distances within and between the sides change by one row of distances when a value changes sides.
fn best_split_of_segment(logs: &[f64]) -> Option<(usize, f64)> {
    let n = logs.len();
    if n < 2 * SHORTEST {
        return None;
    }
    let distances =
        |value: f64, others: &[f64]| others.iter().map(|other| (value - other).abs()).sum::<f64>();
    let (mut left, mut between) = (0.0, 0.0);
    let mut right: f64 = (0..n).map(|i| distances(logs[i], &logs[i + 1..])).sum();
    let mut best: Option<(usize, f64)> = None;
    for split in 1..=n - SHORTEST {
        let moved = logs[split - 1];
        let (to_left, to_right) = (distances(moved, &logs[..split - 1]), distances(moved, &logs[split..]));
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        let (of_left, of_right) = (split as f64, (n - split) as f64);
        let mean_within =
            |sum: f64, count: f64| if count < 2.0 { 0.0 } else { 2.0 * sum / (count * (count - 1.0)) };
        let energy =
            2.0 * between / (of_left * of_right) - mean_within(left, of_left) - mean_within(right, of_right);
        let statistic = of_left * of_right / n as f64 * energy;
        if split >= SHORTEST && best.is_none_or(|(_, most)| statistic > most) {
            best = Some((split, statistic));
        }
    }
    best
}

/// The values in blocks of neighbors, about as long as the cube root of their number, which stay together: so what neighbors have in
/// common by chance is in the permutations too (Künsch 1989; Hall, Horowitz and Jing 1995). Where the first block ends is drawn.
fn shuffled_blocks(segment: &[f64], random: &mut Random) -> Vec<f64> {
    let length = (LENGTHENED * segment.len() as f64).cbrt() as usize;
    let (head, rest) = segment.split_at(random.below(length));
    let mut blocks: Vec<&[f64]> =
        [head].into_iter().filter(|head| !head.is_empty()).chain(rest.chunks(length)).collect();
    random.shuffle(&mut blocks);
    blocks.concat()
}

/// Part of the permutations within segments, the series itself counted as one, whose best split is as good.
fn permutation_p(logs: &[f64], borders: &[usize], statistic: f64, random: &mut Random) -> f64 {
    let mut shuffled = logs.to_vec();
    let mut as_good = 1;
    for done in 1..=PERMUTATIONS {
        for window in borders.windows(2) {
            let blocks = shuffled_blocks(&logs[window[0]..window[1]], random);
            shuffled[window[0]..window[1]].copy_from_slice(&blocks);
        }
        let best = best_split(&shuffled, borders).map_or(0.0, |(_, statistic)| statistic);
        as_good += usize::from(best >= statistic - 1e-12);
        // Already past the limit: the rest can only add to it.
        if as_good as f64 > 2.0 * ALPHA * (PERMUTATIONS + 1) as f64 {
            return as_good as f64 / (done + 1) as f64;
        }
    }
    as_good as f64 / (PERMUTATIONS + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(levels: &[(usize, f64)]) -> Vec<Point> {
        let values = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
        let scatter = |(i, level): (usize, f64)| level * (1.0 + 0.002 * ((i * 7 % 11) as f64 - 5.0));
        values.enumerate().map(scatter).map(|value| Point { value, interval: None }).collect()
    }

    #[test]
    fn two_changes_are_found_where_they_are() {
        let found = change_points(&history(&[(12, 100.0), (10, 110.0), (15, 95.0)]));
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [12, 22], "{found:?}");
        assert!((found[0].ratio - 1.1).abs() < 0.01 && (found[1].ratio - 95.0 / 110.0).abs() < 0.01);
        assert!(found[0].interval.unwrap().contains(1.1) && found[0].p <= 0.02, "{found:?}");
        assert!((found[1].levels[0] - 110.0).abs() < 1.0 && (found[1].levels[1] - 95.0).abs() < 1.0);
    }

    #[test]
    fn a_steady_or_short_history_has_no_change() {
        assert_eq!(change_points(&history(&[(40, 100.0)])), []);
        assert_eq!(change_points(&history(&[(2, 100.0), (3, 200.0)])), []);
        assert_eq!(change_points(&[]), []);
        let equal = [Point { value: 7.0, interval: None }; 30];
        assert_eq!(change_points(&equal), []);
    }

    #[test]
    fn points_that_are_not_known_so_well_show_no_small_change() {
        let mut points = history(&[(12, 100.0), (12, 103.0)]);
        assert_eq!(change_points(&points).len(), 1);
        for point in &mut points {
            point.interval =
                Some(Interval { low: point.value * 0.95, high: point.value * 1.05, confidence: 0.95 });
        }
        assert_eq!(change_points(&points), []);
    }

    #[test]
    fn the_statistic_is_that_of_the_paper() {
        // {0, 0, 0} against {1, 1, 1}: between 1, within 0, so Q = 9/6·2.
        let (at, statistic) = best_split_of_segment(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]).unwrap();
        assert_eq!(at, 3);
        assert!((statistic - 3.0).abs() < 1e-12, "{statistic}");
    }
}
