//! What the readers of plain text have in common.

use std::borrow::Cow;

/// Lines with their number from 1, without the escape sequences of a terminal.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, without_color(line)))
}

/// Takes away `ESC [ … letter`.
fn without_color(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line.trim_end());
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    out.push_str(rest);
    Cow::Owned(out.trim_end().to_owned())
}

/// A figure that a record can hold: positive and finite.
pub fn figure(text: &str) -> Option<f64> {
    let value: f64 = text.trim().parse().ok()?;
    (value > 0.0 && value.is_finite()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_no_part_of_a_line() {
        let of = |text: &str| lines(text).next().unwrap().1.into_owned();
        assert_eq!(of("sockperf: \u{1b}[2;35m== version #3.7 == \u{1b}[0m"), "sockperf: == version #3.7 ==");
        assert_eq!(of("plain "), "plain");
        assert_eq!(of("cut \u{1b}[2"), "cut");
    }
}
