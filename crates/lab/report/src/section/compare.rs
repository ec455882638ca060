//! A comparison of two sides: what differs between their machines, the verdicts, the forest plot of all ratios, and what changed
//! beside each regression.

use weighbridge_record::{CaseVerdict, Claims, MadeOf, PerOp};

use crate::axis::{Axis, LogAxis};
use crate::calls;
use crate::chart::{Chart, Drawing, Line, Point};
use crate::document::{Block, Cell, Item, Section, Table};
use crate::look::Look;
use crate::model::Report;
use crate::units::{count, with_unit};
use crate::words::{many, plain};

const HEADS: [&str; 7] = ["case", "A", "B", "cost B/A", "interval", "verdict", "sets"];
const ABOUT: &str = "Cost B/A is a ratio of costs, for times and for rates: above 1, B costs more. The verdict follows from the interval: equivalent \
                     inside the margin, regressed above 1, improved below 1, otherwise inconclusive. Its confidence is at least 95 %, and \
                     higher where the comparison had several looks or was selected from many cases.";

/// Nothing where nothing was compared.
pub fn section(report: &Report) -> Option<Section> {
    let verdicts: Vec<&CaseVerdict> = report.verdicts.iter().map(|verdict| &verdict.what).collect();
    let first = verdicts.first()?;
    let mut blocks = Vec::new();
    for claims in report.claims.iter().map(|claims| &claims.what) {
        blocks.extend(beforehand(claims));
        blocks.push(Block::Paragraph(summary(claims, &verdicts)));
    }
    blocks.push(Block::Paragraph(ABOUT.into()));
    blocks.push(Block::Table(Table::new(
        "",
        HEADS.map(String::from),
        verdicts.iter().map(|of| row(of)).collect(),
    )));
    blocks.extend(forest(&verdicts));
    let changed: Vec<Item> =
        verdicts.iter().filter(|of| of.is_regression()).map(|of| what_changed(of)).collect();
    if !changed.is_empty() {
        blocks.push(Block::Heading("What changed with each regression".into()));
        blocks.push(Block::List(changed));
    }
    let remarked = verdicts.iter().filter(|of| !of.remarks.is_empty()).map(|of| Item {
        text: of.case.to_string(),
        items: of.remarks.iter().map(|remark| Item::from(plain(remark))).collect(),
        ..Item::default()
    });
    let remarked: Vec<Item> = remarked.collect();
    if !remarked.is_empty() {
        blocks.push(Block::Heading("Remarks".into()));
        blocks.push(Block::List(remarked));
    }
    Section::new("comparison", &plain(&format!("{} (B) against {} (A)", first.b, first.a)), blocks)
}

/// What must be known before any verdict.
fn beforehand(claims: &Claims) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !claims.differences.is_empty() {
        blocks.push(Block::Heading("What differs between the two sides".into()));
        blocks.push(Block::sentences(claims.differences.iter().map(|text| plain(text))));
    }
    if !claims.remarks.is_empty() {
        blocks.push(Block::sentences(claims.remarks.iter().map(|text| plain(text))));
    }
    blocks
}

fn summary(claims: &Claims, verdicts: &[&CaseVerdict]) -> String {
    let words = ["regressed", "changed shape", "improved", "equivalent", "inconclusive", "void"];
    let counts: Vec<String> = words
        .into_iter()
        .filter_map(|word| {
            let found = verdicts.iter().filter(|of| of.verdict == word).count();
            (found > 0).then(|| format!("{found} {word}"))
        })
        .collect();
    let resolution = claims.resolution.map_or(String::new(), |resolution| {
        format!(" A against itself has an interval of ± {} (median over the cases).", percent(resolution))
    });
    format!(
        "{}: {}. Margin {}.{resolution} Of {} claimed, at most {:.1} are expected to be chance.",
        many(verdicts.len(), "case"),
        counts.join(", "),
        percent(claims.margin),
        many(claims.claimed as usize, "difference"),
        claims.expected_by_chance
    )
}

fn row(of: &CaseVerdict) -> Vec<Cell> {
    let value = |value: Option<f64>| value.map_or("–".into(), |value| with_unit(&of.unit, value));
    let sets = match of.failed_sets {
        0 => of.sets.to_string(),
        failed => format!("{} (+ {failed} failed)", of.sets),
    };
    [
        of.case.to_string(),
        value(of.a_value),
        value(of.b_value),
        of.ratio.map_or("–".into(), ratio),
        of.ci95.map_or("–".into(), |[low, high]| format!("{} to {}", ratio(low), ratio(high))),
        verdict_in_words(of),
        sets,
    ]
    .map(Cell::from)
    .into()
}

