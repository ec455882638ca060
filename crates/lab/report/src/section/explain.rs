//! What costs are made of, from the lines of a record: a bar for each case, its parts, what it would cost otherwise, and the prices.

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_record::{Explanation, Price};

use crate::axis::Axis;
use crate::chart::{Bar, Chart, Drawing, Piece};
use crate::document::{Block, Cell, Item, Section, Table};
use crate::look::Look;
use crate::model::Report;
use crate::units::{Scale, count, with_unit};
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
                     from the one that is explained; so parts over cost is a prediction. A case whose unexplained share is surely above 15 % is \
                     not explained.";

/// Nothing where nothing was explained.
pub fn sections(report: &Report) -> Vec<Section> {
    let all: Vec<&Explanation> = report.explanations.iter().map(|of| &of.what).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let kinds = kinds(&all);
    let mut blocks = vec![Block::Paragraph(ABOUT.into())];
    blocks.extend(close(&all));
    blocks.push(Block::Table(overview(&all, &kinds)));
    let legend: Vec<String> = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| format!("{} {}", mark(kind, index), plain(kind)))
        .collect();
    blocks.push(Block::Paragraph(format!("Bars: {}.", legend.join(" · "))));
    blocks.push(chart(&all, &kinds));
    let parts = |of: &&Explanation| Block::Table(parts(of));
    match all.len() {
        0..=FEW => blocks.extend(all.iter().map(parts)),
        _ => blocks.push(Block::fold("The parts of each case".into(), all.iter().map(parts).collect())),
    }
    blocks.extend(what_if(&all));
    blocks.extend(remarks(&all));
    let prices: Vec<&Price> = report.prices.iter().map(|price| &price.what).collect();
    if !prices.is_empty() {
        blocks.push(Block::fold("Prices".into(), vec![Block::Table(price_table(&prices))]));
    }
    Section::new("explanation", "What the costs are made of", blocks).into_iter().collect()
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
    let row = |of: &&Explanation| {
        vec![
            Cell::from(of.case.to_string()),
            with_unit(&of.unit, of.ns).into(),
            bar(of, kinds).into(),
            Cell::from(percent(of.unexplained_share)),
            of.unexplained_share_ci95.map_or("–".into(), percents).into(),
            of.parts_over_cost.map_or("–".into(), |parts| format!("{parts:.3}").into()),
            plain(&of.verdict).into(),
        ]
    };
    let heads =
        ["case", "cost", "made of", "unexplained", "interval", "parts/cost", "verdict"].map(String::from);
    let mut table = Table::new("", heads, all.iter().map(row).collect());
    table.columns[2].is_text = true;
    table
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
    Block::Chart(Box::new(Chart {
        title: "What the costs are made of".into(),
        about: "A piece below zero is what the parts have too much.".into(),
        drawing: Drawing::Bars(Axis::Linear(scale.name.clone()), all.iter().rev().map(bar).collect()),
        figures: None,
    }))
}

fn parts(of: &Explanation) -> Table {
    let row = |name: String, count: String, price: String, ns: f64, ci95: Option<[f64; 2]>| {
        let interval = ci95.map_or("–".into(), interval);
        [name, count, price, with_unit("ns", ns), interval, percent(ns / of.ns)].map(Cell::from).to_vec()
    };
    let mut rows: Vec<Vec<Cell>> = of
        .parts
        .iter()
        .map(|part| {
            let name = plain(&part.name);
            let name = if part.is_fitted { format!("{name} *") } else { name };
            row(name, count(part.count), with_unit("ns", part.price_ns), part.ns, part.ci95)
        })
        .collect();
    rows.push(row(
        UNEXPLAINED.into(),
        String::new(),
        String::new(),
        of.unexplained_ns,
        of.unexplained_ns_ci95,
    ));
    rows.push(row("together".into(), String::new(), String::new(), of.ns, of.ci95));
    let heads = ["part", "count", "price", "cost", "interval", "share"].map(String::from);
    Table::new(&of.case.to_string(), heads, rows)
}

fn what_if(all: &[&Explanation]) -> Vec<Block> {
    let rows: Vec<Vec<Cell>> = all
        .iter()
        .flat_map(|of| of.what_if.iter().map(move |answer| (of, answer)))
        .map(|(of, answer)| {
            [
                of.case.to_string(),
                plain(&answer.change),
                with_unit(&of.unit, answer.ns),
                answer.ci95.map_or("–".into(), interval),
                format!("{:.3}", answer.factor),
                answer.factor_ci95.map_or("–".into(), |[low, high]| format!("{low:.3} to {high:.3}")),
            ]
            .map(Cell::from)
            .to_vec()
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let heads =
        ["case", "if", "it would cost", "interval", "times now", "interval of that"].map(String::from);
    let mut table = Table::new("What if", heads, rows);
    table.columns[1].is_text = true;
    let mut left_out: Vec<String> = all
        .iter()
        .flat_map(|of| &of.what_if)
        .flat_map(|answer| {
            answer.remarks.iter().map(|remark| format!("{}: {}", plain(&answer.change), plain(remark)))
        })
        .collect();
    let mut seen = BTreeSet::new();
    left_out.retain(|text| seen.insert(text.clone()));
    [Block::Table(table)]
        .into_iter()
        .chain((!left_out.is_empty()).then(|| Block::sentences(left_out)))
        .collect()
}

fn remarks(all: &[&Explanation]) -> Vec<Block> {
    let mut cases: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for of in all {
        for remark in &of.remarks {
            cases.entry(remark).or_default().push(of.case.to_string());
        }
    }
    let item = |(remark, cases): (&str, Vec<String>)| Item {
        text: plain(remark),
        further: cases,
        ..Item::default()
    };
    if cases.is_empty() {
        Vec::new()
    } else {
        vec![Block::Heading("Remarks".into()), Block::List(cases.into_iter().map(item).collect())]
    }
}

fn price_table(prices: &[&Price]) -> Table {
    let row = |price: &&Price| {
        let source = match price.fitted_from.len() {
            0 => plain(&price.about),
            cases => format!("{} (fitted from {})", plain(&price.about), many(cases, "case")),
        };
        [
            plain(&price.name),
            price.of.as_deref().map_or("–".into(), plain),
            plain(&price.place),
            with_unit("ns", price.ns),
            price.ci95.map_or("–".into(), interval),
            source,
        ]
        .map(Cell::from)
        .to_vec()
    };
    let heads = ["price", "of", "where", "one costs", "interval", "how it was measured"].map(String::from);
    let mut table = Table::new("", heads, prices.iter().map(row).collect());
    for index in [1, 2, 5] {
        table.columns[index].is_text = true;
    }
    table
}

fn interval([low, high]: [f64; 2]) -> String {
    format!("{} to {}", with_unit("ns", low), with_unit("ns", high))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn percents([low, high]: [f64; 2]) -> String {
    format!("{:.1} to {:.1} %", low * 100.0, high * 100.0)
}
