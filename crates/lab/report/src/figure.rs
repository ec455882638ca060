//! A measured case in a cell: value, how far off it may be, marks.
//!
//! The figure of a case is absolute, and the interval of its ratio to the hub is none of it: the hub moves from session to session, and
//! with it every figure. So a ± stands behind an absolute figure only where other sessions of the machine are known. Elsewhere it is told where
//! the machine was meanwhile.

use weighbridge_record::Summary;

use crate::model::Measured;
use crate::units::{self, Scale};
use crate::words::many;

/// What is known of how far off an absolute figure may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Off {
    /// Where it is expected in another session of the machine, at 95 %.
    Across([f64; 2]),
    /// The range in which the machine was in this session.
    Range([f64; 2]),
    /// Nothing; it is of so many runs.
    Runs(u32),
}

impl Off {
    /// Of a case.
    pub fn of(summary: &Summary) -> Off {
        match (summary.across_sessions, summary.session_range) {
            (Some(ends), _) => Off::Across(ends),
            // Of the fewest runs that have an interval the range says something, too.
            (None, Some(ends)) if summary.runs >= FEWEST_RUNS => Off::Range(ends),
            _ => Off::Runs(summary.runs),
        }
    }

    /// The same of the figure converted by a function that is monotonous.
    #[must_use]
    pub fn map(self, convert: impl Fn(f64) -> f64) -> Off {
        let both = |ends: [f64; 2]| {
            let [one, other] = ends.map(&convert);
            [one.min(other), one.max(other)]
        };
        match self {
            Off::Across(ends) => Off::Across(both(ends)),
            Off::Range(ends) => Off::Range(both(ends)),
            Off::Runs(runs) => Off::Runs(runs),
        }
    }

    /// `±21%`, `−3+8%`, or `(3 runs)`.
    pub fn brief(self, median: f64) -> String {
        match self {
            Off::Across(ends) => units::reach(median, ends),
            Off::Range(ends) => units::around(median, ends),
            Off::Runs(runs) => among(runs),
        }
    }

    /// `[5.18 7.27]` of another session, `5.18…5.61` in this one, or `(3 runs)`; in the unit given.
    pub fn in_full(self, scale: &Scale) -> String {
        match self {
            Off::Across([low, high]) => format!("[{} {}]", scale.show(low), scale.show(high)),
            Off::Range([low, high]) => format!("{}…{}", scale.show(low), scale.show(high)),
            Off::Runs(runs) => among(runs),
        }
    }

    /// A sentence for the pointer; nothing where nothing is known.
    pub fn in_words(self, scale: &Scale) -> Option<String> {
        let ends = |ends| units::range(ends, |end| scale.show(end));
        match self {
            Off::Across(of) => Some(format!("another session is expected at {}", ends(of))),
            Off::Range(of) => Some(format!("in this session the machine was between {}", ends(of))),
            Off::Runs(_) => None,
        }
    }
}

/// Runs of which the lowest and the highest say where the others may be.
const FEWEST_RUNS: u32 = 6;

/// The parts of a cell, so that a format can align each of them, and be brief or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// The median in the table's unit.
    pub value: String,
    /// [`Off::brief`].
    pub reach: String,
    /// [`Off::in_full`], in the table's unit.
    pub interval: String,
    /// `!` and `~`.
    pub marks: String,
    /// Is it the best median of its row or column?
    pub is_best: bool,
}

impl Figure {
    /// The cell of a case in a table with the given unit.
    pub fn new(scale: &Scale, case: &Measured, summary: &Summary, is_best: bool) -> Figure {
        let off = Off::of(summary);
        Figure {
            value: scale.show(summary.median),
            reach: off.brief(summary.median),
            interval: off.in_full(scale),
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

fn among(runs: u32) -> String {
    format!("({})", many(runs as usize, "run"))
}

#[cfg(test)]
mod tests {
    use weighbridge_record::CaseId;

    use super::*;

    #[test]
    fn an_absolute_figure_has_a_reach_only_where_other_sessions_are_known() {
        let id = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let known = Summary { ci95: Some([1990.0, 2010.0]), ..Summary::new(id, "ns/roundtrip", 9, 2000.0) };
        let ranged = Summary { session_range: Some([1930.0, 2160.0]), ..known.clone() };
        let across = Summary { across_sessions: Some([1600.0, 2500.0]), ..ranged.clone() };
        let few = Summary { runs: 5, ..ranged.clone() };
        let scale = Scale::new("ns/roundtrip", [2000.0].into_iter());
        for (summary, brief, full) in [
            (&known, "(9 runs)", "(9 runs)"),
            (&few, "(5 runs)", "(5 runs)"),
            (&ranged, "−3.5+8.0%", "1.93…2.16"),
            (&across, "±25%", "[1.60 2.50]"),
        ] {
            let off = Off::of(summary);
            assert_eq!((off.brief(2000.0).as_str(), off.in_full(&scale).as_str()), (brief, full));
        }
    }
}
