//! A flame graph as SVG inside the page.

use std::fmt::Write;

use crate::flame::{Flame, FlameBox, FlameUnit};
use crate::html::escape::escaped;
use crate::units::significant;

const WIDTH: f64 = 1160.0;
const ROW: f64 = 17.0;
/// Width of a character of the labels.
const CHARACTER: f64 = 6.7;

/// The drawing, with names and shares as titles of its boxes.
pub fn flame(title: &str, flame: &Flame) -> String {
    let height = flame.rows as f64 * ROW;
    let title = escaped(title);
    let mut out = format!(
        "<figure class=\"chart\">\n<figcaption>{title}</figcaption>\n<div class=\"scroll\" tabindex=\"0\">\
         <svg class=\"flame\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"Flame graph: {title}\">\n"
    );
    for of in &flame.boxes {
        out.push_str(&drawn(of, flame.unit, height));
    }
    out.push_str("</svg></div>\n</figure>\n");
    out
}

fn drawn(of: &FlameBox, unit: FlameUnit, height: f64) -> String {
    let (left, width) = (of.left * WIDTH, of.width * WIDTH);
    let top = height - (of.row + 1) as f64 * ROW;
    let place = if of.in_kernel { ", kernel" } else { "" };
    let mut out = format!(
        "<g><title>{}{place}: {} % ({} {})</title><rect x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\" \
         fill=\"{}\"/>",
        escaped(&of.name),
        significant(of.width * 100.0),
        of.samples,
        unit.name(),
        (width - 0.5).max(0.5),
        ROW - 1.0,
        colour(of)
    );
    let room = ((width - 4.0) / CHARACTER) as usize;
    if room >= 3 {
        let label: String = match of.name.chars().count() > room {
            true => of.name.chars().take(room - 1).chain(['…']).collect(),
            false => of.name.clone(),
        };
        let _ =
            write!(out, "<text x=\"{:.1}\" y=\"{}\">{}</text>", left + 2.0, top + ROW - 5.0, escaped(&label));
    }
    out + "</g>\n"
}

/// Roles grey, functions of the kernel orange, others blue; dark text is read on each.
fn colour(of: &FlameBox) -> &'static str {
    match (of.row, of.in_kernel) {
        (0, _) => "#c3cad1",
        (_, true) => "#f0a85c",
        (_, false) => "#8fc1ee",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_long_ones_are_cut() {
        let folded =
            [("client;core::ptr::drop_in_place<alloc::boxed::Box<&dyn Fn>>".to_owned(), 1), ("b".into(), 9)];
        let svg = flame("a & b", &Flame::of(&folded));
        assert!(svg.contains("Flame graph: a &amp; b"), "{svg}");
        assert!(
            svg.contains(
                "<title>core::ptr::drop_in_place&lt;alloc::boxed::Box&lt;&amp;dyn Fn&gt;&gt;: 10.0 %"
            ),
            "{svg}"
        );
        assert!(svg.contains("core::ptr::drop…") && !svg.contains("<dyn"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 3);
    }
}
