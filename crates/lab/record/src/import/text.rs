//! What the readers of plain text have in common.

use std::borrow::Cow;

/// A line of a text.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// What stands in it, without its end and without the escape sequences of a terminal.
    pub text: Cow<'a, str>,
    /// Does it have an end? A text that is cut short ends in a line without.
    pub has_end: bool,
}

impl Line<'_> {
    /// A line that ends in a number, or in a word that could be longer, is right only when it has an end.
    ///
    /// # Errors
    /// It has none.
    pub fn check_end(&self) -> Result<(), String> {
        if self.has_end {
            Ok(())
        } else {
            Err("the last line has no line end and may be cut short; if it is whole, add one".into())
        }
    }
}

/// The lines of a text.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.split_inclusive('\n').enumerate().map(|(index, line)| Line {
        number: index + 1,
        text: without_color(line.trim_start_matches('\u{feff}')),
        has_end: line.ends_with('\n'),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_no_part_of_a_line() {
        let of = |text: &str| lines(text).next().unwrap().text.into_owned();
        assert_eq!(of("sockperf: \u{1b}[2;35m== version #3.7 == \u{1b}[0m"), "sockperf: == version #3.7 ==");
        assert_eq!(of("plain "), "plain");
        assert_eq!(of("cut \u{1b}[2"), "cut");
    }
}
