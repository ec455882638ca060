//! What the readers of JSON have in common: where it is broken, where in the text a value stands.

use serde::de::DeserializeOwned;

use crate::import::Problem;

/// Reads a document of a tool.
///
/// # Errors
/// The line at which it ends too early or is not what that tool writes.
pub fn parse<T: DeserializeOwned>(text: &str, tool: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|error| {
        let sentence = error.to_string();
        let why = sentence.split(" at line ").next().unwrap_or_default();
        let why = if error.is_eof() {
            format!("ends in the middle of {tool}'s JSON")
        } else {
            format!("not what {tool} writes: {why}")
        };
        Problem::at(error.line().max(1), why)
    })
}

/// The line on which the quoted text first stands; of the whole file where it does not.
pub fn line_of(text: &str, quoted: &str) -> Option<usize> {
    let quoted = serde_json::to_string(quoted).expect("a string");
    text.lines().position(|line| line.contains(&quoted)).map(|index| index + 1)
}

/// The line on which a word first stands.
pub fn line_of_word(text: &str, word: &str) -> Option<usize> {
    text.lines().position(|line| line.contains(word)).map(|index| index + 1)
}
