//! Figures of other tools and ours, measured in turn.

use weighbridge_record::Check;

use super::Context;
use crate::document::{Block, Item, Section, Table};
use crate::units::{range, significant, with_unit};
use crate::words::many;

/// The outcome first, because a narrow terminal shows what has no room further down.
const HEADS: [&str; 7] = ["check", "verdict", "ours/theirs", "95 % interval", "band", "theirs", "ours"];

/// Verdicts of checks that gave no figure because something is missing here.
const NOT_TRIED: [&str; 2] = ["not here", "not installed"];

/// None where the record has no checks.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let all = || cx.report.checks.iter().map(|check| &check.what);
    let [here, installed] =
        NOT_TRIED.map(|verdict| all().filter(|check| check.verdict == verdict).collect::<Vec<_>>());
    let tried: Vec<&Check> = all().filter(|check| !NOT_TRIED.contains(&check.verdict.as_str())).collect();
    let mut blocks = Vec::new();
    if !tried.is_empty() {
        let table = Table::new("", HEADS, tried.iter().map(|check| row(check))).with_texts([1]);
        blocks.extend([Block::Table(table), Block::Paragraph(counted(&tried))]);
    }
    blocks.extend(Block::headed("What was compared", tried.iter().map(|check| described(check)).collect()));
    let missing = here.iter().map(|check| {
        format!("{}: {}: {}", check.check, check.case, check.trouble.as_deref().unwrap_or_default()).into()
    });
    blocks.extend(Block::headed("Not possible on this machine", missing.collect()));
    let package = |checks: &[&Check]| {
        let names: Vec<&str> = checks.iter().map(|check| check.check.as_str()).collect();
        format!("{}: {} ({})", checks[0].tool, checks[0].debian_package, names.join(", ")).into()
    };
    let packages = installed.chunk_by(|a, b| a.tool == b.tool).map(package).collect();
    blocks.extend(Block::headed("Not installed, with the Debian package that has it", packages));
    Section::new("check", "Other tools and this one, measured in turn", blocks)
}

fn row(check: &Check) -> [String; 7] {
    let none = || "–".to_owned();
    let figure = |value: Option<f64>| value.map_or_else(none, |value| with_unit(&check.unit, value));
    [
        check.check.clone(),
        check.verdict.clone(),
        check.ratio.map_or_else(none, significant),
        check.ci95.map_or_else(none, |ends| range(ends, significant)),
        range(check.band, |end| end.to_string()),
        figure(check.theirs),
        figure(check.ours),
    ]
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
    let known = || format!("known reasons: {}", check.known_reasons);
    match check.verdict.as_str() {
        "inconclusive" if check.ci95.is_none() => {
            sentences.push(format!(
                "inconclusive: no interval from {}, for which 6 are needed",
                many(turns, "turn")
            ));
        }
        "inconclusive" => {
            sentences.extend(["inconclusive: the interval reaches over an end of the band".into(), known()]);
        }
        "outside" => sentences.push(known()),
        _ => {}
    }
    sentences
        .extend(check.trouble.as_ref().map(|why| format!("stopped after {}: {why}", many(turns, "turn"))));
    Item::over(&check.check, sentences.into_iter().map(Item::from).collect())
}
