//! Suites that repeat what another tool measured: its table, in its order and units, with the published figures beside
//! ours. One file for each suite, and one line in [`SUITES`]; the record's header says which suite it was.
//!
//! Ratios, crossovers and figures beside published ones are lines of the record; of a record without them
//! [`weighbridge_record::derive`] makes them. A table shows what they say, and [`derived`] hands them out.

mod akbench;
mod chart;
mod dbus;
mod epoll_bench;
mod kernel_ipc;
mod kernel_net;
mod kernel_slab;
mod published;
mod scaling;
mod slab_test;

use std::cell::RefCell;

use weighbridge_record::{CaseId, Header, Line, Published, Ratio, Summary, derive};

use crate::document::{self, Block, Cell, Column};
use crate::figure::marks;
use crate::model::{Measured, Report, Sourced};
use crate::units::{reach, significant};
use crate::words::many;

/// What a suite comes to, in texts.
#[derive(Debug, Default)]
struct Section {
    title: String,
    /// What was measured then and now, a paragraph each.
    about: Vec<String>,
    /// In the order of the tool.
    tables: Vec<Table>,
    /// What must be known to compare the figures, and why some are missing.
    notes: Vec<String>,
}

#[derive(Debug, Default)]
struct Table {
    title: String,
    /// A line break is a break.
    heads: Vec<String>,
    /// One text for each head.
    rows: Vec<Vec<String>>,
    /// Number of columns at the left that are labels and aligned to the left.
    labels: usize,
    /// Sentences below it.
    after: Vec<String>,
}

impl Section {
    fn composed(self, id: &str) -> Option<document::Section> {
        let mut blocks: Vec<Block> = self.about.into_iter().map(Block::Paragraph).collect();
        for Table { title, heads, rows, labels, after } in self.tables {
            let column = |(index, head)| Column { head, is_text: index < labels, ..Column::default() };
            blocks.push(Block::Table(document::Table {
                title,
                columns: heads.into_iter().enumerate().map(column).collect(),
                rows: rows.into_iter().map(|row| row.into_iter().map(Cell::from).collect()).collect(),
                labels: labels.max(1),
                is_sortable: false,
            }));
            blocks.extend(after.into_iter().map(Block::Paragraph));
        }
        blocks.push(Block::sentences(self.notes));
        document::Section::new(id, &self.title, blocks)
    }
}

/// Name of a suite, and what makes its section.
type Suite = (&'static str, fn(&Record<'_>) -> Section);

const SUITES: &[Suite] = &[
    ("ibench", |record| chart::section(record, &chart::IBENCH)),
    ("kdbench", |record| chart::section(record, &chart::KDBENCH)),
    ("epoll_bench", epoll_bench::section),
    ("slab_test", slab_test::section),
    ("kernel-slab", kernel_slab::section),
    ("kernel-net", kernel_net::section),
    ("kernel-ipc", kernel_ipc::section),
    ("akbench", akbench::section),
    ("scaling", scaling::section),
    ("dbus-ping-pong", dbus::ping_pong),
    ("signal-fan-out", dbus::signal_fan_out),
    ("tracker", dbus::tracker),
    ("dbus-curves", dbus::curves),
];

/// The sections of all records that were made by such a suite.
pub fn sections(report: &Report) -> Vec<document::Section> {
    composed(report).into_iter().map(|(section, _)| section).collect()
}

/// The lines whose numbers stand in these sections, with the index of the record.
pub fn derived(report: &Report) -> Vec<(usize, Line)> {
    composed(report).into_iter().flat_map(|(_, lines)| lines).collect()
}

/// The ratios that stand in no table of a suite.
pub fn free_ratios(report: &Report) -> impl Iterator<Item = &Sourced<Ratio>> {
    report.ratios.iter().filter(|ratio| report.is_compared || !has_ratios(report, ratio.source))
}

