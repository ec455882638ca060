//! Percentiles of single operations: a line per case over how rare an operation is, and a table.

use weighbridge_record::{Distribution, Percentile};

use crate::axis::{Axis, LogAxis};
use crate::chart::{Chart, Drawing, Line, Point};
use crate::document::{Block, Cell, Section, Table};
use crate::lines;
use crate::look::Look;
use crate::model::{Measured, Report};
use crate::regimes;
use crate::units::{Scale, reach, with_unit};

const ABOUT: &str = "In a closed loop the time is service time: the next operation starts when the last one has ended, so a stall \
                     counts once. With a rate, the time begins when an operation was due. A percentile is shown where at least \
                     ten observations lie beyond it. (pool) marks a percentile of the observations of all runs together, \
                     because a single run has fewer than ten beyond it.";

/// Nothing where no case timed single operations.
pub fn section(report: &Report) -> Option<Section> {
    let timed = |case: &'_ Measured| case.summary.as_ref().is_some_and(|of| of.distribution.is_some());
    let cases: Vec<(&Measured, &Distribution)> = report
        .cases
        .iter()
        .filter(|case| timed(case))
        .filter_map(|case| Some((case, case.summary.as_ref()?.distribution.as_ref()?)))
        .collect();
    if cases.is_empty() {
        return None;
    }
    let figures = table(report, &cases);
    let block = match chart(report, &cases) {
        None => Block::Table(figures),
        Some((about, drawing)) => {
            let title = "Percentiles: what one operation in N takes at least".into();
            Block::Chart(Box::new(Chart { title, about, drawing, figures: Some(figures) }))
        }
    };
    Section::new("distribution", "Single operations", vec![Block::Paragraph(ABOUT.into()), block])
}

fn percentiles<'a>(cases: &'a [(&Measured, &Distribution)]) -> impl Iterator<Item = &'a Percentile> {
    cases.iter().flat_map(|(_, distribution)| &distribution.percentiles)
}

fn ascending(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Percentiles of every case, in one unit.
fn table(report: &Report, cases: &[(&Measured, &Distribution)]) -> Table {
    let scale = Scale::new("ns", percentiles(cases).map(|percentile| percentile.ns));
    let shown = ascending(percentiles(cases).map(|percentile| percentile.p));
    let mut heads = vec!["case".to_owned()];
    heads.extend(shown.iter().map(|p| format!("{} {}", name(*p), scale.name)));
    heads.extend([format!("longest {}", scale.name), "operations timed".into()]);
    let row = |(case, distribution): &(&Measured, &Distribution)| -> Vec<Cell> {
        let found = |p: &f64| distribution.percentiles.iter().find(|percentile| percentile.p == *p);
        let mut cells = vec![regimes::name(report, case)];
        cells.extend(shown.iter().map(|p| found(p).map_or(String::new(), |found| text(found, &scale))));
        cells.extend([scale.show(distribution.max_ns as f64), distribution.observations.to_string()]);
        cells.into_iter().map(Cell::from).collect()
    };
    Table::new("", heads, cases.iter().map(row).collect())
}

/// `p50`, `p99.9`.
pub fn name(p: f64) -> String {
    // 0.99999 × 100 is not quite 99.999.
    format!("p{}", (p * 100.0 * 1e6).round() / 1e6)
}

fn text(percentile: &Percentile, scale: &Scale) -> String {
    let value = scale.show(percentile.ns);
    let reach = percentile.ci95.map_or(String::new(), |ci95| format!(" {}", reach(percentile.ns, ci95)));
    let pooled = if percentile.pooled { " (pool)" } else { "" };
    format!("{value}{reach}{pooled}")
}

/// One line per case over 1 / (1 − p): one in two, one in ten, …
fn chart(report: &Report, cases: &[(&Measured, &Distribution)]) -> Option<(String, Drawing)> {
    let ones_in = ascending(percentiles(cases).map(|percentile| one_in(percentile.p)));
    if ones_in.len() < 2 {
        return None;
    }
    let line = |(index, (case, distribution)): (usize, &(&Measured, &Distribution))| Line {
        name: regimes::name(report, case),
        look: Look::nth(index),
        is_hidden: false,
        points: distribution.percentiles.iter().map(point).collect(),
    };
    let mut drawn: Vec<Line> = cases.iter().enumerate().map(line).collect();
    lines::by_height(&mut drawn);
    let scale = Scale::new("ns", percentiles(cases).map(|percentile| percentile.ns));
    let (y, drawn) = lines::value_axis("ns", &scale, drawn);
    let x = Axis::Log(LogAxis::numbers("one operation in", &ones_in));
    Some((String::new(), Drawing::Lines(x, y, drawn)))
}

fn one_in(p: f64) -> f64 {
    (1.0 / (1.0 - p)).round()
}

fn point(percentile: &Percentile) -> Point {
    let mut hover = vec![format!("{}: {}", name(percentile.p), with_unit("ns", percentile.ns))];
    if let Some(ci95) = percentile.ci95 {
        let [low, high] = ci95.map(|end| with_unit("ns", end));
        hover.push(format!("95 % interval {low} to {high}"));
    }
    if percentile.pooled {
        hover.push("of all runs together".into());
    }
    Point { x: one_in(percentile.p), y: percentile.ns, interval: percentile.ci95, hover }
}
