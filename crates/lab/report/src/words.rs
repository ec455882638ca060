//! Names of patterns and placements in sentences and headings. A name that is not known stays as it is.

use weighbridge_record::{CaseId, Place};

use crate::units::size;

/// The pattern of cases that another tool measured.
pub const IMPORTED: &str = "imported";
/// Their placement.
const UNKNOWN: &str = "unknown";

/// ` at two-cpus`; nothing where another tool measured, which does not tell that.
pub fn at(place: Place<'_>) -> String {
    if place.placement == UNKNOWN { String::new() } else { format!(" at {place}") }
}

/// Cases of one pattern and place: `stream at two-cpus`, `imported`.
pub fn group(pattern: &str, place: Place<'_>) -> String {
    format!("{pattern}{}", at(place))
}

/// A place inside a sentence: `on one CPU`, `on two CPUs that do not halt`.
pub fn place(of: Place<'_>) -> String {
    let at = match of.placement {
        "same-cpu" => "on one CPU",
        "two-cpus" => "on two CPUs",
        "smt" => "on two threads of one core",
        "same-llc" => "on two CPUs with a common last-level cache",
        "cross-llc" => "on two CPUs without a common cache",
        "cross-node" => "on two NUMA nodes",
        "free" => "not pinned",
        UNKNOWN => "on CPUs that the tool does not name",
        other => &format!("at {other}"),
    };
    match of.idle {
        None => at.into(),
        Some("busy") => format!("{at} that do not halt"),
        Some(other) => format!("{at} with idle={other}"),
    }
}

/// A pattern as a heading: `Round trip`.
pub fn pattern(name: &str) -> &str {
    match name {
        "roundtrip" => "Round trip",
        "stream" => "Stream",
        "fan-in" => "Fan-in",
        "fan-out" => "Fan-out",
        "all-to-all" => "All-to-all",
        "pingpong" => "Ping-pong of a signal",
        "contend" => "Contention",
        "solo" => "One process alone",
        "parallel" => "Parallel",
        IMPORTED => "Imported benchmarks",
        other => other,
    }
}

/// A number of things: `1 run`, `3 runs`.
pub fn many(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Names as in a sentence, of more than `most` and one the first and how many more: `a, b and 3 more`.
pub fn listed(most: usize, mut names: Vec<String>) -> String {
    if names.len() > most + 1 {
        let more = names.len() - most;
        names.truncate(most);
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// One line of text from a record: without line breaks, control characters, and characters that turn the direction
/// of writing, all of which could make a terminal or a page say something else.
pub fn plain(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() || turns(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// What the importer calls the results of tests inside a kernel.
pub const KERNEL_BENCH: &str = "kernel-bench:";

/// A case as people call it: a test inside a kernel by its words and its size, any other by its id.
pub fn case_name(id: &CaseId) -> String {
    match test_name(id) {
        None => id.to_string(),
        Some(words) if id.payload_bytes == 0 => words,
        Some(words) => format!("{words}, {}", size(id.payload_bytes)),
    }
}

/// A test inside a kernel by its words: `kmalloc-pattern: alloc, count=10000`.
pub fn test_name(id: &CaseId) -> Option<String> {
    Some(id.mechanism.strip_prefix(KERNEL_BENCH)?.replacen(':', ": ", 1).replace('_', ", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_command_a_terminal() {
        assert_eq!(plain("a\u{1b}[31m\nb\u{202e}c"), "a\u{fffd}[31m b\u{fffd}c");
    }
}
