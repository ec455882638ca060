//! What costs are made of, from the lines of a record: a bar for each case, its parts, what it would cost otherwise, and the prices.

mod doses;

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_record::{Explanation, Price, Skill};

use super::Context;
use crate::axis::Axis;
use crate::chart::{Bar, Drawing, Piece};
use crate::document::{Block, Item, Section, Table};
use crate::look::Look;
use crate::units::{Scale, count, range, with_unit};
use crate::words::{many, plain};

/// The last piece of each bar.
const UNEXPLAINED: &str = "unexplained";
/// Widths of a bar of text.
const BAR_WIDTH: f64 = 40.0;
/// How each kind of part is drawn in text; there are more than an explanation has kinds, eleven.
const MARKS: [char; 12] = ['█', '▓', '▒', '░', '▚', '◆', '○', '▪', '=', '+', '●', '◇'];
const UNEXPLAINED_MARK: char = '?';
/// More explanations than this have their parts in a fold.
const FEW: usize = 3;
/// Within this an explanation is close, on one CPU and where roles have CPUs of their own.
const CLOSE: [(bool, f64); 2] = [(true, 0.10), (false, 0.15)];
/// A share of fewer cases than this says nothing.
const ENOUGH: usize = 5;

const ABOUT: &str = "A cost is how many system calls, copies and switches an operation has times what one of them costs in this session, and what \
                     is left: unexplained, negative where the parts come to more. Prices marked with * were fitted from other mechanisms, never \
                     from the one that is explained. What the mechanism to itself costs (own work, its system calls and copies) adds up by \
                     itself, so the verdict is about the rest: a case of which surely more than 15 % of that are unexplained is not explained. \
                     The null model knows no parts: it says that the rest is what the other mechanisms in the same place have in the middle.";

/// None where nothing was explained.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let all: Vec<&Explanation> = cx.report.explanations.iter().map(|of| &of.what).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let kinds = kinds(&all);
    let mut blocks = vec![Block::Paragraph(ABOUT.into())];
    blocks.extend(close(&all));
    blocks.push(Block::Table(overview(&all, &kinds)));
    blocks.extend(skill(&all));
    let legend = kinds.iter().enumerate();
    let legend = legend.map(|(index, kind)| format!("{} {}", mark(kind, index), plain(kind)));
    blocks.push(Block::Paragraph(format!("Bars: {}.", legend.collect::<Vec<_>>().join(" · "))));
    blocks.push(chart(&all, &kinds));
    let parts: Vec<Block> = all.iter().map(|of| Block::Table(parts(of))).collect();
    if all.len() <= FEW {
        blocks.extend(parts);
    } else {
        blocks.push(Block::fold("The parts of each case".into(), parts));
    }
    blocks.extend(doses::table(&all));
    blocks.extend(what_if(&all));
    blocks.extend(remarks(&all));
    let prices: Vec<&Price> = cx.report.prices.iter().map(|price| &price.what).collect();
    if !prices.is_empty() {
        blocks.push(Block::fold("Prices".into(), vec![Block::Table(price_table(&prices))]));
    }
    Section::new("explanation", "What the costs are made of", blocks)
}

/// Names of all pieces, in the order of the first case that has them; the unexplained one last.
fn kinds(all: &[&Explanation]) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for part in all.iter().flat_map(|of| &of.parts) {
        if !kinds.contains(&part.name) {
            kinds.push(part.name.clone());
        }
    }
    kinds.push(UNEXPLAINED.into());
    kinds
}

fn mark(kind: &str, index: usize) -> char {
    if kind == UNEXPLAINED { UNEXPLAINED_MARK } else { MARKS[index % MARKS.len()] }
}

/// The pieces of a bar; parts of one name are one piece.
fn pieces(of: &Explanation) -> BTreeMap<&str, f64> {
    let mut pieces = BTreeMap::new();
    for part in &of.parts {
        *pieces.entry(part.name.as_str()).or_default() += part.ns;
    }
    pieces.insert(UNEXPLAINED, of.unexplained_ns);
    pieces
}

/// A bar of text: as many marks as a piece has of the cost. What is below 0 is not drawn; its share stands beside the bar.
fn bar(of: &Explanation, kinds: &[String]) -> String {
    let pieces = pieces(of);
    let whole: f64 = pieces.values().filter(|ns| **ns > 0.0).sum();
    let mut drawn = String::new();
    let mut until = 0.0;
    for (index, kind) in kinds.iter().enumerate() {
        until += pieces.get(kind.as_str()).map_or(0.0, |ns| ns.max(0.0)) / whole;
        let wanted = (until * BAR_WIDTH).round() as usize;
        let missing = wanted.saturating_sub(drawn.chars().count());
        drawn.extend(std::iter::repeat_n(mark(kind, index), missing));
    }
    drawn
}

