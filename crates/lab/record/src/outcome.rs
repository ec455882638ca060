//! What became of each case that a session meant to measure. Without a row for those that gave no figure, a fleet would show only survivors.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{CaseId, Line, Reading, Skipped, StoppedBy, laws};

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// It has its figure.
    Measured,
    /// It was not measured, for a reason that stays: the machine or the case.
    Skipped,
    /// It was measured, and its figures are none: the conditions did not hold, or a law is broken.
    Void,
    /// The session ended before the case had its runs; a figure that it has rests on fewer.
    Interrupted,
}

impl Ending {
    /// As a record spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Ending::Measured => "measured",
            Ending::Skipped => "skipped",
            Ending::Void => "void",
            Ending::Interrupted => "interrupted",
        }
    }
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The case.
    pub case: CaseId,
    /// How it ended.
    pub outcome: Ending,
    /// Where it ended, as in a `skipped` line; absent where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// One sentence; absent where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Steps of a run that was made and whose figure is none.
const VOID: [&str; 4] = ["conditions", "throttled", "stopped", laws::STEP];

/// What became of every case of a record, each once: of those that it planned, in their order, then of others of which it says something. Of a
/// record that ended without saying so, or was written before outcomes were, it is told from its other lines.
pub fn outcomes(reading: &Reading, planned: &[CaseId]) -> Vec<Outcome> {
    let told: BTreeMap<&CaseId, &Outcome> = reading.lines.iter().filter_map(told).collect();
    let void = reading.void_cases();
    let mut seen = BTreeSet::new();
    let all = planned.iter().chain(reading.lines.iter().filter_map(case_of));
    all.filter(|case| seen.insert(*case))
        .map(|case| match told.get(case) {
            // A law may have been found broken by who read the record.
            Some(outcome) if !void.contains(case) || outcome.outcome == Ending::Void => (*outcome).clone(),
            _ => of_lines(&reading.lines, case, void.contains(case)),
        })
        .collect()
}

fn told(line: &Line) -> Option<(&CaseId, &Outcome)> {
    if let Line::Outcome(outcome) = line { Some((&outcome.case, outcome)) } else { None }
}

/// The case of a line that says of a case of the session what became of it.
fn case_of(line: &Line) -> Option<&CaseId> {
    match line {
        Line::Case(case) => Some(&case.case),
        Line::Outcome(outcome) => Some(&outcome.case),
        Line::Skipped(skipped) => Some(&skipped.case),
        _ => None,
    }
}

fn of_lines(lines: &[Line], case: &CaseId, is_void: bool) -> Outcome {
    let skips = lines.iter().filter_map(|line| match line {
        Line::Skipped(skipped) if skipped.case == *case => Some(skipped),
        _ => None,
    });
    let summary = lines.iter().rev().find_map(|line| match line {
        Line::Summary(summary) if summary.case == *case => Some(summary),
        _ => None,
    });
    let ended = |outcome, of: Option<&Skipped>, otherwise: &str| Outcome {
        case: case.clone(),
        outcome,
        step: of.map(|skipped| skipped.step.clone()),
        why: Some(of.map_or_else(|| otherwise.into(), |skipped| skipped.why.clone())),
    };
    if is_void {
        let law = skips.clone().find(|skipped| skipped.step == laws::STEP);
        let why = summary.and_then(|summary| summary.void.first()).map_or("a law is broken", String::as_str);
        return ended(Ending::Void, law, why);
    }
    let last = skips.clone().last();
    match summary {
        Some(of) if of.stopped_by == StoppedBy::Interrupted => {
            let why = format!("the session was interrupted after {} runs of it", of.runs);
            ended(Ending::Interrupted, None, &why)
        }
        Some(_) => Outcome { case: case.clone(), outcome: Ending::Measured, step: None, why: None },
        None => match last {
            Some(of) if VOID.contains(&of.step.as_str()) => ended(Ending::Void, last, ""),
            Some(_) => ended(Ending::Skipped, last, ""),
            None => ended(Ending::Interrupted, None, "the session ended before the case had a figure"),
        },
    }
}
