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
mod published;
mod scaling;
mod slab;

pub(crate) use dbus::broker_time;
pub use dbus::start_of_2010_s;
use std::cell::RefCell;

use weighbridge_record::{CaseId, Header, Line, Published, Ratio, Summary, Timeline, derive};

use crate::document::{self, Block, Column};
use crate::figure::{Off, marks};
use crate::model::{Measured, Report, Sourced};
use crate::units::{Scale, significant};

/// What a suite comes to.
struct Section {
    title: String,
    /// What was measured then and now, a paragraph each; the tables in the order of the tool, with sentences below them.
    blocks: Vec<Block>,
    /// What must be known to compare the figures, and why some are missing.
    notes: Vec<String>,
}

impl Section {
    fn new(title: &str, about: &[&str], tables: impl IntoIterator<Item = Block>, notes: &[&str]) -> Section {
        let about = about.iter().map(|text| below(text));
        let notes = notes.iter().map(|text| (*text).to_owned()).collect();
        Section { title: title.into(), blocks: about.chain(tables).collect(), notes }
    }

    fn with(mut self, notes: impl IntoIterator<Item = String>) -> Section {
        self.notes.extend(notes);
        self
    }
}

/// A table with that number of labels at the left. Heads stand between `|`; a line break in one is a break.
fn table(title: &str, labels: usize, heads: &str, rows: impl IntoIterator<Item = Vec<String>>) -> Block {
    let mut table = document::Table::new(title, heads.split('|'), rows);
    table
        .columns
        .iter_mut()
        .enumerate()
        .for_each(|(index, column): (_, &mut Column)| column.is_text = index < labels);
    Block::Table(document::Table { labels: labels.max(1), ..table })
}

/// Sentences below a table.
fn below(text: &str) -> Block {
    Block::Paragraph(text.into())
}

/// Name of a suite, and what makes its section.
type Suite = (&'static str, fn(&Record<'_>) -> Section);

