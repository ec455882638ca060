//! Figures as people read them: three digits, one unit for a whole table.

use crate::words::plain;

/// Three significant digits, without an exponent where that can be avoided: `5.21`, `0.000150`, `2010`.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "?".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    // Rounding first, so that 9.996 becomes 10.0 and not 10.00.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let exponent = rounded.abs().log10().floor();
    if !(-6.0..15.0).contains(&exponent) {
        return format!("{value:.2e}");
    }
    let decimals = (2.0 - exponent).max(0.0) as usize;
    format!("{rounded:.decimals$}")
}

/// A count per operation, without zeros at the end: small ones that differ from zero are named as such.
pub fn count(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 {
        return "<0.001".into();
    }
    let text = significant(value);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

const BYTES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Bytes in the largest binary unit up to TiB that leaves a whole number: `1 B`, `4 KiB`, `1500 B`.
pub fn size(bytes: u64) -> String {
    let unit = (bytes.trailing_zeros() / 10).min(if bytes == 0 { 0 } else { 4 });
    format!("{} {}", bytes >> (10 * unit), BYTES[unit as usize])
}

/// An amount of memory: exact where that is short, otherwise in three digits, `23.5 GiB`.
pub fn amount(bytes: u64) -> String {
    let exact = size(bytes);
    let unit = bytes.max(1).ilog2() / 10;
    if unit == 0 || exact.find(' ').is_some_and(|digits| digits <= 4) {
        return exact;
    }
    let unit = unit.min(5);
    format!("{} {}", significant(bytes as f64 / (1_u64 << (10 * unit)) as f64), BYTES[unit as usize])
}

/// How far the interval reaches from the median, on its longer side, as a share of the median.
pub fn reach(median: f64, interval: [f64; 2]) -> String {
    let share = (interval[1] - median).max(median - interval[0]) / median.abs() * 100.0;
    match share {
        share if !share.is_finite() => "±?".into(),
        0.0 => "±0%".into(),
        share if share < 0.05 => "±<0.1%".into(),
        share if share < 9.95 => format!("±{share:.1}%"),
        share => format!("±{share:.0}%"),
    }
}

/// How far below and above the median a range reaches, as shares of the median: `−3.5+8.0%`; `±0%` where nothing varied.
pub fn around(median: f64, [low, high]: [f64; 2]) -> String {
    let shares = [median - low, high - median].map(|of| (of / median.abs() * 100.0).max(0.0));
    match shares {
        [below, above] if !(below.is_finite() && above.is_finite()) => "−?+?%".into(),
        [0.0, 0.0] => "±0%".into(),
        [below, above] if below.max(above) < 9.95 => format!("−{below:.1}+{above:.1}%"),
        [below, above] => format!("−{below:.0}+{above:.0}%"),
    }
}

/// Both ends of an interval: `1.20 to 1.31`.
pub fn range([low, high]: [f64; 2], show: impl Fn(f64) -> String) -> String {
    format!("{} to {}", show(low), show(high))
}

/// One unit for all figures of a table or an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// A figure of the record divided by this is a figure of the table.
    pub divisor: f64,
    /// The unit of the table: `µs/roundtrip`, `GiB/s`, …
    pub name: String,
}

impl Scale {
    /// The scale of a unit of the record in which the given values are neither very long nor very small.
    ///
    /// Times are in ns or µs, bytes in MiB/s or GiB/s, other rates in units, thousands or millions. A unit that is
    /// not known stays as it is.
    pub fn new(unit: &str, values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = values
            .filter(|value| *value > 0.0 && value.is_finite())
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let middle = if high > 0.0 { (low.ln() / 2.0 + high.ln() / 2.0).exp() } else { 0.0 };
        Scale::largest(unit, &Scale::choices(unit), middle)
    }

    /// The scale for one value that stands alone, where longer steps are allowed than in a table.
    pub fn alone(unit: &str, value: f64) -> Scale {
        let mut choices = Scale::choices(unit);
        if let Some(per) = unit.strip_prefix("ns") {
            choices.extend([(1e6, format!("ms{per}")), (1e9, format!("s{per}"))]);
        }
        if unit == "bytes/s" {
            choices.splice(0..0, [(1.0, "B/s".into()), (1024.0, "KiB/s".into())]);
        }
        Scale::largest(unit, &choices, value.abs() * 1.000_001)
    }

    /// The largest of the choices that is not above the value, or the smallest.
    fn largest(unit: &str, choices: &[(f64, String)], value: f64) -> Scale {
        let fit = choices.iter().rev().find(|(divisor, _)| *divisor <= value);
        let (divisor, name) = fit.or(choices.first()).cloned().unwrap_or((1.0, unit.into()));
        Scale { divisor, name }
    }

