//! Cost as a function of message size: its value between measured sizes, and where two curves meet.

/// What an operation costs at each measured size.
///
/// ```
/// use weighbridge_stats::curve::CostCurve;
/// let copy = CostCurve::new(&[(1000.0, 10.0), (100_000.0, 1000.0)]);
/// let map = CostCurve::new(&[(1000.0, 100.0), (100_000.0, 100.0)]);
/// let meet = copy.crossovers(&map);
/// assert!((meet[0].size - 10_000.0).abs() < 1e-6 && meet[0].cheaper_below);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CostCurve {
    points: Vec<(f64, f64)>,
}

/// A size at which two curves cost the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossover {
    /// The size, in the unit of the curves.
    pub size: f64,
    /// Is the first curve (`self`) the cheaper one just below that size?
    pub cheaper_below: bool,
}

impl CostCurve {
    /// A curve through (size, cost) points in any order.
    ///
    /// # Panics
    /// If there is no point, a size is negative or there twice, or a cost is not positive.
    pub fn new(points: &[(f64, f64)]) -> CostCurve {
        assert!(!points.is_empty(), "a curve without points");
        for &(size, cost) in points {
            assert!(size.is_finite() && size >= 0.0, "a size of {size}");
            assert!(cost.is_finite() && cost > 0.0, "a cost of {cost} at size {size}");
        }
        let mut points = points.to_vec();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "a size is there twice: {points:?}");
        CostCurve { points }
    }

    /// All sizes at which both curves cost the same, ascending, among the sizes that both cover.
    ///
    /// Both curves are taken as straight between points on logarithmic axes, where curves over decades of size are
    /// nearly straight; each crossing is then computed, not searched for. Points of size 0 have no logarithm and are
    /// left out. A touch without a change of sides is no crossover; where the curves run together for a stretch, the
    /// crossover is its beginning.
    pub fn crossovers(&self, other: &CostCurve) -> Vec<Crossover> {
        let (a, b) = (self.logarithms(), other.logarithms());
        let mut knots: Vec<f64> = a.iter().chain(&b).map(|point| point.0).collect();
        knots.sort_unstable_by(f64::total_cmp);
        knots.dedup();
        let gap_at = |&size: &f64| Some((size, interpolate(&a, size)? - interpolate(&b, size)?));
        let mut found = vec![];
        // The last knot at which the curves differed, and since where they have been equal.
        let (mut last, mut equal_since): (Option<(f64, f64)>, Option<f64>) = (None, None);
        for (size, gap) in knots.iter().filter_map(gap_at) {
            if gap == 0.0 {
                equal_since = equal_since.or(Some(size));
                continue;
            }
            if let Some((before, gap_before)) = last
                && gap.is_sign_negative() != gap_before.is_sign_negative()
            {
                let between = before + (size - before) * (gap_before / (gap_before - gap));
                let meet = equal_since.unwrap_or(between);
                found.push(Crossover { size: meet.exp(), cheaper_below: gap_before < 0.0 });
            }
            (last, equal_since) = (Some((size, gap)), None);
        }
        found
    }

    fn logarithms(&self) -> Vec<(f64, f64)> {
        let positive = self.points.iter().filter(|point| point.0 > 0.0);
        positive.map(|&(size, cost)| (size.ln(), cost.ln())).collect()
    }
}

/// Piecewise-linear through points of ascending x; `None` outside.
#[must_use]
pub fn interpolate(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let above = points.partition_point(|point| point.0 < x);
    let &(x1, y1) = points.get(above)?;
    if x1 == x {
        return Some(y1);
    }
    let (x0, y0) = points[above.checked_sub(1)?];
    Some(y0 + (y1 - y0) * ((x - x0) / (x1 - x0)))
}

/// What two mechanisms cost at one size: the medians, and their intervals where they have any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Both {
    /// The size, positive.
    pub size: f64,
    /// Median and interval of the first.
    pub first: (f64, Option<[f64; 2]>),
    /// Median and interval of the second.
    pub second: (f64, Option<[f64; 2]>),
}

