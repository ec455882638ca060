//! Ratios of iceoryx2 to whatever else a record has of the same pattern, payload, placement and way to wait.
//!
//! `cargo run --release -p weighbridge-targets --features iceoryx2 --example ratios -- RECORD` prints a Markdown table: how
//! many times faster the other mechanism is, as the laboratory compares cases (median over runs of the same round, with
//! its interval), and the CPU time that both ends together take for a message.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::collections::BTreeMap;
use std::path::Path;

use weighbridge_harness::catalogue;
use weighbridge_record::{CaseId, Line, Run, Summary, derive, read_file};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    weighbridge_targets::register();
    let record = std::env::args().nth(1).ok_or("which record?")?;
    let (mut runs, mut summaries) = (Vec::new(), Vec::new());
    for line in read_file(Path::new(&record))?.lines {
        match line {
            Line::Run(run) => runs.push(run),
            Line::Summary(summary) => summaries.push(summary),
            _ => {}
        }
    }
    println!(
        "| case | unit | iceoryx2 | other | times faster | interval | CPU ns a message, iceoryx2 / other |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|");
    for theirs in summaries.iter().filter(|summary| summary.case.mechanism == "iceoryx2") {
        for other in summaries.iter().filter(|other| is_rival(&theirs.case, &other.case)) {
            row(theirs, other, &runs)?;
        }
    }
    Ok(())
}

/// Another mechanism's case that does the same.
fn is_rival(theirs: &CaseId, other: &CaseId) -> bool {
    let place = |id: &CaseId| (id.pattern.clone(), id.payload_bytes, id.placement.clone());
    other.mechanism != theirs.mechanism && place(theirs) == place(other) && wait(theirs) == wait(other)
}

fn wait(id: &CaseId) -> Option<&'static str> {
    catalogue::resolve(id).ok().map(|(_, _, link)| link.wait.name())
}

fn row(theirs: &Summary, other: &Summary, runs: &[Run]) -> Result<(), String> {
    let (_, pattern, _) = catalogue::resolve(&theirs.case)?;
    let pairs = pairs(&theirs.case, &other.case, runs);
    let ratio = derive::comparison(&theirs.case, &other.case, &pairs, pattern.unit.higher_is_better());
    let interval = ratio.ci95.map_or("-".into(), |[low, high]| format!("{low:.2} to {high:.2}"));
    let messages = if theirs.case.pattern == "roundtrip" { 2.0 } else { 1.0 };
    println!(
        "| `{}`, `{}` | {} | {:.4e} | {:.4e} | {:.2} | {interval} | {:.0} / {:.0} |",
        theirs.case,
        other.case,
        theirs.unit,
        theirs.median,
        other.median,
        ratio.speedup,
        theirs.per_op.cpu_ns / messages,
        other.per_op.cpu_ns / messages
    );
    Ok(())
}

/// The values of both in the rounds in which both ran.
fn pairs(theirs: &CaseId, other: &CaseId, runs: &[Run]) -> Vec<(f64, f64)> {
    let of = |id: &CaseId| -> BTreeMap<u32, f64> {
        runs.iter().filter(|run| run.case == *id).map(|run| (run.round, run.value)).collect()
    };
    let other = of(other);
    of(theirs).into_iter().filter_map(|(round, value)| Some((value, *other.get(&round)?))).collect()
}
