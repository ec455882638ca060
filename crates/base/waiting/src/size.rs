//! Sizes as people write them on command lines: one form for all programs.

/// How a size is written.
pub const FORM: &str = "write bytes as 64, 4K or 1MiB (K, M and G are powers of 1024)";

/// Bytes, such as `64`, `4K` or `1MiB`.
///
/// A number alone counts bytes, unless the option took another unit before: it counts `plain` then. The error is a sentence that says how a size
/// is written.
///
/// ```
/// use causeway_waiting::size::parse;
///
/// assert_eq!(parse("4K", None), Ok(4096));
/// assert_eq!(parse("512", Some("M")), Ok(512 << 20));
/// assert!(parse("4Q", None).unwrap_err().starts_with("`4Q` is not a size; write bytes as"));
/// ```
///
/// # Panics
/// There is no unit `plain`.
pub fn parse(text: &str, plain: Option<&'static str>) -> Result<u64, String> {
    let alone = plain.map_or(String::new(), |unit| format!("; a number alone counts in {unit}"));
    let refused = || format!("`{text}` is not a size; {FORM}{alone}");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => shift(plain.unwrap_or_default()).expect("a unit"),
        unit => shift(unit).ok_or_else(refused)?,
    };
    let number: u64 = match number.parse() {
        Ok(number) => number,
        Err(_) if number.is_empty() => return Err(refused()),
        Err(_) => return Err(too_much(text)),
    };
    number.checked_mul(1 << shift).ok_or_else(|| too_much(text))
}

/// The same where only some sizes have a meaning, which the error says.
pub fn parse_within(
    text: &str,
    plain: Option<&'static str>,
    sizes: std::ops::RangeInclusive<u64>,
) -> Result<u64, String> {
    let bytes = parse(text, plain)?;
    if sizes.contains(&bytes) {
        return Ok(bytes);
    }
    let (least, most) = (written(*sizes.start()), written(*sizes.end()));
    Err(format!("`{text}` is not between {least} and {most}; {FORM}"))
}

/// Bytes in the form that [`parse`] reads, with the largest unit that is exact.
pub fn written(bytes: u64) -> String {
    let exact = [(30, "G"), (20, "M"), (10, "K")];
    match exact.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

fn shift(unit: &str) -> Option<u32> {
    match unit {
        "" | "B" => Some(0),
        "K" | "k" | "KiB" => Some(10),
        "M" | "MiB" => Some(20),
        "G" | "GiB" => Some(30),
        _ => None,
    }
}

fn too_much(text: &str) -> String {
    format!("`{text}` is more than any memory holds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_each_unit_and_written_in_the_largest_that_is_exact() {
        for (text, bytes, shortest) in [
            ("0", 0, "0"),
            ("64", 64, "64"),
            ("64B", 64, "64"),
            ("4K", 4096, "4K"),
            ("4k", 4096, "4K"),
            ("1024KiB", 1 << 20, "1M"),
            ("1MiB", 1 << 20, "1M"),
            ("3G", 3 << 30, "3G"),
            ("1536", 1536, "1536"),
        ] {
            assert_eq!(parse(text, None), Ok(bytes), "{text}");
            assert_eq!(written(bytes), shortest);
        }
        assert_eq!([parse("2", Some("M")), parse("2K", Some("M"))], [Ok(2 << 20), Ok(2048)]);
    }

    #[test]
    fn what_is_no_size_is_refused_with_how_one_is_written() {
        for text in ["", "K", "4Q", "4KB", "-1", "+1", "1.5K", "64 K", "many"] {
            assert_eq!(parse(text, None), Err(format!("`{text}` is not a size; {FORM}")));
        }
        assert!(parse("4Q", Some("M")).unwrap_err().ends_with("a number alone counts in M"));
        for text in ["18446744073709551615K", "99999999999999999999"] {
            assert!(parse(text, None).unwrap_err().contains("more than any memory"), "{text}");
        }
        let frame = |text| parse_within(text, None, 60..=1514);
        assert_eq!((frame("60"), frame("1K")), (Ok(60), Ok(1024)));
        assert!(frame("4K").unwrap_err().contains("not between 60 and 1514"), "{:?}", frame("4K"));
    }
}