fn overview(all: &[&Explanation], kinds: &[String]) -> Table {
    let percents = |[low, high]: [f64; 2]| format!("{:.1} to {:.1} %", low * 100.0, high * 100.0);
    let row = |of: &&Explanation| {
        let beyond = of.beyond_self.as_ref();
        // Records from before there was one judge the whole cost.
        let (share, ends) = beyond
            .map_or((Some(of.unexplained_share), of.unexplained_share_ci95), |beyond| {
                (beyond.unexplained_share, beyond.unexplained_share_ci95)
            });
        let null = beyond.and_then(|beyond| Some(1.0 - beyond.null_ns? / beyond.ns));
        [
            of.case.to_string(),
            with_unit(&of.unit, of.ns),
            bar(of, kinds),
            beyond.map_or("–".into(), |beyond| with_unit("ns", beyond.ns)),
            share.map_or("–".into(), percent),
            ends.map_or("–".into(), percents),
            null.filter(|off| off.is_finite()).map_or("–".into(), percent),
            plain(&of.verdict),
        ]
    };
    let heads = [
        "case",
        "cost",
        "made of",
        "beyond self",
        "of it unexplained",
        "interval",
        "null model off",
        "verdict",
    ];
    Table::new("", heads, all.iter().map(row)).with_texts([2])
}

