//! Cases held against one of them, run by run of the same round: what drifts from minute to minute is in both sides.

use std::collections::BTreeMap;
use std::fmt::Write;

use weighbridge_record::CaseId;
use weighbridge_stats::paired_ratio;

use crate::model::{Measured, Report};
use crate::units::{significant, with_unit};
use crate::words::plain;

/// A Markdown table: of every case with the payload of `baseline` (of all, where that has none) whose figure is of the same
/// sort, how many times the baseline's it is. A ratio is the median over pairs of runs of one round of one record, with its
/// sign-test interval of at least 95 %, which takes six pairs.
///
/// # Errors
/// A sentence, where the record has no such case, or no runs of it.
pub fn against(report: &Report, baseline: &CaseId) -> Result<String, String> {
    let base = report.cases.iter().find(|case| case.id == *baseline && case.summary.is_some());
    let base = base.ok_or_else(|| format!("no figure of `{baseline}` is in the record"))?;
    let mut out = String::from("| case | figure | ");
    let figure =
        base.summary.as_ref().map_or(String::new(), |summary| with_unit(&summary.unit, summary.median));
    let _ = writeln!(
        out,
        "times `{}` ({figure}) | 95 % interval | pairs | CPU ns |",
        plain(&baseline.to_string())
    );
    out.push_str("|---|--:|--:|--:|--:|--:|\n");
    let rows: Vec<String> = report.cases.iter().filter_map(|case| row(base, case)).collect();
    if rows.is_empty() {
        return Err(format!("no other case of the record can be held against `{baseline}`"));
    }
    Ok(out + &rows.concat())
}

fn row(base: &Measured, case: &Measured) -> Option<String> {
    let summary = case.summary.as_ref()?;
    let of_a_sort = case.higher_is_better() == base.higher_is_better()
        && (base.id.payload_bytes == 0 || base.id.payload_bytes == case.id.payload_bytes);
    let pairs = pairs(base, case);
    if !of_a_sort || pairs.is_empty() || (case.id == base.id && case.source == base.source) {
        return None;
    }
    let ratio = paired_ratio(&pairs, 0.95);
    let interval = ratio.interval.map_or("–".into(), |interval| {
        format!("{} to {}", significant(interval.low), significant(interval.high))
    });
    Some(format!(
        "| `{}` | {} | {} | {interval} | {} | {} |\n",
        plain(&case.id.to_string()),
        with_unit(&summary.unit, summary.median),
        significant(ratio.median),
        ratio.pairs,
        significant(summary.per_op.cpu_ns)
    ))
}

/// Values of runs of one round. A record may come from anywhere: what has no logarithm is left out.
fn pairs(base: &Measured, case: &Measured) -> Vec<(f64, f64)> {
    let usable = |value: f64| value.is_finite() && value > 0.0;
    if base.source != case.source {
        return Vec::new();
    }
    let by_round: BTreeMap<u32, f64> = base.runs.iter().map(|run| (run.round, run.value)).collect();
    let pair = |run: &weighbridge_record::Run| Some((*by_round.get(&run.round)?, run.value));
    case.runs.iter().filter_map(pair).filter(|(base, value)| usable(*base) && usable(*value)).collect()
}
