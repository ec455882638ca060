//! Percentiles of single operations: a line per case over how rare an operation is, and a table.

use weighbridge_record::{Distribution, Percentile};

use super::Context;
use crate::axis::{Axis, LogAxis};
use crate::chart::{Drawing, Line, Point};
use crate::document::{Block, Section, Table};
use crate::lines::{ascending, of_values};
use crate::look::Look;
use crate::model::{Measured, Report};
use crate::regimes;
use crate::units::{Scale, range, with_unit};

const ABOUT: &str = "In a closed loop the time is service time: the next operation starts when the last one has ended, so a stall \
                     counts once. With a rate, the time begins when an operation was due. A percentile is shown where at least \
                     ten observations lie beyond it. (pool) marks a percentile of the observations of all runs together, \
                     because a single run has fewer than ten beyond it.";

type Timed<'a> = (&'a Measured, &'a Distribution);

/// None where no case timed single operations.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let timed = cx.report.cases.iter();
    let cases: Vec<Timed<'_>> =
        timed.filter_map(|case| Some((case, case.summary.as_ref()?.distribution.as_ref()?))).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let scale = Scale::new("ns", percentiles(&cases).map(|percentile| percentile.ns));
    let figures = table(cx.report, &cases, &scale);
    let block = match drawing(cx.report, &cases, &scale) {
        None => Block::Table(figures),
        Some(drawing) => {
            let title = "Percentiles: what one operation in N takes at least";
            Block::chart(title, "", drawing, Some(figures))
        }
    };
    Section::new("distribution", "Single operations", vec![Block::Paragraph(ABOUT.into()), block])
}

fn percentiles<'a>(cases: &'a [Timed<'_>]) -> impl Iterator<Item = &'a Percentile> {
    cases.iter().flat_map(|(_, distribution)| &distribution.percentiles)
}

/// Percentiles of every case, in one unit.
fn table(report: &Report, cases: &[Timed<'_>], scale: &Scale) -> Table {
    let shown = ascending(percentiles(cases).map(|percentile| percentile.p));
    let mut heads = vec!["case".to_owned()];
    heads.extend(shown.iter().map(|p| format!("{} {}", name(*p), scale.name)));
    heads.extend([format!("longest {}", scale.name), "operations timed".into()]);
    let row = |(case, distribution): &Timed<'_>| {
        let found = |p: &f64| distribution.percentiles.iter().find(|percentile| percentile.p == *p);
        let mut cells = vec![regimes::name(report, case)];
        cells.extend(shown.iter().map(|p| found(p).map_or(String::new(), |found| text(found, scale))));
        cells.extend([scale.show(distribution.max_ns as f64), distribution.observations.to_string()]);
        cells
    };
    Table::new("", heads, cases.iter().map(row))
}

/// `p50`, `p99.9`.
pub fn name(p: f64) -> String {
    // 0.99999 × 100 is not quite 99.999.
    format!("p{}", (p * 100.0 * 1e6).round() / 1e6)
}

fn text(percentile: &Percentile, scale: &Scale) -> String {
    let value = scale.show(percentile.ns);
    // Of an absolute figure within one session: no ±.
    let shown = |[low, high]: [f64; 2]| format!(" ({}–{})", scale.show(low), scale.show(high));
    let reach = percentile.ci95.map_or(String::new(), shown);
    let pooled = if percentile.pooled { " (pool)" } else { "" };
    format!("{value}{reach}{pooled}")
}

/// One line per case over 1 / (1 − p): one in two, one in ten, …
fn drawing(report: &Report, cases: &[Timed<'_>], scale: &Scale) -> Option<Drawing> {
    let ones_in = ascending(percentiles(cases).map(|percentile| one_in(percentile.p)));
    let line = |(index, (case, distribution)): (usize, &Timed<'_>)| {
        let points = distribution.percentiles.iter().map(point).collect();
        Line::new(regimes::name(report, case), Look::nth(index), points)
    };
    let drawn = cases.iter().enumerate().map(line).collect();
    let x = Axis::Log(LogAxis::numbers("one operation in", &ones_in));
    (ones_in.len() > 1).then(|| of_values(x, "ns", scale, drawn))
}

fn one_in(p: f64) -> f64 {
    (1.0 / (1.0 - p)).round()
}

fn point(percentile: &Percentile) -> Point {
    let ns = |value| with_unit("ns", value);
    let mut hover = vec![format!("{}: {}", name(percentile.p), ns(percentile.ns))];
    hover
        .extend(percentile.ci95.map(|ends| format!("95 % interval within this session {}", range(ends, ns))));
    hover.extend(percentile.pooled.then(|| "of all runs together".into()));
    Point { x: one_in(percentile.p), y: percentile.ns, interval: percentile.ci95, hover }
}
