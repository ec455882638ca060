//! Every case in one table, which a reader of the HTML page can sort and filter.

use weighbridge_record::{StoppedBy, Summary};

use super::Context;
use crate::calls;
use crate::document::{Block, Cell, Column, Section, Table};
use crate::figure::{Off, marks};
use crate::model::{Measured, Report};
use crate::units::{Scale, count, range, significant, size, with_unit};
use crate::words::many;

/// Heading, and whether it holds text.
const COLUMNS: [(&str, bool); 21] = [
    ("mechanism", true),
    ("pattern", true),
    ("payload", false),
    ("placement", true),
    ("median", false),
    ("in this session", false),
    ("in another session", false),
    ("marks", true),
    ("× hub", false),
    ("hub", true),
    ("best state", false),
    ("slow share", false),
    ("runs", false),
    ("stopped by", true),
    ("spread between runs", false),
    ("spread within runs", false),
    ("voluntary switches/op", false),
    ("involuntary switches/op", false),
    ("minor faults/op", false),
    ("system calls/op", false),
    ("CPU/op", false),
];

const ABOUT: &str = "Sorting by the median keeps units apart. Spread is half the interquartile range as a share of the median; where it is larger \
                     between runs than within them, more runs narrow the interval and longer runs do not. × hub is the cost of the case over the \
                     cost of the hub in the same slices, with its interval at 95 %; the median is that multiple of the cost of the hub over the whole session. In this session: \
                     where the machine was meanwhile, 90 % of the slices of the hub at this figure, or the lowest and the highest run of a case that was \
                     measured alone. In another session: where the figure is expected there at 95 %, by earlier sessions. Best state is \
                     what the best 5 % of slices reach. Slow share is the part of the time in a slow state of the machine.";

/// Columns that a table of imported cases has, under their own names: of the others no tool tells anything.
const IMPORTED: [(&str, &str); 9] = [
    ("mechanism", "benchmark"),
    ("payload", "payload"),
    ("median", "median"),
    ("in this session", "lowest and highest run"),
    ("marks", "marks"),
    ("runs", "runs"),
    ("spread between runs", "spread between runs"),
    ("spread within runs", "spread within runs"),
    ("CPU/op", "CPU/op"),
];

const ABOUT_IMPORTED: &str = "Sorting by the median keeps units apart. Spread is half the interquartile range as a share of the median.";

/// None where no case has a figure.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let cases = cx.report.cases.iter().filter_map(|case| Some((case, case.summary.as_ref()?)));
    let rows: Vec<Vec<Cell>> = cases.map(|(case, summary)| row(cx.report, case, summary)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let summary = many(rows.len(), "case");
    let is_imported = cx.report.is_imported();
    let has_payload = cx.report.cases.iter().any(|case| case.id.payload_bytes > 0);
    // The place of each column that is shown, and its name.
    let shown = COLUMNS.iter().enumerate().filter_map(|(place, (head, is_text))| match is_imported {
        false => Some((place, *head, *is_text)),
        true if *head == "payload" && !has_payload => None,
        true => IMPORTED.iter().find(|(own, _)| own == head).map(|(_, name)| (place, *name, *is_text)),
    });
    let shown: Vec<(usize, &str, bool)> = shown.collect();
    let kept = |row: Vec<Cell>| shown.iter().map(|(place, ..)| row[*place].clone()).collect();
    let rows = rows.into_iter().map(kept).collect();
    let columns = shown
        .iter()
        .map(|(_, head, is_text)| Column { is_text: *is_text, ..Column::number(*head) })
        .collect();
    let table = Table { columns, rows, labels: 1, is_sortable: true, ..Table::default() };
    let about = if is_imported { ABOUT_IMPORTED } else { ABOUT };
    let blocks = vec![Block::Paragraph(about.into()), Block::Table(table)];
    Section::new("cases", "All cases", vec![Block::Fold { summary, is_open: true, blocks }])
}

fn row(report: &Report, case: &Measured, summary: &Summary) -> Vec<Cell> {
    let scale = Scale::alone(&summary.unit, summary.median);
    let width = |ends: [f64; 2]| (ends[1] - ends[0]) / summary.median;
    let ends = |of: Option<[f64; 2]>, off: fn([f64; 2]) -> Off| {
        of.map_or(number(f64::MAX, ""), |ends| number(width(ends), &off(ends).in_full(&scale)))
    };
    let per_op = &summary.per_op;
    let percent = |share: f64| number(share, &format!("{:.2} %", share * 100.0));
    // Imported output names no roles; a count that was not made is blank and not 0.
    let is_counted = case.case.as_ref().is_none_or(|case| !case.roles.is_empty());
    let counted = |value: f64| if is_counted { number(value, &count(value)) } else { Cell::from("") };
    let median = format!("{} {}", scale.show(summary.median), scale.name);
    let to_hub = summary.to_hub.as_ref();
    let times = to_hub.map_or(Cell::from(""), |to_hub| {
        let interval = to_hub.ci95.map_or(String::new(), |ends| format!(" ({})", range(ends, significant)));
        number(to_hub.median, &format!("{}{interval}", significant(to_hub.median)))
    });
    let best = summary
        .best
        .map_or(Cell::from(""), |best| number(best, &format!("{} {}", scale.show(best), scale.name)));
    vec![
        report.variant(case.source, &case.id).into(),
        case.id.pattern.as_str().into(),
        // A tool that reports no size has 0 here.
        if is_counted || case.id.payload_bytes > 0 {
            number(case.id.payload_bytes as f64, &size(case.id.payload_bytes))
        } else {
            Cell::from("")
        },
        case.id.placement.as_str().into(),
        Cell::Sorted { text: median, unit: summary.unit.clone(), value: summary.median },
        ends(summary.session_range, Off::Range),
        ends(summary.across_sessions, Off::Across),
        marks(case).into(),
        times,
        to_hub.map_or(String::new(), |to_hub| to_hub.hub.to_string()).into(),
        best,
        summary.slow_share.map_or(Cell::from(""), percent),
        number(f64::from(summary.runs), &summary.runs.to_string()),
        stopped(summary.stopped_by).into(),
        percent(summary.spread_between),
        percent(summary.spread_within),
        counted(per_op.voluntary_switches),
        counted(per_op.involuntary_switches),
        counted(per_op.minor_faults),
        calls_of(summary),
        match per_op.cpu() {
            (cpu, unit) if is_counted || cpu > 0.0 => number(cpu, &with_unit(unit, cpu)),
            _ => Cell::from(""),
        },
    ]
}

/// Calls per operation, and which.
fn calls_of(summary: &Summary) -> Cell {
    summary.system_calls.as_ref().map_or(Cell::from(""), |calls| {
        let which = calls::by_role(calls);
        let which = if which.is_empty() { which } else { format!(" ({which})") };
        number(calls.per_op, &format!("{}{which}", count(calls.per_op)))
    })
}

fn number(value: f64, text: &str) -> Cell {
    Cell::Sorted { text: text.into(), unit: String::new(), value }
}

fn stopped(by: StoppedBy) -> &'static str {
    match by {
        StoppedBy::Precision => "precision",
        StoppedBy::MaxRuns => "max-runs",
        StoppedBy::Budget => "budget",
        StoppedBy::Interrupted => "interrupted",
        StoppedBy::Error => "error",
        StoppedBy::Tool => "tool",
    }
}
