//! Axes with ticks that people can read: `4 KiB`, `10 µs`, `1 GiB/s`.

use serde::Serialize;

use crate::units::{self, Scale, grouped, size};
use crate::words::plain;

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Logarithmic.
    Log(LogAxis),
    /// Linear, from zero, with this title.
    Linear(String),
}

/// An axis as a page draws it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawn {
    pub title: String,
    pub is_log: bool,
    /// The values at its ends.
    pub range: [f64; 2],
    pub ticks: Vec<(f64, String)>,
}

/// Marks on a linear axis.
const MOST_TICKS: f64 = 8.0;

impl Axis {
    /// The axis with room for all of these values.
    pub fn over(&self, values: &[f64]) -> Drawn {
        match self {
            Axis::Log(axis) => axis.over(values),
            Axis::Linear(title) => {
                let finite = || values.iter().copied().filter(|value| value.is_finite());
                let (low, high) =
                    finite().fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
                let ends = if low < high { [low * 1.05, high * 1.05] } else { [0.0, 1.0] };
                linear(title, ends, MOST_TICKS, finite().all(|value| value.fract() == 0.0))
            }
        }
    }

    /// Has a value a place on the axis?
    pub fn shows(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || matches!(self, Axis::Linear(_)))
    }
}

/// A linear axis between two ends; where only whole numbers occur, only those have ticks.
pub fn linear(title: &str, range: [f64; 2], most_ticks: f64, is_whole: bool) -> Drawn {
    let [low, high] = range;
    let step = round_step(high - low, most_ticks);
    let step = if is_whole { step.max(1.0) } else { step };
    let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let text = |value: f64| match value {
        value if decimals == 0 && value.abs() >= 1e4 && value.abs() < 1e15 => {
            format!("{}{}", if value < 0.0 { "-" } else { "" }, grouped(value.abs() as u64))
        }
        value if value.abs() >= 1e15 => format!("{value:e}"),
        value => format!("{value:.decimals$}"),
    };
    let first = (low / step).ceil();
    // Adding 0 makes 0 of −0.
    let places = (0..=most_ticks as i32).map(|index| (first + f64::from(index)) * step + 0.0);
    let ticks = places.take_while(|value| *value <= high).map(|value| (value, text(value))).collect();
    Drawn { title: plain(title), is_log: false, range, ticks }
}

/// 1, 2 or 5 times a power of ten, so that at most this number of steps fill a length.
pub fn round_step(length: f64, most: f64) -> f64 {
    let least = (length / most).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least).unwrap_or(10.0);
    step * power
}

/// A logarithmic axis with ticks at chosen places.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAxis {
    title: String,
    unit: String,
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
        LogAxis {
            title: "payload".into(),
            unit: String::new(),
            ticks,
            low: low / 1.25,
            high: most as f64 * 1.25,
        }
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
        LogAxis { title: title.into(), unit: String::new(), ticks, low: low / 1.25, high: high * 1.25 }
    }

    /// Values in a unit of the record, from the lowest to the highest that will be drawn.
    pub fn values(unit: &str, low: f64, high: f64) -> LogAxis {
        let (low, high) = if low > 0.0 && high.is_finite() { (low / 1.15, high * 1.15) } else { (0.9, 11.0) };
        LogAxis { title: title(unit), unit: unit.into(), ticks: value_ticks(unit, low, high), low, high }
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
        LogAxis { title: title.into(), unit: String::new(), ticks, low, high }
    }

    fn over(&self, values: &[f64]) -> Drawn {
        let beyond = values.iter().copied().filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) = beyond.fold((self.low, self.high), |(low, high), value| {
            (if value < low { value / 1.15 } else { low }, if value > high { value * 1.15 } else { high })
        });
        let is_chosen = (low, high) == (self.low, self.high);
        let ticks = if is_chosen { self.ticks.clone() } else { value_ticks(&self.unit, low, high) };
        Drawn { title: plain(&self.title), is_log: true, range: [low, high], ticks }
    }
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
    fn a_linear_axis_has_round_ticks_from_zero_and_whole_ones_where_all_values_are_whole() {
        let texts = |values: &[f64]| {
            let drawn = Axis::Linear("x".into()).over(values);
            let ticks: Vec<String> = drawn.ticks.into_iter().map(|(_, text)| text).collect();
            ticks.join(" ")
        };
        assert_eq!(texts(&[0.9, 1.97]), "0.0 0.5 1.0 1.5 2.0");
        assert_eq!(texts(&[1.0, 2.0, 3.0]), "0 1 2 3");
        assert_eq!(texts(&[-0.4, 30_000.0]), "0 5000 10,000 15,000 20,000 25,000 30,000");
        assert_eq!(texts(&[-3.0, 4.5]), "-3 -2 -1 0 1 2 3 4");
        assert_eq!(texts(&[]), "0 1", "an axis without values is still an axis");
        assert_eq!(texts(&[f64::NAN, f64::INFINITY, 1e300]).split(' ').count(), 6);
    }

    #[test]
    fn a_logarithmic_axis_grows_with_values_beyond_its_ends() {
        let axis = Axis::Log(LogAxis::values("ns/hop", 120.0, 800.0));
        let as_chosen = axis.over(&[120.0, 800.0]);
        assert_eq!(as_chosen.ticks.len(), 6);
        let wider = axis.over(&[120.0, 800.0, 1e6, 0.0]);
        let texts: Vec<&str> = wider.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts.join(", "), "1 µs, 10 µs, 100 µs, 1 ms");
        assert_eq!(wider.range[0], as_chosen.range[0]);
        assert!(!axis.shows(0.0) && axis.shows(1.0), "zero has no place on it");
    }

    #[test]
    fn an_empty_payload_stands_left_of_the_smallest_other_one() {
        assert_eq!([0, 64].map(|bytes| size_position(bytes, &[0, 64, 4096])), [16.0, 64.0]);
    }
}
