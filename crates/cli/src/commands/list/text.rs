//! The list for people: one line for each thing, and everything about those that were named.

use std::fmt::Write;

use weighbridge_lab::axis::{self, Axis};
use weighbridge_lab::contract::Caps;
use weighbridge_lab::host::Host;
use weighbridge_lab::pattern;
use weighbridge_lab::placement;
use weighbridge_lab::plan::{Changes, SUITES, Suite};
use weighbridge_lab::subject::{self, Subject};

use super::{caps, pattern_ids, takes, waits};

/// Width of the column of names.
const NAME: usize = 26;

/// Everything there is, in a line each.
pub fn overview(host: &Host) -> String {
    let mut out = String::from("Patterns: how the ends talk\n");
    for pattern in subject::patterns() {
        line(&mut out, pattern.id, pattern.about);
    }
    for (patterns, subjects) in by_patterns() {
        let _ = writeln!(out, "\nTo measure by {}", patterns.join(", "));
        for subject in subjects {
            line(&mut out, subject.id, subject.about);
        }
    }
    out.push_str("\nAxes of every case\n");
    for axis in axis::COMMON {
        line(&mut out, axis.name, axis.about);
        line(&mut out, "", &values(axis));
    }
    out.push_str("\nPlacements: where the peers run\n");
    for placement in placement::ALL {
        line(&mut out, placement.name, placement.about);
        line(&mut out, "", &here(placement.name, host));
    }
    out.push_str("\nSuites: lists of cases to select from\n");
    for suite in SUITES {
        suite_line(&mut out, suite);
    }
    out.push_str("\n`weighbridge list NAME` tells everything about one of these, its own axes too.\n");
    out
}

