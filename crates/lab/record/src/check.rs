//! Our figures beside those of other tools.

use serde::{Deserialize, Serialize};

use crate::CaseId;

/// A figure of another tool and ours, measured in turn on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Name of the check.
    pub check: String,
    /// The other tool.
    pub tool: String,
    /// The Debian package that has it.
    pub debian_package: String,
    /// Its command line, with `{near}`, `{far}` and `{port}` for what is chosen at run time.
    pub command: Vec<String>,
    /// The program that ran; absent where the tool is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Our case.
    pub case: CaseId,
    /// Unit of all figures.
    pub unit: String,
    /// What the figure of the tool means.
    pub theirs_is: Meaning,
    /// Median over the turns of the tool's figure.
    pub theirs: Option<f64>,
    /// Median over the turns of ours.
    pub ours: Option<f64>,
    /// Ours over theirs, median over the turns.
    pub ratio: Option<f64>,
    /// Sign-test interval of the ratio, at least 95 %; absent below six turns.
    pub ci95: Option<[f64; 2]>,
    /// From where to where the ratio is expected.
    pub band: [f64; 2],
    /// Why the ratio is expected in the band.
    pub because: String,
    /// What is known to move the ratio out of the band.
    pub known_reasons: String,
    /// `inside`, `outside`, `inconclusive`, `failed`, `not measured`, `not here`, `not installed`.
    pub verdict: String,
    /// Why there are fewer turns than were asked for, or none.
    pub trouble: Option<String>,
    /// The figures of every turn.
    pub turns: Vec<Turn>,
}

/// What the figure of another tool means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meaning {
    /// Hop or round trip, GB or GiB, copies.
    pub counts: String,
    /// Size, and whether its buffer is used again.
    pub message: String,
    /// Processes or threads, and how they wait.
    pub peers: String,
    /// What happens before and inside the time that is measured.
    pub warm_up: String,
}

/// One turn of a check: both figures in the unit of the check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Figure of the external tool.
    pub theirs: f64,
    /// Figure of our case.
    pub ours: f64,
}
