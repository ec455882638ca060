//! Cases compared with a baseline that was chosen afterwards: a table for each figure.

use weighbridge_record::Ratio;

use super::Context;
use crate::document::{Block, Section, Table};
use crate::model::{Report, Sourced};
use crate::suite::free_ratios;
use crate::units::{Scale, Series, count, difference, range, signed, significant, with_unit};
use crate::words::{case_name, plain};

const HEADS: [&str; 7] = ["case", "here", "baseline", "difference", "times", "95 % interval", "pairs"];

/// None where nothing was compared with a baseline.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let report = cx.report;
    let Some(first) = free_ratios(report).next() else { return Vec::new() };
    let (title, about) = match &first.what.baseline_record {
        None => (
            format!("Compared with {}", first.what.baseline),
            "The column times is the figure of the case divided by that of the baseline: the median over pairs of runs of one round, which \
             are neighbors in time.",
        ),
        Some(record) => (
            format!("Compared with the same cases of {record}"),
            "This comparison is not interleaved: the two records were measured one after the other, so a change of the machine \
             between them is in each ratio, and the intervals do not cover it. Multiples of the hub's cost suffer least from \
             that, because the hub was measured in the same slices; the ratio of the figures themselves stands beside. The column times \
             is the figure of the case divided by that of the baseline: the median of the quotients of all runs of both.",
        ),
    };
    let mut figures: Vec<&str> = Vec::new();
    for ratio in free_ratios(report) {
        if !figures.contains(&ratio.what.figure.as_str()) {
            figures.push(&ratio.what.figure);
        }
    }
    // The multiples of the hub's cost first, also where the first case was measured alone.
    figures.sort_by_key(|figure| *figure != "to_hub");
    let tables = figures.into_iter().map(|figure| Block::Table(table(report, figure)));
    Section::new("baseline", &title, [Block::Paragraph(about.into())].into_iter().chain(tables).collect())
}

/// One figure of all cases that have it.
fn table(report: &Report, figure: &str) -> Table {
    let found: Vec<&Sourced<Ratio>> =
        free_ratios(report).filter(|ratio| ratio.what.figure == figure).collect();
    let values = || found.iter().flat_map(|ratio| [ratio.what.here, ratio.what.there]);
    let scaled = |unit: &str, name: &dyn Fn(&str) -> String| {
        let scale = Scale::new(unit, values());
        (name(&scale.name), Some(scale))
    };
    let is_count = figure.ends_with("switches_per_op");
    let is_to_hub = figure == "to_hub";
    let (title, scale) = match figure {
        "to_hub" => ("Cost as a multiple of the hub's".to_owned(), None),
        "value" => ("Figure of the case".to_owned(), None),
        "messages_per_s" => scaled("messages/s", &|unit| format!("{unit}, as the reader counted")),
        "cpu_ns_per_message" => scaled("ns", &|unit| format!("CPU {unit} per message")),
        "cpu_ns_per_op" => scaled("ns", &|unit| format!("CPU {unit} per operation")),
        "voluntary_switches_per_op" => ("Voluntary switches per operation".into(), None),
        "involuntary_switches_per_op" => ("Involuntary switches per operation".into(), None),
        "sender_ns_to_value" => scaled("ns", &|unit| {
            format!("Sender's time over the baseline's until the last receiver has a message, {unit}")
        }),
        series => {
            let series = Series::new(series, values());
            (series.label(), Some(series.scale))
        }
    };
    // Of a multiple of the hub's cost: the same ratio of the figures themselves.
    let raw = |of: &Sourced<Ratio>| {
        let is_raw = |other: &&Sourced<Ratio>| {
            other.source == of.source && other.what.case == of.what.case && other.what.figure == "value"
        };
        free_ratios(report).find(is_raw).map_or("–".into(), |raw| significant(raw.what.ratio))
    };
    let is_elsewhere = found.iter().any(|ratio| ratio.what.other_machine.is_some());
    let row = |ratio: &&Sourced<Ratio>| -> Vec<String> {
        let Ratio { case, here, there, ratio: times, ci95, pairs, other_machine, .. } = &ratio.what;
        let unit = report.case(ratio.source, case).and_then(|case| case.unit()).unwrap_or_default();
        let shown = |value: f64| match &scale {
            Some(scale) => scale.show(value),
            None if is_count || is_to_hub => count(value),
            None => with_unit(unit, value),
        };
        let more = match &scale {
            None if !(is_count || is_to_hub) => difference(unit, *there, *here),
            _ => signed(here - there, shown),
        };
        let interval = ci95.map_or("–".into(), |ends| range(ends, significant));
        let pairs = if *pairs == 0 { "none".into() } else { pairs.to_string() };
        let mut cells =
            vec![case_name(case), shown(*here), shown(*there), more, significant(*times), interval, pairs];
        cells.extend(is_to_hub.then(|| raw(ratio)));
        cells.extend(is_elsewhere.then(|| plain(other_machine.as_deref().unwrap_or("the same"))));
        cells
    };
    let further = [(is_to_hub, "times, of the figures"), (is_elsewhere, "other machine")];
    let further = further.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, head)| head);
    Table::new(&title, HEADS.into_iter().chain(further), found.iter().map(row))
}
