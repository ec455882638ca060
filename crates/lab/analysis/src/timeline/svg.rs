//! A picture of a record as SVG: one lane for each CPU and role, a bar for what each does, arrows for messages and wake-ups.
//!
//! The drawing needs nothing beside itself, in a page or as a file, and obeys the light or dark scheme of its reader.

use std::fmt::Write;

use weighbridge_record::{Picture, PictureArrow, PictureSpan};

use crate::timeline::markup::escaped;

/// Sizes in the units of the drawing, which are pixels at its full width.
const WIDTH: f64 = 1100.0;
const LABELS: f64 = 118.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 26.0;
const LANE: f64 = 42.0;
/// A lane has two bars: what lies above, and what fills it.
const ABOVE: (f64, f64) = (2.0, 12.0);
const BASE: (f64, f64) = (15.0, 19.0);
const LEGEND: f64 = 24.0;
/// Width of a character of the bars' text, generously.
const CHARACTER: f64 = 6.2;
/// Marks on the axis.
const MOST_TICKS: f64 = 10.0;
/// Names that a label has room for.
const MOST_LABEL: usize = 18;

/// Colours of roles, which people with any kind of colour vision can tell apart (Okabe and Ito).
const ROLES: [&str; 7] = ["#0082c8", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c"];

const STYLE: &str = "\
.tl{--tl-fg:#1d2329;--tl-dim:#59636e;--tl-line:#d4dae0;--tl-idle:#eef1f4;--tl-other:#aab3bc;--tl-wait:#d7dee5;--tl-ready:#f0d9a8;--tl-irq:#a03030;\
--tl-halt:#c3ccd4;--tl-bg:#fff;font:11px system-ui,sans-serif}\
@media(prefers-color-scheme:dark){.tl{--tl-fg:#e2e7ec;--tl-dim:#9aa5b0;--tl-line:#39424b;--tl-idle:#1d2329;--tl-other:#5c6670;--tl-wait:#323b44;\
--tl-ready:#6b5420;--tl-irq:#e07070;--tl-halt:#3b454f;--tl-bg:#14181c}}\
.tl text{fill:var(--tl-fg)}.tl .dim{fill:var(--tl-dim)}.tl .in{fill:#fff;pointer-events:none}.tl .on{pointer-events:none;paint-order:stroke;stroke:var(--tl-wait);stroke-width:3px}\
.tl .grid{stroke:var(--tl-line);stroke-width:1}.tl .other{fill:var(--tl-other)}.tl .idle{fill:var(--tl-idle)}.tl .halted{fill:var(--tl-halt)}\
.tl .ready{fill:var(--tl-ready)}.tl .wait{fill:var(--tl-wait)}.tl .interrupt{fill:var(--tl-irq)}.tl .lost{fill:#e00000;opacity:.55}\
.tl .message{stroke:var(--tl-fg);stroke-width:1.4;fill:none;opacity:.75}.tl .wake{stroke:var(--tl-dim);stroke-width:1.2;stroke-dasharray:4 3;fill:none}\
.tl .hm{fill:var(--tl-fg)}.tl .hw{fill:var(--tl-dim)}.tl rect{shape-rendering:crispEdges}";

/// The picture as an `svg` element. `name` tells the element from others of a page.
pub fn svg(picture: &Picture, name: &str) -> String {
    let height = TOP + picture.lanes.len() as f64 * LANE + LEGEND;
    let mut out = format!(
        "<svg class=\"tl\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n\
         <style>{STYLE}</style>\n",
        escaped(name)
    );
    let scale = Scale { length_ns: picture.length_ns.max(1) as f64 };
    axis(&mut out, &scale, height - LEGEND);
    for (index, lane) in picture.lanes.iter().enumerate() {
        let top = TOP + index as f64 * LANE;
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{top}\" y2=\"{top}\"/><text x=\"4\" y=\"{}\">{}</text>",
            top + BASE.0 + 13.0,
            escaped(&shortened(&lane.lane))
        );
        for span in &lane.spans {
            bar(&mut out, &scale, top, span);
        }
    }
    for arrow in &picture.arrows {
        draw_arrow(&mut out, &scale, picture, arrow);
    }
    // Over the arrows, so that they can be read.
    for (index, lane) in picture.lanes.iter().enumerate() {
        let top = TOP + index as f64 * LANE;
        lane.spans.iter().for_each(|span| words(&mut out, &scale, top, span));
    }
    legend(&mut out, height - 8.0);
    out.push_str("</svg>\n");
    out
}

