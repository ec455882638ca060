//! A measured case in a cell: value, interval, marks.

use weighbridge_record::Summary;

use crate::model::Measured;
use crate::units::{self, Scale};
use crate::words::many;

/// The parts of a cell, so that a format can align each of them, and show the interval briefly or in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// The median in the table's unit.
    pub value: String,
    /// `±1.2%`, or `(3 runs)` where there is no interval.
    pub reach: String,
    /// `[5.18 5.27]` in the table's unit, or `(3 runs)`.
    pub interval: String,
    /// `!` and `~`.
    pub marks: String,
    /// Is it the best median of its row or column?
    pub is_best: bool,
}

impl Figure {
    /// The cell of a case in a table with the given unit.
    pub fn new(scale: &Scale, case: &Measured, summary: &Summary, is_best: bool) -> Figure {
        Figure {
            value: scale.show(summary.median),
            reach: reach(summary.median, summary.ci95, summary.runs),
            interval: interval(scale, summary),
            marks: marks(case),
            is_best,
        }
    }
}

/// `!` for a failed counter check, `~` for something else than one steady state.
pub fn marks(case: &Measured) -> String {
    let marks = [(case.has_anomalies(), '!'), (case.has_regimes(), '~')];
    marks.into_iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| mark).collect()
}

/// How far the interval reaches from the median: `±1.2%`, or `(3 runs)` where there is none.
pub fn reach(median: f64, interval: Option<[f64; 2]>, runs: u32) -> String {
    interval.map_or_else(|| among(runs), |interval| units::reach(median, interval))
}

/// The interval in full: `[5.18 5.27]` in the unit given, or the number of runs where there is none.
pub fn interval(scale: &Scale, summary: &Summary) -> String {
    let shown = |[low, high]: [f64; 2]| format!("[{} {}]", scale.show(low), scale.show(high));
    summary.ci95.map_or_else(|| among(summary.runs), shown)
}

fn among(runs: u32) -> String {
    format!("({})", many(runs as usize, "run"))
}
