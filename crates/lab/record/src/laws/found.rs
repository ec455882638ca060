//! What becomes of a law: it is broken, in one sentence that names it, what was found, what was expected and what to do; or it did not run.

use std::collections::BTreeSet;
use std::fmt;

use crate::{CaseId, Line, Skipped};

/// The step of a [`Skipped`] line that says which law a case breaks.
pub const STEP: &str = "law";

/// A law that a record breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the law.
    pub law: &'static str,
    /// The case that is void.
    pub case: CaseId,
    /// What the record says.
    pub found: String,
    /// What it must say.
    pub expected: String,
    /// What to do about it.
    pub way_out: &'static str,
}

/// One sentence.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { law, found, expected, way_out, .. } = self;
        write!(f, "law `{law}`: {found}; expected: {expected}; {way_out}")
    }
}

impl Violation {
    /// As a line of the record.
    pub fn line(&self) -> Line {
        Line::Skipped(Skipped { case: self.case.clone(), step: STEP.into(), why: self.to_string() })
    }
}

/// Where the laboratory itself is wrong, or somebody has changed the record.
pub(super) const DEFECT: &str =
    "the figures are void; report it with the record, it is a defect of this program or a changed record";
/// Where something beside the laboratory may be the cause.
pub(super) const CONDITIONS: &str =
    "the figures are void; see that nothing else moves, renices or limits this program, and measure again";
/// Where the mechanism does something else than its case says.
pub(super) const MECHANISM: &str =
    "the figures are void; report it with the record, the mechanism is not what its case says";

/// What became of the laws of one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Laws that are broken.
    pub violations: Vec<Violation>,
    /// Laws that did not run: the name of each, a colon, and what is missing.
    pub not_run: BTreeSet<String>,
}

impl Found {
    pub(super) fn broken(
        &mut self,
        law: &'static str,
        case: &CaseId,
        found: impl Into<String>,
        expected: impl Into<String>,
        way_out: &'static str,
    ) {
        let (found, expected) = (found.into(), expected.into());
        self.violations.push(Violation { law, case: case.clone(), found, expected, way_out });
    }

    pub(super) fn not_run(&mut self, law: &str, lacks: &str) {
        self.not_run.insert(format!("law `{law}`: the record does not tell {lacks}"));
    }
}

/// Do two figures agree but for what rounding does to them?
pub(super) fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs()).max(f64::MIN_POSITIVE)
}
