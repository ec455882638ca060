//! Integers as the reference implementation reads them, in match rules and in configurations: in the notations of C.

/// The integer at the start of a text, and the rest of the text: decimal, octal behind `0`, hexadecimal behind `0x`, with or without a sign.
/// Nothing where no digit stands there, or the integer is too large.
///
/// ```
/// use causeway_dbus_wire::number::leading_integer;
/// assert_eq!(leading_integer(" 0x1Fg"), Some((31, "g")));
/// assert_eq!(leading_integer("-08"), Some((0, "8")));
/// assert_eq!(leading_integer("path"), None);
/// ```
pub fn leading_integer(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let hexadecimal = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
    let has_digit = |rest: &&str| rest.starts_with(|letter: char| letter.is_ascii_hexdigit());
    let (radix, digits) = match hexadecimal.filter(has_digit) {
        Some(digits) => (16, digits),
        None if unsigned.starts_with('0') => (8, unsigned),
        None => (10, unsigned),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    let sign = if text.starts_with('-') { "-" } else { "" };
    let value = i64::from_str_radix(&format!("{sign}{}", &digits[..end]), radix).ok()?;
    Some((value, &digits[end..]))
}
