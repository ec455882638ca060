//! Axes with ticks that people can read: `4 KiB`, `10 µs`, `1 GiB/s`.

use plotly::common::Title;
use plotly::layout::{Axis as Drawn, AxisType, RangeMode, TicksDirection};

use crate::html::escape::in_chart;
use crate::units::{self, Scale, size};

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Logarithmic.
    Log(LogAxis),
    /// Linear, from zero, with this title.
    Linear(String),
}

impl Axis {
    /// As the charting library wants it.
    pub fn drawn(&self) -> Drawn {
        match self {
            Axis::Log(axis) => axis.drawn(),
            Axis::Linear(title) => plain_axis(title).range_mode(RangeMode::ToZero),
        }
    }
}

/// A logarithmic axis with ticks at chosen places.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAxis {
    title: String,
    ticks: Vec<(f64, String)>,
    low: f64,
    high: f64,
}

impl LogAxis {
    /// Payload sizes. An empty payload has no place on a logarithmic axis; see [`size_position`].
    pub fn sizes(sizes: &[u64]) -> LogAxis {
        let least = sizes.iter().copied().find(|bytes| *bytes > 0).unwrap_or(1);
        let most = sizes.last().copied().unwrap_or(1).max(least);
        let octaves = most.ilog2() - least.ilog2();
        let step = match octaves {
            0..=6 => 1,
            7..=12 => 2,
            _ => 4,
        };
        let mut ticks: Vec<(f64, String)> = (least.ilog2()..=most.ilog2())
            .filter(|power| (power - least.ilog2()).is_multiple_of(step))
            .map(|power| 1u64 << power)
            .map(|bytes| (bytes as f64, size(bytes)))
            .collect();
        let mut low = least as f64;
        if sizes.first() == Some(&0) {
            low = size_position(0, sizes);
            ticks.insert(0, (low, size(0)));
        }
        LogAxis { title: "payload".into(), ticks, low: low / 1.25, high: most as f64 * 1.25 }
    }

    /// Numbers of something, each with a tick unless there are many.
    pub fn numbers(title: &str, numbers: &[f64]) -> LogAxis {
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(1.0, f64::max);
        let low = if low > 0.0 && low.is_finite() { low } else { 1.0 };
        let ticks = match numbers.len() {
            0..=8 => numbers.iter().map(|number| (*number, number.to_string())).collect(),
            _ => value_ticks("", low, high),
        };
        LogAxis { title: title.into(), ticks, low: low / 1.25, high: high * 1.25 }
    }

    /// Values in a unit of the record, from the lowest to the highest that will be drawn.
    pub fn values(unit: &str, low: f64, high: f64) -> LogAxis {
        let (low, high) = if low > 0.0 && high.is_finite() { (low / 1.15, high * 1.15) } else { (0.9, 11.0) };
        LogAxis { title: title(unit), ticks: value_ticks(unit, low, high), low, high }
    }

    /// Ratios from `low` to `high`, around 1, which has a tick.
    pub fn ratios(title: &str, low: f64, high: f64) -> LogAxis {
        let (low, high) = (low.min(0.99) / 1.005, high.max(1.01) * 1.005);
        let steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].into_iter().find(|step| (high - low) / step <= 9.0);
        let ticks = match steps {
            Some(step) => {
                let first = ((low - 1.0) / step).ceil() as i32;
                let places = (first..).map(|index| 1.0 + f64::from(index) * step);
                places
                    .take_while(|ratio| *ratio <= high)
                    .map(|ratio| (ratio, format!("{ratio:.2}")))
                    .collect()
            }
            None => value_ticks("", low, high),
        };
        LogAxis { title: title.into(), ticks, low, high }
    }

    fn drawn(&self) -> Drawn {
        let (values, texts) = self.ticks.iter().cloned().unzip();
        plain_axis(&self.title)
            .type_(AxisType::Log)
            .tick_values(values)
            .tick_text(texts)
            .range(vec![self.low.log10(), self.high.log10()])
    }
}

