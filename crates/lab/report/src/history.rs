//! Cases over several records: a document of their own, with the changes of level and a chart for each series.

use serde::Serialize;
use weighbridge_record::history::{Change, MEDIAN, Point as Value, Series};

use crate::axis::Axis;
use crate::chart::{Chart, Drawing, Line, Point};
use crate::document::{Block, Cell, Column, Document, Section, Table};
use crate::lines;
use crate::look::Look;
use crate::text::Style;
use crate::units::{Scale, significant, with_unit};
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

/// Largest number of records with a tick each on the axis.
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
        let warnings = if across.is_empty() {
            vec![]
        } else {
            vec![format!(
                "The series go {across}. A change of level between machines says nothing of the code."
            )]
        };
        let sections = [self.changes(), self.cases(), self.charts(), self.list()];
        Document {
            title: plain(&format!(
                "Weighbridge history: {} by {}",
                many(self.records.len(), "record"),
                self.by
            )),
            warnings,
            sections: sections.into_iter().flatten().collect(),
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

    fn changes(&self) -> Option<Section> {
        let rows = self.series.iter().flat_map(|series| {
            series.changes.iter().map(|change| self.with_across(self.change_row(series, change)))
        });
        let rows: Vec<Vec<Cell>> = rows.collect();
        let blocks = if rows.is_empty() {
            vec![Block::Paragraph("No case changes its level.".into())]
        } else {
            let about = "Ratio: new level over old one, with its interval at 95 %. p: the probability of so good a split where nothing \
                             changes; at 5 % one steady series in twenty shows a change by chance.";
            let heads =
                ["case", "from record", "to record", "before", "after", "ratio", "interval", "cost", "p"];
            vec![Block::Paragraph(about.into()), Block::Table(self.table(&heads, 3, rows))]
        };
        Section::new("changes", "Changes of level", blocks)
    }

    fn change_row(&self, series: &Series, change: &Change) -> Vec<Cell> {
        let (last, first) = (&series.points[change.at - 1], &series.points[change.at]);
        let cost_rose = (change.ratio > 1.0) != series.higher_is_better;
        let interval = change.ci95.map_or_else(
            || "fewer than four records on a side".into(),
            |[low, high]| format!("{low:.3} to {high:.3}"),
        );
        vec![
            series.case.to_string().into(),
            self.label(last.record).into(),
            self.label(first.record).into(),
            shown(series, change.before).into(),
            shown(series, change.after).into(),
            format!("{:.3}", change.ratio).into(),
            interval.into(),
            if cost_rose { "rose" } else { "fell" }.into(),
            significant(change.p).into(),
        ]
    }

    fn cases(&self) -> Option<Section> {
        let row = |series: &Series| {
            let ends = [series.points.first(), series.points.last()];
            let [first, last] =
                ends.map(|point| point.map_or(String::new(), |point| shown(series, point.value)));
            let figure = if series.figure == MEDIAN { "median" } else { &series.unit };
            self.with_across(vec![
                series.case.to_string().into(),
                figure.into(),
                series.points.len().to_string().into(),
                first.into(),
                last.into(),
                series.changes.len().to_string().into(),
            ])
        };
        let rows: Vec<Vec<Cell>> = self.series.iter().map(row).collect();
        if rows.is_empty() {
            return None;
        }
        let heads = ["case", "figure", "records", "first", "last", "changes"];
        Section::new("series", "Series", vec![Block::Table(self.table(&heads, 2, rows))])
    }

    /// Only drawn: the figures are in the tables and in JSON.
    fn charts(&self) -> Option<Section> {
        let fold = |series: &Series| Block::Fold {
            summary: series.case.to_string(),
            is_open: !series.changes.is_empty(),
            blocks: vec![Block::Chart(Box::new(self.chart(series)))],
        };
        let mut blocks: Vec<Block> =
            self.series.iter().filter(|series| series.points.len() > 1).map(fold).collect();
        if !blocks.is_empty() {
            blocks.insert(0, Block::Paragraph(ABOUT.into()));
        }
        Section::new("charts", "Series over the records", blocks)
    }

    fn chart(&self, series: &Series) -> Chart {
        let point = |value: &Value| {
            let mut hover = vec![self.label(value.record), shown(series, value.value)];
            hover.extend(value.ci95.map(|[low, high]| {
                format!("95 % interval {} to {}", shown(series, low), shown(series, high))
            }));
            Point { x: (value.record + 1) as f64, y: value.value, interval: value.ci95, hover }
        };
        let line = Line {
            name: plain(&series.case.to_string()),
            look: Look::nth(0),
            is_hidden: false,
            points: series.points.iter().map(point).collect(),
        };
        let level =
            Line { name: "level".into(), look: Look::nth(1), is_hidden: false, points: levels(series) };
        let all = if series.changes.is_empty() { vec![line] } else { vec![line, level] };
        let scale = Scale::new(&series.unit, series.points.iter().map(|point| point.value));
        let (y, all) = lines::value_axis(&series.unit, &scale, all);
        let x = Axis::Linear(format!("record, by {}", self.by));
        let across = self.across();
        let title =
            if across.is_empty() { series.case.to_string() } else { format!("{} ({across})", series.case) };
        Chart {
            title: plain(&title),
            about: String::new(),
            drawing: Drawing::Lines(x, y, all),
            figures: None,
        }
    }

    fn list(&self) -> Option<Section> {
        let row = |(index, record): (usize, &Dated)| {
            let commit = record.commit.clone().unwrap_or_else(|| "unknown".into());
            let number = (index + 1).to_string();
            [
                number,
                record.started.clone(),
                commit,
                record.kernel.clone(),
                record.machine.clone(),
                record.path.clone(),
            ]
            .map(|text| Cell::from(plain(&text)))
            .into()
        };
        let rows: Vec<Vec<Cell>> = self.records.iter().enumerate().map(row).collect();
        let heads = ["record", "started", "commit", "kernel", "machine", "file"];
        let columns =
            heads.map(|head| Column { head: head.into(), is_text: true, ..Column::default() }).into();
        let table = Table { columns, rows, labels: 1, ..Table::default() };
        Section::new("records", "Records", vec![Block::Table(table)])
    }

    /// A table whose first columns are texts; across machines, with a last one that says so in every row.
    fn table(&self, heads: &[&str], texts: usize, rows: Vec<Vec<Cell>>) -> Table {
        let column = |(index, head): (usize, &&str)| Column {
            head: (*head).into(),
            is_text: index < texts,
            ..Column::default()
        };
        let mut columns: Vec<Column> = heads.iter().enumerate().map(column).collect();
        if !self.across().is_empty() {
            columns.push(Column { head: "machines".into(), is_text: true, ..Column::default() });
        }
        Table { columns, rows, labels: 1, ..Table::default() }
    }

    fn with_across(&self, mut row: Vec<Cell>) -> Vec<Cell> {
        let across = self.across();
        if !across.is_empty() {
            row.push(plain(&across).into());
        }
        row
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