/// Are the ratios of this record those of the tables of its suite?
fn has_ratios(report: &Report, source: usize) -> bool {
    let header = report.sources.get(source).and_then(|source| source.header.as_ref());
    let suite = header.and_then(|header| header.settings.get("suite"));
    suite.is_some_and(|suite| SUITES.iter().any(|(known, _)| known == suite))
}

fn composed(report: &Report) -> Vec<(document::Section, Vec<(usize, Line)>)> {
    let of = |(source, header): (usize, &Header)| {
        let name = header.settings.get("suite")?;
        let (_, section) = SUITES.iter().find(|(known, _)| known == name)?;
        let record = Record { report, source, header, derived: RefCell::default() };
        let mut section = section(&record);
        if report.has_several_sources() {
            section.title = format!("{} [{}]", section.title, report.sources[source].name);
        }
        let lines = record.derived.into_inner().into_iter().map(|line| (source, line)).collect();
        Some((section.composed(&format!("suite-{}", source + 1))?, lines))
    };
    let headers = report.sources.iter().enumerate();
    headers.filter_map(|(source, from)| of((source, from.header.as_ref()?))).collect()
}

/// One record of a report.
struct Record<'a> {
    report: &'a Report,
    source: usize,
    header: &'a Header,
    derived: RefCell<Vec<Line>>,
}

/// What a record says of a case.
#[derive(Clone, Copy, Debug)]
enum Found<'a> {
    Value(&'a Measured, &'a Summary),
    Skipped(&'a CaseId, &'a str),
    Absent,
}

impl<'a> Record<'a> {
    /// The first case of which this holds; one with a figure before one that was skipped.
    fn find(&self, is_it: impl Fn(&CaseId) -> bool) -> Found<'a> {
        let cases = self.report.cases.iter().filter(|case| case.source == self.source && is_it(&case.id));
        let mut measured = cases.filter_map(|case| Some((case, case.summary.as_ref()?)));
        if let Some((case, summary)) = measured.next() {
            return Found::Value(case, summary);
        }
        let skips = self.report.skipped.iter().filter(|skip| skip.source == self.source);
        match skips.map(|skip| &skip.what).find(|skip| is_it(&skip.case)) {
            Some(skip) => Found::Skipped(&skip.case, &skip.why),
            None => Found::Absent,
        }
    }

    /// Every case with a figure of which this holds.
    fn all(&self, is_it: impl Fn(&CaseId) -> bool) -> impl Iterator<Item = (&'a Measured, &'a Summary)> {
        let cases =
            self.report.cases.iter().filter(move |case| case.source == self.source && is_it(&case.id));
        cases.filter_map(|case| Some((case, case.summary.as_ref()?)))
    }

    /// Ours over a published figure, as in `1.25`.
    fn times(&self, found: Found<'_>, theirs: &Theirs<'_>, ours: f64) -> String {
        let Theirs { source, name, unit, value } = *theirs;
        let Found::Value(case, _) = found else { return String::new() };
        let is_it = |line: &Published| {
            line.case == case.id && (line.source.as_str(), line.name.as_str()) == (source, name)
        };
        let held = self.held(&self.report.published, is_it);
        let made = || derive::published(&case.id, source, name, unit, value, ours);
        let Some(line) = held.or_else(made) else { return String::new() };
        let text = significant(line.ratio);
        self.derived.borrow_mut().push(Line::Published(line));
        text
    }

    /// How many times the figure of `baseline` that of `case` is: from pairs of runs of one round, or from the medians alone where the record
    /// has no such pair.
    fn ratio(&self, baseline: Found<'_>, case: Found<'_>) -> Option<Ratio> {
        let (baseline, case) = (baseline.side()?, case.side()?);
        let is_it = |line: &Ratio| {
            line.baseline == baseline.summary.case
                && line.case == case.summary.case
                && line.figure == "value"
                && line.baseline_record.is_none()
        };
        // What was compared for the report only is of other ratios.
        let held = if self.report.is_compared { None } else { self.held(&self.report.ratios, is_it) };
        let line = held.or_else(|| derive::ratio(baseline, case, "value"))?;
        self.derived.borrow_mut().push(Line::Ratio(line.clone()));
        Some(line)
    }

    /// A derived line that the record holds.
    fn held<T: Clone>(&self, of: &[Sourced<T>], is_it: impl Fn(&T) -> bool) -> Option<T> {
        of.iter().find(|line| line.source == self.source && is_it(&line.what)).map(|line| line.what.clone())
    }

    /// Which machine the figures of today come from.
    fn machine(&self) -> String {
        let machine = &self.header.machine;
        format!("Ours: {}, Linux {}, {}.", machine.cpu_model, machine.kernel, &self.header.started)
    }
}

