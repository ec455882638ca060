//! A comparison of two sides: what differs between their machines, the verdicts, the forest plot of all ratios, and what changed
//! beside each regression.

use weighbridge_record::{CaseVerdict, Claims, MadeOf, PerOp};

use super::Context;
use crate::axis::{Axis, LogAxis};
use crate::calls;
use crate::chart::{Drawing, Line, Point};
use crate::document::{Block, Item, Section, Table};
use crate::look::Look;
use crate::suite::kernel_slab;
use crate::units::{count, difference, range, with_unit};
use crate::words::{case_name, many, plain};

const HEADS: [&str; 9] = ["case", "A", "B", "B − A", "cost B/A", "interval", "verdict", "detectable", "sets"];
/// The pattern of cases of other programs.
const IMPORTED: &str = "imported";
const ABOUT: &str = "B − A is the difference of one operation, also where the figures are rates. Cost B/A is a ratio of costs, for times and for rates: above 1, B costs more. The verdict follows from the interval: equivalent \
                     inside the margin, regressed or improved beyond it (with --any-difference beyond 1), otherwise inconclusive. Its confidence \
                     is at least 95 %, and higher where the comparison had several looks or was selected from many cases. Detectable is the \
                     least additional cost of B that would be called regressed in eight of ten such comparisons.";

/// None where nothing was compared.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let verdicts: Vec<&CaseVerdict> = cx.report.verdicts.iter().map(|verdict| &verdict.what).collect();
    let Some(first) = verdicts.first() else { return Vec::new() };
    let mut blocks = Vec::new();
    let items = |texts: &[String]| texts.iter().map(|text| Item::from(plain(text))).collect::<Vec<_>>();
    for claims in cx.report.claims.iter().map(|claims| &claims.what) {
        blocks.extend(Block::headed("What differs between the two sides", items(&claims.differences)));
        if !claims.remarks.is_empty() {
            blocks.push(Block::List(items(&claims.remarks)));
        }
        blocks.push(Block::Paragraph(summary(claims, &verdicts)));
    }
    blocks.push(Block::Paragraph(ABOUT.into()));
    // What time_bench and slab_test published stands in their tables, with a name in place of an id for the others.
    let (published, others) = kernel_slab::compared(&verdicts, verdict_in_words);
    blocks.extend(published);
    if !others.is_empty() {
        blocks.push(Block::Table(Table::new("", HEADS, others.iter().map(|of| row(of)))));
    }
    blocks.extend(forest(&verdicts));
    let changed = verdicts.iter().filter(|of| of.is_regression()).map(|of| what_changed(of)).collect();
    blocks.extend(Block::headed("What changed with each regression", changed));
    let remarked = verdicts.iter().filter(|of| !of.remarks.is_empty());
    let remarked = remarked.map(|of| Item::over(case_name(&of.case), items(&of.remarks))).collect();
    blocks.extend(Block::headed("Remarks", remarked));
    Section::new("comparison", &plain(&format!("{} (B) against {} (A)", first.b, first.a)), blocks)
}

fn summary(claims: &Claims, verdicts: &[&CaseVerdict]) -> String {
    let words = ["regressed", "changed shape", "improved", "equivalent", "inconclusive", "void"];
    let counts = words.map(|word| (verdicts.iter().filter(|of| of.verdict == word).count(), word));
    let counts = counts.iter().filter(|(found, _)| *found > 0).map(|(found, word)| format!("{found} {word}"));
    let resolution = claims.resolution.map_or(String::new(), |resolution| {
        format!(" A against itself has an interval of ± {} (median over the cases).", percent(resolution))
    });
    format!(
        "{}: {}. Margin {}.{resolution} Of {} claimed, at most {:.1} are expected to be chance.",
        many(verdicts.len(), "case"),
        counts.collect::<Vec<_>>().join(", "),
        percent(claims.margin),
        many(claims.claimed as usize, "difference"),
        claims.expected_by_chance
    )
}

fn row(of: &CaseVerdict) -> [String; 9] {
    let value = |value: Option<f64>| value.map_or("–".into(), |value| with_unit(&of.unit, value));
    let sets = match of.failed_sets {
        0 => of.sets.to_string(),
        failed => format!("{} (+ {failed} failed)", of.sets),
    };
    let more = of.a_value.zip(of.b_value).map_or("–".into(), |(a, b)| difference(&of.unit, a, b));
    [
        case_name(&of.case),
        value(of.a_value),
        value(of.b_value),
        more,
        of.ratio.map_or("–".into(), ratio),
        of.ci95.map_or("–".into(), |ends| range(ends, ratio)),
        verdict_in_words(of),
        of.minimum_detectable_effect.map_or("–".into(), percent),
        sets,
    ]
}

/// What a verdict that claims something does not cover, where the programs of both sides differ.
fn layout(of: &CaseVerdict) -> &'static str {
    let claims = !of.is_void() && !of.is_inconclusive();
    match of.builds.filter(|_| claims) {
        Some([1, 1]) => "; layout of code not varied",
        Some([1, _]) => "; layout of A's code not varied",
        Some([_, 1]) => "; layout of B's code not varied",
        _ => "",
    }
}

