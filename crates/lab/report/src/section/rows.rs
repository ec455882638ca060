//! One row for each mechanism of a pattern at one placement, best first: its figures, its multiple of the hub's cost, and what was
//! counted per operation. A column that no row has anything for is left out.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use weighbridge_record::{CaseId, PerOp, Summary, ToHub};

use crate::document::{Cell, Table};
use crate::figure::{Figure, Off};
use crate::matrix::{self, Matrix};
use crate::model::{Measured, Report};
use crate::units::{Scale, Series, count, reach, significant, size};
use crate::words::IMPORTED;

/// A count that no row of a table reaches has no column.
const LEAST_COUNT: f64 = 0.01;

/// The table with figures and counts.
pub fn table(report: &Report, matrix: &Matrix<'_>) -> Table {
    let mut columns = figures(matrix);
    columns.extend(counts(report, matrix));
    let label = if matrix.pattern == IMPORTED { "benchmark" } else { "mechanism" };
    composed(matrix, label, sorted(matrix), columns)
}

/// The table of counts alone, in the order of the matrix.
pub fn counted(report: &Report, matrix: &Matrix<'_>) -> Table {
    composed(matrix, "per operation", (0..matrix.columns.len()).collect(), counts(report, matrix))
}

/// A head, and a cell for each mechanism.
type Cells = (String, Vec<Cell>);

fn composed(matrix: &Matrix<'_>, label: &str, order: Vec<usize>, mut columns: Vec<Cells>) -> Table {
    let is_blank = |cell: &Cell| matches!(cell, Cell::Text(text) if text.is_empty());
    columns.retain(|(_, cells)| !cells.iter().all(is_blank));
    let row = |of: usize| {
        let name = Cell::from(matrix.columns[of].name.as_str());
        let cells = columns.iter().map(move |(_, cells)| cells[of].clone());
        std::iter::once(name).chain(cells)
    };
    let heads = std::iter::once(label).chain(columns.iter().map(|(head, _)| head.as_str()));
    Table::new("", heads, order.into_iter().map(row))
}