    fn choices(unit: &str) -> Vec<(f64, String)> {
        match unit.strip_prefix("ns") {
            Some(per) if per.is_empty() || per.starts_with('/') => {
                vec![(1.0, unit.into()), (1e3, format!("µs{per}"))]
            }
            _ if unit == "bytes/s" => {
                vec![(f64::from(1 << 20), "MiB/s".into()), (f64::from(1 << 30), "GiB/s".into())]
            }
            _ if unit.ends_with("/s") => {
                let (thousand, million) = (format!("thousand {unit}"), format!("million {unit}"));
                vec![(1.0, unit.into()), (1e3, thousand), (1e6, million)]
            }
            _ => Vec::new(),
        }
    }

    /// A figure of the record in this unit, without the unit: three digits, but counted instructions to the last one, with a decimal
    /// below a thousand.
    pub fn show(&self, value: f64) -> String {
        if !self.name.starts_with("instructions") || !value.is_finite() {
            return significant(value / self.divisor);
        }
        if value.abs() < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
    }
}

/// A value with the unit that suits it best: `5.21 µs/roundtrip`, `1.20 GiB/s`.
pub fn with_unit(unit: &str, value: f64) -> String {
    let scale = Scale::alone(unit, value);
    format!("{} {}", scale.show(value), scale.name)
}

/// What an operation of B costs more than one of A, with its sign: `−1.08 ns/op`. Of a rate it is what one of that costs more, as in
/// `−6.06 ns/packet`.
pub fn difference(unit: &str, a: f64, b: f64) -> String {
    let rates = [
        ("/s", "ns", 1e9),
        ("/million instructions", "instructions", 1e6),
        ("/instruction", "instructions", 1.0),
    ];
    let rate =
        rates.into_iter().find_map(|(end, cost, amount)| Some((unit.strip_suffix(end)?, cost, amount)));
    let (unit, value) = match rate {
        Some((what, cost, amount)) if a > 0.0 && b > 0.0 => {
            (format!("{cost}/{}", what.strip_suffix('s').unwrap_or(what)), amount / b - amount / a)
        }
        _ => (unit.to_owned(), b - a),
    };
    signed(value, |value| with_unit(&unit, value))
}

/// A difference with its sign in front of what is shown of its amount.
pub fn signed(value: f64, show: impl Fn(f64) -> String) -> String {
    let shown = show(value.abs());
    // What is too small to be shown has no sign either.
    let sign = match value {
        _ if shown == show(0.0) => "",
        value if value > 0.0 => "+",
        _ => "−",
    };
    format!("{sign}{shown}")
}

/// A further series of a record, whose name carries its unit: `events_per_call`, `received_bytes_per_s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What is counted, in words, without the unit.
    what: String,
    /// The unit to show; without a name where the words say it all.
    pub scale: Scale,
}

impl Series {
    /// The words and the unit of a name, the unit chosen for the given values.
    pub fn new(name: &str, values: impl Iterator<Item = f64>) -> Series {
        if let Some((name, of)) = name.split_once('.') {
            let Series { what, scale } = Series::new(name, values);
            return Series { what: format!("{}: {what}", plain(of)), scale };
        }
        let unit = |(end, unit)| Some((name.strip_suffix(end)?, unit));
        let unit = [("bytes_per_s", "bytes/s"), ("_per_s", "/s"), ("_ns", "ns"), ("_percent", "%")]
            .into_iter()
            .find_map(unit);
        let (what, scale) = match unit {
            Some((what, unit)) => (what, Scale::new(unit, values)),
            None => (name, Scale { divisor: 1.0, name: String::new() }),
        };
        Series { what: plain(&what.replace('_', " ")).trim().to_owned(), scale }
    }

    /// `events per call`, `received MiB/s`, `voluntary switches, thousand/s`.
    pub fn label(&self) -> String {
        let name = self.scale.name.replace(" /s", "/s");
        match (self.what.as_str(), name.as_str()) {
            ("", name) => name.into(),
            (what, "") => what.into(),
            (what, "/s") => format!("{what}/s"),
            (what, name) => format!("{what} {name}"),
        }
    }
}

/// A number with its thousands apart: 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b',')).into_owned()
}

/// Operations in a second: `20,000`, `0.3`.
pub fn per_second(rate: f64) -> String {
    if rate < 999.5 { count(rate) } else { grouped(rate.round() as u64) }
}

/// A share as people say it: `12.3 %`, `0.45 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", count(share * 100.0))
}

