//! A time line as a drawing: one lane for each CPU and role, a bar for what each does, arrows for messages and wake-ups.

use weighbridge_record::{Picture, PictureArrow, PictureSpan};

use super::svg::{Anchor, Area, Svg, shortened};
use crate::axis::round_step;
use crate::look::Look;

/// Sizes in the units of the drawing, which are pixels at its full width.
const WIDTH: f64 = 1100.0;
const LABELS: f64 = 118.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 26.0;
const LANE: f64 = 42.0;
/// A lane has two bars: what lies above, and what fills it.
const ABOVE: (f64, f64) = (2.0, 12.0);
const BASE: (f64, f64) = (15.0, 19.0);
/// What bars and what arrows are: two lines.
const LEGEND: f64 = 40.0;
/// Width of a character of the bars' text, generously.
const CHARACTER: f64 = 6.2;
/// Marks on the axis.
const MOST_TICKS: f64 = 10.0;
/// Names that a label has room for.
const MOST_LABEL: usize = 18;

const GRID: &str = "class=\"grid\"";
const DIM: &str = "class=\"dim\"";

const STYLE: &str = "\
.tl{--tl-fg:#1d2329;--tl-dim:#59636e;--tl-line:#d4dae0;--tl-idle:#eef1f4;--tl-other:#aab3bc;--tl-wait:#d7dee5;--tl-ready:#f0d9a8;--tl-irq:#a03030;\
--tl-halt:#c3ccd4;--tl-call:#9fc3a5;--tl-dispatch:#e3c3d6;--tl-bg:#fff;font:11px system-ui,sans-serif}\
@media screen and (prefers-color-scheme:dark){.tl{--tl-fg:#e2e7ec;--tl-dim:#9aa5b0;--tl-line:#39424b;--tl-idle:#1d2329;--tl-other:#5c6670;--tl-wait:#323b44;\
--tl-ready:#6b5420;--tl-irq:#e07070;--tl-halt:#3b454f;--tl-call:#37593d;--tl-dispatch:#5f3f52;--tl-bg:#14181c}}\
.tl text{fill:var(--tl-fg)}.tl .dim{fill:var(--tl-dim)}.tl .in{fill:#fff;pointer-events:none}.tl .on{pointer-events:none;paint-order:stroke;stroke:var(--tl-wait);stroke-width:3px}\
.tl .grid{stroke:var(--tl-line);stroke-width:1}.tl .other{fill:var(--tl-other)}.tl .idle{fill:var(--tl-idle)}.tl .halted{fill:var(--tl-halt)}\
.tl .ready{fill:var(--tl-ready)}.tl .wait{fill:var(--tl-wait)}.tl .call{fill:var(--tl-call)}.tl .dispatch{fill:var(--tl-dispatch)}.tl .interrupt{fill:var(--tl-irq)}.tl .lost{fill:#e00000;opacity:.55}\
.tl .message{stroke:var(--tl-fg);stroke-width:1.4;fill:none;opacity:.75}.tl .wake{stroke:var(--tl-dim);stroke-width:1.2;stroke-dasharray:4 3;fill:none}\
.tl .hm{fill:var(--tl-fg)}.tl .hw{fill:var(--tl-dim)}.tl rect{shape-rendering:crispEdges}";

/// The drawing.
pub fn timeline(title: &str, picture: &Picture) -> String {
    let height = TOP + picture.lanes.len() as f64 * LANE + LEGEND;
    let mut svg = Svg::new("tl", WIDTH, height, title);
    svg.style(STYLE);
    let scale = Scale { length_ns: picture.length_ns.max(1) as f64 };
    axis(&mut svg, &scale, height - LEGEND);
    for (index, lane) in picture.lanes.iter().enumerate() {
        let top = TOP + index as f64 * LANE;
        svg.line(GRID, (0.0, top), (WIDTH, top));
        svg.text("", Anchor::Start, (4.0, top + BASE.0 + 13.0), &shortened(&lane.lane, MOST_LABEL));
        lane.spans.iter().for_each(|span| bar(&mut svg, &scale, top, span));
    }
    picture.arrows.iter().for_each(|arrow| draw_arrow(&mut svg, &scale, picture.lanes.len(), arrow));
    // Over the arrows, so that they can be read.
    for (index, lane) in picture.lanes.iter().enumerate() {
        let top = TOP + index as f64 * LANE;
        lane.spans.iter().for_each(|span| words(&mut svg, &scale, top, span));
    }
    legend(&mut svg, [height - 24.0, height - 8.0]);
    svg.figure("scroll timeline", title)
}

