//! Charts: lines over payload size with interval bands, and dots where there is one value per mechanism.
//!
//! A chart is an empty box and its description in JSON; the page's own script draws it, because only the page knows
//! its width and whether it is dark.

use plotly::common::{
    DashType, ErrorData, ErrorType, Fill, HoverInfo, Line as Stroke, Marker, Mode, Visible,
};
use plotly::layout::{Axis, HoverMode, Margin};
use plotly::{Layout, Plot, Scatter, Trace};

use crate::html::escape::{escaped, in_chart, in_script};
use crate::html::look::Look;

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

/// A value of a line or a dot.
#[derive(Clone, Debug)]
pub struct Point {
    /// Where on the horizontal axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
    /// What is shown beside the pointer, plain text, one line each.
    pub hover: Vec<String>,
}

/// One mechanism.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// Is it hidden until the reader clicks on its name?
    pub is_hidden: bool,
    /// Its values, from left to right.
    pub points: Vec<Point>,
}

/// Lines over payload size.
pub fn lines(title: &str, x: Axis, y: Axis, lines: &[Line]) -> String {
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    for line in lines {
        traces.extend(band(line));
    }
    for line in lines {
        traces.push(stroke(line));
    }
    let longest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let layout = layout(x, y).show_legend(true);
    let names = lines.len();
    figure(
        title,
        &format!("data-kind=\"lines\" data-names=\"{names}\" data-longest=\"{longest}\""),
        &traces,
        &layout,
    )
}

/// One dot per mechanism with its interval, names down the side. `x` of the points counts for nothing.
pub fn dots(title: &str, values: Axis, names: Axis, lines: &[Line]) -> String {
    let traces: Vec<Box<dyn Trace>> = lines.iter().map(dot).collect();
    let layout = layout(values, names).show_legend(false);
    figure(title, &format!("data-kind=\"dots\" data-names=\"{}\"", lines.len()), &traces, &layout)
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
    .legend_group(group(line))
    .mode(Mode::LinesMarkers)
    .visible(visible(line))
    .line(Stroke::new().color(line.look.colour(1.0)).dash(line.look.dash()).width(1.75))
    .marker(Marker::new().color(line.look.colour(1.0)).symbol(line.look.symbol()).size(7))
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
            .legend_group(group(line))
            .show_legend(false)
            .mode(Mode::Lines)
            .visible(visible(line))
            .line(Stroke::new().width(0.0).color(line.look.colour(0.0)).dash(DashType::Solid))
            .fill(Fill::ToSelf)
            .fill_color(line.look.colour(BAND))
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
    .marker(Marker::new().color(line.look.colour(1.0)).symbol(line.look.symbol()).size(10))
    .error_x(error.color(line.look.colour(0.8)).thickness(2.0))
    .hover_info(HoverInfo::Text)
    .hover_text_array(hover(line))
}

fn hover(line: &Line) -> Vec<String> {
    let text = |point: &Point| {
        let lines: Vec<String> = point.hover.iter().map(|line| in_chart(line)).collect();
        format!("<b>{}</b><br>{}", in_chart(&line.name), lines.join("<br>"))
    };
    line.points.iter().map(text).collect()
}

fn group(line: &Line) -> String {
    in_chart(&line.name)
}

fn visible(line: &Line) -> Visible {
    if line.is_hidden { Visible::LegendOnly } else { Visible::True }
}
