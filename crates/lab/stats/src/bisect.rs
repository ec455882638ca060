//! Which commit changed a cost, where single measurements are noisy: a posterior over commits, and what to measure next.
//!
//! Two ends are known to differ, and a step lies somewhere between. Each measurement of a commit says with some probability on which side of
//! the step it is (Burnashev and Zigangirov 1974; Karp and Kleinberg 2007, who call it noisy binary search, and measure where the posterior is
//! halved). Neither the two levels nor the noise is known beforehand: they are integrated out, so that few measurements at the ends are enough,
//! and later ones tell of them too.
//!
//! Measured next is the commit whose level is least known, over all that may be. With levels that are known that is where the posterior is
//! halved. Where they are not, a commit that was measured often is not measured again, however unsure it is on which side it is: then it is the
//! levels of the sides that are unsure, and it says nothing of them.
//!
//! Two more hypotheses stand beside the step: that there is none, and that there are two.

use std::collections::{BTreeMap, BTreeSet};

/// The posterior that names a commit.
const SURE: f64 = 0.95;
/// What is believed beforehand: no step, one, two.
const PRIOR: [f64; 3] = [0.05, 0.90, 0.05];
/// The variance of a level about the mean of all, in units of that of the noise: steps of a few standard deviations.
const LEVEL_VARIANCE: f64 = 8.0;
/// So many measurements is what somebody who says how large the noise is has seen.
const TOLD_WEIGHT: f64 = 30.0;
/// Without that: a guess that counts for one measurement.
const GUESSED_NOISE: f64 = 0.01;
/// Ends that differ by less than this many standard deviations are alike: to find such a step would take more than a thousand measurements.
const ALIKE: f64 = 1.0 / 3.0;
/// Of a standard normal number, 95 % on both sides.
const Z95: f64 = 1.96;
/// So often the level between two steps is measured before the better half decides.
const MOST_BETWEEN: usize = 10;
/// Fewest measurements of each end where the noise is known, and where it is not.
const FEWEST_AT_ENDS: [usize; 2] = [1, 3];

