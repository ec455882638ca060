//! The list for people: one line for each thing, and everything about those that were named.

use std::collections::HashSet;
use std::fmt::Write;

use weighbridge_harness::axis::{self, Axis};
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Caps, PatternInfo, Target};
use weighbridge_harness::host::Host;
use weighbridge_harness::placement;
use weighbridge_harness::plan::{self, Changes};

use super::{caps, grouped, pattern_ids, properties, takes, waits};
use crate::output;

/// Width of the column of names.
const NAME: usize = 26;

/// Everything there is, in a line each.
pub fn overview(host: &Host) -> String {
    let mut out = String::from("Patterns: how the ends talk\n");
    for pattern in catalogue::patterns() {
        line(&mut out, pattern.id, pattern.about);
    }
    for (patterns, targets) in grouped(catalogue::all().map(|target| (pattern_ids(target), target))) {
        let _ = writeln!(out, "\nTargets of {}", patterns.join(", "));
        for target in targets {
            line(&mut out, target.id, target.about);
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
    for suite in plan::suites() {
        let cases = suite.cases(&Changes::default()).len();
        line(&mut out, suite.name, &format!("{} ({cases} cases)", suite.about));
    }
    out.push_str(
        "\n`weighbridge list NAME` describes one of these in full, with its own axes; `weighbridge list properties` says what each \
         mechanism has that a choice may demand.\n",
    );
    out
}

/// Everything about what has this name, in whichever role it has it; nothing where there is no such thing.
pub fn details(name: &str, host: &Host) -> Option<String> {
    let mut out = String::new();
    if name == properties::NAME {
        out += &properties::shown(output::style());
    }
    for pattern in catalogue::patterns().into_iter().filter(|pattern| pattern.id == name) {
        pattern_details(&mut out, pattern);
    }
    for target in catalogue::all().filter(|target| target.id == name) {
        subject_details(&mut out, target);
    }
    for axis in axis::COMMON.iter().filter(|axis| axis.name == name) {
        let _ = writeln!(out, "axis {name}: {}\n  {}", axis.about, values(axis));
    }
    for ((about, values), owners) in owned_axes(name) {
        let _ = writeln!(out, "axis {name} of {}: {about}\n  {values}", owners.join(", "));
    }
    for placement in placement::ALL.iter().filter(|placement| placement.name == name) {
        let _ = writeln!(out, "placement {name}: {}\n  {}", placement.about, here(name, host));
    }
    for suite in plan::suites().filter(|suite| suite.name == name) {
        let _ = writeln!(out, "suite {name}: {}", suite.about);
        for id in suite.cases(&Changes::default()) {
            let _ = writeln!(out, "  {id}");
        }
    }
    (!out.is_empty()).then_some(out)
}

/// The axes that only some patterns or targets have: those of each pattern that drives this target, and its own.
fn own_axes(target: &'static Target) -> impl Iterator<Item = (&'static str, &'static Axis)> {
    let of_patterns =
        target.patterns.iter().flat_map(|pattern| pattern.axes.iter().map(|axis| (pattern.id, axis)));
    of_patterns.chain(target.axes.iter().map(|axis| (target.id, axis)))
}

/// Text, values and owners of all axes of this name.
fn owned_axes(name: &str) -> Vec<((&'static str, String), Vec<&'static str>)> {
    let all = catalogue::all().flat_map(own_axes).filter(|(_, axis)| axis.name == name);
    let mut groups = grouped(all.map(|(owner, axis)| ((axis.about, values(axis)), owner)));
    let mut seen = HashSet::new();
    for (_, owners) in &mut groups {
        seen.clear();
        owners.retain(|owner| seen.insert(*owner));
    }
    groups
}

/// Every name that [`details`] knows.
pub fn names() -> Vec<&'static str> {
    let patterns = catalogue::patterns().into_iter().map(|pattern| pattern.id);
    let mut names: Vec<&str> = patterns
        .chain(catalogue::all().map(|target| target.id))
        .chain(axis::COMMON.iter().map(|axis| axis.name))
        .chain(catalogue::all().flat_map(own_axes).map(|(_, axis)| axis.name))
        .chain(placement::ALL.iter().map(|placement| placement.name))
        .chain(plan::suites().map(|suite| suite.name))
        .chain([properties::NAME])
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn line(out: &mut String, name: &str, about: &str) {
    let _ = writeln!(out, "  {name:<NAME$}{about}");
}

fn pattern_details(out: &mut String, pattern: &PatternInfo) {
    let _ = writeln!(out, "pattern {}: {}", pattern.id, pattern.about);
    let drives = |target: &&Target| pattern_ids(target).contains(&pattern.id);
    let targets: Vec<&Target> = catalogue::all().filter(drives).collect();
    let _ = writeln!(out, "  targets: {}", ids(&targets));
    for (waits, who) in together(&targets, |target| waits_line(target).into_iter().collect()) {
        if who.iter().any(is_meant) {
            let _ = writeln!(out, "  {waits}{}", of(&who, &targets));
        }
    }
    // A family may drive its targets by a pattern of the same name with axes of its own.
    let own = |target: &Target| {
        let of_pattern = target.patterns.iter().filter(|own| own.id == pattern.id);
        let all = of_pattern.flat_map(|own| own.axes).chain(target.axes);
        all.map(|axis| (axis.name, axis.about, values(axis))).collect()
    };
    for ((name, about, values), who) in together(&targets, own) {
        let _ = writeln!(out, "  axis {name}{}: {about}\n    {values}", of(&who, &targets));
    }
}

/// What each target has, once, with all that have it.
fn together<T: PartialEq>(
    targets: &[&'static Target],
    of: impl Fn(&'static Target) -> Vec<T>,
) -> Vec<(T, Vec<&'static Target>)> {
    grouped(targets.iter().flat_map(|target| of(target).into_iter().map(move |what| (what, *target))))
}

fn ids(targets: &[&Target]) -> String {
    targets.iter().map(|target| target.id).collect::<Vec<_>>().join(", ")
}

/// ` (pipe, tcp)`, or nothing where it is all of them, the harness aside.
fn of(who: &[&Target], all: &[&Target]) -> String {
    let meant = |targets: &[&Target]| targets.iter().filter(|target| is_meant(target)).count();
    if meant(who) == meant(all) { String::new() } else { format!(" ({})", ids(who)) }
}

fn is_meant(target: &&Target) -> bool {
    !target.caps.has(Caps::HARNESS)
}

/// The default way to wait, and the others; nothing for a target that never waits.
fn waits_line(target: &Target) -> Option<String> {
    let waits = waits(target);
    let (own, others) = waits.split_first()?;
    let others = if others.is_empty() { String::new() } else { format!("; or {}", others.join(", ")) };
    Some(format!("waits: {own}{others}"))
}

fn subject_details(out: &mut String, target: &'static Target) {
    let _ = writeln!(out, "{}: {}", target.id, target.about);
    let _ = writeln!(out, "  patterns: {}", pattern_ids(target).join(", "));
    let caps = caps(target);
    if !caps.is_empty() {
        let _ = writeln!(out, "  {}", caps.join(", "));
    }
    if let Some(waits) = waits_line(target) {
        let _ = writeln!(out, "  {waits}");
    }
    if let Some(properties) = properties::line(target) {
        let _ = writeln!(out, "  {properties}");
    }
    for axis in target.axes {
        let _ = writeln!(out, "  axis {}: {}\n    {}", axis.name, axis.about, values(axis));
    }
    for pattern in target.patterns.iter().filter(|pattern| !pattern.axes.is_empty()) {
        let names: Vec<&str> = pattern.axes.iter().map(|axis| axis.name).collect();
        let _ = writeln!(out, "  axes of {0}: {1} (`weighbridge list {0}`)", pattern.id, names.join(", "));
    }
}

/// `default` as a default is the target's own choice, which its text explains.
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
        [a, b, ..] if a != b => format!("here: CPUs {a} and {b}{resolved}"),
        [a, ..] => format!("here: CPU {a}{resolved}"),
    }
}
