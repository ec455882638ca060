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
            reach: reach(summary),
            interval: interval(scale, summary),
            marks: marks(case),
            is_best,
        }
    }
}

/// `!` for a failed counter check, `~` for something else than one steady state.
pub fn marks(case: &Measured) -> String {
    let mut marks = String::new();
    if case.has_anomalies() {
        marks.push('!');
    }
    if case.has_regimes() {
        marks.push('~');
    }
    marks
}

/// How far the interval reaches from the median: `±1.2%`, or `(3 runs)` where there is none.
pub fn reach(summary: &Summary) -> String {
    match summary.ci95 {
        Some(interval) => units::reach(summary.median, interval),
        None => format!("({})", many(summary.runs as usize, "run")),
    }
}

/// The interval in full: `[5.18 5.27]` in the unit given, or the number of runs where there is none.
pub fn interval(scale: &Scale, summary: &Summary) -> String {
    match summary.ci95 {
        Some([low, high]) => format!("[{} {}]", scale.show(low), scale.show(high)),
        None => format!("({})", many(summary.runs as usize, "run")),
    }
}