/// An axis with nothing decided but its title and its marks.
pub fn plain_axis(title: &str) -> Drawn {
    Drawn::new()
        .title(Title::with_text(in_chart(title)))
        .ticks(TicksDirection::Outside)
        .zero_line(false)
        .auto_margin(true)
}

/// Where a size stands on the axis: an empty payload a little to the left of the smallest other one.
pub fn size_position(bytes: u64, sizes: &[u64]) -> f64 {
    match bytes {
        0 => sizes.iter().copied().find(|bytes| *bytes > 0).unwrap_or(1) as f64 / 4.0,
        bytes => bytes as f64,
    }
}

fn title(unit: &str) -> String {
    match unit.strip_prefix("ns") {
        Some("") => "time".into(),
        Some("/roundtrip") => "time per round trip".into(),
        Some(per) => format!("time per {}", per.trim_start_matches('/')),
        None => unit.into(),
    }
}

/// A tick per decade; also at 2 and 5 where there are few decades, and closer where there is less than one.
fn value_ticks(unit: &str, low: f64, high: f64) -> Vec<(f64, String)> {
    let decades = (high / low).log10();
    let steps: &[f64] = match decades {
        decades if decades < 0.6 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        decades if decades < 1.1 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        decades if decades < 2.5 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let mut ticks = Vec::new();
    for base in bases(unit, low, high) {
        for step in steps {
            let value = base * step;
            if (low..=high).contains(&value) && ticks.last().is_none_or(|(last, _)| value > *last) {
                ticks.push((value, tick(unit, value)));
            }
        }
    }
    ticks
}

/// Powers of ten in the unit that is shown at each magnitude.
fn bases(unit: &str, low: f64, high: f64) -> Vec<f64> {
    if unit != "bytes/s" {
        let first = low.log10().floor() as i32;
        return (first..=high.log10().ceil() as i32).map(|power| 10f64.powi(power)).collect();
    }
    let binary = (0..5).map(|power| 1024f64.powi(power));
    binary.flat_map(|unit| [unit, unit * 10.0, unit * 100.0]).collect()
}

fn tick(unit: &str, value: f64) -> String {
    let scale = Scale::alone(unit, value);
    let number = units::count(value / scale.divisor);
    let name = if unit.starts_with("ns") {
        scale.name.split('/').next().unwrap_or_default().to_string()
    } else {
        scale.name.strip_suffix(unit).unwrap_or(&scale.name).trim().to_string()
    };
    format!("{number} {name}").trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_at_most_eight_ticks_however_many_there_are_and_values_name_their_unit() {
        let all: Vec<u64> = (0..=22).map(|power| 1 << power).collect();
        let gib = f64::from(1 << 30);
        for (axis, texts) in [
            (LogAxis::sizes(&all), "1 B, 16 B, 256 B, 4 KiB, 64 KiB, 1 MiB"),
            (LogAxis::sizes(&[0, 1, 4]), "0 B, 1 B, 2 B, 4 B"),
            (LogAxis::values("ns/hop", 90.0, 2e6), "100 ns, 1 µs, 10 µs, 100 µs, 1 ms"),
            (LogAxis::values("ns/hop", 120.0, 800.0), "150 ns, 200 ns, 300 ns, 400 ns, 500 ns, 700 ns"),
            (
                LogAxis::values("bytes/s", gib / 2e4, gib * 2.0),
                "100 KiB/s, 1 MiB/s, 10 MiB/s, 100 MiB/s, 1 GiB/s",
            ),
            (LogAxis::values("events/s", 9e5, 1.2e6), "800 thousand, 900 thousand, 1 million, 1.2 million"),
        ] {
            let ticks: Vec<&str> = axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(ticks.join(", "), texts);
        }
        let axis = LogAxis::values("ns/op", f64::INFINITY, 0.0);
        assert!(axis.low > 0.0 && axis.high.is_finite(), "an axis without values is still an axis");
    }

    #[test]
    fn an_empty_payload_stands_left_of_the_smallest_other_one() {
        assert_eq!([0, 64].map(|bytes| size_position(bytes, &[0, 64, 4096])), [16.0, 64.0]);
    }
}
