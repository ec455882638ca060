//! Is a peer warm yet? Decided while it warms up, from the costs of its batches.
//!
//! No allocation and no clock of its own: the caller tells each batch's duration. About 30 comparisons at every eighth batch.

/// Batches that are looked at: the last of these many.
pub const WINDOW: usize = 24;

/// Blocks into which the window is divided; neighboring batches resemble each other, medians of three less.
const BLOCKS: usize = 8;
const BLOCK: usize = WINDOW / BLOCKS;

/// Kendall's S of eight blocks from which on they are said to trend: P(|S| ≥ 14) = 0.11 (Kendall 1975, table 1). Laxer than
/// usual because the errors differ in price: a false alarm costs eight batches more, a trend that is missed costs the figure.
const TRENDS_FROM: i32 = 14;

/// A change over the window of less than this part is not waited for: 1 %.
pub const WORTH_WAITING: f64 = 0.01;

/// What to do after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpState {
    /// Go on warming up.
    Warming,
    /// The last batches show no trend.
    Steady,
    /// There is still a trend, and the longest time has passed: the case is measured while it changes, and the record says so.
    StillTrending,
}

/// The progress of one warm-up.
#[derive(Clone, Debug)]
pub struct WarmUp {
    least_ns: u64,
    most_ns: u64,
    passed_ns: u64,
    batches: usize,
    costs: [f64; WINDOW],
}

impl WarmUp {
    /// A warm-up of at least `least_ns` and, where the trend goes on, of `most_ns`. With batches so long that fewer than
    /// [`WINDOW`] fit into the longest time, that time decides.
    ///
    /// # Panics
    /// If the least is above the most.
    pub fn new(least_ns: u64, most_ns: u64) -> WarmUp {
        assert!(least_ns <= most_ns, "a warm-up of at least {least_ns} and at most {most_ns} ns");
        WarmUp { least_ns, most_ns, passed_ns: 0, batches: 0, costs: [0.0; WINDOW] }
    }

    /// Takes a batch. The trend is looked at after every eighth batch once the window is full and the least time has passed.
    ///
    /// # Panics
    /// If the batch has no operation.
    pub fn push(&mut self, elapsed_ns: u64, ops: u64) -> WarmUpState {
        assert!(ops > 0, "a batch without an operation");
        self.costs[self.batches % WINDOW] = elapsed_ns as f64 / ops as f64;
        self.batches += 1;
        self.passed_ns += elapsed_ns;
        let is_look = self.batches >= WINDOW && self.batches.is_multiple_of(BLOCKS);
        if is_look && self.passed_ns >= self.least_ns && !self.trends() {
            WarmUpState::Steady
        } else if self.passed_ns >= self.most_ns {
            WarmUpState::StillTrending
        } else {
            WarmUpState::Warming
        }
    }

    /// Nanoseconds that the batches so far took: what is discarded.
    pub fn passed_ns(&self) -> u64 {
        self.passed_ns
    }

    /// Batches so far.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// Kendall's rank correlation with time (Mann 1945) over the medians of blocks of three batches, up or down, and a median
    /// change between the halves of the window that is worth waiting for.
    fn trends(&self) -> bool {
        let batch = |i: usize| self.costs[(self.batches + i) % WINDOW];
        let middle = |block: usize| {
            let [a, b, c] = [0, 1, 2].map(|i| batch(block * BLOCK + i));
            a.min(b).max(a.max(b).min(c))
        };
        let blocks: [f64; BLOCKS] = std::array::from_fn(middle);
        let mut s = 0;
        for (i, first) in blocks.iter().enumerate() {
            s += blocks[i + 1..]
                .iter()
                .map(|later| i32::from(later > first) - i32::from(later < first))
                .sum::<i32>();
        }
        let mut differences: [f64; BLOCKS / 2] = std::array::from_fn(|i| blocks[i + BLOCKS / 2] - blocks[i]);
        differences.sort_unstable_by(f64::total_cmp);
        // From half to half; over the whole window the change is twice that.
        let change = 2.0 * f64::midpoint(differences[1], differences[2]).abs();
        s.abs() >= TRENDS_FROM && change >= WORTH_WAITING * blocks[0].abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of 100 operations and about 4 ms until the warm-up ends: state and number of batches.
    fn warm_up(cost_of_batch: impl Fn(usize) -> f64) -> (WarmUpState, usize) {
        let mut warm_up = WarmUp::new(50_000_000, 1_000_000_000);
        loop {
            let cost_ns = cost_of_batch(warm_up.batches());
            match warm_up.push((cost_ns * 100.0) as u64, 100) {
                WarmUpState::Warming => {}
                state => return (state, warm_up.batches()),
            }
        }
    }

    fn scatter(batch: usize) -> f64 {
        1.0 + 0.002 * ((batch * 7 % 11) as f64 - 5.0)
    }

    #[test]
    fn a_steady_peer_is_warm_when_the_window_is_full() {
        assert_eq!(warm_up(|batch| 40_000.0 * scatter(batch)), (WarmUpState::Steady, 24));
        assert_eq!(warm_up(|_| 40_000.0), (WarmUpState::Steady, 24));
    }

    #[test]
    fn a_transient_up_or_down_is_waited_for() {
        for direction in [1.0, -1.0] {
            let rise = |batch: usize| 40_000.0 * (1.0 - direction * 0.25 * (-(batch as f64) / 15.0).exp());
            let (state, batches) = warm_up(|batch| rise(batch) * scatter(batch));
            assert_eq!(state, WarmUpState::Steady);
            assert!((32..=104).contains(&batches), "{batches}");
        }
    }

    #[test]
    fn time_ends_what_never_settles() {
        let (state, batches) = warm_up(|batch| 40_000.0 * (1.0 + 0.01 * batch as f64));
        assert_eq!(state, WarmUpState::StillTrending);
        assert!(batches > 24);
        let mut slow = WarmUp::new(0, 250_000_000);
        assert_eq!(slow.push(300_000_000, 1), WarmUpState::StillTrending);
        assert_eq!((slow.passed_ns(), slow.batches()), (300_000_000, 1));
    }

    #[test]
    fn a_stall_and_a_drift_of_half_a_per_cent_are_not_waited_for() {
        let stall = |batch: usize| if batch == 20 { 400_000.0 } else { 40_000.0 * scatter(batch) };
        assert_eq!(warm_up(stall), (WarmUpState::Steady, 24));
        assert_eq!(warm_up(|batch| 40_000.0 * (1.0 + 0.0002 * batch as f64)), (WarmUpState::Steady, 24));
    }
}
