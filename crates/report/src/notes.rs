//! What has to be said beside the figures, grouped so that the same reason is said once.
//!
//! Every format that people read shows these: the state of the record, the cost of the harness, skips, departures
//! from the expected shape or from one steady state, and cases that ended before their precision. Text shows the brief
//! form of each; the page has the full one behind a fold. Skips are always complete.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use textwrap::core::display_width;
use weighbridge_record::{CaseId, StoppedBy};

use crate::matrix::Matrix;
use crate::model::{Measured, Report, Source};
use crate::units::{self, with_unit};
use crate::words::{many, plain};
use crate::{coverage, regimes};

/// A sentence and what belongs below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// One sentence: a reason, a count, or a case.
    pub why: String,
    /// The cases that it holds for, or what there is to say about the case.
    pub items: Vec<Item>,
}

/// What stands on one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Always shown: `mq-posix: 64 KiB, 1 MiB at same-cpu, two-cpus (roundtrip, stream)`.
    pub text: String,
    /// Shown as far as the line has room, the first in any case.
    pub further: Vec<String>,
}

impl From<String> for Item {
    fn from(text: String) -> Item {
        Item { text, further: Vec::new() }
    }
}

impl Item {
    /// On a line of the given width, with `…` for what has no room.
    pub fn fitted(&self, width: usize) -> String {
        let Some((first, rest)) = self.further.split_first() else { return self.text.clone() };
        let mut out = format!("{}: {first}", self.text);
        for (index, part) in rest.iter().enumerate() {
            let is_last = index + 1 == rest.len();
            let needed = display_width(&out) + 2 + display_width(part) + if is_last { 0 } else { 3 };
            if needed > width {
                return out + "; …";
            }
            out = format!("{out}; {part}");
        }
        out
    }
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
    /// A few lines, never empty.
    pub brief: Vec<Note>,
    /// Everything, where the lines above leave something out.
    pub full: Vec<Note>,
}

/// So many items of a list are shown where there is no fold for the rest.
pub const FEW: usize = 8;

/// The first few items; instead of the rest, their number.
pub fn few(mut items: Vec<Item>) -> Vec<Item> {
    // A line that says "1 more" would take the place of that one.
    if items.len() > FEW + 1 {
        let more = items.len() - FEW;
        items.truncate(FEW);
        items.push(Item::from(format!("… {more} more in the HTML report and the record")));
    }
    items
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
    let mut smallest: BTreeMap<_, &Measured> = BTreeMap::new();
    for case in report.cases.iter().filter(|case| case.is_harness() && case.summary.is_some()) {
        let key = (case.source, &case.id.pattern, &case.id.placement);
        let kept = smallest.entry(key).or_insert(case);
        if (case.id.payload_bytes, &case.id.axes) < (kept.id.payload_bytes, &kept.id.axes) {
            *kept = case;
        }
    }
    let line = |case: &&Measured| {
        let summary = case.summary.as_ref()?;
        let name = report.variant(case.source, &case.id);
        let value = with_unit(&summary.unit, summary.median);
        let reach = summary.ci95.map(|ci| format!(" {}", units::reach(summary.median, ci)));
        let reach = reach.unwrap_or_else(|| format!(" ({})", many(summary.runs as usize, "run")));
        Some(plain(&format!("{}/{name} at {}: {value}{reach}", case.id.pattern, case.id.placement)))
    };
    smallest.values().filter_map(line).collect()
}

/// The name of the series that estimates what crossed the memory bus.
const BUS: &str = "bus_bytes_per_s";
/// How many operations the note on the memory bus names.
const BUSIEST: usize = 4;

/// What share of the memory's theoretical bandwidth the busiest operations used, or why nobody can say. Nothing where no
/// operation crossed the bus.
pub fn dram(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, source) in report.sources.iter().enumerate() {
        let Some(machine) = source.header.as_ref().map(|header| &header.machine) else { continue };
        let mut busy: Vec<(&Measured, f64)> = report
            .cases
            .iter()
            .filter(|case| case.source == index)
            .filter_map(|case| Some((case, *case.summary.as_ref()?.series.get(BUS)?)))
            .collect();
        if busy.is_empty() {
            continue;
        }
        busy.sort_by(|one, other| other.1.total_cmp(&one.1));
        lines.push(
            match machine.dram.as_ref().and_then(|dram| dram.bytes_per_s).filter(|most| *most > 0.0) {
                Some(most) => {
                    let share =
                        |(case, rate): &(&Measured, f64)| format!("{} {:.0} %", case.id, rate / most * 100.0);
                    let shares: Vec<String> = busy.iter().take(BUSIEST).map(share).collect();
                    format!("of {:.1} GB/s in theory, estimated: {}", most / 1e9, shares.join("; "))
                }
                None => {
                    let why = machine
                        .missing
                        .iter()
                        .find(|why| why.starts_with("theoretical bandwidth of the memory"));
                    let why = why.map_or("the record does not say why", |why| {
                        why.split_once(": ").map_or(why.as_str(), |(_, reason)| reason)
                    });
                    format!("the share of the theoretical bandwidth is not known: {why}")
                }
            },
        );
    }
    lines.iter().map(|line| plain(line)).collect()
}