/// Best first at the smallest payload that a mechanism has; those that have the smallest of all before the others. Cases that are not
/// ranked are in the order of the record.
fn sorted(matrix: &Matrix<'_>) -> Vec<usize> {
    let first = |column: usize| {
        (0..matrix.sizes.len()).find_map(|row| match matrix.cell(row, column) {
            matrix::Cell::Value(_, summary) => Some((row, summary.median)),
            _ => None,
        })
    };
    let mut order: Vec<usize> = (0..matrix.columns.len()).collect();
    order.sort_by(|a, b| match (first(*a), first(*b)) {
        (Some((at, _)), Some((other_at, _))) if !matrix.is_ranked => at.cmp(&other_at),
        (Some((at, one)), Some((other_at, other))) => at.cmp(&other_at).then_with(|| {
            let ascending = one.total_cmp(&other);
            if matrix.higher_is_better { ascending.reverse() } else { ascending }
        }),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
    order
}

/// A column for each payload, and one for where the machine was.
fn figures(matrix: &Matrix<'_>) -> Vec<Cells> {
    let column = |(row, bytes): (usize, &u64)| {
        let head = if matrix.has_sizes() { size(*bytes) } else { "median".into() };
        // What one hub did is the same for all payloads, and has a column of its own.
        let brief = |cell: Cell, column: usize| match cell {
            Cell::Figure(figure) if range_of_hub(matrix, row, column).is_some() => {
                Cell::Figure(Figure { reach: String::new(), interval: String::new(), ..figure })
            }
            cell => cell,
        };
        let cells = (0..matrix.columns.len()).map(|column| brief(cell(matrix, row, column), column));
        (head, cells.collect())
    };
    let machine = |column: usize| {
        let all = (0..matrix.sizes.len()).find_map(|row| range_of_hub(matrix, row, column));
        Cell::from(all.unwrap_or_default())
    };
    let machine = ("machine in this session".into(), (0..matrix.columns.len()).map(machine).collect());
    matrix.sizes.iter().enumerate().map(column).chain([machine]).collect()
}

/// How far the machine was from a figure that follows a hub and has no ±: `−3+8%`.
fn range_of_hub(matrix: &Matrix<'_>, row: usize, column: usize) -> Option<String> {
    let matrix::Cell::Value(_, summary) = matrix.cell(row, column) else { return None };
    let off = Off::of(summary);
    (summary.to_hub.is_some() && matches!(off, Off::Range(_))).then(|| off.brief(summary.median))
}

/// The figure of a case.
pub fn cell(matrix: &Matrix<'_>, row: usize, column: usize) -> Cell {
    match matrix.cell(row, column) {
        matrix::Cell::Absent => "".into(),
        matrix::Cell::Skipped => "–".into(),
        matrix::Cell::Value(case, summary) => {
            let is_best = matrix.best(row) == Some(column);
            Cell::Figure(Figure::new(&matrix.scale, case, summary, is_best))
        }
    }
}

/// What a summary says of something.
type Get<'a> = &'a dyn Fn(&Summary) -> Option<f64>;

/// The multiple of the hub's cost, percentiles where single operations were timed, and what was counted: a value, or
/// `low … high` over the payloads.
fn counts(report: &Report, matrix: &Matrix<'_>) -> Vec<Cells> {
    let all = || (0..matrix.columns.len()).flat_map(|column| summaries(matrix, column));
    let over = |head: String, get: Get<'_>, show: &dyn Fn(f64) -> String| -> Cells {
        let cell = |column| Cell::from(range(summaries(matrix, column).filter_map(get), show));
        (head, (0..matrix.columns.len()).map(cell).collect())
    };
    let scaled = |what: &str, per: &str, get: Get<'_>| {
        let scale = Scale::new("ns", all().filter_map(get));
        over(format!("{what} {}{per}", scale.name), get, &|value| scale.show(value))
    };
    let percentile = |p: f64| {
        move |summary: &Summary| {
            let distribution = summary.distribution.as_ref()?;
            Some(distribution.percentiles.iter().find(|percentile| percentile.p == p)?.ns)
        }
    };
    let mut columns = to_hub(matrix);
    columns.extend([
        to_baseline(report, matrix),
        scaled("p50", "", &percentile(0.5)),
        scaled("p99", "", &percentile(0.99)),
    ]);
    // Imported output names no roles; a count that was not made is blank and not 0.
    if matrix.is_counted() {
        let per_op = |head: &str, get: fn(&PerOp) -> f64| {
            let is_seen = all().any(|summary| get(&summary.per_op) >= LEAST_COUNT);
            over(head.into(), &|summary| is_seen.then(|| get(&summary.per_op)), &count)
        };
        columns.extend([
            per_op("voluntary switches/op", |per_op| per_op.voluntary_switches),
            per_op("involuntary switches/op", |per_op| per_op.involuntary_switches),
            per_op("minor faults/op", |per_op| per_op.minor_faults),
            over("system calls/op".into(), &|summary| Some(summary.system_calls.as_ref()?.per_op), &count),
        ]);
    }
    // One unit for the whole and its parts.
    let unit = all().next().map_or("ns", |summary| summary.per_op.cpu().1);
    let scale = Scale::new(unit, all().map(|summary| summary.per_op.cpu().0));
    let cpu = |what: &str, get: fn(&PerOp) -> Option<f64>| {
        over(format!("{what} {}/op", scale.name), &|summary| get(&summary.per_op), &|value| scale.show(value))
    };
    if all().all(|summary| summary.per_op.user_ns.is_some()) {
        columns
            .extend([cpu("user CPU", |per_op| per_op.user_ns), cpu("kernel CPU", |per_op| per_op.kernel_ns)]);
    } else {
        columns.push(cpu("CPU", |per_op| Some(per_op.cpu().0).filter(|cpu| *cpu > 0.0)));
    }
    // What a process beside the roles did for each operation is part of the counts before.
    for name in all().flat_map(|summary| summary.beside.keys()).collect::<BTreeSet<_>>() {
        let switches = |summary: &Summary| {
            let per_op = summary.beside.get(name)?;
            Some(per_op.voluntary_switches + per_op.involuntary_switches)
        };
        columns.push(over(format!("{name}: switches/op"), &switches, &count));
        columns.push(scaled(&format!("{name}: CPU"), "/op", &|of| Some(of.beside.get(name)?.cpu_ns)));
    }
    // Switches of one kind are among the counts already.
    let names = all().flat_map(|summary| summary.series.keys());
    for name in names.filter(|name| !name.contains("voluntary_switches")).collect::<BTreeSet<_>>() {
        let get = |summary: &Summary| summary.series.get(name).copied();
        let series = Series::new(name, all().filter_map(get));
        columns.push(over(series.label(), &get, &|value| series.scale.show(value)));
    }
    columns
}

