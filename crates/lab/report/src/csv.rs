//! Comma-separated values: one row per case, every field, as the record has it (nothing rounded or converted).
//!
//! A case without a figure has a row too, with the reason. Quoting follows RFC 4180.

use std::collections::{BTreeMap, HashMap};

use weighbridge_record::{CaseId, Distribution, PerOp, Skipped, Summary};

use crate::model::{Measured, Report, Sourced};
use crate::section::percentile_name as name;

/// Names of the columns. `…_in_unit` is in the unit of the same row; `…_share` is a part of the median.
const COLUMNS: [&str; 41] = [
    "record",
    "case",
    "pattern",
    "mechanism",
    "payload_bytes",
    "placement",
    "resolved_placement",
    "cpus",
    "axes",
    "unit",
    "higher_is_better",
    "runs",
    "median_in_unit",
    "ci95_low_in_unit",
    "ci95_high_in_unit",
    "lowest_run_in_unit",
    "highest_run_in_unit",
    "spread_between_runs_share",
    "spread_within_runs_share",
    "stopped_by",
    "summary_computed_by_report",
    "voluntary_switches_per_op",
    "involuntary_switches_per_op",
    "minor_faults_per_op",
    "major_faults_per_op",
    "cpu_ns_per_op",
    "user_ns_per_op",
    "kernel_ns_per_op",
    "migrations_per_op",
    "cycles_per_op",
    "instructions_per_op",
    "system_calls_per_op",
    "series_medians",
    "percentiles_ns",
    "anomalies",
    "regimes",
    "facts",
    "started",
    "boot_id",
    "skipped_step",
    "skipped_why",
];

/// Columns of a report that compares cases with a baseline.
const RATIOS: [&str; 12] = [
    "record",
    "case",
    "baseline",
    "baseline_record",
    "other_machine",
    "figure",
    "here",
    "there",
    "ratio",
    "ci95_low",
    "ci95_high",
    "pairs",
];

/// The report as comma-separated values, with a header row: a row per case, or per ratio where cases are compared with a
/// baseline.
pub fn csv(report: &Report) -> String {
    if report.is_compared {
        return ratios(report);
    }
    let mut writer = writer();
    let mut write = |row: [String; COLUMNS.len()]| writer.write_record(row).expect("rows have one length");
    write(COLUMNS.map(String::from));
    let mut skips: HashMap<(usize, &CaseId), Vec<&Skipped>> = HashMap::new();
    for skip in &report.skipped {
        skips.entry((skip.source, &skip.what.case)).or_default().push(&skip.what);
    }
    for case in &report.cases {
        let skips = skips.remove(&(case.source, &case.id)).unwrap_or_default();
        write(row(report, case.source, &case.id, Some(case), &skips));
    }
    for skip in &report.skipped {
        // Taken out at the first line of its case, so that each case has one row.
        if let Some(skips) = skips.remove(&(skip.source, &skip.what.case)) {
            write(row(report, skip.source, &skip.what.case, None, &skips));
        }
    }
    text(writer)
}

fn ratios(report: &Report) -> String {
    let mut writer = writer();
    writer.write_record(RATIOS).expect("rows have one length");
    for Sourced { source, what } in &report.ratios {
        let end = |index: usize| what.ci95.map_or(String::new(), |ends| ends[index].to_string());
        let row: [String; RATIOS.len()] = [
            report.sources[*source].name.clone(),
            what.case.to_string(),
            what.baseline.to_string(),
            what.baseline_record.clone().unwrap_or_default(),
            what.other_machine.clone().unwrap_or_default(),
            what.figure.clone(),
            what.here.to_string(),
            what.there.to_string(),
            what.ratio.to_string(),
            end(0),
            end(1),
            what.pairs.to_string(),
        ];
        writer.write_record(row).expect("rows have one length");
    }
    text(writer)
}

fn writer() -> ::csv::Writer<Vec<u8>> {
    ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new())
}

