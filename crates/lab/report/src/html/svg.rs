//! How everything is drawn that the script of charts does not draw: shapes at rounded places, and texts that cannot become markup.
//!
//! A paint is the attributes of a shape: a class of the drawing's style, or `fill="#0082c8"`. It is ours and never foreign text.

use std::fmt::Write;

use super::escape::escaped;

/// A drawing in the making.
#[derive(Debug)]
pub struct Svg(String);

/// Where a shape lies.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// To the right.
    pub width: f64,
    /// Downwards.
    pub height: f64,
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

impl Svg {
    /// An empty drawing of a size in pixels, with a class for the style of the page and a name for those who hear it.
    pub fn new(class: &str, width: f64, height: f64, name: &str) -> Svg {
        Svg(format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
             aria-label=\"{}\">\n",
            escaped(name)
        ))
    }

    /// A style of its own.
    pub fn style(&mut self, style: &str) {
        let _ = writeln!(self.0, "<style>{style}</style>");
    }

    /// A bar.
    pub fn rect(&mut self, paint: &str, area: Area) {
        let Area { x, y, width, height } = area;
        let _ = writeln!(
            self.0,
            "<rect {paint} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// A line from one point to another.
    pub fn line(&mut self, paint: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            self.0,
            "<line {paint} x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// An arrow, whose head has a paint of its own.
    pub fn arrow(&mut self, shaft: &str, head: &str, from: (f64, f64), to: (f64, f64)) {
        let (x, y) = (to.0 - from.0, to.1 - from.1);
        let length = x.hypot(y).max(0.1);
        let (ux, uy) = (x / length, y / length);
        let (bx, by) = (to.0 - ux * 7.0, to.1 - uy * 7.0);
        self.line(shaft, from, (bx, by));
        let _ = writeln!(
            self.0,
            "<polygon {head} points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/>",
            to.0,
            to.1,
            bx - uy * 3.0,
            by + ux * 3.0,
            bx + uy * 3.0,
            by - ux * 3.0
        );
    }

    /// A dot.
    pub fn dot(&mut self, paint: &str, at: (f64, f64)) {
        let _ = writeln!(self.0, "<circle {paint} cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>", at.0, at.1);
    }

    /// A text on the line that goes through `at`.
    pub fn text(&mut self, paint: &str, anchor: Anchor, at: (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ = writeln!(
            self.0,
            "<text {paint} x=\"{:.1}\" y=\"{:.1}\"{anchor}>{}</text>",
            at.0,
            at.1,
            escaped(text)
        );
    }

    /// What `draw` draws tells this when the pointer is on it.
    pub fn with_tooltip(&mut self, tooltip: &str, draw: impl FnOnce(&mut Svg)) {
        let _ = write!(self.0, "<g><title>{}</title>", escaped(tooltip));
        draw(self);
        self.0.push_str("</g>\n");
    }

    /// The element, in a figure with a heading; `class` is that of the box around it, in which it scrolls.
    pub fn figure(self, class: &str, title: &str) -> String {
        format!(
            "<figure class=\"chart\"><figcaption>{}</figcaption>\n<div class=\"{class}\" tabindex=\"0\">{}</svg></div></figure>\n",
            escaped(title),
            self.0
        )
    }
}

/// A name as far as there is room for so many characters.
pub fn shortened(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.into();
    }
    name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}