/// A search over commits in a line. Position 0 is the end that is good, the last one is the end that is bad; a commit is the first bad one.
#[derive(Clone, Debug)]
pub struct Bisection {
    last: usize,
    noise: Option<f64>,
    /// Logarithms of costs, by position.
    measured: BTreeMap<usize, Moments>,
    untestable: BTreeSet<usize>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Measure this position, once.
    Measure(usize),
    /// This is the first bad position, with the probability that it is.
    Found {
        /// The position.
        position: usize,
        /// Its posterior.
        probability: f64,
    },
    /// One of these is, and those that would tell which cannot be measured.
    OneOf {
        /// From the first to the last.
        positions: Vec<usize>,
        /// Of all of them together.
        probability: f64,
    },
    /// The ends do not differ.
    NoStep {
        /// That there is none.
        probability: f64,
    },
    /// There are two steps, and no single commit explains the difference.
    TwoSteps {
        /// The best guess of both.
        positions: [usize; 2],
        /// That there are two.
        probability: f64,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn of(value: f64) -> Moments {
        Moments { count: 1.0, sum: value, squares: value * value }
    }

    fn plus(self, other: Moments) -> Moments {
        Moments {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    fn minus(self, other: Moments) -> Moments {
        self.plus(Moments { count: -other.count, sum: -other.sum, squares: -other.squares })
    }
}

impl Bisection {
    /// Over positions 0 (good) to `last` (bad). `noise` is the standard deviation of one measurement as a share of its value, where that is
    /// known: that between boots, where each measurement is of a boot of its own.
    ///
    /// # Panics
    /// There is no commit between the ends, or the noise is none.
    pub fn new(last: usize, noise: Option<f64>) -> Bisection {
        assert!(last > 0, "two ends");
        assert!(noise.is_none_or(|noise| noise > 0.0 && noise.is_finite()), "{noise:?} is no noise");
        Bisection { last, noise, measured: BTreeMap::new(), untestable: BTreeSet::new() }
    }

    /// What a position cost.
    ///
    /// # Panics
    /// There is no such position, or the cost is not above zero.
    pub fn tell(&mut self, position: usize, cost: f64) {
        assert!(position <= self.last && cost > 0.0 && cost.is_finite(), "{cost} at {position}");
        let before = self.measured.entry(position).or_default();
        *before = before.plus(Moments::of(cost.ln()));
    }

    /// A position cannot be measured: it does not build, or does not boot.
    pub fn skip(&mut self, position: usize) {
        self.untestable.insert(position);
    }

    /// Measurements until now.
    pub fn measurements(&self) -> usize {
        self.measured.values().map(|of| of.count as usize).sum()
    }

    /// Levels of both sides of the most probable step, as costs; nothing before both ends were measured.
    pub fn levels(&self) -> Option<[f64; 2]> {
        let posterior = Data::of(self)?.of_positions(self.last);
        let best = (1..=self.last).max_by(|a, b| posterior[*a].total_cmp(&posterior[*b]))?;
        let mean = |is_bad: bool| {
            let of = self.measured.iter().filter(|(position, _)| (**position >= best) == is_bad);
            let all = of.fold(Moments::default(), |sum, (_, of)| sum.plus(*of));
            (all.sum / all.count).exp()
        };
        Some([mean(false), mean(true)])
    }

    /// What to do next.
    pub fn next(&self) -> Next {
        let at = |position: usize| self.measured.get(&position).map_or(0, |of| of.count as usize);
        let fewest = FEWEST_AT_ENDS[usize::from(self.noise.is_none())];
        let rarer_end = if at(self.last) <= at(0) { self.last } else { 0 };
        if at(rarer_end) < fewest {
            return Next::Measure(rarer_end);
        }
        let data = Data::of(self).expect("both ends are measured");
        let [none, one] = [data.none(), data.one(self.last)];
        let no_step = share(none, &[none, one]);
        if no_step > SURE {
            return Next::NoStep { probability: no_step };
        }
        if no_step >= 0.5 {
            return match self.ends_are_alike(&data) {
                true => Next::NoStep { probability: no_step },
                false => Next::Measure(rarer_end),
            };
        }
        let blocks = self.blocks(&data.of_positions(self.last));
        let best = blocks.iter().max_by(|a, b| a.mass.total_cmp(&b.mass)).expect("there is a commit");
        let probability = best.mass * (1.0 - no_step);
        if probability < SURE {
            return Next::Measure(self.least_known(&data.variances(self.last, no_step)));
        }
        let (two, positions) = data.two(self.last);
        let of_two = share(two, &[none, one, two]);
        if of_two > 0.5 {
            // What tells is the level between both, as often as that may take.
            let middle = self.nearest_testable(usize::midpoint(positions[0], positions[1]));
            return match of_two > SURE || at(middle) >= MOST_BETWEEN {
                true => Next::TwoSteps { positions, probability: of_two },
                false => Next::Measure(middle),
            };
        }
        match best.positions[..] {
            [position] => Next::Found { position, probability },
            _ => Next::OneOf { positions: best.positions.clone(), probability },
        }
    }

    /// Do the ends differ by less than what can be searched for with a few hundred measurements, as far as it is known?
    fn ends_are_alike(&self, data: &Data) -> bool {
        let [good, bad] = [0, self.last].map(|end| self.measured[&end]);
        let error = data.noise() * (1.0 / good.count + 1.0 / bad.count).sqrt();
        (bad.sum / bad.count - good.sum / good.count).abs() + Z95 * error < ALIKE * data.noise()
    }

    /// The position with the largest of these that can be measured.
    fn least_known(&self, variances: &[f64]) -> usize {
        let testable = (0..=self.last).filter(|of| !self.untestable.contains(of));
        testable.max_by(|a, b| variances[*a].total_cmp(&variances[*b])).unwrap_or(self.last)
    }

    fn nearest_testable(&self, position: usize) -> usize {
        let testable = (0..=self.last).filter(|of| !self.untestable.contains(of));
        testable.min_by_key(|of| of.abs_diff(position)).unwrap_or(self.last)
    }

    /// Positions that no measurement can tell apart, with the posterior of all of them: a position that can be measured, and those right before
    /// it that cannot.
    fn blocks(&self, posterior: &[f64]) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open = Block::default();
        for (position, mass) in posterior.iter().enumerate().skip(1) {
            open.positions.push(position);
            open.mass += mass;
            if !self.untestable.contains(&position) || position == self.last {
                blocks.push(std::mem::take(&mut open));
            }
        }
        blocks
    }
}

#[derive(Clone, Debug, Default)]
struct Block {
    positions: Vec<usize>,
    mass: f64,
}

/// The share of one weight, all given by their logarithms.
fn share(one: f64, all: &[f64]) -> f64 {
    1.0 / all.iter().map(|of| (of - one).exp()).sum::<f64>()
}

/// The logarithm of a sum of weights that are given by theirs.
fn sum_of(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY { most } else { most + logs.map(|of| (of - most).exp()).sum::<f64>().ln() }
}

/// What was measured, in the order of positions, with what hypotheses come to.
struct Data {
    positions: Vec<usize>,
    /// Of all positions before the one with this index; one more than positions.
    before: Vec<Moments>,
    /// Of the variance of the noise, an inverse gamma distribution: half the weight of what was known, and of its squares.
    shape: f64,
    scale: f64,
}

impl Data {
    /// Nothing before both ends were measured.
    fn of(bisection: &Bisection) -> Option<Data> {
        let Bisection { measured, last, noise, .. } = bisection;
        if !measured.contains_key(&0) || !measured.contains_key(last) {
            return None;
        }
        // About the mean of all, so that squares of small differences keep their digits.
        let all = measured.values().fold(Moments::default(), |sum, of| sum.plus(*of));
        let center = all.sum / all.count;
        let centered = |of: &Moments| Moments {
            count: of.count,
            sum: of.sum - center * of.count,
            squares: of.squares - 2.0 * center * of.sum + center * center * of.count,
        };
        let mut before = vec![Moments::default()];
        for of in measured.values() {
            before.push(before[before.len() - 1].plus(centered(of)));
        }
        let (weight, noise) = noise.map_or((1.0, GUESSED_NOISE), |noise| (TOLD_WEIGHT, noise));
        Some(Data {
            positions: measured.keys().copied().collect(),
            before,
            shape: weight / 2.0,
            scale: weight / 2.0 * noise * noise,
        })
    }

    /// The logarithm of what the data weigh where the positions between these borders have one level each, up to what is the same for all: levels
    /// are normal about a mean that is unknown, with a variance in units of the noise, and both mean and noise are integrated out.
    fn weight(&self, borders: &[usize]) -> f64 {
        let (mut log, mut precision, mut weighted) = (0.0, 0.0, 0.0);
        let mut squares = 0.0;
        let mut of_levels: [(f64, f64); 3] = Default::default();
        for (index, pair) in borders.windows(2).enumerate() {
            let of = self.before[pair[1]].minus(self.before[pair[0]]);
            let mean = of.sum / of.count;
            squares += (of.squares - of.sum * mean).max(0.0);
            log -= 0.5 * (1.0 + LEVEL_VARIANCE * of.count).ln();
            let weight = of.count / (1.0 + LEVEL_VARIANCE * of.count);
            precision += weight;
            weighted += weight * mean;
            of_levels[index] = (weight, mean);
        }
        let center = weighted / precision;
        squares += of_levels.iter().map(|(weight, mean)| weight * (mean - center).powi(2)).sum::<f64>();
        log -= 0.5 * precision.ln();
        let count = self.before[self.positions.len()].count;
        log - ((count - 1.0) / 2.0 + self.shape) * (self.scale + squares / 2.0).ln()
    }

    /// The standard deviation of one measurement, where every position that was measured has a level of its own.
    fn noise(&self) -> f64 {
        let positions = self.positions.len();
        let mut squares = 0.0;
        for pair in self.before.windows(2) {
            let of = pair[1].minus(pair[0]);
            squares += (of.squares - of.sum * of.sum / of.count).max(0.0);
        }
        let freedom = self.before[positions].count - positions as f64;
        ((self.scale * 2.0 + squares) / (self.shape * 2.0 + freedom)).sqrt()
    }

    /// How badly the level of each position is known: its variance over all that may be, no step and one.
    fn variances(&self, last: usize, no_step: f64) -> Vec<f64> {
        let noise = self.noise().powi(2);
        let all = self.before[self.positions.len()];
        // The first two moments of the level of a side of which this was measured.
        let moments = |of: Moments| {
            let mean = of.sum / of.count;
            [mean, mean * mean + noise / of.count]
        };
        let posterior = self.of_positions(last);
        // Those of the level at a position: at 0, and what a step there adds from it on.
        let mut here = moments(all).map(|moment| no_step * moment);
        let mut steps = vec![[0.0; 2]; self.positions.len()];
        for (border, commits, _) in self.splits() {
            let each = posterior[self.positions[border]] * (1.0 - no_step);
            let [good, bad] = [self.before[border], all.minus(self.before[border])].map(moments);
            for moment in 0..2 {
                here[moment] += each * commits * good[moment];
                steps[border][moment] = each * (bad[moment] - good[moment]);
            }
        }
        let mut border = 0;
        let variance = |position: usize| {
            border += usize::from(position > self.positions[border]);
            (0..2).for_each(|moment| here[moment] += steps[border][moment]);
            here[1] - here[0] * here[0]
        };
        (0..=last).map(variance).collect()
    }

    /// No step, with what is believed of that.
    fn none(&self) -> f64 {
        PRIOR[0].ln() + self.weight(&[0, self.positions.len()])
    }

    /// Borders between neighbors that were measured, each with how many commits lie there and what the step weighs there.
    fn splits(&self) -> impl Iterator<Item = (usize, f64, f64)> + Clone {
        let end = self.positions.len();
        (1..end).map(move |border| {
            let commits = self.positions[border] - self.positions[border - 1];
            (border, commits as f64, self.weight(&[0, border, end]))
        })
    }

    /// One step, wherever.
    fn one(&self, last: usize) -> f64 {
        let all: Vec<f64> = self.splits().map(|(_, commits, weight)| weight + commits.ln()).collect();
        PRIOR[1].ln() + sum_of(all.into_iter()) - (last as f64).ln()
    }

    /// The posterior of each position, given that there is one step. There is no step at position 0.
    fn of_positions(&self, last: usize) -> Vec<f64> {
        let all: Vec<(usize, f64, f64)> = self.splits().collect();
        let total = sum_of(all.iter().map(|(_, commits, weight)| weight + commits.ln()));
        let mut posterior = vec![0.0; last + 1];
        for (border, _, weight) in all {
            let each = (weight - total).exp();
            posterior[self.positions[border - 1] + 1..=self.positions[border]].fill(each);
        }
        posterior
    }

    /// Two steps that something measured lies between, and the most probable pair.
    fn two(&self, last: usize) -> (f64, [usize; 2]) {
        let end = self.positions.len();
        let commits = |border: usize| (self.positions[border] - self.positions[border - 1]) as f64;
        let mut best = (f64::NEG_INFINITY, [0, 0]);
        let mut all = Vec::new();
        for first in 1..end {
            for second in first + 1..end {
                let weight = self.weight(&[0, first, second, end]) + (commits(first) * commits(second)).ln();
                all.push(weight);
                if weight > best.0 {
                    best = (weight, [self.positions[first], self.positions[second]]);
                }
            }
        }
        let pairs = (last as f64 * (last as f64 - 1.0) / 2.0).max(1.0);
        (PRIOR[2].ln() + sum_of(all.into_iter()) - pairs.ln(), best.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_measured_first_and_then_the_middle() {
        let mut bisection = Bisection::new(1024, Some(0.01));
        assert_eq!(bisection.next(), Next::Measure(1024));
        bisection.tell(1024, 1.1);
        assert_eq!(bisection.next(), Next::Measure(0));
        bisection.tell(0, 1.0);
        assert_eq!(bisection.next(), Next::Measure(512));
        assert_eq!(bisection.measurements(), 2);
        let [good, bad] = bisection.levels().unwrap();
        assert!((good - 1.0).abs() < 1e-9 && (bad - 1.1).abs() < 1e-9);
    }

    #[test]
    fn commits_that_cannot_be_measured_are_named_together_with_the_one_behind_them() {
        let mut bisection = Bisection::new(16, Some(0.001));
        (8..=10).for_each(|position| bisection.skip(position));
        let mut left = 64;
        let found = loop {
            match bisection.next() {
                Next::Measure(position) => {
                    assert!(!(8..=10).contains(&position), "{position} cannot be measured");
                    bisection.tell(position, if position >= 9 { 1.05 } else { 1.0 });
                }
                found => break found,
            }
            left -= 1;
            assert!(left > 0, "no end");
        };
        assert!(matches!(&found, Next::OneOf { positions, .. } if *positions == [8, 9, 10, 11]), "{found:?}");
    }

    /// Against likelihoods by matrices: logarithms of costs are normal about one mean, with the covariance of the noise and
    /// of the levels; computed apart from this program.
    #[test]
    fn hypotheses_weigh_what_covariance_matrices_say() {
        let costs = [
            (0, 1.00),
            (0, 1.02),
            (0, 0.99),
            (3, 1.01),
            (5, 1.03),
            (5, 1.10),
            (8, 1.12),
            (8, 1.08),
            (8, 1.11),
        ];
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-8;
        for (noise, none_to_one, two_to_one, deviation, posterior, variances) in [
            (
                None,
                -5.638_533_619_825_509,
                -2.917_064_918_721_223_4,
                0.023_947_818_915_857_656,
                [0.026_378_877_474_696_15, 0.372_294_471_863_014_84, 0.058_758_141_283_293_666],
                [
                    0.000_198_563_331_638_568_08,
                    0.000_297_346_547_176_136,
                    0.000_389_678_458_319_821_2,
                    0.000_475_559_065_069_625,
                    0.001_406_057_304_610_193_7,
                    0.000_619_709_353_400_100_6,
                    0.000_509_728_515_453_792_2,
                    0.000_362_080_135_749_513_93,
                    0.000_176_764_214_288_170_59,
                ],
            ),
            (
                Some(0.02),
                -10.761_613_043_053_23,
                -2.580_118_635_283_398,
                0.020_935_948_704_124_244,
                [0.006_232_897_980_386_247, 0.450_608_844_665_534_64, 0.026_694_538_909_255_935],
                [
                    0.000_134_592_097_249_870_27,
                    0.000_160_345_703_577_233_26,
                    0.000_185_736_581_502_170_78,
                    0.000_210_764_731_024_682_2,
                    0.001_547_017_728_558_618_7,
                    0.000_350_334_520_811_829_4,
                    0.000_278_220_610_959_465_34,
                    0.000_198_277_045_832_005_47,
                    0.000_110_503_825_429_450_78,
                ],
            ),
        ] {
            let mut bisection = Bisection::new(8, noise);
            costs.into_iter().for_each(|(position, cost)| bisection.tell(position, cost));
            let data = Data::of(&bisection).unwrap();
            let (none, one, (two, best)) = (data.none(), data.one(8), data.two(8));
            assert!(
                close(none - one, none_to_one) && close(two - one, two_to_one),
                "{} {}",
                none - one,
                two - one
            );
            assert_eq!(best, [5, 8]);
            assert!(close(data.noise(), deviation), "{}", data.noise());
            let found = data.of_positions(8);
            // The step is in front of position 3, of 5, or of 8.
            let expected =
                [3, 2, 3].iter().zip(posterior).flat_map(|(count, mass)| std::iter::repeat_n(mass, *count));
            assert_eq!((found.len(), found[0]), (9, 0.0));
            assert!(
                found[1..].iter().zip(expected).all(|(found, expected)| close(*found, expected)),
                "{found:?}"
            );
            let no_step = share(none, &[none, one]);
            assert!(close(no_step, 1.0 / (1.0 + (-none_to_one).exp())), "{no_step}");
            let found = data.variances(8, no_step);
            assert!(
                found.iter().zip(variances).all(|(found, expected)| close(*found, expected)),
                "{found:?}"
            );
            let [good, bad] = bisection.levels().unwrap();
            let mean = |costs: &[(usize, f64)]| {
                costs.iter().map(|(_, cost)| cost.ln()).sum::<f64>() / costs.len() as f64
            };
            assert!(
                close(good, mean(&costs[..4]).exp()) && close(bad, mean(&costs[4..]).exp()),
                "{good} {bad}"
            );
        }
    }

    /// What a search ends with, where each commit costs this, and measurements scatter by a thousandth.
    fn ended(last: usize, cost: impl Fn(usize) -> f64) -> (Next, usize) {
        let mut bisection = Bisection::new(last, Some(0.001));
        for turn in 0..400 {
            match bisection.next() {
                Next::Measure(position) => {
                    bisection.tell(position, cost(position) * (1.0 + 0.001 * f64::from(turn * 7 % 5 - 2)));
                }
                end => return (end, bisection.measurements()),
            }
        }
        panic!("no end");
    }

    #[test]
    fn a_search_ends_with_no_step_one_or_two() {
        let (end, measurements) = ended(16, |position| if position < 11 { 1.0 } else { 1.05 });
        assert!(matches!(end, Next::Found { position: 11, probability } if probability > SURE), "{end:?}");
        assert!(measurements < 20, "{measurements}");
        let (end, measurements) = ended(16, |_| 1.0);
        assert!(matches!(end, Next::NoStep { .. }), "{end:?}");
        assert!((10..200).contains(&measurements), "{measurements}");
        let (end, _) = ended(16, |position| {
            if position < 5 {
                1.0
            } else if position < 12 {
                1.05
            } else {
                1.1
            }
        });
        assert!(matches!(end, Next::TwoSteps { positions: [_, _], .. }), "{end:?}");
    }

    #[test]
    fn a_search_begins_with_as_many_measurements_of_the_ends_as_the_noise_needs() {
        for (noise, fewest) in [(Some(0.01), 1), (None, 3)] {
            let mut bisection = Bisection::new(9, noise);
            for _ in 0..fewest {
                for (end, cost) in [(9, 1.2), (0, 1.0)] {
                    assert_eq!(bisection.next(), Next::Measure(end));
                    bisection.tell(end, cost);
                }
            }
            assert!(matches!(bisection.next(), Next::Measure(1..9)), "{:?}", bisection.next());
        }
        assert_eq!(Bisection::new(9, None).levels(), None);
    }

    /// Commit 2 is known as well as can be; whether it is bad depends on what the levels are.
    #[test]
    fn a_commit_that_is_known_better_than_the_levels_is_not_measured_again() {
        let mut bisection = Bisection::new(3, Some(0.01));
        for (position, level, times) in
            [(0, -0.00245, 150), (1, -0.00245, 150), (2, 0.0, 4000), (3, 0.00245, 300)]
        {
            for side in [-1.0, 1.0].into_iter().cycle().take(times) {
                bisection.tell(position, f64::exp(level + 0.01 * side));
            }
        }
        assert!(matches!(bisection.next(), Next::Measure(0 | 1 | 3)), "{:?}", bisection.next());
    }
}