fn text(writer: ::csv::Writer<Vec<u8>>) -> String {
    let bytes = writer.into_inner().expect("writing to memory does not fail");
    String::from_utf8(bytes).expect("made of strings")
}

fn row(
    report: &Report,
    source: usize,
    id: &CaseId,
    measured: Option<&Measured>,
    skips: &[&Skipped],
) -> [String; COLUMNS.len()] {
    let from = &report.sources[source];
    let case = measured.and_then(|measured| measured.case.as_ref());
    let summary = measured.and_then(|measured| measured.summary.as_ref());
    let text = |value: Option<String>| value.unwrap_or_default();
    let joined = |items: Vec<String>| items.join("; ");
    let cpus = case.map(|case| case.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    let number = |get: fn(&Summary) -> f64| text(summary.map(|summary| get(summary).to_string()));
    let count = |get: fn(&PerOp) -> Option<f64>| {
        text(summary.and_then(|summary| get(&summary.per_op)).map(|value| value.to_string()))
    };
    let end = |index: usize| text(summary.and_then(|summary| Some(summary.ci95?[index].to_string())));
    let header = from.header.as_ref();
    [
        from.name.clone(),
        id.to_string(),
        id.pattern.clone(),
        id.mechanism.clone(),
        id.payload_bytes.to_string(),
        id.placement.clone(),
        text(case.map(|case| case.resolved_placement.clone())),
        text(cpus),
        pairs(case.map_or(&id.axes, |case| &case.axes)),
        text(measured.and_then(Measured::unit).map(String::from)),
        text(measured.map(|measured| measured.higher_is_better().to_string())),
        text(summary.map(|summary| summary.runs.to_string())),
        number(|summary| summary.median),
        end(0),
        end(1),
        number(|summary| summary.range[0]),
        number(|summary| summary.range[1]),
        number(|summary| summary.spread_between),
        number(|summary| summary.spread_within),
        text(summary.map(|summary| named(&summary.stopped_by))),
        text(measured.map(|measured| measured.is_computed.to_string())),
        count(|per_op| Some(per_op.voluntary_switches)),
        count(|per_op| Some(per_op.involuntary_switches)),
        count(|per_op| Some(per_op.minor_faults)),
        count(|per_op| Some(per_op.major_faults)),
        count(|per_op| Some(per_op.cpu_ns)),
        count(|per_op| per_op.user_ns),
        count(|per_op| per_op.kernel_ns),
        count(|per_op| per_op.migrations),
        count(|per_op| per_op.cycles),
        count(|per_op| per_op.instructions),
        text(summary.and_then(|summary| summary.system_calls.as_ref()).map(|calls| calls.per_op.to_string())),
        text(summary.map(|summary| pairs(&summary.series))),
        text(summary.and_then(|summary| summary.distribution.as_ref()).map(percentiles)),
        text(summary.map(|summary| joined(summary.anomalies.clone()))),
        text(summary.map(|summary| joined(summary.regimes.iter().map(regime).collect()))),
        text(case.map(|case| pairs(&case.facts))),
        text(header.map(|header| header.started.clone())),
        text(header.and_then(|header| header.machine.boot_id.clone())),
        joined(skips.iter().map(|skip| skip.step.clone()).collect()),
        joined(skips.iter().map(|skip| skip.why.clone()).collect()),
    ]
}

fn pairs<V: ToString>(map: &BTreeMap<String, V>) -> String {
    map.iter().map(|(name, value)| format!("{name}={}", value.to_string())).collect::<Vec<_>>().join("; ")
}

fn percentiles(distribution: &Distribution) -> String {
    let each = distribution.percentiles.iter().map(|of| format!("{}={}", name(of.p), of.ns));
    each.chain([format!("max={}", distribution.max_ns)]).collect::<Vec<_>>().join("; ")
}

fn regime(regime: &weighbridge_record::Regime) -> String {
    format!("{} within {}: {}", named(&regime.regime), regime.within, regime.detail)
}

/// The name of a variant as the record spells it.
fn named(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => format!("{other:?}"),
    }
}
