//! Comma-separated values: one row per case, every field, as the record has it (nothing rounded or converted).
//!
//! A case without a figure has a row too, with the reason. Quoting follows RFC 4180.

use std::collections::{BTreeMap, HashMap};

use weighbridge_record::{CaseId, Distribution, PerOp, Ratio, Skipped, Summary, ToHub};

use crate::model::{Measured, Report, Source, Sourced};
use crate::section::percentile_name as name;

/// Names of columns and what stands below them. `…_in_unit` is in the unit of the same row; `…_share` is a part of the median.
type Row = Vec<(&'static str, String)>;

/// The report as comma-separated values, with a header row: a row per case, or per ratio where cases are compared with a
/// baseline.
pub fn csv(report: &Report) -> String {
    let rows = if report.is_compared {
        report.ratios.iter().map(|ratio| of_ratio(report, ratio)).collect()
    } else {
        of_cases(report)
    };
    let nothing = || of_case(&Source::default(), &CaseId::new("", "", 0, ""), None, &[]);
    let heads = rows.first().cloned().unwrap_or_else(nothing).into_iter().map(|(name, _)| name.to_owned());
    let mut writer = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
    let cells = rows.into_iter().map(|row| row.into_iter().map(|(_, cell)| cell).collect());
    for row in std::iter::once(heads.collect::<Vec<String>>()).chain(cells) {
        writer.write_record(row).expect("rows have one length");
    }
    let bytes = writer.into_inner().expect("writing to memory does not fail");
    String::from_utf8(bytes).expect("made of strings")
}

fn of_cases(report: &Report) -> Vec<Row> {
    let mut skips: HashMap<(usize, &CaseId), Vec<&Skipped>> = HashMap::new();
    for skip in &report.skipped {
        skips.entry((skip.source, &skip.what.case)).or_default().push(&skip.what);
    }
    let mut rows = Vec::new();
    for case in &report.cases {
        let skips = skips.remove(&(case.source, &case.id)).unwrap_or_default();
        rows.push(of_case(&report.sources[case.source], &case.id, Some(case), &skips));
    }
    for skip in &report.skipped {
        // Taken out at the first line of its case, so that each case has one row.
        if let Some(skips) = skips.remove(&(skip.source, &skip.what.case)) {
            rows.push(of_case(&report.sources[skip.source], &skip.what.case, None, &skips));
        }
    }
    rows
}

fn of_ratio(report: &Report, Sourced { source, what }: &Sourced<Ratio>) -> Row {
    let end = |index: usize| what.ci95.map_or(String::new(), |ends| ends[index].to_string());
    vec![
        ("record", report.sources[*source].name.clone()),
        ("case", what.case.to_string()),
        ("baseline", what.baseline.to_string()),
        ("baseline_record", what.baseline_record.clone().unwrap_or_default()),
        ("other_machine", what.other_machine.clone().unwrap_or_default()),
        ("figure", what.figure.clone()),
        ("here", what.here.to_string()),
        ("there", what.there.to_string()),
        ("ratio", what.ratio.to_string()),
        ("ci95_low", end(0)),
        ("ci95_high", end(1)),
        ("pairs", what.pairs.to_string()),
    ]
}

fn of_case(from: &Source, id: &CaseId, measured: Option<&Measured>, skips: &[&Skipped]) -> Row {
    let case = measured.and_then(|measured| measured.case.as_ref());
    let summary = measured.and_then(|measured| measured.summary.as_ref());
    let header = from.header.as_ref();
    let text = |value: Option<String>| value.unwrap_or_default();
    let joined = |items: Vec<String>| items.join("; ");
    let cpus = case.map(|case| case.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    let of_summary = |get: &dyn Fn(&Summary) -> Option<String>| text(summary.and_then(get));
    let number = |get: fn(&Summary) -> f64| of_summary(&|summary| Some(get(summary).to_string()));
    let count =
        |get: fn(&PerOp) -> Option<f64>| of_summary(&|summary| Some(get(&summary.per_op)?.to_string()));
    type Ends = fn(&Summary) -> Option<[f64; 2]>;
    let end = |of: Ends, index: usize| of_summary(&|summary| Some(of(summary)?[index].to_string()));
    let [within, ratio, range, across]: [Ends; 4] = [
        |summary| summary.ci95,
        |summary| summary.to_hub.as_ref()?.ci95,
        |summary| summary.session_range,
        |summary| summary.across_sessions,
    ];
    let to_hub = |get: fn(&ToHub) -> String| of_summary(&|summary| summary.to_hub.as_ref().map(get));
    vec![
        ("record", from.name.clone()),
        ("case", id.to_string()),
        ("pattern", id.pattern.clone()),
        ("mechanism", id.mechanism.clone()),
        ("payload_bytes", id.payload_bytes.to_string()),
        ("placement", id.placement.clone()),
        ("resolved_placement", text(case.map(|case| case.resolved_placement.clone()))),
        ("cpus", text(cpus)),
        ("axes", pairs(case.map_or(&id.axes, |case| &case.axes))),
        ("unit", text(measured.and_then(Measured::unit).map(String::from))),
        ("higher_is_better", text(measured.map(|measured| measured.higher_is_better().to_string()))),
        ("runs", of_summary(&|summary| Some(summary.runs.to_string()))),
        ("median_in_unit", number(|summary| summary.median)),
        // Absolute figures have no interval but that of other sessions; within a session it compares cases of one record.
        ("ci95_within_session_low_in_unit", end(within, 0)),
        ("ci95_within_session_high_in_unit", end(within, 1)),
        ("session_range_low_in_unit", end(range, 0)),
        ("session_range_high_in_unit", end(range, 1)),
        ("across_sessions_low_in_unit", end(across, 0)),
        ("across_sessions_high_in_unit", end(across, 1)),
        ("hub", to_hub(|of| of.hub.to_string())),
        ("to_hub", to_hub(|of| of.median.to_string())),
        ("to_hub_ci95_low", end(ratio, 0)),
        ("to_hub_ci95_high", end(ratio, 1)),
        ("lowest_run_in_unit", number(|summary| summary.range[0])),
        ("highest_run_in_unit", number(|summary| summary.range[1])),
        ("spread_between_runs_share", number(|summary| summary.spread_between)),
        ("spread_within_runs_share", number(|summary| summary.spread_within)),
        ("stopped_by", of_summary(&|summary| Some(named(&summary.stopped_by)))),
        ("summary_computed_by_report", text(measured.map(|measured| measured.is_computed.to_string()))),
        ("voluntary_switches_per_op", count(|per_op| Some(per_op.voluntary_switches))),
        ("involuntary_switches_per_op", count(|per_op| Some(per_op.involuntary_switches))),
        ("minor_faults_per_op", count(|per_op| Some(per_op.minor_faults))),
        ("major_faults_per_op", count(|per_op| Some(per_op.major_faults))),
        ("cpu_ns_per_op", count(|per_op| Some(per_op.cpu_ns))),
        ("user_ns_per_op", count(|per_op| per_op.user_ns)),
        ("kernel_ns_per_op", count(|per_op| per_op.kernel_ns)),
        ("migrations_per_op", count(|per_op| per_op.migrations)),
        ("cycles_per_op", count(|per_op| per_op.cycles)),
        ("instructions_per_op", count(|per_op| per_op.instructions)),
        (
            "system_calls_per_op",
            of_summary(&|summary| Some(summary.system_calls.as_ref()?.per_op.to_string())),
        ),
        ("series_medians", of_summary(&|summary| Some(pairs(&summary.series)))),
        ("percentiles_ns", of_summary(&|summary| Some(percentiles(summary.distribution.as_ref()?)))),
        ("anomalies", of_summary(&|summary| Some(joined(summary.anomalies.clone())))),
        ("regimes", of_summary(&|summary| Some(joined(summary.regimes.iter().map(regime).collect())))),
        ("facts", text(case.map(|case| pairs(&case.facts)))),
        ("started", text(header.map(|header| header.started.clone()))),
        ("boot_id", text(header.and_then(|header| header.machine.boot_id.clone()))),
        ("skipped_step", joined(skips.iter().map(|skip| skip.step.clone()).collect())),
        ("skipped_why", joined(skips.iter().map(|skip| skip.why.clone()).collect())),
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