struct Scale {
    length_ns: f64,
}

impl Scale {
    fn x(&self, ns: u64) -> f64 {
        LABELS + ns as f64 / self.length_ns * (WIDTH - LABELS - RIGHT)
    }
}

fn axis(out: &mut String, scale: &Scale, bottom: f64) {
    let step_ns = tick_ns(scale.length_ns);
    let ticks = (0..).map_while(|tick: u64| tick.checked_mul(step_ns));
    for at_ns in ticks.take_while(|at_ns| *at_ns as f64 <= scale.length_ns) {
        let x = scale.x(at_ns);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
             <text class=\"dim\" x=\"{x:.1}\" y=\"13\" text-anchor=\"middle\">{}</text>",
            TOP - 8.0,
            escaped(&time(at_ns, step_ns))
        );
    }
}

/// 1, 2 or 5 times a power of ten, so that the axis has at most [`MOST_TICKS`].
fn tick_ns(length_ns: f64) -> u64 {
    let least = (length_ns / MOST_TICKS).max(1.0);
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least).unwrap_or(10.0);
    (step * power).round() as u64
}

fn time(at_ns: u64, step_ns: u64) -> String {
    match step_ns {
        0..1000 => format!("{at_ns} ns"),
        1000..1_000_000 => format!("{} µs", at_ns as f64 / 1e3),
        _ => format!("{} ms", at_ns as f64 / 1e6),
    }
}

fn bar(out: &mut String, scale: &Scale, top: f64, span: &PictureSpan) {
    let [from, to] = span.between_ns.map(|ns| scale.x(ns));
    let width = (to - from).max(0.6);
    let (offset, height) = place(&span.what);
    let fill = match (span.what.as_str(), span.role) {
        ("run" | "write", Some(role)) => format!("fill=\"{}\"", ROLES[role as usize % ROLES.len()]),
        ("run" | "write", None) => "class=\"other\"".into(),
        (what, _) => format!("class=\"{}\"", escaped(what)),
    };
    let hover = format!("{} ({})", span.name, spoken(span.between_ns[1].saturating_sub(span.between_ns[0])));
    let y = top + offset;
    let _ = writeln!(
        out,
        "<rect {fill} x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"><title>{}</title></rect>",
        escaped(&hover)
    );
}

/// The name of a bar, where it has room.
fn words(out: &mut String, scale: &Scale, top: f64, span: &PictureSpan) {
    let [from, to] = span.between_ns.map(|ns| scale.x(ns));
    let has_room = to - from > CHARACTER * span.name.chars().count() as f64 + 4.0;
    if !has_room || matches!(span.what.as_str(), "idle" | "ready") {
        return;
    }
    let (offset, height) = place(&span.what);
    let class = if span.role.is_some() || span.what == "write" { "in" } else { "on" };
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(from, to),
        top + offset + height / 2.0 + 4.0,
        escaped(&span.name)
    );
}

/// Top and height of a bar in its lane.
fn place(what: &str) -> (f64, f64) {
    if matches!(what, "halted" | "interrupt" | "write" | "wait") { ABOVE } else { BASE }
}

fn draw_arrow(out: &mut String, scale: &Scale, picture: &Picture, arrow: &PictureArrow) {
    let lanes = picture.lanes.len();
    let [from, to] = arrow.lanes.map(|lane| (lane as usize).min(lanes.saturating_sub(1)) as f64);
    let [x1, x2] = arrow.between_ns.map(|ns| scale.x(ns));
    // A message goes from call to call, a wake-up from what runs to what runs. Arrows leave at the side that faces the other lane.
    let (offset, height) = if arrow.is_message { ABOVE } else { BASE };
    let edge = |lane: f64, is_lower: bool| TOP + lane * LANE + offset + if is_lower { height } else { 0.0 };
    let (y1, y2) = (edge(from, to > from), edge(to, to < from));
    let (class, head) = if arrow.is_message { ("message", "hm") } else { ("wake", "hw") };
    let name =
        format!("{} ({})", arrow.name, spoken(arrow.between_ns[1].saturating_sub(arrow.between_ns[0])));
    let length = (x2 - x1).hypot(y2 - y1).max(0.1);
    let (ux, uy) = ((x2 - x1) / length, (y2 - y1) / length);
    let (bx, by) = (x2 - ux * 7.0, y2 - uy * 7.0);
    let _ = writeln!(
        out,
        "<g><title>{}</title><line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{bx:.1}\" y2=\"{by:.1}\"/>\
         <polygon class=\"{head}\" points=\"{x2:.1},{y2:.1} {:.1},{:.1} {:.1},{:.1}\"/></g>",
        escaped(&name),
        bx - uy * 3.0,
        by + ux * 3.0,
        bx + uy * 3.0,
        by - ux * 3.0
    );
}

