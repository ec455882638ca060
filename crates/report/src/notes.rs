//! What has to be said beside the figures, grouped so that the same reason is said once.
//!
//! Every format that people read shows these: the state of the record, the cost of the harness, skips, departures
//! from the expected shape or from one steady state, and cases that ended before their precision.

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_record::{CaseId, RegimeKind, StoppedBy};

use crate::model::{Report, Source};
use crate::units::{self, size, with_unit};
use crate::words::{many, plain};

/// A reason and the cases that it holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Why, one sentence.
    pub why: String,
    /// Which: `mq-posix: 64 KiB, 1 MiB at same-cpu, two-cpus (roundtrip, stream)`.
    pub cases: Vec<String>,
}

/// What a remark does to a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is one, to be read with care.
    Doubt,
    /// There is none.
    NoFigure,
}

/// A heading and its notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remarks {
    /// What they do to the figures.
    pub kind: Kind,
    /// What these notes are about.
    pub title: &'static str,
    /// One sentence on what it means for the reader.
    pub meaning: &'static str,
    /// The notes, never empty.
    pub notes: Vec<Note>,
}

/// What is wrong with the records as such: broken lines, an end that is missing, a debug build.
pub fn warnings(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    for source in &report.sources {
        let name = if report.has_several_sources() { format!("{}: ", source.name) } else { String::new() };
        all.extend(source_warnings(source).into_iter().map(|text| plain(&format!("{name}{text}"))));
    }
    let computed = report.cases.iter().filter(|case| case.is_computed).count();
    if computed > 0 {
        all.push(format!(
            "The record holds no summary for {}; computed for this report from the runs that it holds.",
            many(computed, "case")
        ));
    }
    let unknown = report.cases.iter().filter(|case| case.summary.is_none() && !case.runs.is_empty()).count();
    if unknown > 0 {
        all.push(format!(
            "{} with runs but neither a summary nor usable samples and a unit: not shown.",
            many(unknown, "case")
        ));
    }
    all
}

fn source_warnings(source: &Source) -> Vec<String> {
    let mut all: Vec<String> = source.problems.iter().map(|problem| format!("{problem}.")).collect();
    match &source.header {
        Some(header) if header.tool.profile == "debug" => {
            all.push("Measured with a debug build: the figures mean nothing. Build with --release.".into());
        }
        Some(_) => {}
        None => all.push("The header line is missing, so the machine is not known.".into()),
    }
    match &source.end {
        Some(end) if !end.complete => all.push("Ended early: not everything planned was measured.".into()),
        Some(_) => {}
        None => all.push("The end line is missing: the program was killed, or is still at work.".into()),
    }
    all
}

/// Cost of the harness itself, as measured in place, at the smallest size of each pattern and placement.
pub fn harness(report: &Report) -> Vec<String> {
    let mut smallest: BTreeMap<_, &crate::Measured> = BTreeMap::new();
    for case in report.cases.iter().filter(|case| case.is_harness() && case.summary.is_some()) {
        let key = (case.source, &case.id.pattern, &case.id.placement);
        let kept = smallest.entry(key).or_insert(case);
        if (case.id.payload_bytes, &case.id.axes) < (kept.id.payload_bytes, &kept.id.axes) {
            *kept = case;
        }
    }
    let line = |case: &&crate::Measured| {
        let summary = case.summary.as_ref()?;
        let name = report.variant(case.source, &case.id);
        let value = with_unit(&summary.unit, summary.median);
        let reach = summary.ci95.map(|ci| format!(" {}", units::reach(summary.median, ci)));
        let reach = reach.unwrap_or_else(|| format!(" ({})", many(summary.runs as usize, "run")));
        Some(plain(&format!("{}/{name} at {}: {value}{reach}", case.id.pattern, case.id.placement)))
    };
    smallest.values().filter_map(line).collect()
}

/// All remarks that a reader must see, headings without notes left out.
pub fn remarks(report: &Report) -> Vec<Remarks> {
    let all = [
        Remarks {
            kind: Kind::Doubt,
            title: "Counters not as expected (!)",
            meaning: "The figure may not mean what its name says. It is shown as measured.",
            notes: shape(report),
        },
        Remarks {
            kind: Kind::Doubt,
            title: "Not one steady state (~)",
            meaning: "A single figure hides what happened in these cases.",
            notes: regimes(report),
        },
        Remarks {
            kind: Kind::Doubt,
            title: "Ended before the precision asked for",
            meaning: "The intervals of these cases are wider than asked, or absent.",
            notes: stopped(report),
        },
        Remarks {
            kind: Kind::NoFigure,
            title: "Skipped",
            meaning: "No figure, and why.",
            notes: skipped(report),
        },
        Remarks {
            kind: Kind::NoFigure,
            title: "Not reached",
            meaning: "Planned, but without a single run.",
            notes: not_reached(report),
        },
    ];
    all.into_iter().filter(|remarks| !remarks.notes.is_empty()).collect()
}