/// The verdict with what belongs to it: `regressed beyond 2 %`, `inconclusive; about 27 sets would settle it`.
pub fn verdict_in_words(of: &CaseVerdict) -> String {
    format!("{}{}", found_in_words(of), layout(of))
}

fn found_in_words(of: &CaseVerdict) -> String {
    match (of.beyond_margin, of.settled_by) {
        (Some(true), _) => format!("{} beyond {}", of.verdict, percent(of.margin)),
        (Some(false), _) => format!("{}, size not settled", of.verdict),
        (None, Some(sets)) => format!("{}; about {sets} would settle it", of.verdict),
        _ if of.verdict == "equivalent" => {
            let slow = of
                .slow_starts_not_excluded
                .map(|share| format!(", but up to {} of B's starts may be slow", percent(share)));
            format!("equivalent within {}{}", percent(of.margin), slow.unwrap_or_default())
        }
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
    let line = |(of, ratio): &(&CaseVerdict, f64)| {
        // Worse, better, neither: told apart by more than color.
        let look = match of.verdict.as_str() {
            "regressed" | "changed shape" => 1,
            "improved" => 2,
            _ => 0,
        };
        let hover = vec![case_name(&of.case), format!("B/A {ratio:.4}"), verdict_in_words(of)];
        let point = Point { x: 0.0, y: *ratio, interval: of.ci95, hover };
        Line::new(case_name(&of.case), Look::nth(look), vec![point])
    };
    let drawing = Drawing::Dots(
        Axis::Log(LogAxis::ratios("cost B/A", low, high)),
        with_ratio.iter().map(line).collect(),
    );
    let about = "To the right of 1, B costs more.";
    (!with_ratio.is_empty()).then(|| Block::chart("Cost of B over cost of A", about, drawing, None))
}

/// A part of the difference: `switches: 2 → 4, so B costs 1.60 µs more (1.44 to 1.76)`.
fn made_of(part: &MadeOf) -> String {
    let word = if part.ns < 0.0 { "less" } else { "more" };
    let ns = |value: f64| with_unit("ns", value.abs());
    let interval = part.ci95.map(|[low, high]| {
        format!(" ({})", range([low.abs().min(high.abs()), low.abs().max(high.abs())], ns))
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

const COUNTS: [(&str, Count); 5] = [
    ("voluntary switches per operation", |of| of.voluntary_switches),
    ("involuntary switches per operation", |of| of.involuntary_switches),
    ("page faults per operation", |of| of.minor_faults + of.major_faults),
    ("CPU nanoseconds per operation", |of| of.cpu_ns),
    ("instructions per operation", |of| of.instructions.unwrap_or(0.0)),
];

fn nothing_changed(per_op: Option<&PerOp>, has_calls: bool) -> String {
    let calls = if has_calls { ", system calls" } else { "" };
    let is_timed = per_op.is_none_or(|per_op| per_op.cpu().1 == "ns");
    let ran = if is_timed { "CPU time" } else { "instructions" };
    format!("switches, faults{calls} and {ran} per operation did not change by more than 2 %")
}

/// Counts that moved together with the cost, and the command that looks closer.
fn what_changed(of: &CaseVerdict) -> Item {
    let mut texts: Vec<String> = Vec::new();
    if let (Some(a), Some(b)) = (&of.a_per_op, &of.b_per_op) {
        let moved = COUNTS.into_iter().map(|(name, of)| (name, of(a), of(b))).filter(|(_, a, b)| {
            let larger = a.abs().max(b.abs());
            larger > 0.001 && (a - b).abs() > 0.02 * larger
        });
        texts.extend(moved.map(|(name, a, b)| format!("{name}: {} → {}", count(a), count(b))));
    }
    texts.extend(of.made_of.iter().map(made_of));
    let calls = of.a_system_calls.as_ref().zip(of.b_system_calls.as_ref());
    texts.extend(calls.into_iter().flat_map(|(a, b)| calls::changed(a, b)));
    let is_counted = of.a_per_op.is_some();
    if texts.is_empty() && is_counted {
        texts.push(nothing_changed(of.a_per_op.as_ref(), calls.is_some()));
    }
    // What another program measured, or a replay, is not a case of ours.
    if of.case.pattern != IMPORTED && is_counted {
        texts.push(format!("look closer: weighbridge run {} --set counters=events", of.case));
    }
    let text = format!("{}: {}", case_name(&of.case), of.ratio.map_or("–".into(), ratio));
    Item::over(text, texts.into_iter().map(Item::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_counts_of_a_guest_are_instructions() {
        let counted = PerOp { instructions: Some(9.0), ..PerOp::default() };
        let timed = PerOp { cpu_ns: 5.0, ..counted.clone() };
        for (per_op, ran) in [(timed, "CPU time"), (counted, "instructions")] {
            let expected =
                format!("switches, faults and {ran} per operation did not change by more than 2 %");
            assert_eq!(nothing_changed(Some(&per_op), false), expected);
        }
    }
}
