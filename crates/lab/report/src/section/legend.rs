//! What marks and words mean.

use weighbridge_record::derive::CPU_SHARE;

use super::Context;
use crate::document::{Block, Section};

/// The mark of the best median.
const BEST: &str = "* or bold:";

const MARKS: [(&str, &str); 10] = [
    (BEST, "the best median at that payload"),
    (
        "±:",
        "of a ratio: to the farther end of its 95 % interval. Of an absolute figure: to the farther end of where another session of this machine is expected at 95 %, by earlier ones in the store of records; [low high] are both ends",
    ),
    (
        "−3+8%:",
        "of an absolute figure without a ±, or of all of a row: how far below and above the machine was in this session, by 90 % of the slices of the hub, or the lowest and the highest run of a case measured alone; low…high are both ends. It promises nothing of another session: compare by ratios",
    ),
    (
        "× hub:",
        "the cost as a multiple of that of the hub, the case with which it took turns; it holds from session to session",
    ),
    ("× NAME:", "the cost as a multiple of that of NAME, by runs of the same round"),
    ("low … high:", "the lowest and the highest value over the payloads"),
    (
        "/op:",
        "per operation, summed over all roles; an operation is a round trip, a hop, a message or an event, as the unit says; a count below 0.01 in every row has no column",
    ),
    ("!:", "a counter check failed: switches, faults or bytes differ from what the case must show"),
    (
        "~:",
        "not one steady state: two modes, a step, a slope, or neighboring samples that resemble each other",
    ),
    ("–:", "skipped; the reason is in the section Skipped"),
];

const WORDS: [(&str, &str); 14] = [
    ("mechanism", "a way to move bytes between processes: a pipe, a socket, a ring in shared memory"),
    ("case", "a pattern, a mechanism, a payload size, a placement, and the other settings"),
    ("hop", "one message one way"),
    ("round trip", "a message and its answer, so two hops; never compare it with a hop"),
    (
        "hub",
        "a case of the same kind and placement with which a case takes turns in slices of some milliseconds",
    ),
    (
        "user CPU, kernel CPU",
        "CPU time in user mode and in the kernel; a kernel that counts ticks scales both to the time used",
    ),
    (
        "cpu share at rate",
        "CPU time of all roles and of auxiliary processes, a broker included, per second of time that passed, as per cent of one CPU",
    ),
    ("late", "how much later than it was due an operation at a rate began, on average"),
    ("placement", "on which CPUs the processes run: on one, on two that share a cache, and so on"),
    ("run", "one measurement of a case by freshly started processes; its value is the median of its samples"),
    ("sample", "one timed batch of operations inside a run, long enough that the clock does not matter"),
    ("median", "the figure of a case: the middle one of its runs' values"),
    (
        "interval",
        "where the true ratio lies with at least 95 % certainty, judged from set to set; it needs six. Of an absolute figure it is one of other sessions, and needs five of them",
    ),
    ("MiB/s, GiB/s", "1024² and 1024³ bytes per second, counted where they arrive"),
];

/// What has no place beside counted instructions, which have neither sessions nor a hub.
const OF_TIME: [&str; 6] = ["±:", "−3+8%:", "× hub:", "hub", "user CPU, kernel CPU", "interval"];

/// What only cases have whose operations are due at a rate.
const AT_RATE: [&str; 2] = ["cpu share at rate", "late"];

/// What marks and words mean where other tools measured.
const IMPORTED_MARKS: [(&str, &str); 6] = [
    (BEST, "the best median at that payload, of cases that the tool itself compares"),
    (
        "−3+8%:",
        "how far the lowest and the highest run are below and above the median; low…high are both ends",
    ),
    ("low … high:", "the lowest and the highest value over the payloads"),
    ("!:", "the tool reports that something was wrong with a run"),
    (
        "~:",
        "not one steady state: two modes, a step, a slope, or neighboring samples that resemble each other",
    ),
    ("–:", "skipped; the reason is in the section Skipped"),
];
const IMPORTED_WORDS: [(&str, &str); 4] = [
    (
        "run",
        "a repetition or a process, as the file tells them apart; its value is the median of its samples",
    ),
    ("sample", "a value in the file"),
    ("median", "the figure of a case: the middle one of its runs' values"),
    ("MiB/s, GiB/s", "1024² and 1024³ bytes per second"),
];

/// None where there is no table of figures.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let is_counted = cx.report.counts_instructions();
    let summaries = cx.report.cases.iter().filter_map(|case| case.summary.as_ref());
    let has_rate = summaries.into_iter().any(|summary| summary.series.contains_key(CPU_SHARE));
    let has_best = cx.matrices.iter().any(|matrix| matrix.is_ranked);
    let is_shown = |name: &str| {
        let is_used = match name {
            BEST => has_best,
            name => has_rate || !AT_RATE.contains(&name),
        };
        is_used && !(is_counted && OF_TIME.contains(&name))
    };
    let (marks, words): (&[_], &[_]) =
        if cx.report.is_imported() { (&IMPORTED_MARKS, &IMPORTED_WORDS) } else { (&MARKS, &WORDS) };
    let marks = marks.iter().filter(|(mark, _)| is_shown(mark));
    let marks = Block::sentences(marks.map(|(mark, what)| format!("{mark} {what}")));
    let words = Block::sentences(
        words.iter().filter(|(word, _)| is_shown(word)).map(|(word, what)| format!("{word}: {what}")),
    );
    let words = Block::Fold { summary: "Words".into(), is_open: true, blocks: vec![words] };
    let blocks = if cx.matrices.is_empty() { Vec::new() } else { vec![marks, words] };
    Section::new("legend", "Legend", blocks)
}
