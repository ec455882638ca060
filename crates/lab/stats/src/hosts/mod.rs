//! Many machines: which differ from the others, why, since when, and how many are needed to know.
//!
//! | question | module |
//! |---|---|
//! | what is of a machine, what of a case, what is left | [`polish`] |
//! | does the scatter come from machines, boots or runs | [`components`] |
//! | which machines are surely off by more than a margin | [`outlying`] |
//! | which case of which machine | [`cells`] |
//! | are there two kinds of machines in one class | [`bands`] |
//! | which setting goes with a cost | [`association`] |
//! | what changed on many machines at one time | [`events`] |
//! | do two groups of machines differ, how many would tell | [`groups`] |
//!
//! Everything is a natural logarithm of a cost, so that an effect of 0.03 is 3 % more. The unit of evidence is the machine, and of one
//! machine the boot.

pub mod association;
pub mod bands;
pub mod cells;
pub mod components;
pub mod events;
pub mod groups;
pub mod outlying;
pub mod polish;

use crate::order::median_in_place;

/// The median of the values that are known; `None` of none.
pub(crate) fn known_median(values: impl Iterator<Item = f64>, space: &mut Vec<f64>) -> Option<f64> {
    space.clear();
    space.extend(values.filter(|value| value.is_finite()));
    (!space.is_empty()).then(|| median_in_place(space))
}

/// The median of χ² with one degree of freedom: the median of squares over it is the variance of normal values around 0.
pub(crate) const MEDIAN_OF_SQUARES: f64 = 0.454_936_423_119_572_8;

/// Variance of values around 0 from the median of their squares, which a few wild ones do not move.
pub(crate) fn robust_variance(values: &[f64]) -> f64 {
    let mut squares: Vec<f64> = values.iter().map(|value| value * value).collect();
    median_in_place(&mut squares) / MEDIAN_OF_SQUARES
}
