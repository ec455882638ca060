//! A value over the number of streams, receivers, roles or writers, where cases differ only in that.

use std::collections::BTreeMap;

use weighbridge_record::{Place, Summary};

use super::Context;
use super::figures::NOT_STEADY;
use crate::axis::{Axis, LogAxis};
use crate::chart::{Line, Point};
use crate::document::{Block, Section};
use crate::figure::Off;
use crate::lines::{ascending, of_values};
use crate::look::Look;
use crate::model::Measured;
use crate::units::{Scale, size, with_unit};
use crate::words::{many, pattern, place, plain};

/// Axes that are numbers of something that works at the same time.
const AXES: [&str; 4] = ["streams", "receivers", "roles", "writers"];

/// What all lines of a chart have in common: pattern, placement, payload in bytes, unit, axis.
type Key<'a> = (&'a str, Place<'a>, u64, &'a str, &'a str);

/// Value of the axis and the case.
type Step<'a> = (f64, &'a Measured, &'a Summary);

/// Steps by the name of their line, in the order of the record.
type Lines<'a> = Vec<(String, Vec<Step<'a>>)>;

/// None where no cases differ in one number only. The figures are in the tables of the cases.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let mut charts: Vec<(Key<'_>, Lines<'_>)> = Vec::new();
    for axis in AXES {
        for case in cx.report.cases.iter().filter(|case| !case.is_harness()) {
            let (Some(summary), Some(value)) = (&case.summary, value(case, axis)) else { continue };
            let id = &case.id;
            let key = (id.pattern.as_str(), id.place(), id.payload_bytes, &*summary.unit, axis);
            let lines = entry(&mut charts, key);
            entry(lines, name(cx, case, axis)).push((value, case, summary));
        }
    }
    for (_, lines) in &mut charts {
        lines.iter_mut().for_each(|(_, steps)| steps.sort_by(|a, b| a.0.total_cmp(&b.0)));
        lines.retain(|(_, steps)| steps.first().map(|step| step.0) < steps.last().map(|step| step.0));
    }
    charts.retain(|(_, lines)| !lines.is_empty());
    let blocks = charts.iter().map(|(key, lines)| chart(*key, lines)).collect();
    Section::new("scaling", "Scaling", blocks)
}

fn entry<K: PartialEq, V: Default>(all: &mut Vec<(K, V)>, key: K) -> &mut V {
    let index = all.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        all.push((key, V::default()));
        all.len() - 1
    });
    &mut all[index].1
}

/// The effective value of an axis; the id leaves defaults out.
fn value(case: &Measured, axis: &str) -> Option<f64> {
    let effective = case.case.as_ref().and_then(|case| case.axes.get(axis));
    let value: f64 = case.id.axes.get(axis).or(effective)?.parse().ok()?;
    (value > 0.0 && value.is_finite()).then_some(value)
}

/// The mechanism with its other axes.
fn name(cx: &Context<'_>, case: &Measured, axis: &str) -> String {
    let mut rest = case.id.clone();
    rest.axes = rest.axes.into_iter().filter(|(name, _)| name != axis).collect::<BTreeMap<_, _>>();
    cx.report.variant(case.source, &rest)
}

fn chart(key: Key<'_>, all: &Lines<'_>) -> Block {
    let (of, at, payload_bytes, unit, axis) = key;
    let steps = || all.iter().flat_map(|(_, steps)| steps);
    let line = |(index, (name, steps)): (usize, &(String, Vec<Step<'_>>))| {
        Line::new(name, Look::nth(index), steps.iter().map(|step| point(axis, step)).collect())
    };
    let scale = Scale::new(unit, steps().map(|(_, _, summary)| summary.median));
    let x = Axis::Log(LogAxis::numbers(axis, &ascending(steps().map(|step| step.0))));
    let drawing = of_values(x, unit, &scale, all.iter().enumerate().map(line).collect());
    let payload =
        if payload_bytes == 0 { String::new() } else { format!(", payload {}", size(payload_bytes)) };
    let title = plain(&format!("{} {}{payload}, over {axis}", pattern(of), place(at)));
    let about = "Cases that differ in this number only. The horizontal axis is logarithmic; the band around a line is the 95 % \
                 interval of its medians within this session.";
    Block::chart(title, about, drawing, None)
}

fn point(axis: &str, (number, case, summary): &Step<'_>) -> Point {
    let shown = |value| with_unit(&summary.unit, value);
    let mut hover = vec![format!("{axis}: {number}"), shown(summary.median)];
    hover.extend(Off::of(summary).in_words(&Scale::alone(&summary.unit, summary.median)));
    hover.push(many(summary.runs as usize, "run"));
    hover.extend(case.has_regimes().then(|| NOT_STEADY.into()));
    Point { x: *number, y: summary.median, interval: summary.ci95, hover }
}