fn legend(out: &mut String, y: f64) {
    let entries = [
        ("fill=\"#0082c8\"", "a role runs, or writes"),
        ("class=\"wait\"", "waits in a call"),
        ("class=\"ready\"", "ready, no CPU"),
        ("class=\"other\"", "another process"),
        ("class=\"halted\"", "CPU halted"),
        ("class=\"interrupt\"", "interrupt"),
        ("class=\"lost\"", "events lost"),
    ];
    let mut x = LABELS;
    for (fill, text) in entries {
        let _ = writeln!(
            out,
            "<rect {fill} x=\"{x:.1}\" y=\"{}\" width=\"10\" height=\"10\"/><text class=\"dim\" x=\"{:.1}\" y=\"{y}\">{text}</text>",
            y - 9.0,
            x + 14.0
        );
        x += 26.0 + CHARACTER * text.chars().count() as f64;
    }
    for (class, text) in [("message", "message"), ("wake", "wake-up")] {
        let _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{}\" y2=\"{}\"/><text class=\"dim\" x=\"{:.1}\" y=\"{y}\">{text}</text>",
            x + 20.0,
            y - 4.0,
            y - 4.0,
            x + 25.0
        );
        x += 38.0 + CHARACTER * text.chars().count() as f64;
    }
}

/// A time with three digits.
pub fn spoken(ns: u64) -> String {
    match ns {
        0..1000 => format!("{ns} ns"),
        1000..1_000_000 => format!("{:.2} µs", ns as f64 / 1e3),
        _ => format!("{:.2} ms", ns as f64 / 1e6),
    }
}

fn shortened(name: &str) -> String {
    match name.chars().count() > MOST_LABEL {
        true => name.chars().take(MOST_LABEL - 1).chain(['…']).collect(),
        false => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::PictureLane;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(tick_ns(9_000.0), 1000);
        assert_eq!(tick_ns(11_000.0), 2000);
        assert_eq!(tick_ns(41_000.0), 5000);
        assert_eq!(tick_ns(0.0), 1);
        assert_eq!(time(12_500, 2_500), "12.5 µs");
    }

    #[test]
    fn names_of_others_are_text_and_nothing_else() {
        let span = PictureSpan {
            between_ns: [0, 10],
            what: "run\"><script>".into(),
            role: None,
            name: "<b>&\u{1b}\"".into(),
        };
        let lane = PictureLane { lane: "<i>".into(), spans: vec![span] };
        let picture = Picture { length_ns: 10, lanes: vec![lane], arrows: vec![PictureArrow::default()] };
        let svg = svg(&picture, "\"a\"");
        assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains("<i>"), "{svg}");
        assert!(!svg.contains('\u{1b}') && svg.contains("&lt;b&gt;&amp;"), "{svg}");
    }

    #[test]
    fn a_picture_that_is_empty_or_makes_no_sense_is_drawn_too() {
        assert!(svg(&Picture::default(), "x").ends_with("</svg>\n"));
        let arrow =
            PictureArrow { lanes: [9, u64::MAX], between_ns: [u64::MAX, 0], ..PictureArrow::default() };
        let span = PictureSpan { between_ns: [7, 3], role: Some(u64::MAX), ..PictureSpan::default() };
        let lanes = vec![PictureLane { lane: String::new(), spans: vec![span] }];
        let picture = Picture { length_ns: u64::MAX, lanes, arrows: vec![arrow] };
        assert!(svg(&picture, "x").ends_with("</svg>\n"));
    }
}
