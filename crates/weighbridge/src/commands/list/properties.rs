//! What a choice may demand of each mechanism, as a table for a terminal or of Markdown.

use std::fmt::Write;

use weighbridge_harness::axis::{self, Axis, Values, Wait};
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Caps, Target};
use weighbridge_record::derive::is_of_the_mechanism;
use weighbridge_record::{CaseId, Properties, Property};
use weighbridge_report::{Block, Document, Section, Style, Table};

/// The name by which it is listed.
pub const NAME: &str = "properties";

/// The patterns whose mechanisms are told; others have the same.
const PATTERNS: [(&str, &str); 3] =
    [("roundtrip", "between two ends"), ("fan-out", "to many"), ("pingpong", "signals")];

/// The heads of the columns, in the order of [`Property::ALL`].
const HEADS: [&str; 7] =
    ["other users", "pollable", "survives kill", "containers", "boundaries", "lossless", "no shared memory"];

/// As wide as the terminal, or as COLUMNS says; elsewhere in Markdown, which has no width.
pub fn shown(style: Style) -> String {
    if style.width.is_none() {
        return tables();
    }
    let table = |(about, rows): (&str, Vec<Vec<String>>)| {
        let heads = std::iter::once(about).chain(HEADS);
        Block::Table(Table::new("", heads, rows).with_texts(0..=HEADS.len()))
    };
    let document = Document {
        title: "Weighbridge properties".into(),
        warnings: Vec::new(),
        sections: Section::new(NAME, "Properties", patterns().into_iter().map(table).collect()),
    };
    document.text(style)
}

/// A table in Markdown for each pattern.
pub fn tables() -> String {
    let mut out = String::new();
    for (index, (about, rows)) in patterns().into_iter().enumerate() {
        let blank = if index == 0 { "" } else { "\n" };
        let _ = writeln!(out, "{blank}| {about} | {} |", HEADS.join(" | "));
        let _ = writeln!(out, "|---{}|", "|---".repeat(HEADS.len()));
        for row in rows {
            let _ = writeln!(out, "| `{}` | {} |", row[0], row[1..].join(" | "));
        }
    }
    out
}

/// What each pattern is about, and of each of its mechanisms the name and what it has.
fn patterns() -> Vec<(&'static str, Vec<Vec<String>>)> {
    let of = |(pattern, about): (&str, &'static str)| {
        let drives = |target: &&'static Target| {
            !target.caps.has(Caps::HARNESS) && target.patterns.iter().any(|own| own.id == pattern)
        };
        let row = |target: &'static Target| -> Vec<String> {
            let cells = Property::ALL.into_iter().map(|of| cell(target, pattern, of));
            std::iter::once(target.id.to_owned()).chain(cells).collect()
        };
        (about, catalogue::all().filter(drives).map(row).collect())
    };
    PATTERNS.map(of).into()
}

/// `yes`, what makes it so, or nothing; of containers what it takes.
fn cell(target: &'static Target, pattern: &str, property: Property) -> String {
    let base = CaseId::new(pattern, target.id, u64::from(target.caps.has(Caps::PAYLOAD)), "two-cpus");
    let own = of(&base);
    if own.is_some_and(|own| own.has(property)) {
        let across = (property == Property::AcrossContainers).then(|| own.map(|own| own.across().in_words()));
        return across.flatten().unwrap_or("yes").into();
    }
    settings(target)
        .find(|(name, value)| of(&base.clone().with(name, value)).is_some_and(|own| own.has(property)))
        .map_or(String::new(), |(name, value)| format!("`{name}={value}`"))
}

fn of(id: &CaseId) -> Option<Properties> {
    let (target, _, params) = catalogue::resolve(id).ok()?;
    target.properties_of(&params)
}

/// Every way to use it that is not the default.
fn settings(target: &'static Target) -> impl Iterator<Item = (&'static str, &'static str)> {
    let waits = [Wait::Epoll, Wait::Poll].into_iter().chain(target.waits.iter().copied());
    let waits = waits.filter(|wait| target.waits.contains(wait)).map(|wait| (axis::WAIT.name, wait.name()));
    let words = |axis: &'static Axis| match axis.values {
        Values::OneOf(words) if is_of_the_mechanism(axis.name) => words,
        _ => &[],
    };
    waits.chain(
        target.axes.iter().flat_map(move |axis| words(axis).iter().map(move |word| (axis.name, *word))),
    )
}

/// The properties of a mechanism in a line; nothing of what is no way to exchange messages.
pub fn line(target: &'static Target) -> Option<String> {
    let pattern = target.patterns.first()?.id;
    let with = |property: Property| match cell(target, pattern, property).as_str() {
        "" => None,
        "yes" => Some(property.in_words().to_owned()),
        how if property == Property::AcrossContainers => Some(format!("{} by {how}", property.in_words())),
        how => Some(format!("{} with {}", property.in_words(), how.trim_matches('`'))),
    };
    let all: Vec<String> = Property::ALL.into_iter().filter_map(with).collect();
    (!all.is_empty()).then(|| format!("has: {}", all.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_a_mechanism_has_and_which_setting_makes_it_so() {
        crate::register();
        let tables = tables();
        for row in [
            "| between two ends | other users | pollable | survives kill | containers | boundaries | lossless | no shared memory |",
            "| `fifo` | yes | yes | yes | a shared path |  | yes | yes |",
            "| `causeway-sw` | `trust=strangers` | `wait=epoll` | yes | a shared path | yes | yes |  |",
            "| `uring-msg` |  |  |  |  |  | yes | yes |",
        ] {
            assert!(tables.contains(row), "no {row} in {tables}");
        }
    }

    #[test]
    fn on_a_terminal_no_line_is_wider_than_it() {
        crate::register();
        let shown = shown(Style { width: Some(60), ..Style::default() });
        assert!(shown.contains("causeway-sw") && shown.contains("no shared memory"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
    }
}