/// A share that somebody typed, with all its digits.
pub fn typed_percent(share: f64) -> String {
    // A product with 100 has digits that nobody typed.
    format!("{} %", (share * 1e8).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_of_one_operation_also_where_figures_are_rates() {
        for (unit, a, b, says) in [
            ("ns/op", 18.599, 17.523, "−1.08 ns/op"),
            ("ns/op", 40.077, 40.369, "+0.292 ns/op"),
            // As it was published: (1/1174222*10^9)-(1/1165928*10^9).
            ("packets/s", 1_165_928.0, 1_174_222.0, "−6.06 ns/packet"),
            ("instructions/op", 295.0, 271.0, "−24.0 instructions/op"),
            ("messages/million instructions", 100.0, 50.0, "+10000 instructions/message"),
            ("ns/op", 5.0, 5.0, "0 ns/op"),
            ("instructions/op", 179.52, 179.49, "0.0 instructions/op"),
        ] {
            assert_eq!(difference(unit, a, b), says);
        }
    }

    #[test]
    fn figures_have_three_digits_at_every_magnitude_and_counts_no_zeros_at_the_end() {
        for (value, text, counted) in [
            (5.2149, "5.21", "5.21"),
            (9.996, "10.0", "10"),
            (0.000_15, "0.000150", "<0.001"),
            (2014.0, "2010", "2010"),
            (99.96, "100", "100"),
            (2.25, "2.25", "2.25"),
            (0.0, "0", "0"),
            (-1.5, "-1.50", "-1.5"),
            (1.5e-9, "1.50e-9", "<0.001"),
            (f64::NAN, "?", "?"),
        ] {
            assert_eq!((significant(value).as_str(), count(value).as_str()), (text, counted), "{value}");
        }
    }

    #[test]
    fn sizes_are_whole_and_an_amount_of_memory_is_exact_where_that_is_short() {
        for (bytes, whole, short) in [
            (0, "0 B", "0 B"),
            (512, "512 B", "512 B"),
            (1500, "1500 B", "1500 B"),
            (12_345, "12345 B", "12.1 KiB"),
            (1 << 20, "1 MiB", "1 MiB"),
            (8 << 30, "8 GiB", "8 GiB"),
            (24_684_084 << 10, "24684084 KiB", "23.5 GiB"),
            (1 << 40, "1 TiB", "1 TiB"),
            (1 << 60, "1048576 TiB", "1020 PiB"),
        ] {
            assert_eq!((size(bytes).as_str(), amount(bytes).as_str()), (whole, short));
        }
        assert_eq!([7, 999, 1000, 1_234_567].map(grouped), ["7", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn the_reach_is_that_of_the_longer_side() {
        for (median, interval, text) in [
            (100.0, [99.0, 104.0], "±4.0%"),
            (100.0, [80.0, 104.0], "±20%"),
            (100.0, [100.0, 100.0], "±0%"),
            (100.0, [99.99, 100.0], "±<0.1%"),
            (0.0, [0.0, 0.0], "±?"),
        ] {
            assert_eq!(reach(median, interval), text);
        }
    }

    #[test]
    fn a_scale_is_chosen_for_the_middle_of_the_values() {
        for (unit, values, name) in [
            ("ns/roundtrip", &[120.0, 900.0][..], "ns/roundtrip"),
            ("ns/roundtrip", &[900.0, 2e6], "µs/roundtrip"),
            ("bytes/s", &[1e6, 3e9], "MiB/s"),
            ("bytes/s", &[1e9, 9e9], "GiB/s"),
            ("events/s", &[2e5], "thousand events/s"),
            ("furlongs", &[2e5], "furlongs"),
            ("ns/op", &[], "ns/op"),
            // Counted instructions never become a time.
            ("instructions/roundtrip", &[13_374.0, 337.22], "instructions/roundtrip"),
        ] {
            assert_eq!(Scale::new(unit, values.iter().copied()).name, name);
        }
    }

    #[test]
    fn a_value_that_stands_alone_has_its_own_unit_and_instructions_are_not_rounded() {
        for (unit, value, text) in [
            ("ns/hop", 2.5e6, "2.50 ms/hop"),
            ("bytes/s", 2048.0, "2.00 KiB/s"),
            ("messages/s", 1.5e6, "1.50 million messages/s"),
            ("instructions/op", 1_234_567.4, "1234567 instructions/op"),
            ("instructions/op", 337.222, "337.2 instructions/op"),
        ] {
            assert_eq!(with_unit(unit, value), text);
        }
    }

    #[test]
    fn the_name_of_a_series_gives_words_and_a_unit() {
        for (name, value, label) in [
            ("events_per_call", 1.5, "events per call"),
            ("bytes_per_s", 2e9, "GiB/s"),
            ("received_bytes_per_s", 2e7, "received MiB/s"),
            ("voluntary_switches_per_s", 20.0, "voluntary switches/s"),
            ("voluntary_switches_per_s", 2e4, "voluntary switches thousand/s"),
            ("sender_ns", 2e4, "sender µs"),
            ("cpu_share_at_rate_percent", 12.5, "cpu share at rate %"),
            ("ops_per_s.role-1", 2e6, "role-1: ops million/s"),
        ] {
            assert_eq!(Series::new(name, [value].into_iter()).label(), label);
        }
    }
}