/// The verdict with what belongs to it: `regressed beyond 2 %`, `inconclusive; about 27 sets would settle it`.
pub fn verdict_in_words(of: &CaseVerdict) -> String {
    match (of.beyond_margin, of.settled_by) {
        (Some(true), _) => format!("{} beyond {}", of.verdict, percent(of.margin)),
        (Some(false), _) => format!("{}, size not settled", of.verdict),
        (None, Some(sets)) => format!("{}; about {sets} would settle it", of.verdict),
        _ if of.verdict == "equivalent" => format!("equivalent within {}", percent(of.margin)),
        _ => of.verdict.clone(),
    }
}

/// Four decimals up to 10: a change by a thousandth must be seen.
fn ratio(value: f64) -> String {
    if value < 10.0 { format!("{value:.4}") } else { format!("{value:.2}") }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

/// One dot and interval for each case.
fn forest(verdicts: &[&CaseVerdict]) -> Option<Block> {
    let with_ratio: Vec<(&CaseVerdict, f64)> =
        verdicts.iter().filter_map(|of| Some((*of, of.ratio?))).collect();
    let ends = with_ratio.iter().flat_map(|(of, ratio)| of.ci95.unwrap_or([*ratio; 2]));
    let (low, high) = ends.fold((1.0_f64, 1.0_f64), |(low, high), end| (low.min(end), high.max(end)));
    let line = |(of, ratio): &(&CaseVerdict, f64)| Line {
        name: of.case.to_string(),
        // Worse, better, neither: told apart by more than color.
        look: Look::nth(match of.verdict.as_str() {
            "regressed" | "changed shape" => 1,
            "improved" => 2,
            _ => 0,
        }),
        is_hidden: false,
        points: vec![Point {
            x: 0.0,
            y: *ratio,
            interval: of.ci95,
            hover: vec![of.case.to_string(), format!("B/A {ratio:.4}"), verdict_in_words(of)],
        }],
    };
    let lines: Vec<Line> = with_ratio.iter().map(line).collect();
    (!lines.is_empty()).then(|| {
        Block::Chart(Box::new(Chart {
            title: "Cost of B over cost of A".into(),
            about: "To the right of 1, B costs more.".into(),
            drawing: Drawing::Dots(Axis::Log(LogAxis::ratios("cost B/A", low, high)), lines),
            figures: None,
        }))
    })
}

/// A part of the difference: `switches: 2 → 4, so B costs 1.60 µs more (1.44 to 1.76)`.
fn made_of(part: &MadeOf) -> String {
    let word = if part.ns < 0.0 { "less" } else { "more" };
    let ns = |value: f64| with_unit("ns", value.abs());
    let interval = part.ci95.map(|[low, high]| {
        let (near, far) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
        format!(" ({} to {})", ns(near), ns(far))
    });
    format!(
        "made of {}: {} → {} per operation, by which B costs {} {word}{}",
        plain(&part.name),
        count(part.a_count),
        count(part.b_count),
        ns(part.ns),
        interval.unwrap_or_default()
    )
}

/// One of the counts.
type Count = fn(&PerOp) -> f64;

/// Counts that moved together with the cost, and the command that looks closer.
fn what_changed(of: &CaseVerdict) -> Item {
    let mut items: Vec<Item> = Vec::new();
    if let (Some(a), Some(b)) = (&of.a_per_op, &of.b_per_op) {
        let counts: [(&str, Count); 5] = [
            ("voluntary switches per operation", |of| of.voluntary_switches),
            ("involuntary switches per operation", |of| of.involuntary_switches),
            ("page faults per operation", |of| of.minor_faults + of.major_faults),
            ("CPU nanoseconds per operation", |of| of.cpu_ns),
            ("instructions per operation", |of| of.instructions.unwrap_or(0.0)),
        ];
        let moved = counts.into_iter().map(|(name, of)| (name, of(a), of(b))).filter(|(_, a, b)| {
            let larger = a.abs().max(b.abs());
            larger > 0.001 && (a - b).abs() > 0.02 * larger
        });
        items.extend(moved.map(|(name, a, b)| Item::from(format!("{name}: {} → {}", count(a), count(b)))));
    }
    items.extend(of.made_of.iter().map(|part| Item::from(made_of(part))));
    let calls = of.a_system_calls.as_ref().zip(of.b_system_calls.as_ref());
    items.extend(calls.into_iter().flat_map(|(a, b)| calls::changed(a, b)).map(Item::from));
    if items.is_empty() {
        let counted = if calls.is_some() { "switches, faults, system calls" } else { "switches, faults" };
        items.push(format!("{counted} and CPU time per operation did not change by more than 2 %").into());
    }
    items.push(format!("look closer: weighbridge run {} --set counters=events", of.case).into());
    Item { text: format!("{}: {}", of.case, of.ratio.map_or("–".into(), ratio)), items, ..Item::default() }
}
