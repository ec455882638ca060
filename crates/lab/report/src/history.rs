//! Cases over several records: a document of their own, with the changes of level and a chart for each series.

use serde::Serialize;
use weighbridge_record::history::{Change, MEDIAN, Point as Value, Series};

use crate::axis::Axis;
use crate::chart::{Drawing, Line, Point};
use crate::document::{Block, Column, Document, Section, Table};
use crate::lines;
use crate::look::Look;
use crate::text::Style;
use crate::units::{Scale, range, significant, with_unit};
use crate::words::{many, plain};

/// A record of a history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dated {
    /// The file.
    pub path: String,
    /// When it was started, RFC 3339.
    pub started: String,
    /// The commit that was measured, where it is known.
    pub commit: Option<String>,
    /// Release of the kernel.
    pub kernel: String,
    /// Host and CPU.
    pub machine: String,
}

/// Cases over several records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// What the records are ordered by: `time`, `commit`, `kernel`, `machine`.
    pub by: &'static str,
    /// The machines of the records; with several, each line says that the series goes across them.
    pub machines: Vec<String>,
    /// In the order of the series.
    pub records: Vec<Dated>,
    /// By case.
    pub series: Vec<Series>,
}

const ABOUT_CHANGES: &str = "Ratio: new level over old one, with its interval at 95 %. p: the probability of so good a split where nothing \
                             changes; at 5 % one steady series in twenty shows a change by chance.";
const ABOUT: &str = "Each point is one record that has the case; points are in the order of the records. The band is the interval of each record. \
                     The line `level` is the median between changes.";

impl History {
    /// For a terminal.
    pub fn text(&self, style: Style) -> String {
        self.document().text(style)
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        self.document().markdown()
    }

    /// As a page.
    pub fn html(&self) -> String {
        self.document().html()
    }

    /// For programs: this type, each series with the sentence on its machines where there are several.
    ///
    /// # Panics
    /// Never: the type is plain data.
    pub fn json(&self) -> String {
        let mut value = serde_json::to_value(self).expect("plain data");
        let across = self.across();
        if let Some(series) = value["series"].as_array_mut().filter(|_| !across.is_empty()) {
            series.iter_mut().for_each(|series| series["across_machines"] = across.clone().into());
        }
        serde_json::to_string_pretty(&value).expect("plain data") + "\n"
    }

    /// Nothing for one machine.
    fn across(&self) -> String {
        match &self.machines[..] {
            [] | [_] => String::new(),
            machines => format!("across {} machines: {}", machines.len(), machines.join("; ")),
        }
    }

    fn document(&self) -> Document {
        let across = self.across();
        let warning = (!across.is_empty()).then(|| {
            format!("The series go {across}. A change of level between machines says nothing of the code.")
        });
        let records = many(self.records.len(), "record");
        Document {
            title: plain(&format!("Weighbridge history: {records} by {}", self.by)),
            warnings: warning.into_iter().collect(),
            sections: [self.changes(), self.cases(), self.charts(), self.list()].concat(),
        }
    }

    /// What a record is called here: its number, and what the history is ordered by.
    fn label(&self, record: usize) -> String {
        let of = &self.records[record];
        let key = match self.by {
            "commit" => of.commit.as_deref().unwrap_or("unknown commit"),
            "kernel" => &of.kernel,
            "machine" => &of.machine,
            _ => &of.started,
        };
        plain(&format!("{}: {key}", record + 1))
    }

    fn changes(&self) -> Vec<Section> {
        let rows: Vec<Vec<String>> = self
            .series
            .iter()
            .flat_map(|series| series.changes.iter().map(|change| self.change_row(series, change)))
            .collect();
        let blocks = if rows.is_empty() {
            vec![Block::Paragraph("No case changes its level.".into())]
        } else {
            let heads =
                ["case", "from record", "to record", "before", "after", "ratio", "interval", "cost", "p"];
            vec![Block::Paragraph(ABOUT_CHANGES.into()), self.table(&heads, 3, rows)]
        };
        Section::new("changes", "Changes of level", blocks)
    }

    fn change_row(&self, series: &Series, change: &Change) -> Vec<String> {
        let (last, first) = (&series.points[change.at - 1], &series.points[change.at]);
        let cost_rose = (change.ratio > 1.0) != series.higher_is_better;
        let interval = change.ci95.map_or_else(
            || "fewer than four records on a side".into(),
            |ends| range(ends, |end| format!("{end:.3}")),
        );
        vec![
            series.case.to_string(),
            self.label(last.record),
            self.label(first.record),
            shown(series, change.before),
            shown(series, change.after),
            format!("{:.3}", change.ratio),
            interval,
            if cost_rose { "rose" } else { "fell" }.into(),
            significant(change.p),
        ]
    }

