//! Comparisons in sentences: which order of mechanisms is sure, then each comparison behind a fold.

use crate::document::{Block, Item, Section};
use crate::findings::{by_chance, chosen, contests, line, others, table};
use crate::model::Report;
use crate::notes::{ELSEWHERE, FEW, few};
use crate::words::many;

const ABOUT: &str = "Each line compares the mechanisms of one pattern, payload and placement pair by pair: through their ratios to the hub, \
                     or by runs of the same round. Everything that a line calls sure holds simultaneously; the confidence accounts for \
                     the number of lines.";
const PAIRS: &str =
    "The interval of each of these pairs has 95 % by itself; the number of pairs is not accounted for.";

/// Nothing where the record compares nothing.
pub fn section(report: &Report) -> Option<Section> {
    let contests = contests(report);
    let others: Vec<String> = others(report).into_iter().map(|finding| finding.sentence).collect();
    let mut blocks = Vec::new();
    if !contests.is_empty() {
        let chance: Vec<String> = report.findings.iter().map(|findings| by_chance(&findings.what)).collect();
        blocks.push(Block::Paragraph(format!("{ABOUT} {}", chance.join(" ")).trim_end().into()));
    }
    let mut list: Vec<Item> =
        chosen(&contests, FEW).into_iter().map(|contest| line(report, contest).into()).collect();
    let rest = contests.len() - list.len();
    list.extend((rest > 0).then(|| Item::without_folds(format!("… {rest} more; {ELSEWHERE}"))));
    blocks.extend((!list.is_empty()).then_some(Block::List(list)));
    let mut all = Vec::new();
    for contest in &contests {
        all.push(Block::Heading(line(report, contest)));
        all.push(Block::Table(table(report, contest)));
    }
    let count = contests.len() + others.len();
    if !others.is_empty() {
        if contests.is_empty() {
            blocks.push(Block::Paragraph(PAIRS.into()));
            blocks.push(Block::List(few(others.iter().cloned().map(Item::from).collect())));
        }
        all.extend([
            Block::Heading("Other pairs".into()),
            Block::Paragraph(PAIRS.into()),
            Block::sentences(others),
        ]);
    }
    blocks.push(Block::fold(format!("{}, lowest cost first", many(count, "comparison")), all));
    (count > 0).then(|| Section::new("findings", "Findings", blocks))?
}