impl Both {
    /// Is the first surely the cheaper one (or surely not)? `None` where the intervals overlap or are missing.
    fn first_is_surely_cheaper(&self) -> Option<bool> {
        let (first, second) = (self.first.1?, self.second.1?);
        if first[1] < second[0] {
            return Some(true);
        }
        (second[1] < first[0]).then_some(false)
    }
}

/// Where two mechanisms are equally fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meeting {
    /// At no size between the measured ones: one of them is cheaper at all.
    Never {
        /// Is it the first?
        first_is_cheaper: bool,
    },
    /// At this size.
    At {
        /// Where the medians cross; the largest such size where they cross several times.
        size: f64,
        /// The nearest measured sizes on both sides at which the intervals do not overlap and the order is as it should be
        /// there; between them the two cannot be told apart. `None` where there is no such size.
        between: [Option<f64>; 2],
        /// Is the first one cheaper below that size?
        first_is_cheaper_below: bool,
        /// How often the medians cross.
        crossings: usize,
    },
}

/// Where two mechanisms are equally fast, from their costs at sizes at which both were measured; `None` without any, and
/// where they cost the same everywhere.
pub fn meeting(measured: &[Both]) -> Option<Meeting> {
    if measured.is_empty() {
        return None;
    }
    let points =
        |cost: fn(&Both) -> f64| measured.iter().map(|both| (both.size, cost(both))).collect::<Vec<_>>();
    let first = CostCurve::new(&points(|both| both.first.0));
    let crossings = first.crossovers(&CostCurve::new(&points(|both| both.second.0)));
    let Some(last) = crossings.last() else {
        let gap = measured.iter().map(|both| both.first.0 - both.second.0).find(|gap| *gap != 0.0)?;
        return Some(Meeting::Never { first_is_cheaper: gap < 0.0 });
    };
    let sure = |wanted: bool| {
        measured
            .iter()
            .filter(move |both| both.first_is_surely_cheaper() == Some(wanted))
            .map(|both| both.size)
    };
    let below = sure(last.cheaper_below).filter(|size| *size < last.size).reduce(f64::max);
    let above = sure(!last.cheaper_below).filter(|size| *size > last.size).reduce(f64::min);
    Some(Meeting::At {
        size: last.size,
        between: [below, above],
        first_is_cheaper_below: last.cheaper_below,
        crossings: crossings.len(),
    })
}

/// The search, by measuring, for the size at which two mechanisms cost the same: where to measure next.
///
/// Each step measures both at [`probe`](Bisection::probe) and [`tell`](Bisection::tell)s which was cheaper. Steps go
/// by the geometric mean, so a range from 1 byte to 1 GiB is settled to 1 byte in about as many steps as it has
/// binary digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bisection {
    low: u64,
    high: u64,
}

impl Bisection {
    /// A search between two sizes, at which different mechanisms are known to be cheaper.
    ///
    /// # Panics
    /// If `low` is 0 or not below `high`.
    pub fn new(low: u64, high: u64) -> Bisection {
        assert!(0 < low && low < high, "a search between {low} and {high}");
        Bisection { low, high }
    }

    /// The next size to measure, strictly between the ends; `None` when they are neighbors.
    pub fn probe(&self) -> Option<u64> {
        let middle = (self.low as f64 * self.high as f64).sqrt() as u64;
        (self.high - self.low > 1).then(|| middle.clamp(self.low + 1, self.high - 1))
    }

    /// Takes the result at the probe: is the mechanism that is cheaper at the lower end still the cheaper one?
    pub fn tell(&mut self, like_the_lower_end: bool) {
        if let Some(probe) = self.probe() {
            *(if like_the_lower_end { &mut self.low } else { &mut self.high }) = probe;
        }
    }

