//! A flame graph as SVG inside the page.

use super::svg::{Anchor, Area, Svg, shortened};
use crate::flame::{Flame, FlameBox};
use crate::units::significant;

const WIDTH: f64 = 1160.0;
const ROW: f64 = 17.0;
/// Width of a character of the labels.
const CHARACTER: f64 = 6.7;

/// The drawing, with names and shares as tooltips of its boxes.
pub fn flame(title: &str, flame: &Flame) -> String {
    let height = flame.rows as f64 * ROW;
    let mut svg = Svg::new("flame", WIDTH, height, &format!("Flame graph: {title}"));
    flame.boxes.iter().for_each(|of| draw(&mut svg, of, flame.unit, height));
    svg.figure("scroll", title)
}

fn draw(svg: &mut Svg, of: &FlameBox, unit: &str, height: f64) {
    let (left, width) = (of.left * WIDTH, of.width * WIDTH);
    let top = height - (of.row + 1) as f64 * ROW;
    let place = if of.in_kernel { ", kernel" } else { "" };
    let percent = significant(of.width * 100.0);
    let tooltip = format!("{}{place}: {percent} % ({} {unit})", of.name, of.samples);
    svg.with_tooltip(&tooltip, |svg| {
        let area = Area { x: left, y: top, width: (width - 0.5).max(0.5), height: ROW - 1.0 };
        svg.rect(&format!("fill=\"{}\"", color(of)), area);
        let room = ((width - 4.0) / CHARACTER) as usize;
        if room >= 3 {
            svg.text("", Anchor::Start, (left + 2.0, top + ROW - 5.0), &shortened(&of.name, room));
        }
    });
}

/// Roles gray, functions of the kernel orange, others blue; dark text is read on each.
fn color(of: &FlameBox) -> &'static str {
    match (of.row, of.in_kernel) {
        (0, _) => "#c3cad1",
        (_, true) => "#f0a85c",
        (_, false) => "#8fc1ee",
    }
}