/// All remarks that a reader must see, headings without notes left out.
pub fn remarks(report: &Report, matrices: &[Matrix<'_>]) -> Vec<Remarks> {
    let (regimes_brief, regimes_full) = regimes::notes(report, matrices);
    let (shape_brief, shape_full) = shape(report);
    let all = [
        Remarks {
            kind: Kind::Doubt,
            title: "Counters not as expected (!)",
            meaning: "The figure may not mean what its name says. It is shown as measured.",
            brief: shape_brief,
            full: shape_full,
        },
        Remarks {
            kind: Kind::Doubt,
            title: "Not one steady state (~)",
            meaning: "A single figure hides what happened in these cases.",
            brief: regimes_brief,
            full: regimes_full,
        },
        Remarks {
            kind: Kind::Doubt,
            title: "Ended before the precision asked for",
            meaning: "The intervals of these cases are wider than asked, or absent.",
            brief: stopped(report),
            full: Vec::new(),
        },
        Remarks {
            kind: Kind::NoFigure,
            title: "Skipped",
            meaning: "No figure, and why.",
            brief: skipped(report),
            full: Vec::new(),
        },
        Remarks {
            kind: Kind::NoFigure,
            title: "Not reached",
            meaning: "Planned, but without a single run.",
            brief: not_reached(report),
            full: Vec::new(),
        },
    ];
    all.into_iter().filter(|remarks| !remarks.brief.is_empty()).collect()
}

/// Few of them and all of them.
fn shape(report: &Report) -> (Vec<Note>, Vec<Note>) {
    let summaries = report.cases.iter().filter_map(|case| Some((case, case.summary.as_ref()?)));
    let each = summaries.flat_map(|(case, summary)| {
        summary.anomalies.iter().map(move |why| (case.source, &case.id, why.clone()))
    });
    let full = grouped(report, each);
    if full.len() <= FEW {
        return (full, Vec::new());
    }
    let item = |note: &Note| {
        let cases: Vec<&str> = note.items.iter().map(|item| item.text.as_str()).collect();
        Item::from(format!("{}: {}", cases.join("; "), note.why))
    };
    let items = few(full.iter().map(item).collect());
    let cases = report.cases.iter().filter(|case| case.has_anomalies()).count();
    let why = format!("{} with counters that differ from what the case must show:", many(cases, "case"));
    (vec![Note { why, items }], full)
}

fn stopped(report: &Report) -> Vec<Note> {
    let reasons = [
        (StoppedBy::MaxRuns, "the largest number of runs was made"),
        (StoppedBy::Budget, "the time allowed was used up"),
        (StoppedBy::Interrupted, "interrupted"),
        (StoppedBy::Error, "a run failed"),
    ];
    let all: Vec<&Measured> = report.cases.iter().filter(|case| case.summary.is_some()).collect();
    let note = |(reason, why): (StoppedBy, &str)| {
        let some: Vec<&Measured> =
            report.stopped_early().filter(|(_, by)| *by == reason).map(|(case, _)| case).collect();
        let why = format!("{} of {}: {why}", some.len(), many(all.len(), "case"));
        (!some.is_empty()).then(|| Note { why, items: coverage::described(report, &some, &all) })
    };
    reasons.into_iter().filter_map(note).collect()
}

/// What gave no number, each reason once.
pub fn skipped(report: &Report) -> Vec<Note> {
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
    let planned = |case: &&Measured| {
        case.summary.is_some() || !case.runs.is_empty() || !skipped.contains(&(case.source, &case.id))
    };
    let all: Vec<&Measured> = report.cases.iter().filter(planned).collect();
    let is_never = |case: &&Measured| case.summary.is_none() && case.runs.is_empty();
    let never: Vec<&Measured> = all.iter().copied().filter(is_never).collect();
    let why = format!("{} of {}: the program ended before", never.len(), many(all.len(), "case"));
    match never.is_empty() {
        true => Vec::new(),
        false => vec![Note { why, items: coverage::described(report, &never, &all) }],
    }
}

/// Cases with the same reason, in the order in which the reasons first come. Reasons that differ in nothing but the payload
/// of their case, and in what to set for it (`name=number`), are one; it is told as it is for the largest, because a limit
/// raised for that one is raised for all.
fn grouped<'a>(report: &Report, each: impl Iterator<Item = (usize, &'a CaseId, String)>) -> Vec<Note> {
    let mut groups: Vec<(String, Vec<(usize, &CaseId)>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (source, id, why) in each {
        let why = plain(&why);
        let index =
            *known.entry(without_settings(&without_number(&why, id.payload_bytes))).or_insert(groups.len());
        match groups.get_mut(index) {
            None => groups.push((why, vec![(source, id)])),
            Some((told, ids)) => {
                if ids.iter().all(|(_, known)| known.payload_bytes < id.payload_bytes) {
                    *told = why;
                }
                ids.push((source, id));
            }
        }
    }
    let note = |(why, ids): (String, Vec<_>)| {
        let items = described(report, &ids).into_iter().map(Item::from).collect();
        Note { why, items }
    };
    groups.into_iter().map(note).collect()
}

/// A sentence with a blank in place of each number right behind a `=`.
fn without_settings(text: &str) -> String {
    let mut parts = text.split('=');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("=_");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_'));
    }
    out
}

