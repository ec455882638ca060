//! Times as people write them on command lines: one form for all programs.

use std::time::Duration;

/// How a time is written.
pub const FORM: &str = "write a time with its unit, as in 500ms, 1.5s, 2m or 1h30m";

/// More no clock is asked for: about 31 years.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

const NANOS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// A time in one or more parts, each a number and its unit: `250ms`, `1.5s`, `2m`, `1h30m`. What is less than a nanosecond is left out.
///
/// A number alone is refused, unless the option took numbers before: it counts `plain` then. The error is a sentence that says how a time is
/// written.
///
/// ```
/// use std::time::Duration;
///
/// use causeway_waiting::duration::parse;
///
/// assert_eq!(parse("1.5s", None), Ok(Duration::from_millis(1500)));
/// assert_eq!(parse("0.2", Some("s")), Ok(Duration::from_millis(200)));
/// assert!(parse("0.2", None).unwrap_err().starts_with("`0.2` is not a time; write a time with its unit"));
/// ```
///
/// # Panics
/// There is no unit `plain`.
pub fn parse(text: &str, plain: Option<&'static str>) -> Result<Duration, String> {
    let alone = plain.map_or(String::new(), |unit| format!("; a number alone counts in {unit}"));
    let refused = || format!("`{text}` is not a time; {FORM}{alone}");
    let total = match plain {
        Some(unit) if text.trim().ends_with(|c: char| c.is_ascii_digit()) && !has_unit(text) => {
            part(text.trim(), nanos(unit).expect("a unit"))
        }
        _ => parts(text.trim()),
    };
    let total = total.ok_or_else(refused)?;
    let total = u64::try_from(total).map(Duration::from_nanos).ok().filter(|total| *total <= LONGEST);
    total.ok_or_else(|| format!("`{text}` is longer than any time that is waited for; {FORM}"))
}

fn has_unit(text: &str) -> bool {
    text.contains(|c: char| !c.is_ascii_digit() && c != '.' && !c.is_whitespace())
}

fn nanos(unit: &str) -> Option<u64> {
    NANOS.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| *nanos)
}

/// The nanoseconds of all parts; there is one at least.
fn parts(text: &str) -> Option<u128> {
    let (mut rest, mut total) = (text, 0u128);
    loop {
        let number = &rest[..rest.find(|c: char| !c.is_ascii_digit() && c != '.')?];
        let behind = rest[number.len()..].trim_start();
        let unit = &behind[..behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len())];
        total = total.checked_add(part(number, nanos(unit)?)?)?;
        rest = behind[unit.len()..].trim_start();
        if rest.is_empty() {
            return Some(total);
        }
    }
}

/// So many units, with a fraction if there is one.
fn part(number: &str, unit_nanos: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().unwrap_or(u64::MAX) };
    let mut total = u128::from(whole) * u128::from(unit_nanos);
    let mut tenth = unit_nanos;
    // Further digits are less than a nanosecond.
    for digit in fraction.bytes().take(18) {
        total += u128::from(digit - b'0') * u128::from(tenth) / 10;
        tenth /= 10;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_each_unit_alone_and_together() {
        for (text, nanos) in [
            ("250ms", 250_000_000),
            ("1.5s", 1_500_000_000),
            ("5s", 5_000_000_000),
            ("2m", 120_000_000_000),
            ("0.1m", 6_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h 30 min", 5_400_000_000_000),
            ("1d", 86_400_000_000_000),
            ("3us", 3_000),
            ("3.25µs", 3_250),
            ("7ns", 7),
            ("0.1ns", 0),
            (".5s", 500_000_000),
            ("0s", 0),
            ("1.000000001s", 1_000_000_001),
        ] {
            assert_eq!(parse(text, None), Ok(Duration::from_nanos(nanos)), "{text}");
            assert_eq!(parse(text, Some("ms")), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for (text, unit, millis) in [("7", "s", 7000), ("0.25", "s", 250), ("7", "ms", 7)] {
            assert_eq!(parse(text, Some(unit)), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_how_one_is_written() {
        for text in [
            "", " ", "soon", "-1", "-1s", "1s ago", "1x", "s", ".s", "1..5s", "1.2.3", "inf", "1e3s", "1h30",
            "+1s", "1 2",
        ] {
            for plain in [None, Some("s")] {
                let why = parse(text, plain).unwrap_err();
                assert!(why.starts_with(&format!("`{text}` is not a time; write a time")), "{why}");
                assert_eq!(why.contains("a number alone counts in s"), plain.is_some(), "{why}");
            }
        }
        assert!(parse("90", None).is_err());
        for text in ["1000000001s", "99999999999999999999999h", "20000d"] {
            assert!(parse(text, None).unwrap_err().contains("longer"), "{text}");
        }
    }
}
