//! What a session was like: the hub over all of it, the best state of a party, the share of slow time.

use super::{Party, Slice};
use crate::order::{median, quantile_of_sorted, sorted};

/// Quantile of the slices that is called the best state.
const BEST: f64 = 0.05;

/// Slices are in two states where their 95 % and 5 % quantiles are at least this factor apart.
pub const STATES_APART: f64 = 1.25;

/// The states in which a party's slices were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct States {
    /// The 5 % quantile of the slices' cost, in nanoseconds per operation: what it costs when the machine is at its best. Not the
    /// lowest, which one misread clock decides.
    pub best_ns: f64,
    /// The 95 % quantile.
    pub worst_ns: f64,
    /// Share of the time that was spent in slices that cost more than the geometric middle between best and worst, 0 … 1; 0
    /// where best and worst are less than [`STATES_APART`] apart, because then there is one state.
    pub slow_share: f64,
}

/// The states of a party over all sets. `None` with fewer than 20 slices, where the 5 % quantile is the lowest.
///
/// The definition is a choice. The geometric middle of the outer quantiles separates two states wherever they lie, does not
/// move with a single stall as the best split of the variance (Otsu 1979) does, and needs no parameter but the factor below
/// which slices differ by noise only. A slow state with less than a twentieth of the slices is not seen.
///
/// # Panics
/// If a slice has no operation.
pub fn states<S: AsRef<[Slice]>>(sets: &[S], party: Party) -> Option<States> {
    let own: Vec<&Slice> =
        sets.iter().flat_map(|set| set.as_ref()).filter(|slice| slice.party == party).collect();
    if own.len() < 20 {
        return None;
    }
    let costs = sorted(&own.iter().map(|slice| slice.cost_ns()).collect::<Vec<_>>());
    let (best_ns, worst_ns) = (quantile_of_sorted(&costs, BEST), quantile_of_sorted(&costs, 1.0 - BEST));
    let middle = (best_ns * worst_ns).sqrt();
    let is_slow = |slice: &&&Slice| worst_ns >= STATES_APART * best_ns && slice.cost_ns() > middle;
    let slow: u64 = own.iter().filter(is_slow).map(|slice| slice.elapsed_ns).sum();
    let all: u64 = own.iter().map(|slice| slice.elapsed_ns).sum();
    Some(States { best_ns, worst_ns, slow_share: slow as f64 / all.max(1) as f64 })
}

/// The hub over a whole session.
#[derive(Clone, Debug, PartialEq)]
pub struct HubSession {
    /// Median over the sets of the median of their slices, in nanoseconds per operation.
    pub median_ns: f64,
    /// The 5 % and 95 % quantile of all its slices: "in this session a pipe took 6.2 to 9.3 µs".
    pub range_ns: [f64; 2],
    /// Median of each set, in order of time.
    pub set_medians_ns: Vec<f64>,
}

impl HubSession {
    /// The absolute figure of a case: its ratio to the hub times the hub's median of the session, in nanoseconds per operation.
    ///
    /// The hub is a control variate (Lavenberg and Welch 1981): it was measured in every set of the session, so its median is
    /// known far better than that of the few sets of one case, and what was particular to those sets cancels in the ratio. An
    /// interval of the ratio times the same median says how sure the figure is *for this session*; the hub's range says how
    /// far another session may be off.
    pub fn absolute(&self, ratio: f64) -> f64 {
        ratio * self.median_ns
    }
}

/// The hub over the sets of a session, in order of time; `None` where no set has a slice of it.
///
/// # Panics
/// If a slice has no operation.
pub fn hub_session<S: AsRef<[Slice]>>(sets: &[S]) -> Option<HubSession> {
    let costs_of = |set: &S| -> Vec<f64> {
        set.as_ref().iter().filter(|slice| slice.party == Party::Hub).map(Slice::cost_ns).collect()
    };
    let by_set: Vec<Vec<f64>> = sets.iter().map(costs_of).filter(|costs| !costs.is_empty()).collect();
    if by_set.is_empty() {
        return None;
    }
    let all = sorted(&by_set.concat());
    let set_medians_ns: Vec<f64> = by_set.iter().map(|costs| median(costs)).collect();
    Some(HubSession {
        median_ns: median(&set_medians_ns),
        range_ns: [quantile_of_sorted(&all, BEST), quantile_of_sorted(&all, 1.0 - BEST)],
        set_medians_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::slices;
    use super::*;

    #[test]
    fn a_third_of_slow_slices_is_half_of_the_time_at_twice_the_cost() {
        let set = slices(&[(Party::Hub, 10.0), (Party::Hub, 10.0), (Party::Hub, 20.0)].repeat(20));
        let found = states(&[&set], Party::Hub).unwrap();
        assert_eq!((found.best_ns, found.worst_ns), (10.0, 20.0));
        assert!((found.slow_share - 0.5).abs() < 1e-9, "{found:?}");
        assert_eq!(states(&[&set], Party::Case(0)), None);
        assert_eq!(states(&[&set[..19]], Party::Hub), None);
    }

    #[test]
    fn noise_and_single_stalls_are_no_slow_state() {
        let noise: Vec<(Party, f64)> =
            (0..100).map(|i| (Party::Hub, 10.0 + f64::from(i * 7 % 20) * 0.1)).collect();
        assert_eq!(states(&[slices(&noise)], Party::Hub).unwrap().slow_share, 0.0);
        let mut stalled = noise;
        stalled[50].1 = 5000.0;
        assert_eq!(states(&[slices(&stalled)], Party::Hub).unwrap().slow_share, 0.0);
    }

    #[test]
    fn the_absolute_figure_is_that_of_a_typical_set() {
        let sets: Vec<Vec<Slice>> = [10.0, 11.0, 30.0].map(|cost| slices(&[(Party::Hub, cost); 30])).into();
        let session = hub_session(&sets).unwrap();
        assert_eq!((session.median_ns, session.range_ns), (11.0, [10.0, 30.0]));
        assert!((session.absolute(2.0) - 22.0).abs() < 1e-9);
        assert_eq!(session.set_medians_ns, [10.0, 11.0, 30.0]);
        assert_eq!(hub_session::<Vec<Slice>>(&[]), None);
    }
}