/// Everything about what has this name, in whichever role it has it; nothing where there is no such thing.
pub fn details(name: &str, host: &Host) -> Option<String> {
    let mut out = String::new();
    for pattern in subject::patterns().into_iter().filter(|pattern| pattern.id == name) {
        pattern_details(&mut out, pattern);
    }
    for subject in subject::all().filter(|subject| subject.id == name) {
        subject_details(&mut out, subject);
    }
    for axis in axis::COMMON.iter().filter(|axis| axis.name == name) {
        let _ = writeln!(out, "axis {name}: {}\n  {}", axis.about, values(axis));
    }
    for placement in placement::ALL.iter().filter(|placement| placement.name == name) {
        let _ = writeln!(out, "placement {name}: {}\n  {}", placement.about, here(name, host));
    }
    for suite in SUITES.iter().filter(|suite| suite.name == name) {
        let _ = writeln!(out, "suite {name}: {}", suite.about);
        for id in suite.cases(&Changes::default()) {
            let _ = writeln!(out, "  {id}");
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Every name that [`details`] knows.
pub fn names() -> Vec<&'static str> {
    let patterns = subject::patterns().into_iter().map(|pattern| pattern.id);
    let mut names: Vec<&str> = patterns
        .chain(subject::all().map(|subject| subject.id))
        .chain(axis::COMMON.iter().map(|axis| axis.name))
        .chain(placement::ALL.iter().map(|placement| placement.name))
        .chain(SUITES.iter().map(|suite| suite.name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn line(out: &mut String, name: &str, about: &str) {
    let _ = writeln!(out, "  {name:<NAME$}{about}");
}

fn suite_line(out: &mut String, suite: &Suite) {
    let cases = suite.cases(&Changes::default()).len();
    line(out, suite.name, &format!("{} ({cases} cases)", suite.about));
}

/// The subjects, those together that the same patterns drive.
fn by_patterns() -> Vec<(Vec<&'static str>, Vec<&'static Subject>)> {
    let mut groups: Vec<(Vec<&str>, Vec<&Subject>)> = Vec::new();
    for subject in subject::all() {
        let patterns = pattern_ids(subject);
        match groups.iter_mut().find(|(known, _)| *known == patterns) {
            Some((_, subjects)) => subjects.push(subject),
            None => groups.push((patterns, vec![subject])),
        }
    }
    groups
}

fn pattern_details(out: &mut String, pattern: &pattern::Info) {
    let _ = writeln!(out, "pattern {}: {}", pattern.id, pattern.about);
    let drives = |subject: &&Subject| pattern_ids(subject).contains(&pattern.id);
    let subjects: Vec<&Subject> = subject::all().filter(drives).collect();
    let _ = writeln!(out, "  drives {}", ids(&subjects));
    for (waits, who) in together(&subjects, |subject| waits_line(subject).into_iter().collect()) {
        if who.iter().any(is_meant) {
            let _ = writeln!(out, "  {waits}{}", of(&who, &subjects));
        }
    }
    // A family may drive its subjects by a pattern of the same name with axes of its own.
    let own = |subject: &Subject| {
        let of_pattern = subject.patterns.iter().filter(|own| own.id == pattern.id);
        let all = of_pattern.flat_map(|own| own.axes).chain(subject.axes);
        all.map(|axis| (axis.name, axis.about, values(axis))).collect()
    };
    for ((name, about, values), who) in together(&subjects, own) {
        let _ = writeln!(out, "  axis {name}{}: {about}\n    {values}", of(&who, &subjects));
    }
}

/// What each subject has, once, with all that have it, in the order in which it first comes.
fn together<T: PartialEq>(
    subjects: &[&'static Subject],
    of: impl Fn(&'static Subject) -> Vec<T>,
) -> Vec<(T, Vec<&'static Subject>)> {
    let mut found: Vec<(T, Vec<&Subject>)> = Vec::new();
    for subject in subjects {
        for what in of(subject) {
            match found.iter_mut().find(|(known, _)| *known == what) {
                Some((_, who)) => who.push(subject),
                None => found.push((what, vec![subject])),
            }
        }
    }
    found
}

fn ids(subjects: &[&Subject]) -> String {
    subjects.iter().map(|subject| subject.id).collect::<Vec<_>>().join(", ")
}

/// ` (pipe, tcp)`, or nothing where it is all of them, the harness aside.
fn of(who: &[&Subject], all: &[&Subject]) -> String {
    let meant = |subjects: &[&Subject]| subjects.iter().filter(|subject| is_meant(subject)).count();
    if meant(who) == meant(all) { String::new() } else { format!(" ({})", ids(who)) }
}

fn is_meant(subject: &&Subject) -> bool {
    !subject.caps.has(Caps::HARNESS)
}

/// How it waits, and how else it can; nothing where it never waits.
fn waits_line(subject: &Subject) -> Option<String> {
    let waits = waits(subject);
    let (own, others) = waits.split_first()?;
    let others = if others.is_empty() { String::new() } else { format!("; can {}", others.join(", ")) };
    Some(format!("waits by {own}{others}"))
}

fn subject_details(out: &mut String, subject: &Subject) {
    let _ = writeln!(out, "{}: {}", subject.id, subject.about);
    let _ = writeln!(out, "  by {}", pattern_ids(subject).join(", "));
    let caps = caps(subject);
    if !caps.is_empty() {
        let _ = writeln!(out, "  {}", caps.join(", "));
    }
    if let Some(waits) = waits_line(subject) {
        let _ = writeln!(out, "  {waits}");
    }
    axes(out, subject.axes);
    for pattern in subject.patterns.iter().filter(|pattern| !pattern.axes.is_empty()) {
        let names: Vec<&str> = pattern.axes.iter().map(|axis| axis.name).collect();
        let _ = writeln!(out, "  axes of {0}: {1} (`weighbridge list {0}`)", pattern.id, names.join(", "));
    }
}

fn axes(out: &mut String, axes: &[Axis]) {
    for axis in axes {
        let _ = writeln!(out, "  axis {}: {}", axis.name, axis.about);
        let _ = writeln!(out, "    {}", values(axis));
    }
}

/// `default` as a default is the subject's own choice, which its text explains.
fn values(axis: &Axis) -> String {
    match axis.default {
        "default" => format!("takes {}", takes(axis.values)),
        default => format!("default {default}; takes {}", takes(axis.values)),
    }
}

fn here(name: &str, host: &Host) -> String {
    let placed = match placement::place(name, host) {
        Ok(placed) => placed,
        Err(why) => return format!("not here: {why}"),
    };
    let resolved = if placed.resolved == name { String::new() } else { format!(", as {}", placed.resolved) };
    match placed.cpus[..] {
        [] => "here: anywhere".into(),
        [a] => format!("here: CPU {a}{resolved}"),
        [a, b, ..] if a == b => format!("here: CPU {a}{resolved}"),
        [a, b, ..] => format!("here: CPUs {a} and {b}{resolved}"),
    }
}
