//! Charts: lines with interval bands, dots where there is one value per mechanism, and strips of samples.
//!
//! A chart is an empty box and its description in JSON; the page's own script draws it, because only the page knows
//! its width and whether it is dark.

use plotly::common::{
    Anchor, DashType, ErrorData, ErrorType, Fill, HoverInfo, Line as Stroke, Marker, Mode, Orientation,
    Visible,
};
use plotly::layout::{Annotation, Axis, BarMode, HoverMode, Margin, Shape, ShapeLine, ShapeType};
use plotly::{Layout, Plot, Scatter, Trace};

use crate::axis::plain_axis;
use crate::chart::{Bar, Chart, Drawing, Line, MOST_STRIPS, Piece, Strip};
use crate::html::columns::columns;
use crate::html::escape::{escaped, in_chart, in_script};
use crate::html::flame::flame;
use crate::html::sequence::sequence;
use crate::html::timeline::timeline;
use crate::look::Look;
use crate::units::significant;

/// Opacity of an interval band.
const BAND: f64 = 0.2;

/// The charting library as a `<script>` element.
///
/// The crate hands it out together with a formula renderer of 2 MB, which no chart here needs.
pub fn plotly_script() -> String {
    const END: &str = "</script>";
    let mut scripts = Plot::offline_js_sources();
    if let Some(end) = scripts.find(END) {
        scripts.truncate(end + END.len());
    }
    scripts
}

/// A chart as an element of the page.
pub fn drawn(chart: &Chart) -> String {
    match &chart.drawing {
        Drawing::Lines(x, y, all) => lines(&chart.title, x.drawn(), y.drawn(), all),
        Drawing::Dots(values, all) => dots(&chart.title, values.drawn(), all),
        Drawing::Bars(values, all) => bars(&chart.title, values.drawn(), all),
        Drawing::Strips(all, change) => strips(&chart.title, all, *change),
        Drawing::Flame(of) => flame(&chart.title, of),
        Drawing::Timeline(picture) => timeline(&chart.title, picture),
        Drawing::Columns(of) => columns(&chart.title, of),
        Drawing::Sequence(messages) => sequence(&chart.title, messages),
    }
}

/// Lines over payload size.
fn lines(title: &str, x: Axis, y: Axis, lines: &[Line]) -> String {
    let traces: Vec<Box<dyn Trace>> = lines.iter().filter_map(band).chain(lines.iter().map(stroke)).collect();
    let longest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let data = format!("data-kind=\"lines\" data-names=\"{}\" data-longest=\"{longest}\"", lines.len());
    figure(title, &data, &traces, &layout(x, y).show_legend(true))
}

/// One dot per mechanism with its interval, names down the side.
fn dots(title: &str, values: Axis, lines: &[Line]) -> String {
    let traces: Vec<Box<dyn Trace>> = lines.iter().map(dot).collect();
    let names = plain_axis("").auto_range(true).dtick(1.0);
    let layout = layout(values, names).show_legend(false);
    figure(title, &format!("data-kind=\"dots\" data-names=\"{}\"", lines.len()), &traces, &layout)
}

/// Bars of pieces, names down the side: a trace for each kind of piece.
fn bars(title: &str, values: Axis, bars: &[Bar]) -> String {
    let mut kinds: Vec<(&str, Look)> = Vec::new();
    for piece in bars.iter().flat_map(|bar| &bar.pieces) {
        if !kinds.iter().any(|(name, _)| *name == piece.name) {
            kinds.push((&piece.name, piece.look));
        }
    }
    let trace = |(kind, look): &(&str, Look)| -> Box<dyn Trace> {
        let pieces = || {
            bars.iter().flat_map(|bar| {
                bar.pieces.iter().filter(|piece| piece.name == *kind).map(move |piece| (bar, piece))
            })
        };
        let hover = |(bar, piece): (&Bar, &Piece)| hover_text(&bar.name, &piece.hover);
        plotly::Bar::new(
            pieces().map(|(_, piece)| piece.value).collect(),
            pieces().map(|(bar, _)| in_chart(&bar.name)).collect::<Vec<String>>(),
        )
        .orientation(Orientation::Horizontal)
        .name(in_chart(kind))
        .marker(Marker::new().color(look.color(0.85)))
        .hover_info(HoverInfo::Text)
        .hover_text_array(pieces().map(hover).collect())
    };
    let traces: Vec<Box<dyn Trace>> = kinds.iter().map(trace).collect();
    let names = plain_axis("").auto_range(true).dtick(1.0);
    let layout = layout(values, names).show_legend(true).bar_mode(BarMode::Relative);
    figure(title, &format!("data-kind=\"bars\" data-names=\"{}\"", bars.len()), &traces, &layout)
}

