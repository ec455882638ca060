//! Columns side by side: what there is of each class, or over time.

use super::svg::{Anchor, Area, Svg};
use crate::chart::{Columns, Stack};
use crate::units::grouped;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 30.0;
const MOST_NAMES: usize = 12;

const STYLE: &str = "\
.columns{width:100%;height:auto;font:9px system-ui,sans-serif}.columns text{fill:var(--dim)}.columns line{stroke:var(--line)}\
@media(max-width:600px){.columns{font-size:13px}.timeline svg.columns{min-width:0}}";

/// The drawing.
pub fn columns(title: &str, of: &Columns) -> String {
    let total = |stack: &Stack| stack.parts.iter().sum::<f64>();
    let most = of.stacks.iter().map(total).fold(1.0, f64::max);
    let height = HEIGHT - BOTTOM - TOP;
    let step = (WIDTH - LEFT) / of.stacks.len().max(1) as f64;
    let mut svg = Svg::new("columns", WIDTH, HEIGHT, title);
    svg.style(STYLE);
    for share in [0.0, 0.5, 1.0] {
        let y = TOP + height * (1.0 - share);
        svg.line("", (LEFT, y), (WIDTH, y));
        svg.text("", Anchor::End, (LEFT - 6.0, y + 4.0), &grouped((most * share).round() as u64));
    }
    if let kinds @ [_, _, ..] = &of.kinds[..] {
        let mut x = LEFT;
        for kind in kinds {
            let area = Area { x, y: 4.0, width: 8.0, height: 8.0 };
            svg.rect(&format!("fill=\"{}\"", kind.look.color(1.0)), area);
            svg.text("", Anchor::Start, (x + 12.0, 12.0), &kind.name);
            x += 30.0 + 5.5 * kind.name.chars().count() as f64;
        }
    }
    let every = of.stacks.len().div_ceil(MOST_NAMES).max(1);
    for (at, stack) in of.stacks.iter().enumerate() {
        let x = LEFT + at as f64 * step;
        let tooltip = format!("{}: {} {}", stack.name, grouped(total(stack).round() as u64), of.unit);
        svg.with_tooltip(&tooltip, |svg| {
            let mut y = TOP + height;
            for (part, kind) in stack.parts.iter().zip(&of.kinds).filter(|(part, _)| **part > 0.0) {
                let tall = part / most * height;
                y -= tall;
                let area = Area { x, y, width: (step - 1.0).max(step * 0.8), height: tall };
                svg.rect(&format!("fill=\"{}\"", kind.look.color(1.0)), area);
            }
        });
        if at % every == 0 {
            svg.text("", Anchor::Start, (x, HEIGHT - 10.0), &stack.name);
        }
    }
    svg.figure("scroll timeline", title)
}
