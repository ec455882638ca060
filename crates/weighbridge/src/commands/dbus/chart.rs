//! Pictures as SVG, drawn here because a page of four pictures needs no library of megabytes.

use std::fmt::Write;

use weighbridge_analysis::timeline::markup::escaped;
use weighbridge_dbus_traffic::traffic::{Step, Timeline};

use super::sections::grouped;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 12.0;
/// Calls, returns, errors, signals: told apart with any kind of colour vision, after Okabe and Ito.
const COLOURS: [&str; 4] = ["#0082c8", "#56b4e9", "#d55e00", "#e69f00"];
const KINDS: [&str; 4] = ["method_call", "method_return", "error", "signal"];
/// Lines of connections in a sequence; messages of others are left out.
const MOST_LINES: usize = 14;

/// Messages per second over time, by type.
pub fn timeline(timeline: &Timeline) -> String {
    let per_second = 1e9 / timeline.bucket_ns.max(1) as f64;
    let stacks: Vec<(String, [f64; 4])> = timeline
        .counts
        .iter()
        .enumerate()
        .map(|(at, counts)| {
            let from = at as f64 * timeline.bucket_ns as f64 / 1e9;
            (format!("{from:.3} s"), counts.map(|count| count as f64 * per_second))
        })
        .collect();
    let legend: String = KINDS
        .iter()
        .zip(COLOURS)
        .map(|(kind, colour)| format!("<span style=\"color:{colour}\">■</span> {kind} "))
        .collect();
    format!("<p>{legend}</p>{}", bars(&stacks, "messages per second"))
}

/// One bar for each class.
pub fn classes(classes: &[(String, u64)], unit: &str) -> String {
    let stacks: Vec<(String, [f64; 4])> =
        classes.iter().map(|(name, count)| (name.clone(), [*count as f64, 0.0, 0.0, 0.0])).collect();
    bars(&stacks, unit)
}

fn bars(stacks: &[(String, [f64; 4])], unit: &str) -> String {
    let most = stacks.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(1.0, f64::max);
    let height = HEIGHT - BOTTOM - TOP;
    let step = (WIDTH - LEFT) / stacks.len().max(1) as f64;
    let mut svg = open(HEIGHT);
    for share in [0.0, 0.5, 1.0] {
        let y = TOP + height * (1.0 - share);
        let value = grouped((most * share).round() as u64);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"grid\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    let every = stacks.len().div_ceil(12).max(1);
    for (at, (name, parts)) in stacks.iter().enumerate() {
        let x = LEFT + at as f64 * step;
        let total: f64 = parts.iter().sum();
        let _ = write!(svg, "<g><title>{}: {} {unit}</title>", escaped(name), grouped(total.round() as u64));
        let mut y = TOP + height;
        for (part, colour) in parts.iter().zip(COLOURS).filter(|(part, _)| **part > 0.0) {
            let tall = part / most * height;
            y -= tall;
            let width = (step - 1.0).max(step * 0.8);
            let _ = write!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{tall:.2}\" fill=\"{colour}\"/>"
            );
        }
        svg += "</g>";
        if at % every == 0 {
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\">{}</text>", HEIGHT - 10.0, escaped(name));
        }
    }
    svg + "</svg>"
}

/// Connections as vertical lines, messages as arrows between them, time from top to bottom.
pub fn sequence(steps: &[Step]) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for name in steps.iter().flat_map(|step| [step.from.as_str(), step.to.as_str()]) {
        if !name.is_empty() && !lines.contains(&name) && lines.len() < MOST_LINES {
            lines.push(name);
        }
    }
    let place = |name: &str| lines.iter().position(|line| *line == name);
    let step_x = (WIDTH - LEFT - 40.0) / lines.len().max(1) as f64;
    let x = |at: usize| LEFT + 40.0 + at as f64 * step_x;
    let shown: Vec<(&Step, usize)> =
        steps.iter().filter_map(|step| Some((step, place(&step.from)?))).collect();
    let height = 40.0 + shown.len() as f64 * 16.0 + 10.0;
    let mut svg = open(height);
    for (at, name) in lines.iter().enumerate() {
        let (x, y) = (x(at), if at % 2 == 0 { 12.0 } else { 26.0 });
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>\
             <line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"32\" y2=\"{height:.1}\" class=\"grid\"/>",
            escaped(name)
        );
    }
    for (row, (step, from)) in shown.iter().enumerate() {
        let y = 44.0 + row as f64 * 16.0;
        let colour = KINDS.iter().position(|kind| *kind == step.kind).map_or("#888", |kind| COLOURS[kind]);
        let start = x(*from);
        let _ = write!(svg, "<g><title>{}</title>", escaped(&tale(step)));
        let _ = write!(svg, "<text x=\"0\" y=\"{:.1}\">{:.4} s</text>", y + 4.0, step.time_ns as f64 / 1e9);
        match place(&step.to) {
            Some(to) if to != *from => {
                let (end, back) = (x(to), if to > *from { -5.0 } else { 5.0 });
                let _ = write!(
                    svg,
                    "<path d=\"M{start:.1} {y:.1}H{end:.1}m{back} -3l{} 3l{back} 3\" stroke=\"{colour}\" fill=\"none\"/>",
                    -back
                );
            }
            _ => {
                let _ = write!(svg, "<circle cx=\"{start:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
            }
        }
        let label = step.what.rsplit('.').next().unwrap_or_default();
        let _ =
            write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>", start + 6.0, y - 2.0, escaped(label));
    }
    svg + "</svg>"
}

fn tale(step: &Step) -> String {
    let to = match step.to.as_str() {
        "" => format!("{} recipients", step.recipients),
        to => to.into(),
    };
    format!("{} {} from {} to {to}", step.kind, step.what, step.from)
}

fn open(height: f64) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">")
}