/// The model beside the null model, for each place.
fn skill(all: &[&Explanation]) -> Vec<Block> {
    let mut places: BTreeMap<String, &Skill> = BTreeMap::new();
    for of in all {
        if let Some(skill) = of.beyond_self.as_ref().and_then(|beyond| beyond.skill.as_ref()) {
            places.entry(of.case.placement.clone()).or_insert(skill);
        }
    }
    let said = places.into_iter().map(|(place, skill)| {
        let Skill { cases, model_off_ns, null_off_ns, skill, ci95 } = skill;
        let better = match ci95 {
            Some([low, _]) if *low > 0.0 => "The model is better than none.",
            Some([_, high]) if *high < 0.0 => "The model is worse than none.",
            _ => "That the model is better than none is not shown.",
        };
        format!(
            "{place}: what {} cost beyond self, with their own mechanism held out, the model misses by {} in the middle and the null model by {}: \
             skill {skill:.2}{}. {better}",
            many(*cases as usize, "case"),
            with_unit("ns", *model_off_ns),
            with_unit("ns", *null_off_ns),
            ci95.map_or(String::new(), |ends| format!(" ({})", range(ends, |end| format!("{end:.2}")))),
        )
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { Vec::new() } else { vec![Block::sentences(said)] }
}

/// How many are close, where there are enough of them.
fn close(all: &[&Explanation]) -> Option<Block> {
    let said = CLOSE.iter().filter_map(|(is_one_cpu, limit)| {
        let here: Vec<&&Explanation> =
            all.iter().filter(|of| (of.case.placement == "same-cpu") == *is_one_cpu).collect();
        let close = here.iter().filter(|of| of.unexplained_share.abs() <= *limit).count();
        (here.len() >= ENOUGH).then(|| {
            let at = if *is_one_cpu { "On one CPU" } else { "Elsewhere" };
            format!(
                "{at} {close} of {} have an unexplained share within ± {:.0} %, their own mechanism held out of what is fitted.",
                many(here.len(), "case"),
                limit * 100.0
            )
        })
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| Block::Paragraph(said.join(" ")))
}

fn chart(all: &[&Explanation], kinds: &[String]) -> Block {
    let scale = Scale::new("ns", all.iter().map(|of| of.ns));
    let bar = |of: &&Explanation| {
        let pieces = pieces(of);
        let piece = |(index, kind): (usize, &String)| {
            // Every bar has every piece, so that the order of pieces is that of the names.
            let value = pieces.get(kind.as_str()).copied().unwrap_or(0.0);
            let hover = vec![kind.clone(), with_unit("ns", value), percent(value / of.ns)];
            Piece { name: kind.clone(), look: Look::nth(index), value: value / scale.divisor, hover }
        };
        Bar { name: of.case.to_string(), pieces: kinds.iter().enumerate().map(piece).collect() }
    };
    let drawing = Drawing::Bars(Axis::Linear(scale.name.clone()), all.iter().rev().map(bar).collect());
    let about = "A piece below zero is what the parts have too much.";
    Block::chart("What the costs are made of", about, drawing, None)
}

fn parts(of: &Explanation) -> Table {
    let row =
        |name: String, [count, price]: [String; 2], ns: f64, ci95: Option<[f64; 2]>, confirmed: String| {
            [name, count, price, with_unit("ns", ns), interval(ci95), percent(ns / of.ns), confirmed]
        };
    let none = || "–".to_owned();
    let parts = of.parts.iter().map(|part| {
        let fitted = if part.is_fitted { " *" } else { "" };
        let name = format!("{}{fitted}", plain(&part.name));
        let confirmed = doses::confirmed(of, part);
        if let Some(why) = &part.no_price {
            let price = format!("no price: {}", plain(why));
            return [name, count(part.count), price, none(), none(), none(), confirmed];
        }
        let counted = [count(part.count), with_unit("ns", part.price_ns)];
        row(name, counted, part.ns, part.ci95, confirmed)
    });
    let sum = |name: &str, ns, ci95| row(name.into(), Default::default(), ns, ci95, String::new());
    let sums = [sum(UNEXPLAINED, of.unexplained_ns, of.unexplained_ns_ci95), sum("together", of.ns, of.ci95)];
    let heads = ["part", "count", "price", "cost", "interval", "share", "confirmed in the case"];
    let all = parts.chain(sums);
    if doses::has_any(of) {
        return Table::new(&of.case.to_string(), heads, all).with_texts([6]);
    }
    let [heads @ .., _] = heads;
    Table::new(&of.case.to_string(), heads, all.map(|[cells @ .., _]| cells))
}

fn what_if(all: &[&Explanation]) -> Vec<Block> {
    let answers = || all.iter().flat_map(|of| of.what_if.iter().map(move |answer| (of, answer)));
    if answers().next().is_none() {
        return Vec::new();
    }
    let rows = answers().map(|(of, answer)| {
        let factors = |ends| range(ends, |end| format!("{end:.3}"));
        [
            of.case.to_string(),
            plain(&answer.change),
            with_unit(&of.unit, answer.ns),
            interval(answer.ci95),
            answer.measured_ns.map_or("not measured: a prediction".into(), |ns| {
                format!("{} ({})", with_unit(&of.unit, ns), percent(answer.ns / ns - 1.0))
            }),
            format!("{:.3}", answer.factor),
            answer.factor_ci95.map_or("–".into(), factors),
        ]
    });
    let heads = [
        "case",
        "if",
        "it would cost",
        "interval",
        "it does cost (predicted is off by)",
        "times now",
        "interval of that",
    ];
    let mut blocks = vec![Block::Table(
        Table::new("What if: predictions by these prices", heads, rows).with_texts([1, 4]),
    )];
    let mut seen = BTreeSet::new();
    let left_out = answers().flat_map(|(_, answer)| {
        answer.remarks.iter().map(|remark| format!("{}: {}", plain(&answer.change), plain(remark)))
    });
    let left_out: Vec<String> = left_out.filter(|text| seen.insert(text.clone())).collect();
    blocks.extend((!left_out.is_empty()).then(|| Block::sentences(left_out)));
    blocks
}

fn remarks(all: &[&Explanation]) -> impl Iterator<Item = Block> {
    let mut cases: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for of in all {
        for remark in &of.remarks {
            cases.entry(remark).or_default().push(of.case.to_string());
        }
    }
    let item = |(remark, further)| Item { text: plain(remark), further, ..Item::default() };
    Block::headed("Remarks", cases.into_iter().map(item).collect())
}

fn price_table(prices: &[&Price]) -> Table {
    let row = |price: &&Price| {
        let fitted = match price.fitted_from.len() {
            0 => String::new(),
            cases => format!(" (fitted from {})", many(cases, "case")),
        };
        [
            plain(&price.name),
            price.of.as_deref().map_or("–".into(), plain),
            plain(&price.place),
            with_unit("ns", price.ns),
            interval(price.ci95),
            format!("{}{fitted}", plain(&price.about)),
        ]
    };
    let heads = ["price", "of", "where", "one costs", "interval", "how it was measured"];
    Table::new("", heads, prices.iter().map(row)).with_texts([1, 2, 5])
}

fn interval(ends: Option<[f64; 2]>) -> String {
    ends.map_or("–".into(), |ends| range(ends, |end| with_unit("ns", end)))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
