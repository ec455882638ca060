//! The answer first: for each question of a record, which mechanisms cost how many times the fastest, in groups whose order is sure.

use weighbridge_record::{Contest, Contestant};

use super::Context;
use super::findings::{chosen, contests, name, nothing_apart, place_of, ratio};
use crate::document::{Block, Rank, Ranking, Section};
use crate::model::{Report, Sourced};
use crate::units::{size, with_unit};
use crate::words;

const ABOUT: &str = "How many times the fastest the others cost, those alike in one row. All of a row cost less than all of the next for sure, unless ? \
     is between them. The shaded end of a bar is where the intervals of a row lie; all hold at once, at 95 %.";

/// Questions on a terminal; a page has them all.
const QUESTIONS: usize = 5;
/// Rows of one question: what is far behind is told together.
const ROWS: usize = 6;
/// Those of a row cost at most so many times the first of them.
const ALIKE: f64 = 1.2;

/// None where the record compares nothing.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let report = cx.report;
    let all = contests(report);
    if all.is_empty() || report.counts_instructions() {
        return Vec::new();
    }
    let shown = chosen(&all, QUESTIONS);
    let rankings: Vec<Ranking> = shown.iter().map(|contest| ranking(report, contest)).collect();
    let mut blocks = vec![Block::Paragraph(ABOUT.into())];
    if all.iter().all(|contest| contest.what.sure.is_empty()) {
        blocks.insert(0, Block::Paragraph(nothing_apart(report, &all)));
    }
    blocks.extend(rankings.into_iter().map(Block::Ranking));
    let is_shown = |of: &&Sourced<Contest>| shown.iter().any(|one| std::ptr::eq(*one, *of));
    let rest: Vec<Block> =
        all.iter().filter(|of| !is_shown(of)).map(|of| Block::Ranking(ranking(report, of))).collect();
    if !rest.is_empty() {
        blocks.push(Block::fold(words::many(rest.len(), "further question"), rest));
    }
    Section::new("answers", "Answers", blocks)
}

fn ranking(report: &Report, contest: &Sourced<Contest>) -> Ranking {
    let id = place_of(contest);
    let first = &contest.what.contestants[0];
    let payload =
        if id.payload_bytes == 0 { String::new() } else { format!(" of {}", size(id.payload_bytes)) };
    let summary = report.cases.iter().find(|case| case.source == contest.source && case.id == first.case);
    let cost = summary.and_then(|case| case.summary.as_ref());
    let cost =
        cost.map_or(String::new(), |summary| format!(", {}", with_unit(&summary.unit, summary.median)));
    Ranking {
        title: format!("{}{payload} {}", words::pattern(&id.pattern), words::place(id.place())),
        unit: format!("1 = {}{cost}", name(report, contest, first)),
        rows: rows(report, contest),
    }
}

/// Those of a tier that cost about the same, lowest first.
fn rows(report: &Report, contest: &Sourced<Contest>) -> Vec<Rank> {
    let mut groups: Vec<Vec<&Contestant>> = Vec::new();
    for one in &contest.what.contestants {
        let is_alike = |of: &Contestant| of.tier == one.tier && one.times_first <= of.times_first * ALIKE;
        match groups.last_mut() {
            Some(group) if is_alike(group[0]) => group.push(one),
            _ => groups.push(vec![one]),
        }
    }
    if groups.len() > ROWS {
        let behind = groups.split_off(ROWS - 1).concat();
        groups.push(behind);
    }
    let tier = |at: usize| groups.get(at).map(|group: &Vec<&Contestant>| group[0].tier);
    let row = |(at, group): (usize, &Vec<&Contestant>)| {
        let ends = [group[0], group[group.len() - 1]].map(|one| ratio(one.times_first));
        Rank {
            names: group.iter().map(|one| name(report, contest, one)).collect(),
            times: if ends[0] == ends[1] { ends[0].clone() } else { ends.join("–") },
            ends: hull(group),
            is_sure: tier(at + 1).is_none_or(|next| Some(next) != tier(at)),
        }
    };
    groups.iter().enumerate().map(row).collect()
}

/// The lowest and the highest end of what is known of the costs of a row.
fn hull(group: &[&Contestant]) -> [f64; 2] {
    let ends = |one: &&Contestant| one.interval.unwrap_or([one.times_first; 2]);
    let fold = |[low, high]: [f64; 2], [a, b]: [f64; 2]| [low.min(a), high.max(b)];
    group.iter().map(ends).fold([f64::INFINITY, 0.0], fold)
}

#[cfg(test)]
mod tests {
    use weighbridge_record::CaseId;

    use super::*;

    type Told<'a> = (&'a str, u32, f64, Option<[f64; 2]>);

    fn contest(of: &[Told<'_>]) -> Sourced<Contest> {
        let contestant = |(mechanism, tier, times_first, interval): &Told<'_>| Contestant {
            case: CaseId::new("roundtrip", mechanism, 4096, "same-cpu"),
            tier: *tier,
            may_be_best: *tier == 0,
            times_first: *times_first,
            interval: *interval,
            sets: 9,
        };
        let contestants = of.iter().map(contestant).collect();
        Sourced { source: 0, what: Contest { contestants, sure: Vec::new(), confidence: 0.95 } }
    }

    #[test]
    fn a_row_has_those_that_cost_about_the_same_and_says_where_an_order_is_sure() {
        let of = contest(&[
            ("a", 0, 1.0, None),
            ("b", 0, 1.02, Some([0.99, 1.06])),
            ("c", 0, 1.3, Some([0.9, 1.4])),
            ("d", 1, 2.0, Some([1.9, 2.2])),
            ("e", 1, 2.1, Some([1.8, 2.15])),
        ]);
        let ranking = ranking(&Report::default(), &of);
        assert_eq!((&ranking.title[..], &ranking.unit[..]), ("Round trip of 4 KiB on one CPU", "1 = a"));
        let rows: Vec<_> = ranking
            .rows
            .iter()
            .map(|row| (row.names.join(" "), &row.times[..], row.ends, row.is_sure))
            .collect();
        let expected = [
            ("a b", "1.00–1.02", [0.99, 1.06], false),
            ("c", "1.30", [0.9, 1.4], true),
            ("d e", "2.00–2.10", [1.8, 2.2], true),
        ];
        assert_eq!(rows, expected.map(|(names, times, ends, sure)| (names.to_owned(), times, ends, sure)));
    }

    #[test]
    fn of_many_rows_the_last_are_told_together() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let of: Vec<_> = (0u32..9)
            .map(|tier| (names[tier as usize], tier, f64::from(tier + 1), Some([f64::from(tier + 1); 2])))
            .collect();
        let rows = ranking(&Report::default(), &contest(&of)).rows;
        assert_eq!((rows.len(), rows[5].names.join(" ")), (ROWS, "f g h i".into()));
        assert_eq!((&rows[5].times[..], rows[5].ends), ("6.00–9.00", [6.0, 9.0]));
    }
}