struct Scale {
    length_ns: f64,
}

impl Scale {
    fn x(&self, ns: u64) -> f64 {
        LABELS + ns as f64 / self.length_ns * (WIDTH - LABELS - RIGHT)
    }
}

fn axis(svg: &mut Svg, scale: &Scale, bottom: f64) {
    let step_ns = tick_ns(scale.length_ns);
    let ticks = (0..).map_while(|tick: u64| tick.checked_mul(step_ns));
    for at_ns in ticks.take_while(|at_ns| *at_ns as f64 <= scale.length_ns) {
        let x = scale.x(at_ns);
        svg.line(GRID, (x, TOP - 8.0), (x, bottom));
        svg.text(DIM, Anchor::Middle, (x, 13.0), &time(at_ns, step_ns));
    }
}

fn tick_ns(length_ns: f64) -> u64 {
    round_step(length_ns.max(MOST_TICKS), MOST_TICKS).round() as u64
}

fn time(at_ns: u64, step_ns: u64) -> String {
    match step_ns {
        0..1000 => format!("{at_ns} ns"),
        1000..1_000_000 => format!("{} µs", at_ns as f64 / 1e3),
        _ => format!("{} ms", at_ns as f64 / 1e6),
    }
}

fn bar(svg: &mut Svg, scale: &Scale, top: f64, span: &PictureSpan) {
    let [x, to] = span.between_ns.map(|ns| scale.x(ns));
    let (offset, height) = place(&span.what);
    let paint = match (span.what.as_str(), span.role) {
        ("run" | "write", Some(role)) => format!("fill=\"{}\"", Look::nth(role as usize).hex()),
        (what @ ("idle" | "halted" | "ready" | "wait" | "call" | "dispatch" | "interrupt" | "lost"), _) => {
            format!("class=\"{what}\"")
        }
        _ => "class=\"other\"".into(),
    };
    svg.with_tooltip(&with_length(&span.name, span.between_ns), |svg| {
        svg.rect(&paint, Area { x, y: top + offset, width: (to - x).max(0.6), height });
    });
}

/// The name of a bar, where it has room.
fn words(svg: &mut Svg, scale: &Scale, top: f64, span: &PictureSpan) {
    let [from, to] = span.between_ns.map(|ns| scale.x(ns));
    let has_room = to - from > CHARACTER * span.name.chars().count() as f64 + 4.0;
    if !has_room || matches!(span.what.as_str(), "idle" | "ready") {
        return;
    }
    let (offset, height) = place(&span.what);
    let class = if span.role.is_some() || span.what == "write" { "class=\"in\"" } else { "class=\"on\"" };
    let at = (f64::midpoint(from, to), top + offset + height / 2.0 + 4.0);
    svg.text(class, Anchor::Middle, at, &span.name);
}

/// Top and height of a bar in its lane.
fn place(what: &str) -> (f64, f64) {
    if matches!(what, "halted" | "interrupt" | "write" | "wait" | "call" | "dispatch") { ABOVE } else { BASE }
}

fn draw_arrow(svg: &mut Svg, scale: &Scale, lanes: usize, arrow: &PictureArrow) {
    let [from, to] = arrow.lanes.map(|lane| (lane as usize).min(lanes.saturating_sub(1)) as f64);
    let [x1, x2] = arrow.between_ns.map(|ns| scale.x(ns));
    // A message goes from call to call, a wake-up from what runs to what runs. Arrows leave at the side that faces the other lane.
    let (offset, height) = if arrow.is_message { ABOVE } else { BASE };
    let edge = |lane: f64, is_lower: bool| TOP + lane * LANE + offset + if is_lower { height } else { 0.0 };
    let (shaft, head) = if arrow.is_message {
        ("class=\"message\"", "class=\"hm\"")
    } else {
        ("class=\"wake\"", "class=\"hw\"")
    };
    svg.with_tooltip(&with_length(&arrow.name, arrow.between_ns), |svg| {
        svg.arrow(shaft, head, (x1, edge(from, to > from)), (x2, edge(to, to < from)));
    });
}

