//! What all runs of a case say together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weighbridge_stats::RegimeKind as Found;
use weighbridge_stats::summary::CaseRegime;

use crate::CaseId;
use crate::earlier::EarlierSessions;
use crate::hub::ToHub;
use crate::latency::Distribution;
use crate::run::{PerOp, SystemCalls};

/// Why no further runs were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// The interval is as narrow as was asked.
    Precision,
    /// The largest number of runs was made.
    #[default]
    MaxRuns,
    /// The time allowed was used up.
    Budget,
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// A run failed; see the `skipped` line of the case.
    Error,
    /// The tool that measured decided that, and its output was imported.
    Tool,
}

/// A remark on the samples: not one steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegimeKind {
    /// The samples fall into two groups.
    TwoModes,
    /// The level changed once.
    Step,
    /// The level drifts.
    Slope,
    /// Neighboring samples resemble each other.
    Correlated,
}

/// A regime found in the samples or runs of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    /// What was found.
    pub regime: RegimeKind,
    /// `samples` inside runs, or `runs` of the case.
    pub within: String,
    /// In how many of the runs (1 for a regime among runs).
    pub runs: u32,
    /// A sentence with the figures.
    pub detail: String,
    /// The two levels, for two modes and steps, in the case's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<[f64; 2]>,
}

/// How often a run was begun, and how often that gave no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// Runs that were begun.
    pub begun: u32,
    /// Those of them that failed or were void; each has a `skipped` line.
    pub failed: u32,
}

/// What the runs of a case amount to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The case.
    pub case: CaseId,
    /// Unit of `median` and `ci95`.
    pub unit: String,
    /// Number of runs.
    pub runs: u32,
    /// Runs that were begun, and those of them that failed or were void; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Attempts>,
    /// Median over the runs' values.
    pub median: f64,
    /// Interval of the median at 95 % **within this session**, widened by the correlation of neighboring runs: the one by which the
    /// case stopped. It compares cases of this record; of another session it says nothing, which `across_sessions` does. Absent below
    /// six runs.
    pub ci95: Option<[f64; 2]>,
    /// Lowest and highest run.
    pub range: [f64; 2],
    /// Spread between runs: half the interquartile range of their values over their median.
    pub spread_between: f64,
    /// Spread within runs: the median over runs of the same figure for samples.
    pub spread_within: f64,
    /// Its cost as a multiple of its hub's; absent where the case was measured alone. With it, `median` is that multiple of
    /// the hub's median over the session, and `ci95` is its interval times the same, as if that were exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_hub: Option<ToHub>,
    /// The range in which the machine was during this session, at this figure: what 90 % of the slices of the hub came to, or the lowest and
    /// the highest run of a case that was measured alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_range: Option<[f64; 2]>,
    /// Where the figure is expected in another session of this machine, at 95 %; absent where fewer than five sessions are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across_sessions: Option<[f64; 2]>,
    /// Earlier sessions of the case itself, where it was measured alone; with a hub, those of the hub count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierSessions>,
    /// The best state: the value that the best 5 % of slices reach, in the case's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<f64>,
    /// Share of the time that was spent in a slow state of the machine, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_share: Option<f64>,
    /// Why no further runs were made.
    pub stopped_by: StoppedBy,
    /// Median over the runs of each count.
    pub per_op: PerOp,
    /// What the roles called, counted in a run of its own; absent where that was not done or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<SystemCalls>,
    /// The same of a process beside the roles that takes part in each operation, such as a broker, by its name; it is part of `per_op`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, PerOp>,
    /// Median over the runs of each further series' median.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, f64>,
    /// Order-statistic intervals of these medians, at least 95 %; absent below six runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series_ci95: BTreeMap<String, [f64; 2]>,
    /// What single operations took, where each was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Counter checks that failed: counts that this case must not have, each with the reason.
    pub anomalies: Vec<String>,
    /// Departures from one steady state.
    pub regimes: Vec<Regime>,
    /// Checks of the case that too few sets did not allow: the name of each, a colon, and what it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<String>,
    /// Laws of the record that the case breaks, a sentence each: its figures are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub void: Vec<String>,
}

impl Summary {
    /// Of a case of which the median over its runs is known and nothing else.
    pub fn new(case: CaseId, unit: impl Into<String>, runs: u32, median: f64) -> Summary {
        Summary { case, unit: unit.into(), runs, median, range: [median; 2], ..Summary::default() }
    }
}

impl From<CaseRegime> for Regime {
    fn from(found: CaseRegime) -> Regime {
        Regime {
            regime: match found.kind {
                Found::TwoModes => RegimeKind::TwoModes,
                Found::Step => RegimeKind::Step,
                Found::Slope => RegimeKind::Slope,
                Found::Correlated => RegimeKind::Correlated,
            },
            within: found.within.as_str().into(),
            runs: found.runs as u32,
            detail: found.detail,
            levels: found.levels,
        }
    }
}
