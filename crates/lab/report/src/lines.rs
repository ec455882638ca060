//! Lines of a chart: in which order, which apart from the others, over which axis.

use std::collections::HashMap;

use crate::axis::{Axis, LogAxis};
use crate::chart::{Drawing, Line};
use crate::units::Scale;

/// Sorts lines as they lie above one another, so that the legend reads like the chart.
///
/// A line is placed by its values relative to the middle of all values at the same size, since not every mechanism
/// has every size.
pub fn by_height(lines: &mut [Line]) {
    let mut at_size: HashMap<u64, Vec<f64>> = HashMap::new();
    for point in lines.iter().flat_map(|line| &line.points) {
        at_size.entry(point.x.to_bits()).or_default().push(point.y);
    }
    for values in at_size.values_mut() {
        values.sort_by(f64::total_cmp);
    }
    let height = |line: &Line| {
        let relative = line.points.iter().map(|point| {
            let values = &at_size[&point.x.to_bits()];
            (point.y / values[values.len() / 2]).ln()
        });
        let relative: Vec<f64> = relative.filter(|height| height.is_finite()).collect();
        relative.iter().sum::<f64>() / relative.len().max(1) as f64
    };
    lines.sort_by(|a, b| height(b).total_cmp(&height(a)));
}

/// The lines without at most a quarter of them that lie so far apart that the rest takes less than half of the
/// height, and the names of those.
pub fn near_lines(lines: &[Line]) -> Option<(Vec<Line>, Vec<String>)> {
    let mut spans: Vec<(usize, f64, f64)> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.is_hidden)
        .map(|(index, line)| {
            let (low, high) = range(line.points.iter().map(|point| point.y));
            (index, low.ln(), high.ln())
        })
        .filter(|(_, low, high)| low.is_finite() && high.is_finite())
        .collect();
    let height = |spans: &[(usize, f64, f64)]| {
        let low = spans.iter().map(|span| span.1).fold(f64::INFINITY, f64::min);
        let high = spans.iter().map(|span| span.2).fold(f64::NEG_INFINITY, f64::max);
        high - low
    };
    let whole = height(&spans);
    for count in 1..=spans.len() / 4 {
        spans.sort_by(|a, b| a.2.total_cmp(&b.2));
        let (below, without_below) = spans.split_at(count);
        let below = (below.to_vec(), height(without_below));
        spans.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (above, without_above) = spans.split_at(count);
        let above = (above.to_vec(), height(without_above));
        let (apart, rest) = if below.1 <= above.1 { below } else { above };
        if rest < whole / 2.0 {
            let apart: Vec<usize> = apart.into_iter().map(|(index, ..)| index).collect();
            let kept = |(index, _): &(usize, &Line)| !apart.contains(index);
            let near = lines.iter().enumerate().filter(kept).map(|(_, line)| line.clone()).collect();
            return Some((near, apart.iter().map(|index| lines[*index].name.clone()).collect()));
        }
    }
    None
}

/// Lowest and highest of the values.
pub fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

/// Above this ratio of the largest to the smallest value a linear axis would press the small ones together.
const WIDE: f64 = 8.0;

/// A logarithmic axis where the values need one, else one from zero in the given scale; the lines fit the axis.
pub fn value_axis(unit: &str, scale: &Scale, mut lines: Vec<Line>) -> (Axis, Vec<Line>) {
    let (low, high) = range(lines.iter().flat_map(|line| &line.points).map(|point| point.y));
    if high > low * WIDE {
        return (Axis::Log(LogAxis::values(unit, low, high)), lines);
    }
    for point in lines.iter_mut().flat_map(|line| &mut line.points) {
        point.y /= scale.divisor;
        point.interval = point.interval.map(|ends| ends.map(|end| end / scale.divisor));
    }
    (Axis::Linear(scale.name.clone()), lines)
}

/// The lines over an axis of their values, the highest first.
pub fn of_values(x: Axis, unit: &str, scale: &Scale, mut lines: Vec<Line>) -> Drawing {
    by_height(&mut lines);
    let (y, lines) = value_axis(unit, scale, lines);
    Drawing::Lines(x, y, lines)
}

/// Each value once, in order.
pub fn ascending(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Point;
    use crate::look::Look;

    fn line(name: &str, values: &[f64]) -> Line {
        let point = |(index, y): (usize, &f64)| Point {
            x: (index + 1) as f64,
            y: *y,
            interval: None,
            hover: Vec::new(),
        };
        Line::new(name, Look::default(), values.iter().enumerate().map(point).collect())
    }

    fn names(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.name.as_str()).collect()
    }

    #[test]
    fn the_legend_reads_from_the_highest_line_to_the_lowest() {
        let mut lines = vec![line("low", &[1.0, 10.0]), line("high", &[3.0, 30.0]), line("short", &[2.0])];
        by_height(&mut lines);
        assert_eq!(names(&lines), ["high", "short", "low"]);
    }

    #[test]
    fn a_line_far_from_a_crowd_gives_the_crowd_a_chart_of_its_own() {
        let mut lines: Vec<Line> = (0..9).map(|index| line(&index.to_string(), &[40.0, 60.0])).collect();
        assert!(near_lines(&lines).is_none(), "nothing stands apart");
        lines.push(line("far below", &[0.1, 20.0]));
        let (rest, apart) = near_lines(&lines).unwrap();
        assert_eq!((rest.len(), apart), (9, vec!["far below".to_string()]));
        lines.push(line("far above", &[5e3, 6e3]));
        assert_eq!(near_lines(&lines).unwrap().1, ["far below"], "one after the other: {lines:?}");
    }
}
