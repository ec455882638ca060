//! What the words mean.

use crate::html::{Page, Section};

pub const SECTION: Section = Section { id: "words", title: "What the words mean", body };

const WORDS: [(&str, &str); 12] = [
    ("mechanism", "a way to move bytes between processes: a pipe, a socket, a ring in shared memory"),
    ("case", "a pattern, a mechanism, a payload size, a placement, and the other settings"),
    ("hop", "one message one way"),
    ("round trip", "a message and its answer, so two hops; never compare it with a hop"),
    ("placement", "on which CPUs the processes run: on one, on two that share a cache, and so on"),
    ("run", "one measurement of a case by freshly started processes; its value is the median of its samples"),
    ("sample", "one timed batch of operations inside a run, long enough that the clock does not matter"),
    ("median", "the figure of a case: the middle one of its runs' values"),
    (
        "interval",
        "where the true median lies with at least 95 % certainty, judged from run to run; it needs six runs",
    ),
    ("counters not as expected (!)", "context switches, faults or bytes differ from what the case must show"),
    ("not one steady state (~)", "the samples have two levels, a step, or a drift, which one figure hides"),
    ("MiB/s, GiB/s", "1024² and 1024³ bytes per second, counted where they arrive"),
];

fn body(_: &Page<'_>) -> Option<String> {
    let words: String =
        WORDS.iter().map(|(word, what)| format!("<dt>{word}</dt><dd>{what}</dd>\n")).collect();
    Some(format!("<dl class=\"words\">\n{words}</dl>\n"))
}
