//! Charts: lines with interval bands, dots where there is one value per mechanism, bars, and strips of samples.
//!
//! A chart is an empty box and its description in JSON; `charts.js` draws it in the page, because only the page knows
//! its width. What is where, in which color and with which words is decided here; the script only draws.

use serde_json::{Value, json};

use crate::axis::{Axis, linear};
use crate::chart::{Bar, Chart, Drawing, Line, MOST_STRIPS, Piece, Point, Strip};
use crate::document::Table;
use crate::html::columns::columns;
use crate::html::escape::{escaped, in_script};
use crate::html::flame::flame;
use crate::html::map::map;
use crate::html::sequence::sequence;
use crate::html::timeline::timeline;
use crate::look::Look;
use crate::units::significant;
use crate::words::plain;

/// A chart as an element of the page.
pub fn drawn(chart: &Chart) -> String {
    match &chart.drawing {
        Drawing::Lines(x, y, all) => figure(&chart.title, "lines", &lines(x, y, all)),
        Drawing::Dots(values, all) => figure(&chart.title, "dots", &dots(values, all)),
        Drawing::Bars(values, all) => figure(&chart.title, "bars", &bars(values, all)),
        Drawing::Strips(all, change) => figure(&chart.title, "strips", &strips(all, *change)),
        Drawing::Flame(of) => flame(&chart.title, of),
        Drawing::Timeline(picture) => timeline(&chart.title, picture),
        Drawing::Columns(of) => columns(&chart.title, of),
        Drawing::Sequence(messages) => sequence(&chart.title, messages),
        Drawing::Map(of) => map(&chart.title, of),
    }
}

/// Does the script draw it?
pub fn needs_script(drawing: &Drawing) -> bool {
    matches!(drawing, Drawing::Lines(..) | Drawing::Dots(..) | Drawing::Bars(..) | Drawing::Strips(..))
}

/// What the script would say of each point, for those without a script.
pub fn in_words(drawing: &Drawing) -> Option<Table> {
    let row = |name: &str, hover: &[String]| [plain(name), plain(&hover.join(", "))];
    let rows: Vec<[String; 2]> = match drawing {
        Drawing::Lines(_, _, all) | Drawing::Dots(_, all) => all
            .iter()
            .flat_map(|line| line.points.iter().map(move |point| row(&line.name, &point.hover)))
            .collect(),
        Drawing::Bars(_, all) => all
            .iter()
            .flat_map(|bar| bar.pieces.iter().map(move |piece| row(&bar.name, &piece.hover)))
            .collect(),
        Drawing::Strips(all, _) => all
            .iter()
            .map(|strip| {
                let values: Vec<String> = strip.values.iter().map(|value| significant(*value)).collect();
                [plain(&strip.label), values.join(" ")]
            })
            .collect(),
        _ => return None,
    };
    Some(Table::new("", ["", "figures"], rows).with_texts([1]))
}

/// Six digits place a point to the pixel.
fn digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn look(of: Look) -> Value {
    json!({ "color": of.hex(), "dash": of.dash(), "symbol": of.symbol() })
}

fn hover(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| plain(line)).collect()
}

/// The values of points with the ends of their intervals.
fn extent<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<f64> {
    points.flat_map(|point| [point.y].into_iter().chain(point.interval.into_iter().flatten())).collect()
}

/// Lines, hidden ones included. `y` has room for those that are shown at first, `whole` for all.
fn lines(x: &Axis, y: &Axis, lines: &[Line]) -> Value {
    let places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    let at_first = y.over(&extent(lines.iter().filter(|line| !line.is_hidden).flat_map(|line| &line.points)));
    let whole = y.over(&extent(lines.iter().flat_map(|line| &line.points)));
    let line = |line: &Line| {
        let drawn = line.points.iter().filter(|point| x.shows(point.x) && y.shows(point.y));
        curve(line, drawn.map(|point| (point, point.x, point.y)))
    };
    let mut all = json!({
        "x": x.over(&places),
        "y": at_first,
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
    });
    if whole != at_first {
        all["whole"] = json!(whole);
    }
    all
}

/// A line with its points at these places: `[x, y, interval, what is shown beside the pointer]`.
fn curve<'a>(line: &Line, points: impl Iterator<Item = (&'a Point, f64, f64)>) -> Value {
    let point = |(point, x, y): (&Point, f64, f64)| {
        json!([digits(x), digits(y), point.interval.map(|ends| ends.map(digits)), hover(&point.hover)])
    };
    let mut of = json!({
        "name": plain(&line.name),
        "look": look(line.look),
        "points": points.map(point).collect::<Vec<_>>(),
    });
    if line.is_hidden {
        of["hidden"] = json!(true);
    }
    of
}