/// From the lowest to the highest value, and at least a tenth to either side of the middle, so that a steady
/// series looks steady.
fn range(strip: &Strip) -> Vec<f64> {
    let all = || strip.values.iter().chain(&strip.levels).copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let middle = f64::midpoint(low, high);
    let half = ((high - low) * 0.55).max(middle.abs() * 0.1);
    if half > 0.0 { vec![middle - half, middle + half] } else { vec![-1.0, 1.0] }
}

/// Strips above one another over the number of the sample, from 1; `change` is the number of samples before the level
/// changes. Strips above [`MOST_STRIPS`] are left out.
fn strips(title: &str, strips: &[Strip], change: Option<usize>) -> String {
    let count = strips.len().min(MOST_STRIPS);
    let margin = Margin::new().top(40).right(16).bottom(56).left(64);
    let samples = plain_axis("sample").anchor(axis_name(count - 1));
    let mut layout = layout(samples, Axis::new()).show_legend(false).margin(margin);
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    let mut labels = Vec::new();
    let mut marks = Vec::new();
    let height = 1.0 / count as f64;
    for (index, strip) in strips.iter().take(count).enumerate() {
        let top = 1.0 - index as f64 * height;
        // Above each strip there is room for its name.
        let domain = [(top - height).max(0.0), top - height * 0.2];
        layout = with_y_axis(layout, index, plain_axis("").domain(&domain).n_ticks(4).range(range(strip)));
        traces.push(strip_line(strip, index));
        let label = Annotation::new().text(in_chart(&strip.label)).show_arrow(false);
        let label = label.x_ref("paper").y_ref("paper").x(0.0).y(domain[1]);
        labels.push(label.x_anchor(Anchor::Left).y_anchor(Anchor::Bottom));
        let level = |level: &f64| {
            let line = Shape::new().shape_type(ShapeType::Line).x_ref("paper").x0(0.0).x1(1.0);
            let stroke = ShapeLine::new().color(CHANGE).width(1.5).dash(DashType::Dash);
            line.y_ref(axis_name(index).as_str()).y0(*level).y1(*level).line(stroke)
        };
        marks.extend(strip.levels.iter().map(level));
    }
    marks.extend(change.map(|before| {
        let at = before as f64 + 0.5;
        let line = Shape::new().shape_type(ShapeType::Line).x_ref("x").x0(at).x1(at);
        line.y_ref("paper").y0(0.0).y1(1.0).line(ShapeLine::new().color(CHANGE).width(1.5))
    }));
    let layout = layout.annotations(labels).shapes(marks);
    figure(title, &format!("data-kind=\"strips\" data-names=\"{count}\""), &traces, &layout)
}

/// Color of what marks a change, visible on white and on black.
const CHANGE: &str = "rgba(213,94,0,0.9)";

fn axis_name(index: usize) -> String {
    if index == 0 { "y".into() } else { format!("y{}", index + 1) }
}

fn with_y_axis(layout: Layout, index: usize, axis: Axis) -> Layout {
    match index {
        0 => layout.y_axis(axis),
        1 => layout.y_axis2(axis),
        2 => layout.y_axis3(axis),
        3 => layout.y_axis4(axis),
        4 => layout.y_axis5(axis),
        5 => layout.y_axis6(axis),
        6 => layout.y_axis7(axis),
        _ => layout.y_axis8(axis),
    }
}

fn strip_line(strip: &Strip, index: usize) -> Box<dyn Trace> {
    let look = Look::nth(index);
    let hover = |(at, value): (usize, &f64)| {
        format!("{}<br>sample {}: {}", in_chart(&strip.label), at + 1, significant(*value))
    };
    Scatter::new((1..=strip.values.len()).collect(), strip.values.clone())
        .name(in_chart(&strip.label))
        .y_axis(axis_name(index))
        .mode(Mode::LinesMarkers)
        .line(Stroke::new().color(look.color(1.0)).width(1.5))
        .marker(Marker::new().color(look.color(1.0)).size(4))
        .hover_info(HoverInfo::Text)
        .hover_text_array(strip.values.iter().enumerate().map(hover).collect())
}

