//! Comparisons in sentences: which is best, then each comparison behind a fold, fastest first.

use crate::document::{Block, Item, Section};
use crate::findings::{chosen, contests, others};
use crate::model::Report;
use crate::notes::{FEW, few};
use crate::words::many;

const ABOUT: &str = "Cases measured in the same rounds, pair by pair. In brackets the 95 % interval of the ratio. Where two \
                     intervals overlap, no order is claimed.";

/// Nothing where the record has no comparison.
pub fn section(report: &Report) -> Option<Section> {
    let contests = contests(report);
    let others: Vec<String> = others(report).into_iter().map(|finding| finding.sentence).collect();
    let mut rest = contests.len();
    let mut blocks = vec![Block::Paragraph(ABOUT.into())];
    let mut list: Vec<Item> = Vec::new();
    for contest in chosen(&contests, FEW) {
        list.push(contest.line(report).into());
        rest -= 1;
    }
    list.extend(
        (rest > 0).then(|| Item::from(format!("… {rest} more in the fold of the HTML and Markdown reports"))),
    );
    blocks.extend((!list.is_empty()).then_some(Block::List(list)));
    let mut all = Vec::new();
    let mut count = others.len();
    for contest in &contests {
        let findings: Vec<String> =
            contest.findings(report).into_iter().map(|finding| finding.sentence).collect();
        count += findings.len();
        all.push(Block::Heading(contest.line(report)));
        all.push(Block::sentences(findings));
    }
    if !others.is_empty() {
        if contests.is_empty() {
            blocks.push(Block::List(few(others.iter().cloned().map(Item::from).collect())));
        }
        all.extend([Block::Heading("Other pairs".into()), Block::sentences(others)]);
    }
    blocks.push(Block::fold(format!("{}, fastest first", many(count, "comparison")), all));
    (count > 0).then(|| Section::new("findings", "Findings", blocks))?
}
