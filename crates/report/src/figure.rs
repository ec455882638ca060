//! A measured case in a cell: value, reach of the interval, marks.

use weighbridge_record::Summary;

use crate::model::Measured;
use crate::units::{self, Scale};
use crate::words::many;

/// What the marks mean, for the lines below the tables.
pub const LEGEND: [&str; 5] = [
    "* best median.",
    "± from the median to the farther end of its 95 % interval.",
    "! counters not as expected.",
    "~ not one steady state.",
    "– skipped.",
];

/// The parts of a cell, so that a table can align each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// The median in the table's unit.
    pub value: String,
    /// `±1.2%`, or `(3 runs)` where there is no interval.
    pub reach: String,
    /// `!` and `~`.
    pub marks: String,
}

impl Figure {
    /// The cell of a case in a table with the given unit.
    pub fn new(scale: &Scale, case: &Measured, summary: &Summary) -> Figure {
        let reach = match summary.ci95 {
            Some(interval) => units::reach(summary.median, interval),
            None => format!("({})", many(summary.runs as usize, "run")),
        };
        Figure { value: scale.show(summary.median), reach, marks: marks(case) }
    }
}

/// `!` for counters not as expected, `~` for something else than one steady state.
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

/// The interval in full: `[5.18 5.27]` in the unit given, or the number of runs where there is none.
pub fn interval(scale: &Scale, summary: &Summary) -> String {
    match summary.ci95 {
        Some([low, high]) => format!("[{} {}]", scale.show(low), scale.show(high)),
        None => format!("({})", many(summary.runs as usize, "run")),
    }
}