fn layout(x: Axis, y: Axis) -> Layout {
    Layout::new()
        .x_axis(x)
        .y_axis(y)
        .hover_mode(HoverMode::Closest)
        .margin(Margin::new().top(34).right(16).bottom(56).left(64))
        .paper_background_color("rgba(0,0,0,0)")
        .plot_background_color("rgba(0,0,0,0)")
}

fn figure(title: &str, data: &str, traces: &[Box<dyn Trace>], layout: &Layout) -> String {
    let traces: Vec<String> = traces.iter().map(|trace| trace.to_json()).collect();
    let layout = serde_json::to_string(layout).expect("plain data");
    let json = in_script(&format!("{{\"data\":[{}],\"layout\":{layout}}}", traces.join(",")));
    let title = escaped(title);
    format!(
        "<figure class=\"chart\">\n<figcaption>{title}</figcaption>\n\
         <div class=\"plot\" role=\"img\" aria-label=\"Chart: {title}\" {data}></div>\n\
         <script type=\"application/json\">{json}</script>\n</figure>\n"
    )
}

fn stroke(line: &Line) -> Box<dyn Trace> {
    Scatter::new(
        line.points.iter().map(|point| point.x).collect(),
        line.points.iter().map(|point| point.y).collect(),
    )
    .name(in_chart(&line.name))
    .legend_group(in_chart(&line.name))
    .mode(Mode::LinesMarkers)
    .visible(visible(line))
    .line(Stroke::new().color(line.look.color(1.0)).dash(line.look.dash()).width(1.75))
    .marker(Marker::new().color(line.look.color(1.0)).symbol(line.look.symbol()).size(7))
    .hover_info(HoverInfo::Text)
    .hover_text_array(hover(line))
}

/// The interval around a line as closed shapes; a value without an interval ends one shape.
fn band(line: &Line) -> Option<Box<dyn Trace>> {
    let mut x: Vec<Option<f64>> = Vec::new();
    let mut y: Vec<Option<f64>> = Vec::new();
    for stretch in line.points.split(|point| point.interval.is_none()).filter(|stretch| stretch.len() > 1) {
        let bounds: Vec<(f64, [f64; 2])> =
            stretch.iter().filter_map(|point| Some((point.x, point.interval?))).collect();
        if !x.is_empty() {
            x.push(None);
            y.push(None);
        }
        let low = bounds.iter().map(|(at, [low, _])| (*at, *low));
        let high = bounds.iter().rev().map(|(at, [_, high])| (*at, *high));
        for (at, value) in low.chain(high) {
            x.push(Some(at));
            y.push(Some(value));
        }
    }
    (!x.is_empty()).then(|| {
        let trace = Scatter::new(x, y)
            .name(in_chart(&line.name))
            .legend_group(in_chart(&line.name))
            .show_legend(false)
            .mode(Mode::Lines)
            .visible(visible(line))
            .line(Stroke::new().width(0.0).color(line.look.color(0.0)).dash(DashType::Solid))
            .fill(Fill::ToSelf)
            .fill_color(line.look.color(BAND))
            .hover_info(HoverInfo::Skip);
        trace as Box<dyn Trace>
    })
}

fn dot(line: &Line) -> Box<dyn Trace> {
    let ends = line.points.iter().map(|point| {
        let [low, high] = point.interval.unwrap_or([point.y, point.y]);
        (high - point.y, point.y - low)
    });
    let (above, below): (Vec<f64>, Vec<f64>) = ends.unzip();
    let error = ErrorData::new(ErrorType::Data).array(above).array_minus(below).symmetric(false);
    Scatter::new(
        line.points.iter().map(|point| point.y).collect(),
        line.points.iter().map(|_| in_chart(&line.name)).collect(),
    )
    .name(in_chart(&line.name))
    .mode(Mode::Markers)
    .marker(Marker::new().color(line.look.color(1.0)).symbol(line.look.symbol()).size(10))
    .error_x(error.color(line.look.color(0.8)).thickness(2.0))
    .hover_info(HoverInfo::Text)
    .hover_text_array(hover(line))
}

fn hover(line: &Line) -> Vec<String> {
    line.points.iter().map(|point| hover_text(&line.name, &point.hover)).collect()
}

fn hover_text(name: &str, lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| in_chart(line)).collect();
    format!("<b>{}</b><br>{}", in_chart(name), lines.join("<br>"))
}

fn visible(line: &Line) -> Visible {
    if line.is_hidden { Visible::LegendOnly } else { Visible::True }
}