/// The cost over that of the hub with its interval, a column for each payload.
fn to_hub(matrix: &Matrix<'_>) -> Vec<Cells> {
    let column = |(row, bytes): (usize, &u64)| {
        let of = if matrix.sizes.len() > 1 { format!(", {}", size(*bytes)) } else { String::new() };
        let cell = |column: usize| match matrix.cell(row, column) {
            matrix::Cell::Value(_, summary) => {
                Cell::from(summary.to_hub.as_ref().map_or(String::new(), times_hub))
            }
            _ => "".into(),
        };
        (format!("× hub{of}"), (0..matrix.columns.len()).map(cell).collect())
    };
    matrix.sizes.iter().enumerate().map(column).collect()
}

/// `1.82 ±1.2%`, or without an interval where there are too few sets.
pub fn times_hub(of: &ToHub) -> String {
    let reach = of.ci95.map_or(String::new(), |ends| format!(" {}", reach(of.median, ends)));
    format!("{}{reach}", significant(of.median))
}

/// The cost over that of the case that the session compared with, where no case took turns with a hub.
fn to_baseline(report: &Report, matrix: &Matrix<'_>) -> Cells {
    let is_here = |id: &CaseId| id.pattern == matrix.pattern && id.place() == matrix.place;
    let mut baselines = report.comparisons.iter().map(|line| &line.what.baseline);
    let has_hub =
        (0..matrix.columns.len()).any(|of| summaries(matrix, of).any(|summary| summary.to_hub.is_some()));
    let Some(baseline) = baselines.find(|id| is_here(id)).filter(|_| !has_hub) else {
        return (String::new(), vec![Cell::from(""); matrix.columns.len()]);
    };
    ratios(&format!("× {}", baseline.variant()), matrix, &|case, _| {
        let mut own = report.comparisons.iter().filter(|line| line.source == case.source);
        let line = &own.find(|line| line.what.case == case.id)?.what;
        // A speed-up is the baseline's cost over the case's.
        Some((1.0 / line.speedup, line.ci95.map(|[low, high]| [1.0 / high, 1.0 / low])))
    })
}

/// A ratio and its interval.
type Known = (f64, Option<[f64; 2]>);

fn ratios(head: &str, matrix: &Matrix<'_>, of: &dyn Fn(&Measured, &Summary) -> Option<Known>) -> Cells {
    let cell = |column: usize| {
        let known = matrix.column(column).filter_map(|(_, case, summary)| of(case, summary));
        let known: Vec<Known> = known.collect();
        Cell::from(match known.as_slice() {
            [(ratio, Some([low, high]))] => {
                format!("{} ({}–{})", significant(*ratio), significant(*low), significant(*high))
            }
            _ => range(known.iter().map(|(ratio, _)| *ratio), &significant),
        })
    };
    (head.into(), (0..matrix.columns.len()).map(cell).collect())
}

fn summaries<'a>(matrix: &Matrix<'a>, column: usize) -> impl Iterator<Item = &'a Summary> {
    matrix.column(column).map(|(_, _, summary)| summary)
}

/// One value, or the lowest and the highest; nothing where there is none.
fn range(values: impl Iterator<Item = f64>, show: &dyn Fn(f64) -> String) -> String {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return String::new();
    }
    match (show(low), show(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} … {high}"),
    }
}