/// A figure that others have published.
struct Theirs<'a> {
    source: &'a str,
    /// What of the source.
    name: &'a str,
    unit: &'a str,
    value: f64,
}

/// A figure in the unit of the other tool.
struct Figure {
    /// Its median.
    value: f64,
    interval: Option<[f64; 2]>,
    runs: u32,
    marks: String,
}

impl<'a> Found<'a> {
    /// What a ratio is made from.
    fn side(self) -> Option<derive::Side<'a>> {
        match self {
            Found::Value(case, summary) => Some(derive::Side { summary, runs: &case.runs, record: None }),
            _ => None,
        }
    }

    /// The figure, converted by a function that is monotonous.
    fn figure(&self, convert: impl Fn(f64) -> f64) -> Option<Figure> {
        let Found::Value(case, summary) = self else { return None };
        let interval = summary.ci95.map(|[low, high]| {
            let (a, b) = (convert(low), convert(high));
            [a.min(b), a.max(b)]
        });
        Some(Figure { value: convert(summary.median), interval, runs: summary.runs, marks: marks(case) })
    }

    /// What stands in a cell without a figure.
    fn blank(&self) -> String {
        match self {
            Found::Skipped(..) => "skipped".into(),
            _ => "not measured".into(),
        }
    }
}

impl Figure {
    /// How far the interval reaches, and the marks.
    fn reach(&self) -> String {
        let reach = match self.interval {
            Some(interval) => reach(self.value, interval),
            None => format!("({})", many(self.runs as usize, "run")),
        };
        format!("{reach}{}", self.marks)
    }

    /// A whole number and the reach of its interval.
    fn whole(&self) -> String {
        format!("{:.0} {}", self.value, self.reach())
    }
}

/// Why cells are blank, each reason once.
fn reasons<'a>(found: impl IntoIterator<Item = Found<'a>>) -> Vec<String> {
    let mut reasons: Vec<(String, String, usize)> = Vec::new();
    for skip in found {
        let Found::Skipped(case, why) = skip else { continue };
        match reasons.iter_mut().find(|(_, known, _)| known == why) {
            Some(reason) => reason.2 += 1,
            None => reasons.push((case.to_string(), why.to_string(), 0)),
        }
    }
    let line = |(case, why, others): (String, String, usize)| match others {
        0 => format!("Skipped {case}: {why}."),
        others => format!("Skipped {case} and {others} more: {why}."),
    };
    reasons.into_iter().map(line).collect()
}

/// What no ratio to another machine can mean.
const NOT_A_RACE: &str =
    "The machines differ: a ratio to a published figure compares two machines as well as two programs.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_once_with_the_number_of_cases() {
        let ids = [1, 2, 3].map(|bytes| CaseId::new("stream", "mq-posix", bytes, "free"));
        let found =
            [Found::Skipped(&ids[0], "no"), Found::Skipped(&ids[1], "never"), Found::Skipped(&ids[2], "no")];
        let lines = reasons(found.into_iter().chain([Found::Absent]));
        assert_eq!(
            lines,
            ["Skipped stream/mq-posix/1/free and 1 more: no.", "Skipped stream/mq-posix/2/free: never."]
        );
    }
}