/// One dot per mechanism with its interval, names down the side, the last at the top.
fn dots(values: &Axis, lines: &[Line]) -> Value {
    let dot = |line: &Line| {
        let drawn = line.points.iter().filter(|point| values.shows(point.y));
        curve(line, drawn.map(|point| (point, point.y, 0.0)))
    };
    json!({
        "x": values.over(&extent(lines.iter().flat_map(|line| &line.points))),
        "lines": lines.iter().rev().map(dot).collect::<Vec<_>>(),
    })
}

/// Bars of pieces `[kind, value, what is shown beside the pointer]`, names down the side, the last at the top.
fn bars(values: &Axis, bars: &[Bar]) -> Value {
    let mut kinds: Vec<(&str, Look)> = Vec::new();
    for piece in bars.iter().flat_map(|bar| &bar.pieces) {
        if !kinds.iter().any(|(name, _)| *name == piece.name) {
            kinds.push((&piece.name, piece.look));
        }
    }
    let piece = |piece: &Piece| {
        let kind = kinds.iter().position(|(name, _)| *name == piece.name);
        json!([kind, digits(piece.value), hover(&piece.hover)])
    };
    let bar = |bar: &Bar| {
        let drawn = bar.pieces.iter().filter(|piece| piece.value.is_finite());
        json!({ "name": plain(&bar.name), "pieces": drawn.map(piece).collect::<Vec<_>>() })
    };
    let end = |bar: &Bar, sign: f64| {
        bar.pieces.iter().map(|piece| piece.value * sign).filter(|value| *value > 0.0).sum::<f64>() * sign
    };
    let ends: Vec<f64> = bars.iter().flat_map(|bar| [end(bar, 1.0), end(bar, -1.0)]).collect();
    let kind = |(name, of): &(&str, Look)| json!({ "name": plain(name), "look": look(*of) });
    json!({
        "x": values.over(&ends),
        "kinds": kinds.iter().map(kind).collect::<Vec<_>>(),
        "bars": bars.iter().rev().map(bar).collect::<Vec<_>>(),
    })
}

/// From the lowest to the highest value, and at least a tenth to either side of the middle, so that a steady
/// series looks steady.
fn range(strip: &Strip) -> [f64; 2] {
    let all = || strip.values.iter().chain(&strip.levels).copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let middle = f64::midpoint(low, high);
    let half = ((high - low) * 0.55).max(middle.abs() * 0.1);
    if half > 0.0 { [middle - half, middle + half] } else { [-1.0, 1.0] }
}

/// Marks at the side of a strip.
const MOST_STRIP_TICKS: f64 = 5.0;

/// Strips above one another over the number of the sample, from 1; `change` is the number of samples before the level
/// changes. Strips above [`MOST_STRIPS`] are left out.
fn strips(strips: &[Strip], change: Option<usize>) -> Value {
    let shown = &strips[..strips.len().min(MOST_STRIPS)];
    let samples = shown.iter().map(|strip| strip.values.len()).max().unwrap_or(0);
    let strip = |(index, strip): (usize, &Strip)| {
        json!({
            "name": plain(&strip.label),
            "look": look(Look::nth(index)),
            "y": linear("", range(strip), MOST_STRIP_TICKS, false),
            "values": strip.values.iter().map(|value| digits(*value)).collect::<Vec<_>>(),
            "texts": strip.values.iter().map(|value| significant(*value)).collect::<Vec<_>>(),
            "levels": strip.levels.iter().map(|level| digits(*level)).collect::<Vec<_>>(),
        })
    };
    json!({
        "x": linear("sample", [0.5, samples.max(1) as f64 + 0.5], 10.0, true),
        "strips": shown.iter().enumerate().map(strip).collect::<Vec<_>>(),
        "change": change.map(|before| before as f64 + 0.5),
    })
}

fn figure(title: &str, kind: &str, description: &Value) -> String {
    let json = in_script(&description.to_string());
    let title = escaped(title);
    format!(
        "<figure class=\"chart\">\n<figcaption>{title}</figcaption>\n\
         <div class=\"plot\" data-kind=\"{kind}\" role=\"img\" aria-label=\"Chart: {title}\"><svg></svg></div>\n\
         <script type=\"application/json\">{json}</script>\n</figure>\n"
    )
}
