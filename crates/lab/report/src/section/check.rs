//! Figures of other tools and ours, measured in turn.

use weighbridge_record::Check;

use crate::document::{Block, Cell, Column, Item, Section, Table};
use crate::model::Report;
use crate::units::{significant, with_unit};

/// The outcome first, because a narrow terminal shows what has no room further down.
const HEADS: [(&str, bool); 7] = [
    ("check", true),
    ("verdict", true),
    ("ours/theirs", false),
    ("95 % interval", false),
    ("band", false),
    ("theirs", false),
    ("ours", false),
];

/// Verdicts of checks that gave no figure because something is missing here.
const NOT_TRIED: [&str; 2] = ["not here", "not installed"];

/// Nothing where the record has no checks.
pub fn section(report: &Report) -> Option<Section> {
    let all: Vec<&Check> = report.checks.iter().map(|check| &check.what).collect();
    let (missing, tried): (Vec<&Check>, Vec<&Check>) =
        all.into_iter().partition(|check| NOT_TRIED.contains(&check.verdict.as_str()));
    let mut blocks = Vec::new();
    if !tried.is_empty() {
        let column =
            |(head, is_text): (&str, bool)| Column { head: head.into(), is_text, ..Column::default() };
        let columns = HEADS.map(column).into();
        let rows = tried.iter().map(|check| row(check)).collect();
        blocks.push(Block::Table(Table { columns, rows, labels: 1, ..Table::default() }));
        blocks.push(Block::Paragraph(counted(&tried)));
        blocks.push(Block::Heading("What was compared".into()));
        blocks.push(Block::List(tried.iter().map(|check| described(check)).collect()));
    }
    let (here, installed): (Vec<&Check>, Vec<&Check>) =
        missing.into_iter().partition(|check| check.verdict == NOT_TRIED[0]);
    if !here.is_empty() {
        let line = |check: &&Check| {
            format!("{}: {}: {}", check.check, check.case, check.trouble.as_deref().unwrap_or_default())
        };
        blocks.push(Block::Heading("Not possible on this machine".into()));
        blocks.push(Block::sentences(here.iter().map(line)));
    }
    if !installed.is_empty() {
        blocks.push(Block::Heading("Not installed, with the Debian package that has it".into()));
        let same = |a: &&Check, b: &&Check| a.tool == b.tool;
        let line = |checks: &[&Check]| {
            let names: Vec<&str> = checks.iter().map(|check| check.check.as_str()).collect();
            format!("{}: {} ({})", checks[0].tool, checks[0].debian_package, names.join(", "))
        };
        blocks.push(Block::sentences(installed.chunk_by(same).map(line)));
    }
    Section::new("check", "Other tools and this one, measured in turn", blocks)
}

fn row(check: &Check) -> Vec<Cell> {
    let none = || "–".to_owned();
    let figure = |value: Option<f64>| value.map_or_else(none, |value| with_unit(&check.unit, value));
    let range = |[low, high]: [f64; 2]| format!("{} to {}", significant(low), significant(high));
    let [low, high] = check.band;
    [
        check.check.clone(),
        check.verdict.clone(),
        check.ratio.map_or_else(none, significant),
        check.ci95.map_or_else(none, range),
        format!("{low} to {high}"),
        figure(check.theirs),
        figure(check.ours),
    ]
    .map(Cell::from)
    .into()
}

/// How many of each outcome: the one line for a reader in a hurry.
fn counted(all: &[&Check]) -> String {
    let of = |word: &str| all.iter().filter(|check| check.verdict == word).count();
    let counts = ["inside", "outside", "inconclusive", "failed", "not measured"].map(|word| (of(word), word));
    let some = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    format!("{} compared: {}", all.len(), some.collect::<Vec<_>>().join(", "))
}

/// What a row compares, and why its ratio is expected where it is.
fn described(check: &Check) -> Item {
    let mut sentences = vec![
        format!("`{}` compared with {}", check.command.join(" "), check.case),
        format!("counts {}; {}", check.theirs_is.counts, check.theirs_is.peers),
        format!("band: {}", check.because),
    ];
    let turns = check.turns.len();
    match check.verdict.as_str() {
        "inconclusive" if check.ci95.is_none() => {
            sentences.push(format!("inconclusive: {turns} turns give no interval; 6 do"));
        }
        "inconclusive" => {
            sentences.push("inconclusive: the interval reaches over an end of the band".into());
            sentences.push(format!("known reasons: {}", check.known_reasons));
        }
        "outside" => sentences.push(format!("known reasons: {}", check.known_reasons)),
        _ => {}
    }
    if let Some(why) = &check.trouble {
        sentences.push(format!("stopped after {turns} turn{}: {why}", if turns == 1 { "" } else { "s" }));
    }
    let items = sentences.into_iter().map(Item::from).collect();
    Item { text: check.check.clone(), items, ..Item::default() }
}
