//! Percentiles of single operations: a table, and a line per case over how rare an operation is.

use std::fmt::Write;

use weighbridge_record::Distribution;

use crate::distribution::{ABOUT, TITLE, cases, name, rows};
use crate::html::axis::LogAxis;
use crate::html::chart::{self, Line, Point};
use crate::html::escape::escaped;
use crate::html::look::Look;
use crate::html::section::over_size;
use crate::html::{Page, Section};
use crate::model::Measured;
use crate::regimes;
use crate::units::{Scale, with_unit};

pub const SECTION: Section = Section { id: "distribution", title: TITLE, body };

fn body(page: &Page<'_>) -> Option<String> {
    let table = rows(page.report)?;
    let mut out = format!("<p class=\"about\">{ABOUT}</p>\n{}", plotted(page));
    out += "<div class=\"scroll\"><table><thead><tr><th>case</th>";
    for column in &table.columns {
        let _ = write!(out, "<th>{}</th>", escaped(column));
    }
    out += "</tr></thead><tbody>\n";
    for (case, texts) in &table.rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(case));
        for text in texts {
            let _ = write!(out, "<td>{}</td>", escaped(text));
        }
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    Some(out)
}

/// One line per case over 1 / (1 − p): one in two, one in ten, …
fn plotted(page: &Page<'_>) -> String {
    let cases = cases(page.report);
    let percentiles = || cases.iter().flat_map(|(_, distribution)| &distribution.percentiles);
    let mut ones_in: Vec<f64> = percentiles().map(|percentile| one_in(percentile.p)).collect();
    ones_in.sort_by(f64::total_cmp);
    ones_in.dedup();
    if ones_in.len() < 2 {
        return String::new();
    }
    let line = |(index, (case, distribution)): (usize, &(&Measured, &Distribution))| Line {
        name: regimes::name(page.report, case),
        look: Look::nth(index),
        is_hidden: false,
        points: points(distribution),
    };
    let mut lines: Vec<Line> = cases.iter().enumerate().map(line).collect();
    over_size::by_height(&mut lines);
    let scale = Scale::new("ns", percentiles().map(|percentile| percentile.ns));
    let (y, lines) = over_size::value_axis("ns", &scale, lines);
    let x = LogAxis::numbers("one operation in", &ones_in).axis();
    chart::lines("Percentiles: what one operation in so many takes at least", x, y, &lines)
}

fn one_in(p: f64) -> f64 {
    (1.0 / (1.0 - p)).round()
}

fn points(distribution: &Distribution) -> Vec<Point> {
    let point = |percentile: &weighbridge_record::Percentile| {
        let mut hover = vec![format!("{}: {}", name(percentile.p), with_unit("ns", percentile.ns))];
        if let Some(ci95) = percentile.ci95 {
            let [low, high] = ci95.map(|end| with_unit("ns", end));
            hover.push(format!("95 % interval {low} to {high}"));
        }
        if percentile.pooled {
            hover.push("of all runs together".into());
        }
        Point { x: one_in(percentile.p), y: percentile.ns, interval: percentile.ci95, hover }
    };
    distribution.percentiles.iter().map(point).collect()
}
