//! JSON documents in a text, as tools write them: one or several, with other text before, between and after them.

use std::borrow::Cow;
use std::cell::Cell;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::import::entry::Problem;

/// A JSON document, or the beginning of one that the text does not end.
#[derive(Debug)]
pub struct Document<'a> {
    text: Cow<'a, str>,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// The names of its fields; of an array, of those of its first element.
    pub fields: Vec<&'a str>,
    /// Does the text end before the document?
    pub is_cut: bool,
    /// A place in the text and the number of line ends before it; questions come in the order of the text.
    seen: Cell<(usize, usize)>,
}

/// The documents of a text, and the lines outside of them with their numbers.
pub fn documents(text: &str) -> (Vec<Document<'_>>, Vec<(usize, &str)>) {
    let (mut documents, mut outside) = (Vec::new(), Vec::new());
    let (mut rest, mut line) = (text, 1);
    while !rest.is_empty() {
        let spaces = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\u{feff}']).len();
        let (end, kind) = if begins(&rest[spaces..]) {
            let (length, fields) = scan(&rest[spaces..]);
            (spaces + length.unwrap_or(rest.len() - spaces), Some((fields, length.is_none())))
        } else {
            (rest.find('\n').map_or(rest.len(), |end| end + 1), None)
        };
        let (here, after) = rest.split_at(end);
        match kind {
            Some((fields, is_cut)) => documents.push(Document {
                text: strict(&here[spaces..]),
                line,
                fields,
                is_cut,
                seen: Cell::default(),
            }),
            None if here.trim().is_empty() => {}
            None => outside.push((line, here.trim_end())),
        }
        line += here.matches('\n').count();
        rest = after;
    }
    (documents, outside)
}

/// Does a document begin here, and no `[` of other text?
fn begins(text: &str) -> bool {
    let inside = |open| text.strip_prefix(open).map(str::trim_start);
    inside('{').is_some_and(|inside| inside.starts_with(['"', '}']) || inside.is_empty())
        || inside('[').is_some_and(|inside| inside.starts_with('{'))
}

/// The length of the document with which the text begins, unless it is cut short, and its fields.
fn scan(text: &str) -> (Option<usize>, Vec<&str>) {
    let bytes = text.as_bytes();
    let depth_of_fields = if bytes[0] == b'[' { 2 } else { 1 };
    let (mut depth, mut at, mut fields, mut are_known) = (0, 0, Vec::new(), false);
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                are_known |= depth == depth_of_fields;
                depth -= 1;
                if depth == 0 {
                    return (Some(at + 1), fields);
                }
            }
            b'"' => {
                let start = at + 1;
                at = start;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                let is_field = depth == depth_of_fields && !are_known;
                if is_field && text.get(at + 1..).is_some_and(|after| after.trim_start().starts_with(':')) {
                    fields.push(&text[start..at]);
                }
            }
            _ => {}
        }
        at += 1;
    }
    (None, fields)
}

/// The document as JSON has it: Google Benchmark and Python write `NaN` and `Infinity` for numbers that JSON does not know; here they
/// become `null`.
fn strict(text: &str) -> Cow<'_, str> {
    const NOT_NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !NOT_NUMBERS.iter().any(|name| text.contains(name)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut is_text = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let found = NOT_NUMBERS.iter().find(|name| !is_text && rest.starts_with(**name));
        let (length, written) = match (found, c) {
            (Some(name), _) => (name.len(), "null"),
            (None, '\\') if is_text => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                (length, &rest[..length])
            }
            (None, c) => {
                is_text ^= c == '"';
                (c.len_utf8(), &rest[..c.len_utf8()])
            }
        };
        out.push_str(written);
        rest = &rest[length..];
    }
    out.into()
}

impl Document<'_> {
    /// Reads the document of a tool.
    ///
    /// # Errors
    /// The line at which it ends too early or is not what that tool writes.
    pub fn parse<'d, T: Deserialize<'d>>(&'d self, tool: &str) -> Result<T, Problem> {
        serde_json::from_str(&self.text).map_err(|error| {
            let why = match error.is_eof() {
                true => format!("ends in the middle of {tool}'s JSON"),
                false => format!("not what {tool} writes: {}", reason(&error)),
            };
            Problem::at(self.line + error.line().max(1) - 1, why)
        })
    }

    /// Reads an entry of the document.
    ///
    /// # Errors
    /// Its line, where it is not what the tool writes.
    pub fn entry<T: DeserializeOwned>(&self, entry: &RawValue, tool: &str) -> Result<T, Problem> {
        serde_json::from_str(entry.get()).map_err(|error| {
            Problem::at(self.line_of(entry), format!("not what {tool} writes: {}", reason(&error)))
        })
    }

    /// The line on which a part of the document begins.
    pub fn line_of(&self, part: &RawValue) -> usize {
        let at = (part.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let (mut from, mut lines) = self.seen.get();
        if at < from || at > self.text.len() {
            (from, lines) = (0, 0);
        }
        let between = self.text.as_bytes().get(from..at).unwrap_or_default();
        lines += between.iter().filter(|byte| **byte == b'\n').count();
        self.seen.set((from + between.len(), lines));
        self.line + lines
    }
}

/// What the parser says, without the place, which it counts from the beginning of the part that it read.
fn reason(error: &serde_json::Error) -> String {
    let sentence = error.to_string();
    sentence.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_between_other_text() {
        let text = "fio: starting [f(1)]\n{\"a\": \"}\\\"{\", \"b\": [{\"c\": 1}]}\n\nnoise\r\n  [\n{\"d\": 2}, {\"e\": 3}] {\"f\": {\"g\"";
        let (found, outside) = documents(text);
        let shown: Vec<_> = found.iter().map(|of| (of.line, of.fields.clone(), of.is_cut)).collect();
        let expected = [(2, vec!["a", "b"], false), (5, vec!["d"], false), (6, vec!["f"], true)];
        assert_eq!(shown, expected);
        assert_eq!(outside, [(1, "fio: starting [f(1)]"), (4, "noise")]);
    }

    #[test]
    fn what_is_no_number_in_json_becomes_null() {
        let text = r#"{"NaN": [NaN, -Infinity, Infinity, "a\"NaN"]}"#;
        assert_eq!(strict(text), r#"{"NaN": [null, null, null, "a\"NaN"]}"#);
    }

    #[test]
    fn parts_have_the_line_on_which_they_begin() {
        let (found, _) = documents("x\n[{\n},\n\n {}\n, 3]");
        let parts: Vec<&RawValue> = found[0].parse("it").unwrap();
        let lines: Vec<usize> = parts.iter().map(|part| found[0].line_of(part)).collect();
        assert_eq!(lines, [2, 5, 6]);
        assert_eq!(found[0].line_of(parts[0]), 2);
    }
}
