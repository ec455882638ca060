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
        Line::Summary(summary) => Some(&summary.case),
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
    let last = skips.clone().next_back();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, Summary};

    fn id(mechanism: &str) -> CaseId {
        CaseId::new("roundtrip", mechanism, 1, "free")
    }

    fn skipped(mechanism: &str, step: &str) -> Line {
        Line::Skipped(Skipped { case: id(mechanism), step: step.into(), why: step.into() })
    }

    fn summary(mechanism: &str, stopped_by: StoppedBy) -> Line {
        Line::Summary(Summary { case: id(mechanism), stopped_by, ..Summary::default() })
    }

    #[test]
    fn what_became_of_a_case_is_told_also_of_a_record_without_such_lines() {
        let lines = vec![
            skipped("fits-not", "fit"),
            Line::Case(Case { case: id("cut"), ..Case::default() }),
            skipped("stopped", "stopped"),
            skipped("disturbed-once", "throttled"),
            summary("disturbed-once", StoppedBy::Precision),
            summary("ended", StoppedBy::Interrupted),
            summary("broken", StoppedBy::MaxRuns),
            skipped("broken", laws::STEP),
        ];
        let reading = Reading { lines, problems: Vec::new() };
        let planned = ["never-begun", "disturbed-once"].map(id);
        let of: Vec<(String, Ending)> =
            outcomes(&reading, &planned).into_iter().map(|of| (of.case.mechanism, of.outcome)).collect();
        let expected = [
            ("never-begun", Ending::Interrupted),
            ("disturbed-once", Ending::Measured),
            ("fits-not", Ending::Skipped),
            ("cut", Ending::Interrupted),
            ("stopped", Ending::Void),
            ("ended", Ending::Interrupted),
            ("broken", Ending::Void),
        ];
        assert_eq!(of, expected.map(|(mechanism, ending)| (mechanism.to_owned(), ending)));
    }

    #[test]
    fn a_law_that_is_found_broken_later_makes_a_case_void_whatever_was_told() {
        let told = Outcome { case: id("pipe"), outcome: Ending::Measured, step: None, why: None };
        let mut lines = vec![summary("pipe", StoppedBy::MaxRuns), Line::Outcome(told)];
        let of = |lines: &[Line]| {
            outcomes(&Reading { lines: lines.to_vec(), problems: Vec::new() }, &[])[0].outcome
        };
        assert_eq!(of(&lines), Ending::Measured);
        lines.push(skipped("pipe", laws::STEP));
        assert_eq!(of(&lines), Ending::Void);
    }
}
