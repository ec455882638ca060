//! What changed on many machines at one time.
//!
//! Each machine's history of a case is split where that explains it best; a split that is larger than the scatter between neighboring
//! days counts. Many such splits on one day are one event. On other days splits happen too: how many is told by all days together, and a
//! day needs more than chance gives (Poisson).

use crate::discovery::benjamini_hochberg;
use crate::hosts::robust_variance;
use crate::order::{mean, median};

/// Fewest days on each side.
pub const SHORTEST: usize = 3;
/// A split by less than so many deviations of its two means is none.
const CLEAR: f64 = 5.0;
/// Fewest machines of an event.
pub const FEWEST_HOSTS: usize = 3;

/// Where the history of a machine and a case is split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// First day of the new level.
    pub day: usize,
    /// Logarithm of the new level over the old one.
    pub change: f64,
}

/// The clearest split of a history of days and levels in the order of time, where it is larger than `margin`.
pub fn split(history: &[(usize, f64)], margin: f64) -> Option<Split> {
    let n = history.len();
    if n < 2 * SHORTEST {
        return None;
    }
    let steps: Vec<f64> =
        history.windows(2).map(|two| (two[1].1 - two[0].1) / std::f64::consts::SQRT_2).collect();
    let deviation = robust_variance(&steps).sqrt();
    let total: f64 = history.iter().map(|(_, level)| level).sum();
    let mut before = 0.0;
    let mut best: Option<(f64, usize)> = None;
    for (at, (_, level)) in history.iter().enumerate().take(n - SHORTEST) {
        before += level;
        let (left, right) = (at as f64 + 1.0, (n - at - 1) as f64);
        let size = ((total - before) / right - before / left).abs() / (1.0 / left + 1.0 / right).sqrt();
        if at + 1 >= SHORTEST && best.is_none_or(|(most, _)| size > most) {
            best = Some((size, at + 1));
        }
    }
    let (size, at) = best?;
    let level = |part: &[(usize, f64)]| median(&part.iter().map(|(_, level)| *level).collect::<Vec<_>>());
    let change = level(&history[at..]) - level(&history[..at]);
    (size > CLEAR * deviation && change.abs() > margin).then(|| Split { day: history[at].0, change })
}

/// A day on which many machines changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// First day of the new level.
    pub day: usize,
    /// Indices among the splits that were given, each of one machine.
    pub splits: Vec<usize>,
    /// Middle of the changes.
    pub change: f64,
}

/// Events of one case: its splits, one a machine at most, and the number of days. At most the part `q` of them is chance.
pub fn events(splits: &[Split], days: usize, q: f64) -> Vec<Event> {
    let mut of_day: Vec<(usize, bool)> = splits.iter().map(|split| (split.day, split.change > 0.0)).collect();
    of_day.sort_unstable();
    of_day.dedup();
    let count =
        |of: &(usize, bool)| splits.iter().filter(|split| (split.day, split.change > 0.0) == *of).count();
    let counts: Vec<usize> = of_day.iter().map(count).collect();
    // What happens on any day, without the days that stand out.
    let mut others = counts.iter().map(|count| *count as f64).collect::<Vec<_>>();
    others.resize(days.max(others.len()), 0.0);
    let usual = mean(&others.iter().map(|count| count.min(median(&others).max(1.0))).collect::<Vec<_>>());
    let p_values: Vec<f64> = counts.iter().map(|count| poisson_at_least(*count, usual)).collect();
    let chosen = benjamini_hochberg(&p_values, q);
    let event = |of: &(usize, bool)| {
        let splits_of: Vec<usize> = (0..splits.len())
            .filter(|index| (splits[*index].day, splits[*index].change > 0.0) == *of)
            .collect();
        let change = median(&splits_of.iter().map(|index| splits[*index].change).collect::<Vec<_>>());
        Event { day: of.0, splits: splits_of, change }
    };
    let is_event = |(count, chosen): (&usize, &bool)| *chosen && *count >= FEWEST_HOSTS;
    of_day
        .iter()
        .zip(counts.iter().zip(&chosen))
        .filter(|(_, of)| is_event(*of))
        .map(|(of, _)| event(of))
        .collect()
}

/// P(N ≥ count) where N has this mean.
fn poisson_at_least(count: usize, mean: f64) -> f64 {
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for k in 0..count {
        below += term;
        term *= mean / (k + 1) as f64;
    }
    // Where the sum is 1 to the last digit, the tail is its first term and what follows it.
    (1.0 - below).max(term).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn one_day_on_many_machines_is_one_event() {
        let mut random = Random::new(4);
        let mut history = |from: Option<usize>| -> Vec<(usize, f64)> {
            let step = |day| if from.is_some_and(|from| day >= from) { 0.05 } else { 0.0 };
            (0..20).map(|day| (day, step(day) + 0.007 * random.normal())).collect()
        };
        let all: Vec<Vec<(usize, f64)>> = (0..100).map(|host| history((host < 30).then_some(12))).collect();
        let splits: Vec<Split> = all.iter().filter_map(|history| split(history, 0.03)).collect();
        assert_eq!(splits.len(), 30, "{splits:?}");
        let events = events(&splits, 20, 0.05);
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].day == 12 && events[0].splits.len() >= 27, "{events:?}");
        assert!((events[0].change - 0.05).abs() < 0.004);
    }

    #[test]
    fn the_tail_of_poisson_is_counted_and_not_lost_far_out() {
        let close =
            |count, mean, expected: f64| (poisson_at_least(count, mean) / expected - 1.0).abs() < 1e-12;
        assert!(close(0, 2.0, 1.0) && close(1, 2.0, 1.0 - (-2.0_f64).exp()));
        assert!(close(3, 2.0, 1.0 - 5.0 * (-2.0_f64).exp()));
        // Of a mean of a half the first term is all that counts: e^-½ / 2^20 / 20!.
        let term = (-0.5_f64).exp() / 2.0_f64.powi(20) / (1..=20).map(f64::from).product::<f64>();
        assert!(close(20, 0.5, term), "{}", poisson_at_least(20, 0.5));
    }

    #[test]
    fn scattered_splits_are_no_event() {
        let splits: Vec<Split> = (0..20).map(|day| Split { day, change: 0.1 }).collect();
        assert_eq!(events(&splits, 20, 0.05), []);
        assert_eq!(events(&[], 20, 0.05), []);
    }
}
