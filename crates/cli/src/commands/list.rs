//! `weighbridge list`: what can be measured, and which of it this machine has.
//!
//! Answers at once: it looks at topology and limits only, never at the clock.

use std::fmt::Write;

use serde_json::{Value, json};
use weighbridge_lab::axis::{self, Axis, Values};
use weighbridge_lab::contract::Caps;
use weighbridge_lab::host::Host;
use weighbridge_lab::pattern;
use weighbridge_lab::placement;
use weighbridge_lab::plan::{Changes, SUITES};
use weighbridge_lab::subject::{self, Subject};

use super::look_at_host;
use crate::args::{List, TextOrJson};
use crate::{Exit, Failure, output};

/// What a capability means to somebody who chooses a mechanism.
const CAPS: &[(Caps, &str)] = &[
    (Caps::PAYLOAD, "payload"),
    (Caps::DUPLEX, "both ways"),
    (Caps::BYTE_STREAM, "byte stream"),
    (Caps::LOSSY, "may lose messages"),
    (Caps::ZERO_COPY, "zero copy"),
    (Caps::MAPS, "maps each message"),
    (Caps::HARNESS, "nothing is exchanged"),
    (Caps::VIRTUAL_TIME, "virtual time"),
];

/// Lists it.
pub fn list(args: &List) -> Result<Exit, Failure> {
    let host = look_at_host()?;
    output::print(match args.format {
        TextOrJson::Text => text(&host),
        TextOrJson::Json => serde_json::to_string_pretty(&document(&host)).expect("plain data") + "\n",
    })?;
    Ok(Exit::Fine)
}

fn text(host: &Host) -> String {
    let mut out = String::from("Patterns: how the ends talk\n");
    for pattern in subject::patterns() {
        let _ = writeln!(out, "  {:<15} {}", pattern.id, pattern.about);
        axes_text(&mut out, pattern.axes);
    }
    out.push_str("\nMechanisms\n");
    for subject in subject::all() {
        // Some names are as long as the column.
        let _ = writeln!(out, "  {:<15} {}", subject.id, subject.about);
        for (title, words) in
            [("", caps(subject)), ("patterns: ", pattern_ids(subject)), ("waits: ", waits(subject))]
        {
            if !words.is_empty() {
                let _ = writeln!(out, "{:18}{title}{}", "", words.join(", "));
            }
        }
        axes_text(&mut out, subject.axes);
    }
    out.push_str("\nAxes of every case\n");
    for axis in axis::COMMON {
        let _ = writeln!(out, "  {:<16}{}", axis.name, axis.about);
        let _ = writeln!(out, "{:18}default {}; takes {}", "", axis.default, takes(axis.values));
    }
    out.push_str("\nPlacements: where the peers run\n");
    for placement in placement::ALL {
        let _ = writeln!(out, "  {:<16}{}", placement.name, placement.about);
        let _ = match placement::place(placement.name, host) {
            Ok(placed) => writeln!(out, "{:18}here: {}", "", here(placement.name, &placed)),
            Err(why) => writeln!(out, "{:18}not here: {why}", ""),
        };
    }
    out.push_str("\nSuites: lists of cases to select from\n");
    for suite in SUITES {
        let cases = suite.cases(&Changes::default()).len();
        let _ = writeln!(out, "  {:<16}{}, {cases} cases", suite.name, suite.about);
    }
    out
}

fn axes_text(out: &mut String, axes: &[Axis]) {
    for axis in axes {
        let _ = writeln!(
            out,
            "{:18}axis {}: {} (default {}; takes {})",
            "",
            axis.name,
            axis.about,
            axis.default,
            takes(axis.values)
        );
    }
}

fn here(name: &str, placed: &placement::Placed) -> String {
    let resolved = if placed.resolved == name { String::new() } else { format!(", as {}", placed.resolved) };
    match placed.cpus[..] {
        [] => "anywhere".into(),
        [a] => format!("CPU {a}{resolved}"),
        [a, b, ..] => format!("CPUs {a} and {b}{resolved}"),
    }
}

fn caps(subject: &Subject) -> Vec<&'static str> {
    CAPS.iter().filter(|(cap, _)| subject.caps.has(*cap)).map(|(_, word)| *word).collect()
}

fn pattern_ids(subject: &Subject) -> Vec<&'static str> {
    let can = |pattern: &&pattern::Info| subject.caps.has(pattern.needs);
    subject.patterns.iter().filter(can).map(|pattern| pattern.id).collect()
}

fn waits(subject: &Subject) -> Vec<&'static str> {
    subject.waits.iter().map(|wait| wait.name()).collect()
}

fn takes(values: Values) -> String {
    match values {
        Values::OneOf(words) => words.join(", "),
        Values::Bytes => "bytes".into(),
        Values::Count => "a whole number from 1".into(),
        Values::AtLeast(least) => format!("a whole number from {least}"),
        Values::Nices => "-20 to 19, for all roles or each (0:10)".into(),
        Values::Policies => "other, batch, idle, fifo-N, rr-N, for all roles or each (other:fifo-10)".into(),
    }
}

fn document(host: &Host) -> Value {
    let axes = |axes: &[Axis]| -> Vec<Value> {
        let axis = |axis: &Axis| {
            json!({
                "name": axis.name, "about": axis.about, "default": axis.default, "takes": takes(axis.values),
            })
        };
        axes.iter().map(axis).collect()
    };
    let patterns: Vec<Value> = subject::patterns()
        .into_iter()
        .map(|pattern| json!({ "name": pattern.id, "about": pattern.about, "axes": axes(pattern.axes) }))
        .collect();
    let mechanisms: Vec<Value> = subject::all()
        .map(|subject| {
            json!({
                "name": subject.id,
                "about": subject.about,
                "caps": caps(subject),
                "patterns": pattern_ids(subject),
                "waits": waits(subject),
                "axes": axes(subject.axes),
            })
        })
        .collect();
    let placements: Vec<Value> = placement::ALL
        .iter()
        .map(|placement| match placement::place(placement.name, host) {
            Ok(placed) => json!({
                "name": placement.name, "about": placement.about, "here": true, "resolved": placed.resolved,
                "cpus": placed.cpus,
            }),
            Err(why) => {
                json!({ "name": placement.name, "about": placement.about, "here": false, "why": why })
            }
        })
        .collect();
    let suites: Vec<Value> = SUITES
        .iter()
        .map(|suite| {
            json!({
                "name": suite.name, "about": suite.about, "cases": suite.cases(&Changes::default()).len(),
                "budget_s": suite.budget.as_secs_f64(), "precision": suite.precision,
            })
        })
        .collect();
    json!({
        "patterns": patterns, "mechanisms": mechanisms, "axes": axes(axis::COMMON),
        "placements": placements, "suites": suites,
    })
}