    fn cases(&self) -> Vec<Section> {
        if self.series.is_empty() {
            return Vec::new();
        }
        let row = |series: &Series| {
            let ends = [series.points.first(), series.points.last()];
            let [first, last] =
                ends.map(|point| point.map_or(String::new(), |point| shown(series, point.value)));
            let figure = if series.figure == MEDIAN { "median" } else { &series.unit };
            let counts = [series.points.len(), series.changes.len()];
            let [records, changes] = counts.map(|count| count.to_string());
            vec![series.case.to_string(), figure.into(), records, first, last, changes]
        };
        let heads = ["case", "figure", "records", "first", "last", "changes"];
        Section::new("series", "Series", vec![self.table(&heads, 2, self.series.iter().map(row).collect())])
    }

    /// Only drawn: the figures are in the tables and in JSON.
    fn charts(&self) -> Vec<Section> {
        let fold = |series: &Series| Block::Fold {
            summary: series.case.to_string(),
            is_open: !series.changes.is_empty(),
            blocks: vec![self.chart(series)],
        };
        let mut blocks: Vec<Block> =
            self.series.iter().filter(|series| series.points.len() > 1).map(fold).collect();
        if !blocks.is_empty() {
            blocks.insert(0, Block::Paragraph(ABOUT.into()));
        }
        Section::new("charts", "Series over the records", blocks)
    }

    fn chart(&self, series: &Series) -> Block {
        let point = |value: &Value| {
            let mut hover = vec![self.label(value.record), shown(series, value.value)];
            let interval = value.ci95.map(|ends| range(ends, |end| shown(series, end)));
            hover.extend(interval.map(|ends| format!("95 % interval {ends}")));
            Point { x: (value.record + 1) as f64, y: value.value, interval: value.ci95, hover }
        };
        let name = plain(&series.case.to_string());
        let mut all = vec![Line::new(name, Look::nth(0), series.points.iter().map(point).collect())];
        all.extend((!series.changes.is_empty()).then(|| Line::new("level", Look::nth(1), levels(series))));
        let scale = Scale::new(&series.unit, series.points.iter().map(|point| point.value));
        let (y, all) = lines::value_axis(&series.unit, &scale, all);
        let x = Axis::Linear(format!("record, by {}", self.by));
        let across = self.across();
        let across = if across.is_empty() { across } else { format!(" ({across})") };
        let title = plain(&format!("{}{across}", series.case));
        Block::chart(title, "", Drawing::Lines(x, y, all), None)
    }

    fn list(&self) -> Vec<Section> {
        let row = |(index, record): (usize, &Dated)| {
            let Dated { path, started, commit, kernel, machine } = record;
            let commit = commit.as_deref().unwrap_or("unknown");
            [&(index + 1).to_string(), started, commit, kernel, machine, path].map(plain)
        };
        let heads = ["record", "started", "commit", "kernel", "machine", "file"];
        let table = Table::new("", heads, self.records.iter().enumerate().map(row)).with_texts(1..6);
        Section::new("records", "Records", vec![Block::Table(table)])
    }

    /// A table whose first columns are texts; across machines, with a last one that says so in every row.
    fn table(&self, heads: &[&str], texts: usize, rows: Vec<Vec<String>>) -> Block {
        let across = self.across();
        let mut table = Table::new("", heads.iter().copied(), rows).with_texts(1..texts);
        if !across.is_empty() {
            table.columns.push(Column::text("machines"));
            table.rows.iter_mut().for_each(|row| row.push(plain(&across).into()));
        }
        Block::Table(table)
    }
}

fn shown(series: &Series, value: f64) -> String {
    match series.figure {
        MEDIAN => with_unit(&series.unit, value),
        _ => format!("{} times its hub", significant(value)),
    }
}

/// The ends of each stretch between changes, at its level.
fn levels(series: &Series) -> Vec<Point> {
    let changes = &series.changes;
    let Some(first) = changes.first() else { return vec![] };
    let starts =
        std::iter::once((0, first.before)).chain(changes.iter().map(|change| (change.at, change.after)));
    let ends = changes.iter().map(|change| change.at).chain([series.points.len()]);
    let point = |index: usize, y: f64| Point {
        x: (series.points[index].record + 1) as f64,
        y,
        interval: None,
        hover: vec![format!("level {}", shown(series, y))],
    };
    starts.zip(ends).flat_map(|((start, level), end)| [point(start, level), point(end - 1, level)]).collect()
}