fn shape(report: &Report) -> Vec<Note> {
    let summaries = report.cases.iter().filter_map(|case| Some((case, case.summary.as_ref()?)));
    let each = summaries.flat_map(|(case, summary)| {
        summary.shape.iter().map(move |why| (case.source, &case.id, why.clone()))
    });
    grouped(report, each)
}

fn regimes(report: &Report) -> Vec<Note> {
    let summaries = report.cases.iter().filter_map(|case| Some((case, case.summary.as_ref()?)));
    let each = summaries.flat_map(|(case, summary)| {
        summary.regimes.iter().map(move |regime| {
            let kind = match regime.regime {
                RegimeKind::TwoModes => "two modes",
                RegimeKind::Step => "a step",
                RegimeKind::Slope => "a slope",
                RegimeKind::Correlated => "correlated neighbours",
            };
            let levels = regime.levels.map_or(String::new(), |[low, high]| {
                format!(" ({} and {})", with_unit(&summary.unit, low), with_unit(&summary.unit, high))
            });
            (case.source, &case.id, format!("{kind}{levels}: {}", regime.detail))
        })
    });
    grouped(report, each)
}

fn stopped(report: &Report) -> Vec<Note> {
    let why = |by| match by {
        StoppedBy::Precision => "precision reached",
        StoppedBy::MaxRuns => "the largest number of runs was made",
        StoppedBy::Budget => "the time allowed was used up",
        StoppedBy::Interrupted => "interrupted",
        StoppedBy::Error => "a run failed",
    };
    grouped(report, report.stopped_early().map(|(case, by)| (case.source, &case.id, why(by).to_string())))
}

fn skipped(report: &Report) -> Vec<Note> {
    let each = report.skipped.iter().map(|skip| {
        let why = match skip.what.step.as_str() {
            "fit" => skip.what.why.clone(),
            step => format!("{} (step: {step})", skip.what.why),
        };
        (skip.source, &skip.what.case, why)
    });
    grouped(report, each)
}

fn not_reached(report: &Report) -> Vec<Note> {
    let skipped: std::collections::HashSet<_> =
        report.skipped.iter().map(|skip| (skip.source, &skip.what.case)).collect();
    let never = report.cases.iter().filter(|case| {
        case.summary.is_none() && case.runs.is_empty() && !skipped.contains(&(case.source, &case.id))
    });
    grouped(report, never.map(|case| (case.source, &case.id, "the program ended before".to_string())))
}

/// Cases with the same reason, in the order in which the reasons first come.
fn grouped<'a>(report: &Report, each: impl Iterator<Item = (usize, &'a CaseId, String)>) -> Vec<Note> {
    let mut order = Vec::new();
    let mut groups: BTreeMap<String, Vec<(usize, &CaseId)>> = BTreeMap::new();
    for (source, id, why) in each {
        let why = plain(&why);
        if !groups.contains_key(&why) {
            order.push(why.clone());
        }
        groups.entry(why).or_default().push((source, id));
    }
    let note = |why: String| {
        let cases = described(report, &groups[&why]);
        Note { why, cases }
    };
    order.into_iter().map(note).collect()
}

/// Names cases in few words: first sizes together, then placements, then patterns.
fn described(report: &Report, ids: &[(usize, &CaseId)]) -> Vec<String> {
    type Names<'a> = BTreeSet<&'a str>;
    let mut sizes: BTreeMap<(String, &str, &str), BTreeSet<u64>> = BTreeMap::new();
    for (source, id) in ids {
        let key = (report.variant(*source, id), id.pattern.as_str(), id.placement.as_str());
        sizes.entry(key).or_default().insert(id.payload_bytes);
    }
    let mut placements: BTreeMap<(String, &str, BTreeSet<u64>), Names<'_>> = BTreeMap::new();
    for ((variant, pattern, placement), sizes) in sizes {
        placements.entry((variant, pattern, sizes)).or_default().insert(placement);
    }
    let mut patterns: BTreeMap<(String, BTreeSet<u64>, Names<'_>), Names<'_>> = BTreeMap::new();
    for ((variant, pattern, sizes), placements) in placements {
        patterns.entry((variant, sizes, placements)).or_default().insert(pattern);
    }
    let list = |names: Names<'_>| names.into_iter().collect::<Vec<_>>().join(", ");
    let line = |((variant, sizes, placements), patterns)| {
        plain(&format!("{variant}: {} at {} ({})", size_list(&sizes), list(placements), list(patterns)))
    };
    patterns.into_iter().map(line).collect()
}

/// The sizes, or the ends of the list where it is long.
fn size_list(sizes: &BTreeSet<u64>) -> String {
    match (sizes.first(), sizes.last()) {
        (Some(first), Some(last)) if sizes.len() > 6 => {
            format!("{} … {} ({} sizes)", size(*first), size(*last), sizes.len())
        }
        _ => sizes.iter().map(|bytes| size(*bytes)).collect::<Vec<_>>().join(", "),
    }
}
