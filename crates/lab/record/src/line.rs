//! The lines of a record, one type each.

use serde::{Deserialize, Serialize};

use crate::CaseId;
use crate::check::Check;
use crate::compare::{CaseVerdict, Claims, ComparedSet};
use crate::contest::{Contest, Findings};
use crate::explain::{ExplainedSet, Explanation, Price};
use crate::functions::{Functions, FunctionsCompared};
use crate::header::Header;
use crate::hub::Hub;
use crate::observation::{Difference, Observation, Profile};
use crate::outcome::Outcome;
use crate::ratio::{Comparison, Crossover, Published, Ratio};
use crate::run::{Case, Run};
use crate::summary::Summary;
use crate::timeline::Timeline;

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The first line: tool, settings, machine.
    Header(Box<Header>),
    /// A case, before its first run.
    Case(Case),
    /// One finished run.
    Run(Run),
    /// What the runs of a case amount to.
    Summary(Summary),
    /// A hub over the whole session.
    Hub(Hub),
    /// Two cases of one record, interleaved, as a ratio of their costs.
    Comparison(Comparison),
    /// Cases that differ in the mechanism, and which order of them is sure.
    Contest(Contest),
    /// All contests of a record, judged together.
    Findings(Findings),
    /// How many times a figure of a baseline a case has.
    Ratio(Ratio),
    /// The size at which two mechanisms cost the same.
    Crossover(Crossover),
    /// A figure that others have published, beside ours.
    Published(Published),
    /// A figure of another tool and ours, measured in turn.
    Check(Box<Check>),
    /// One set of a comparison of two sides.
    ComparedSet(Box<ComparedSet>),
    /// What may be said of one side against the other in a case.
    Verdict(Box<CaseVerdict>),
    /// What holds of all cases of a comparison together.
    Claims(Claims),
    /// One set of an explanation.
    ExplainedSet(ExplainedSet),
    /// What one of something costs.
    Price(Price),
    /// What the cost of a case is made of.
    Explanation(Box<Explanation>),
    /// What the kernel did while a case ran.
    Observation(Box<Observation>),
    /// Where the time of a case went, by samples.
    Profile(Box<Profile>),
    /// How two observed cases differ.
    Difference(Box<Difference>),
    /// When each thing happens in an operation.
    Timeline(Box<Timeline>),
    /// The instructions of an operation by function, counted in a guest.
    Functions(Box<Functions>),
    /// The functions of two cases, or of a case on two kernels, compared.
    FunctionsCompared(Box<FunctionsCompared>),
    /// A case that could not be measured, or a run of it, and why.
    Skipped(Skipped),
    /// What became of a case that the session meant to measure.
    Outcome(Outcome),
    /// The last line.
    End(End),
}

/// A case, or one run of it, that gave no number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The case.
    pub case: CaseId,
    /// The step in which it ended: `fit`, `plan`, `conditions` (roles did not run as the case says), `throttled` (a control group
    /// withheld CPU time), or the step of a peer's life
    /// (`hello`, `pin`, `attach`, `prefault`, `verify`,
    /// `ready`, `calibrate`, `batches`, `report`).
    pub step: String,
    /// One sentence: what, why, and how to change it where the user can.
    pub why: String,
}

/// The last line of a record that was closed in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Was everything measured that was planned?
    pub complete: bool,
    /// Wall-clock time, in seconds.
    pub elapsed_s: f64,
}
