//! A word on the command line as a glob on case ids.
//!
//! The size, the placement and the axes that it spells out are set by it: `fan-out/*/64/same-cpu/receivers=5` is about
//! messages of 64 bytes whatever sizes there would be otherwise. Braces are alternatives, each a glob of its own.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use weighbridge_harness::placement;
use weighbridge_record::CaseId;

use crate::Failure;
use crate::values::has_wildcards;

/// One glob without braces.
#[derive(Clone, Debug)]
pub struct Glob {
    /// The parts before the axes, as typed.
    head: String,
    matcher: GlobSet,
    /// The size that it spells out.
    pub size: Option<u64>,
    /// The placement that it spells out.
    pub placement: Option<String>,
    /// The axes that it sets, each with a value or a glob on values.
    pub axes: Vec<(String, String)>,
}

impl Glob {
    /// The alternatives that a word stands for.
    pub fn parse(word: &str) -> Result<Vec<Glob>, Failure> {
        let trimmed = word.trim_end_matches('/');
        if trimmed.is_empty() {
            return Err(Failure::mistake(
                "an empty GLOB selects nothing; leave it out to select the suite `quick`",
            ));
        }
        // The library knows what a well-formed glob is.
        matcher(word, trimmed)?;
        alternatives(trimmed).iter().map(|alternative| Glob::new(word, alternative)).collect()
    }

    fn new(word: &str, text: &str) -> Result<Glob, Failure> {
        let mut head: Vec<&str> = Vec::new();
        let mut axes = Vec::new();
        for part in text.split('/') {
            match part.split_once('=') {
                Some((axis, value)) if axis.is_empty() || value.is_empty() || has_wildcards(axis) => {
                    return Err(Failure::mistake(format!(
                        "`{part}` in `{word}` sets no axis; write the name of the axis in full, as in touch=none"
                    )));
                }
                Some((axis, value)) => axes.push((axis.to_owned(), value.to_owned())),
                None if axes.is_empty() => head.push(part),
                None if part == "*" || part == "**" => {}
                None => {
                    return Err(Failure::mistake(format!(
                        "`{part}` in `{word}` comes after an axis; axes are the last parts, each name=value"
                    )));
                }
            }
        }
        if let Some((part, bytes)) = head.iter().find_map(|part| Some((part, bytes_with_unit(part)?))) {
            return Err(Failure::mistake(format!(
                "a payload in a case id is in bytes: write {bytes} for `{part}`"
            )));
        }
        let size = head.iter().find_map(|part| part.parse().ok());
        let is_placement = |part: &&&str| placement::ALL.iter().any(|placement| placement.name == **part);
        let placement = head.iter().find(is_placement).map(|part| (*part).to_owned());
        let head = if head.is_empty() { "*".to_owned() } else { head.join("/") };
        Ok(Glob { matcher: matcher(word, &head)?, head, size, placement, axes })
    }

    /// Does the case match, whatever its axes are?
    pub fn matches(&self, id: &CaseId) -> bool {
        let size = id.payload_bytes.to_string();
        let parts = [&id.pattern, &id.mechanism, &size, &id.placement];
        if self.head.contains('/') {
            self.matcher.is_match(parts.map(String::as_str).join("/"))
        } else {
            parts.iter().any(|part| self.matcher.is_match(part.as_str()))
        }
    }

    /// Does the case match, and are its axes set so?
    pub fn matches_with_axes(&self, id: &CaseId) -> bool {
        let is_set =
            |(axis, value): &(String, String)| id.axes.get(axis).is_some_and(|own| value_matches(value, own));
        self.matches(id) && self.axes.iter().all(is_set)
    }

    /// Is this name spelled out in it?
    pub fn names(&self, name: &str) -> bool {
        self.head.split('/').any(|part| part == name)
    }
}

/// Does a value of an axis match what a glob has in its place?
pub fn value_matches(glob: &str, value: &str) -> bool {
    // What came through `Glob::parse` is a well-formed glob.
    glob == value || GlobBuilder::new(glob).build().is_ok_and(|glob| glob.compile_matcher().is_match(value))
}

/// `*` also crosses slashes, because the number of parts of an id is nothing to remember; a path selects what is below it.
fn matcher(word: &str, text: &str) -> Result<GlobSet, Failure> {
    let build = |glob: &str| GlobBuilder::new(glob).literal_separator(false).build();
    build(text)
        .and_then(|itself| GlobSetBuilder::new().add(itself).add(build(&format!("{text}/*"))?).build())
        .map_err(|error| Failure::mistake(format!("`{word}` is not a glob: {}", error.kind())))
}

/// `a{b,c}` is `ab` and `ac`; braces may stand inside braces. Brackets hold characters, not alternatives.
fn alternatives(text: &str) -> Vec<String> {
    let (mut depth, mut in_brackets, mut cuts) = (0, false, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ if in_brackets => {}
            '{' => {
                if depth == 0 {
                    cuts.push(at);
                }
                depth += 1;
            }
            ',' if depth == 1 => cuts.push(at),
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    cuts.push(at);
                    break;
                }
            }
            _ => {}
        }
    }
    let (Some(first), Some(last)) = (cuts.first(), cuts.last()) else { return vec![text.into()] };
    let (before, after) = (&text[..*first], alternatives(&text[last + 1..]));
    let inner = cuts.windows(2).flat_map(|pair| alternatives(&text[pair[0] + 1..pair[1]]));
    inner.flat_map(|inner| after.iter().map(move |after| format!("{before}{inner}{after}"))).collect()
}

/// The number of bytes that `4K` or `1MiB` would be.
fn bytes_with_unit(part: &str) -> Option<u64> {
    let begins_well = part.starts_with(|c: char| c.is_ascii_digit());
    crate::values::size(part).ok().filter(|_| begins_well && part.parse::<u64>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_alternatives_also_inside_each_other() {
        let found = alternatives("a/{b,c{d,e}}/{1,2}");
        assert_eq!(found, ["a/b/1", "a/b/2", "a/cd/1", "a/cd/2", "a/ce/1", "a/ce/2"]);
        assert_eq!(alternatives("[{,}]x"), ["[{,}]x"]);
    }

    #[test]
    fn a_word_matches_a_part_and_a_path_matches_from_the_beginning() {
        let id = CaseId::new("roundtrip", "unix-stream", 64, "same-cpu");
        let matches = |word: &&str| Glob::parse(word).unwrap().iter().any(|glob| glob.matches(&id));
        let words = [
            "unix-stream",
            "unix-*",
            "64",
            "roundtrip",
            "roundtrip/*",
            "roundtrip/unix-stream",
            "*/64/*",
            "*",
        ];
        assert_eq!(words.iter().find(|word| !matches(word)), None);
        assert_eq!(["stream", "unix", "stream/*", "6", "*/65/*"].iter().find(|word| matches(word)), None);
        let names = |word| Glob::parse(word).unwrap()[0].names("unix-stream");
        assert!(names("unix-stream") && !names("unix-*"));
    }
}