const SUITES: &[Suite] = &[
    ("ibench", |record| chart::section(record, &chart::IBENCH)),
    ("kdbench", |record| chart::section(record, &chart::KDBENCH)),
    ("epoll_bench", epoll_bench::section),
    ("slab_test", slab::slab_test),
    ("kernel-slab", slab::kernel_slab),
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

/// The lines that a report of one record shows and that follow from its other lines, which `run` adds to it: the order of mechanisms, and
/// the ratios, crossovers and published figures in the tables of its suite.
pub fn derived(report: &Report) -> Vec<Line> {
    let contests = report.contests.iter().map(|contest| Line::Contest(contest.what.clone()));
    let findings = report.findings.iter().map(|findings| Line::Findings(findings.what));
    let of_suites = derived_by_record(report).into_iter().map(|(_, line)| line);
    contests.chain(findings).chain(of_suites).collect()
}

/// The lines whose numbers stand in these sections, with the index of the record.
pub fn derived_by_record(report: &Report) -> Vec<(usize, Line)> {
    composed(report).into_iter().flat_map(|(_, lines)| lines).collect()
}

/// The ratios that stand in no table of a suite.
pub fn free_ratios(report: &Report) -> impl Iterator<Item = &Sourced<Ratio>> {
    report.ratios.iter().filter(|ratio| report.is_compared || suite(report, ratio.source).is_none())
}

/// The suite of a record, and its head.
fn suite(report: &Report, source: usize) -> Option<(&Suite, &Header)> {
    let header = report.sources.get(source)?.header.as_ref()?;
    let name = header.settings.get("suite")?;
    Some((SUITES.iter().find(|(known, _)| known == name)?, header))
}

fn composed(report: &Report) -> Vec<(document::Section, Vec<(usize, Line)>)> {
    let of = |source: usize| {
        let ((_, section), header) = suite(report, source)?;
        let record = Record { report, source, header, derived: RefCell::default() };
        let Section { mut title, mut blocks, notes } = section(&record);
        blocks.push(Block::sentences(notes));
        if report.has_several_sources() {
            title = format!("{title} [{}]", report.sources[source].name);
        }
        let lines = record.derived.into_inner().into_iter().map(|line| (source, line)).collect();
        Some((document::Section { id: format!("suite-{}", source + 1), title, blocks }, lines))
    };
    (0..report.sources.len()).filter_map(of).collect()
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
        if let Some((case, summary)) = self.all(&is_it).next() {
            return Found::Value(case, summary);
        }
        match self.skipped().find(|(case, _)| is_it(case)) {
            Some((case, why)) => Found::Skipped(case, why),
            None => Found::Absent,
        }
    }

    /// Every case with a figure of which this holds.
    fn all(&self, is_it: impl Fn(&CaseId) -> bool) -> impl Iterator<Item = (&'a Measured, &'a Summary)> {
        let source = self.source;
        let cases = self.report.cases.iter().filter(move |case| case.source == source && is_it(&case.id));
        cases.filter_map(|case| Some((case, case.summary.as_ref()?)))
    }

    /// Every case that was skipped, and why.
    fn skipped(&self) -> impl Iterator<Item = (&'a CaseId, &'a str)> {
        let source = self.source;
        let skips = self.report.skipped.iter().filter(move |skip| skip.source == source);
        skips.map(|skip| (&skip.what.case, skip.what.why.as_str()))
    }

    /// The time line of a case, by its id.
    fn timeline(&self, subject: &str) -> Option<&'a Timeline> {
        let of = |line: &&Sourced<Timeline>| line.source == self.source && line.what.subject == subject;
        self.report.timelines.iter().find(of).map(|line| &line.what)
    }

    /// Why cases of the record have no figure.
    fn skips(&self) -> Vec<String> {
        reasons(self.skipped().map(|(case, why)| Found::Skipped(case, why)))
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

    /// The kernel of a guest, with what was appended to its command line.
    fn guest(&self) -> String {
        let append = self.header.settings.get("guest.append");
        let append = append.map_or(String::new(), |append| format!(" with {append}"));
        format!("Linux {}{append}", self.header.machine.kernel)
    }

    /// What the clock of a guest counts.
    fn unit(&self) -> &'static str {
        if self.header.machine.clock.counts_instructions() { "instructions" } else { "ns" }
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
    off: Off,
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

    /// The median, as the record has it.
    fn value(&self) -> Option<f64> {
        self.figure(|value| value).map(|figure| figure.value)
    }

    /// The figure, converted by a function that is monotonous.
    fn figure(&self, convert: impl Fn(f64) -> f64) -> Option<Figure> {
        let Found::Value(case, summary) = self else { return None };
        let (value, off) = (convert(summary.median), Off::of(summary).map(convert));
        Some(Figure { value, off, runs: summary.runs, marks: marks(case) })
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
    /// How far off it may be, and the marks.
    fn reach(&self) -> String {
        format!("{}{}", self.off.brief(self.value), self.marks)
    }

    /// A whole number and how far off it may be.
    fn whole(&self) -> String {
        format!("{:.0} {}", self.value, self.reach())
    }
}

/// A figure of a guest in its unit, as a table shows it.
fn counted(value: Option<f64>, unit: &str) -> String {
    value.map_or("not measured".into(), |value| Scale { divisor: 1.0, name: unit.into() }.show(value))
}

/// Why cells are blank, each reason once.
fn reasons<'a>(found: impl IntoIterator<Item = Found<'a>>) -> Vec<String> {
    let mut reasons: Vec<(&CaseId, &str, usize)> = Vec::new();
    for skip in found {
        let Found::Skipped(case, why) = skip else { continue };
        match reasons.iter_mut().find(|(_, known, _)| *known == why) {
            Some((.., others)) => *others += 1,
            None => reasons.push((case, why, 0)),
        }
    }
    let line = |(case, why, others): (&CaseId, &str, usize)| match others {
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
