//! Who sends what to whom: those who send as vertical lines, messages as arrows between them, time from top to bottom.

use super::svg::{Anchor, Svg};
use crate::chart::Message;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 110.0;
const ROW: f64 = 16.0;
/// Lines; messages of others are left out.
const MOST_LINES: usize = 14;

const STYLE: &str = "\
.sequence{width:100%;height:auto;font:9px system-ui,sans-serif}.sequence text{fill:var(--dim)}.sequence .of{stroke:var(--line)}";

/// The drawing.
pub fn sequence(title: &str, messages: &[Message]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in messages.iter().flat_map(|message| [Some(&message.from), message.to.as_ref()]).flatten() {
        if !names.contains(&name.as_str()) && names.len() < MOST_LINES {
            names.push(name);
        }
    }
    let step = (WIDTH - LEFT) / names.len().max(1) as f64;
    let place = |name: &str| Some(LEFT + names.iter().position(|known| *known == name)? as f64 * step);
    let shown: Vec<(&Message, f64)> =
        messages.iter().filter_map(|message| Some((message, place(&message.from)?))).collect();
    let height = 50.0 + shown.len() as f64 * ROW;
    let mut svg = Svg::new("sequence", WIDTH, height, title);
    svg.style(STYLE);
    for (at, name) in names.iter().enumerate() {
        let x = LEFT + at as f64 * step;
        // Neighbors at different heights, so that long names do not touch.
        svg.text("", Anchor::Middle, (x, if at % 2 == 0 { 12.0 } else { 26.0 }), name);
        svg.line("class=\"of\"", (x, 32.0), (x, height));
    }
    for (row, (message, from)) in shown.iter().enumerate() {
        let y = 44.0 + row as f64 * ROW;
        let color = message.look.color(1.0);
        svg.with_tooltip(&message.tooltip, |svg| {
            svg.text("", Anchor::Start, (0.0, y + 4.0), &message.at);
            let fill = format!("fill=\"{color}\"");
            match message.to.as_deref().and_then(place) {
                Some(to) if to != *from => {
                    svg.arrow(&format!("stroke=\"{color}\""), &fill, (*from, y), (to, y));
                }
                _ => svg.dot(&fill, (*from, y)),
            }
            svg.text("", Anchor::Start, (from + 6.0, y - 2.0), &message.label);
        });
    }
    svg.figure("scroll timeline", title)
}