fn legend(svg: &mut Svg, [bars, arrows]: [f64; 2]) {
    let entries = [
        ("fill=\"#0082c8\"", "a role runs, or writes"),
        ("class=\"wait\"", "waits in a call"),
        ("class=\"call\"", "in another call"),
        ("class=\"dispatch\"", "between calls"),
        ("class=\"ready\"", "ready, no CPU"),
        ("class=\"other\"", "another process"),
        ("class=\"halted\"", "CPU halted"),
        ("class=\"interrupt\"", "interrupt"),
        ("class=\"lost\"", "events lost"),
    ];
    let mut x = LABELS;
    for (paint, text) in entries {
        svg.rect(paint, Area { x, y: bars - 9.0, width: 10.0, height: 10.0 });
        svg.text(DIM, Anchor::Start, (x + 14.0, bars), text);
        x += 26.0 + CHARACTER * text.chars().count() as f64;
    }
    x = LABELS;
    for (paint, text) in [("class=\"message\"", "message"), ("class=\"wake\"", "wake-up")] {
        svg.line(paint, (x, arrows - 4.0), (x + 20.0, arrows - 4.0));
        svg.text(DIM, Anchor::Start, (x + 25.0, arrows), text);
        x += 38.0 + CHARACTER * text.chars().count() as f64;
    }
}

/// A name with a time of three digits.
fn with_length(name: &str, between_ns: [u64; 2]) -> String {
    let length = match between_ns[1].saturating_sub(between_ns[0]) {
        ns @ 0..1000 => format!("{ns} ns"),
        ns @ 1000..1_000_000 => format!("{:.2} µs", ns as f64 / 1e3),
        ns => format!("{:.2} ms", ns as f64 / 1e6),
    };
    format!("{name} ({length})")
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

    /// Everything it needs is in it: a page may load nothing.
    #[test]
    fn a_picture_has_a_style_of_its_own_and_a_color_for_each_role_and_is_small() {
        let span = |at: u64, role| PictureSpan {
            between_ns: [at, at + 40],
            what: "run".into(),
            role: Some(role),
            name: "runs".into(),
        };
        let spans = |role| (0..60).map(|at| span(at * 50, role)).collect();
        let lanes =
            (0..3).map(|role| PictureLane { lane: format!("role {role}"), spans: spans(role) }).collect();
        let svg = timeline("three operations", &Picture { length_ns: 3000, lanes, arrows: Vec::new() });
        assert!(svg.contains("<style>") && svg.len() < 60_000, "{} bytes", svg.len());
        for color in ["#0082c8", "#d55e00", "#009e73"] {
            assert!(svg.matches(&format!("<rect fill=\"{color}\"")).count() >= 60, "{color}");
        }
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
        let svg = timeline("\"a\"", &picture);
        assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains("<i>"), "{svg}");
        assert!(!svg.contains('\u{1b}') && svg.contains("&lt;b&gt;&amp;"), "{svg}");
    }

    #[test]
    fn a_picture_that_is_empty_or_makes_no_sense_is_drawn_too() {
        assert!(timeline("x", &Picture::default()).contains("</svg>"));
        let arrow =
            PictureArrow { lanes: [9, u64::MAX], between_ns: [u64::MAX, 0], ..PictureArrow::default() };
        let span = PictureSpan { between_ns: [7, 3], role: Some(u64::MAX), ..PictureSpan::default() };
        let lanes = vec![PictureLane { lane: String::new(), spans: vec![span] }];
        let picture = Picture { length_ns: u64::MAX, lanes, arrows: vec![arrow] };
        assert!(timeline("x", &picture).contains("</svg>"));
    }
}
