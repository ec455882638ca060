//! What has to be said of a record as a whole: its state, the cost of the harness, the memory bus.

use std::collections::BTreeMap;

use weighbridge_record::earlier::is_beside_a_load;

use crate::document::Item;
use crate::figure::Off;
use crate::model::{Measured, Report, Source};
use crate::units::with_unit;
use crate::words::{many, plain};

/// Number of items of a list that are shown where there is no fold for the rest.
pub const FEW: usize = 8;

/// How to see what has no room here.
pub const ELSEWHERE: &str = "`weighbridge report --format markdown` lists all";

/// The first few items; instead of the rest, their number.
pub fn few(mut items: Vec<Item>) -> Vec<Item> {
    // A line that says "1 more" would take the place of that one.
    if items.len() > FEW + 1 {
        let more = items.len() - FEW;
        items.truncate(FEW);
        items.push(Item::without_folds(format!("… {more} more; {ELSEWHERE}")));
    }
    items
}

const BESIDE_A_LOAD: &str = "Measured beside a load: in three of four runs some task of the machine waited for a CPU most of the time. The figures are those of \
     this load, and so are ratios of what spins to what sleeps; an idle machine gives others.";

/// What is wrong with the records as such: broken lines, an end that is missing, a debug build.
pub fn warnings(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    for source in &report.sources {
        let name = if report.has_several_sources() { format!("{}: ", source.name) } else { String::new() };
        all.extend(source_warnings(source).into_iter().map(|text| plain(&format!("{name}{text}"))));
    }
    for (index, source) in report.sources.iter().enumerate() {
        let own = report.cases.iter().filter(|case| case.source == index).flat_map(|case| &case.runs);
        if is_beside_a_load(own) {
            let name =
                if report.has_several_sources() { format!("{}: ", source.name) } else { String::new() };
            all.push(plain(&format!("{name}{BESIDE_A_LOAD}")));
        }
    }
    let computed = report.cases.iter().filter(|case| case.is_computed).count();
    if computed > 0 {
        all.push(format!(
            "The record holds no summary for {}; computed for this report from the runs that it holds.",
            many(computed, "case")
        ));
    }
    let unknown = report.cases.iter().filter(|case| case.summary.is_none() && !case.runs.is_empty()).count();
    if unknown > 0 {
        all.push(format!(
            "{} with runs but neither a summary nor usable samples and a unit: not shown.",
            many(unknown, "case")
        ));
    }
    all
}

fn source_warnings(source: &Source) -> Vec<String> {
    let mut all: Vec<String> = source.problems.iter().map(|problem| format!("{problem}.")).collect();
    match &source.header {
        Some(header) if header.tool.profile == "debug" => {
            all.push("Measured with a debug build: the figures mean nothing. Build with --release.".into());
        }
        Some(_) => {}
        None => all.push("The header line is missing, so the machine is not known.".into()),
    }
    match &source.end {
        Some(end) if !end.complete => all.push("Ended early: not everything planned was measured.".into()),
        Some(_) => {}
        None => all.push("The end line is missing: the program was killed, or is still at work.".into()),
    }
    all
}

/// Cost of the harness itself, as measured in place, at the smallest size of each pattern and placement.
pub fn harness(report: &Report) -> Vec<String> {
    let mut smallest: BTreeMap<_, &Measured> = BTreeMap::new();
    for case in report.cases.iter().filter(|case| case.is_harness() && case.summary.is_some()) {
        let key = (case.source, &case.id.pattern, case.id.place());
        let kept = smallest.entry(key).or_insert(case);
        if (case.id.payload_bytes, &case.id.axes) < (kept.id.payload_bytes, &kept.id.axes) {
            *kept = case;
        }
    }
    let line = |case: &&Measured| {
        let summary = case.summary.as_ref()?;
        let name = report.variant(case.source, &case.id);
        let value = with_unit(&summary.unit, summary.median);
        let (id, reach) = (&case.id, Off::of(summary).brief(summary.median));
        Some(plain(&format!("{}/{name} at {}: {value} {reach}", id.pattern, id.place())))
    };
    smallest.values().filter_map(line).collect()
}

/// The name of the series that estimates what crossed the memory bus.
const BUS: &str = "bus_bytes_per_s";
/// How many operations the note on the memory bus names.
const BUSIEST: usize = 4;

/// What share of the memory's theoretical bandwidth the busiest operations used, or why that is not known. Nothing where no
/// operation crossed the bus.
pub fn dram(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, source) in report.sources.iter().enumerate() {
        let Some(machine) = source.header.as_ref().map(|header| &header.machine) else { continue };
        let mut busy: Vec<(&Measured, f64)> = report
            .cases
            .iter()
            .filter(|case| case.source == index)
            .filter_map(|case| Some((case, *case.summary.as_ref()?.series.get(BUS)?)))
            .collect();
        if busy.is_empty() {
            continue;
        }
        busy.sort_by(|one, other| other.1.total_cmp(&one.1));
        let most = machine.dram.as_ref().and_then(|dram| dram.bytes_per_s).filter(|most| *most > 0.0);
        let line = if let Some(most) = most {
            let share = |(case, rate): &(&Measured, f64)| format!("{} {:.0} %", case.id, rate / most * 100.0);
            let shares: Vec<String> = busy.iter().take(BUSIEST).map(share).collect();
            format!("of {:.1} GB/s in theory, estimated: {}", most / 1e9, shares.join("; "))
        } else {
            let why =
                machine.missing.iter().find(|why| why.starts_with("theoretical bandwidth of the memory"));
            let why = why.map_or("the record does not say why", |why| {
                why.split_once(": ").map_or(why.as_str(), |(_, reason)| reason)
            });
            format!("the share of the theoretical bandwidth is not known: {why}")
        };
        lines.push(plain(&line));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_only_where_that_saves_a_line() {
        let items = |count: usize| few((0..count).map(|index| Item::from(index.to_string())).collect());
        assert_eq!(items(9).last().unwrap().text, "8");
        assert_eq!(items(10).len(), 9);
        assert_eq!(
            items(10).last().unwrap().text,
            "… 2 more; `weighbridge report --format markdown` lists all"
        );
    }
}