    /// The sizes between which the crossover lies.
    pub fn bracket(&self) -> (u64, u64) {
        (self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_outside_the_measured_sizes() {
        let curve = CostCurve::new(&[(100.0, 3.0), (0.0, 1.0)]);
        let cost_at = |size| interpolate(&curve.points, size);
        assert_eq!([0.0, 50.0, 101.0].map(cost_at), [Some(1.0), Some(2.0), None]);
    }

    #[test]
    fn power_laws_meet_where_algebra_says_a_touch_is_no_crossover_and_a_shared_stretch_begins_one() {
        // 2·s^0.5 = 0.02·s^1.5 at s = 100, from points that are nowhere near it and not shared.
        let at = |sizes: [f64; 3], f: fn(f64) -> f64| CostCurve::new(&sizes.map(|size| (size, f(size))));
        let slow = at([1.0, 30.0, 9000.0], |s| 2.0 * s.sqrt());
        let steep = at([0.5, 700.0, 20000.0], |s| 0.02 * s.powf(1.5));
        let flat = CostCurve::new(&[(1.0, 5.0), (2.0, 5.0), (4.0, 5.0), (8.0, 5.0)]);
        let touching = CostCurve::new(&[(1.0, 6.0), (2.0, 5.0), (8.0, 6.0)]);
        let sharing = CostCurve::new(&[(1.0, 6.0), (2.0, 5.0), (4.0, 5.0), (8.0, 4.0)]);
        let elsewhere = CostCurve::new(&[(100.0, 1.0), (200.0, 9.0)]);
        for (one, other, expected) in [
            (&slow, &steep, Some((100.0, false))),
            (&steep, &slow, Some((100.0, true))),
            (&flat, &touching, None),
            (&flat, &sharing, Some((2.0, true))),
            (&flat, &elsewhere, None),
        ] {
            let meet = one.crossovers(other);
            assert_eq!(meet.len(), usize::from(expected.is_some()), "{meet:?}");
            for (found, (size, cheaper_below)) in meet.iter().zip(expected) {
                assert!(
                    (found.size - size).abs() < 1e-9 && found.cheaper_below == cheaper_below,
                    "{found:?}"
                );
            }
        }
    }

    fn both(size: f64, first: f64, second: f64, reach: f64) -> Both {
        let around = |cost: f64| (cost, Some([cost * (1.0 - reach), cost * (1.0 + reach)]));
        Both { size, first: around(first), second: around(second) }
    }

    #[test]
    fn a_meeting_lies_between_the_sizes_at_which_the_order_is_sure() {
        // A copy that costs its size, and a file that costs 100, each known to 10 %: from 91 to 110 nobody can tell.
        let sizes = [10.0, 50.0, 80.0, 95.0, 105.0, 120.0, 200.0];
        let measured = sizes.map(|size| both(size, size, 100.0, 0.1));
        let Some(Meeting::At { size, between, first_is_cheaper_below, crossings }) = meeting(&measured)
        else {
            panic!("they meet");
        };
        assert!((size - 100.0).abs() < 0.5, "{size}");
        assert_eq!((between, first_is_cheaper_below, crossings), ([Some(80.0), Some(200.0)], true, 1));
        let without = measured.map(|both| Both { first: (both.first.0, None), ..both });
        assert!(matches!(meeting(&without), Some(Meeting::At { between: [None, None], .. })));
        let apart = [both(1.0, 5.0, 6.0, 0.0), both(2.0, 7.0, 7.0, 0.0), both(3.0, 8.0, 9.0, 0.0)];
        assert_eq!(meeting(&apart), Some(Meeting::Never { first_is_cheaper: true }));
        assert_eq!((meeting(&[]), meeting(&[both(1.0, 5.0, 5.0, 0.0)])), (None, None));
    }

    #[test]
    fn bisection_ends_on_neighbors_around_the_crossover() {
        let mut search = Bisection::new(1, 1 << 30);
        let mut steps = 0;
        while let Some(size) = search.probe() {
            search.tell(size < 524_288);
            steps += 1;
        }
        assert_eq!(search.bracket(), (524_287, 524_288));
        assert!(steps <= 40, "{steps} steps");
    }
}