/// A sentence with a blank in place of each occurrence of a number, but not where it is a part of another number.
fn without_number(text: &str, number: u64) -> String {
    let number = number.to_string();
    let mut out = String::with_capacity(text.len());
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || c == '.');
    let mut rest = text;
    while let Some(at) = rest.find(&number) {
        let (before, after) = (&rest[..at], &rest[at + number.len()..]);
        out.push_str(before);
        out.push_str(if is_part(out.chars().last()) || is_part(after.chars().next()) {
            &number
        } else {
            "_"
        });
        rest = after;
    }
    out + rest
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
        plain(&format!(
            "{variant}: {} at {} ({})",
            coverage::size_list(&sizes),
            list(placements),
            list(patterns)
        ))
    };
    patterns.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use weighbridge_record::Skipped;

    use super::*;
    use crate::model::Sourced;

    #[test]
    fn an_item_shows_its_first_part_and_as_many_others_as_have_room() {
        let further = ["two modes".to_string(), "a step".into(), "a slope".into()].to_vec();
        let item = Item { text: "pipe".into(), further };
        assert_eq!(item.fitted(80), "pipe: two modes; a step; a slope");
        assert_eq!(item.fitted(32), "pipe: two modes; a step; a slope");
        assert_eq!(item.fitted(31), "pipe: two modes; a step; …");
        assert_eq!(item.fitted(10), "pipe: two modes; …");
    }

    #[test]
    fn reasons_that_differ_only_in_the_payload_are_told_once_as_for_the_largest() {
        let skip = |mechanism: &str, payload_bytes: u64, why: String| Sourced {
            source: 0,
            what: Skipped {
                case: CaseId::new("stream", mechanism, payload_bytes, "free"),
                step: "fit".into(),
                why,
            },
        };
        let limit = |bytes: u64| format!("{bytes} bytes exceed 8192; raise it with limit={}", bytes / 2);
        let skipped = vec![
            skip("mq-posix", 65536, limit(65536)),
            skip("mq-posix", 1 << 20, limit(1 << 20)),
            skip("mq-posix", 10000, limit(10000)),
            // Here 8192 is the payload, and what is left of the sentence is another.
            skip("msg-sysv", 8192, limit(8192)),
        ];
        let notes = skipped_notes(skipped);
        assert_eq!(
            notes[0],
            (limit(1 << 20), vec!["mq-posix: 10000 B, 64 KiB, 1 MiB at free (stream)".into()])
        );
        assert_eq!(notes[1].0, limit(8192));
        assert_eq!(notes.len(), 2);
    }

    fn skipped_notes(skipped: Vec<Sourced<Skipped>>) -> Vec<(String, Vec<String>)> {
        let notes = super::skipped(&Report { skipped, ..Report::default() });
        notes
            .into_iter()
            .map(|note| (note.why, note.items.into_iter().map(|item| item.text).collect()))
            .collect()
    }

    #[test]
    fn a_number_is_blanked_only_where_it_stands_alone() {
        assert_eq!(without_number("5 of 15, 1.5, 50 and 5.", 5), "_ of 15, 1.5, 50 and 5.");
        assert_eq!(without_number("msgmax=55", 55), "msgmax=_");
        assert_eq!(without_number("none", 7), "none");
    }

    #[test]
    fn a_list_is_cut_only_where_that_saves_a_line() {
        let items = |count: usize| few((0..count).map(|index| Item::from(index.to_string())).collect());
        assert_eq!(items(9).last().unwrap().text, "8");
        assert_eq!(items(10).len(), 9);
        assert_eq!(items(10).last().unwrap().text, "… 2 more in the HTML report and the record");
    }
}
