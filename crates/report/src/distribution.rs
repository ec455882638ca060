//! What single operations took, in the cases that timed each of them; one row per case.

use weighbridge_record::{Distribution, Percentile};

use crate::model::{Measured, Report};
use crate::regimes;
use crate::units::{Scale, reach};

/// The heading.
pub const TITLE: &str = "Single operations";

/// Below the heading.
pub const ABOUT: &str = "Time in the closed loop is service time: the next operation waits for the last, so a stall is seen \
                         once. With a rate, time counts from when an operation was due. A percentile is shown where at least \
                         ten observations lie beyond it; (pool): taken of all runs together, because single ones have fewer.";

/// Texts of a table.
#[derive(Debug)]
pub struct Rows {
    /// Names of the columns after the case.
    pub columns: Vec<String>,
    /// Case, then one text per column.
    pub rows: Vec<(String, Vec<String>)>,
}

/// The cases that timed each operation.
pub fn cases(report: &Report) -> Vec<(&Measured, &Distribution)> {
    let timed = |case: &'_ Measured| case.summary.as_ref()?.distribution.as_ref().map(|_| ());
    let timed = report.cases.iter().filter(|case| timed(case).is_some());
    timed.filter_map(|case| Some((case, case.summary.as_ref()?.distribution.as_ref()?))).collect()
}

/// Percentiles of every case that has any, in one unit.
pub fn rows(report: &Report) -> Option<Rows> {
    let cases = cases(report);
    let all = || cases.iter().flat_map(|(_, distribution)| &distribution.percentiles);
    let scale = Scale::new("ns", all().map(|percentile| percentile.ns));
    let mut shown: Vec<f64> = all().map(|percentile| percentile.p).collect();
    shown.sort_by(f64::total_cmp);
    shown.dedup();
    let mut columns: Vec<String> = shown.iter().map(|p| format!("{} {}", name(*p), scale.name)).collect();
    columns.extend([format!("longest {}", scale.name), "timed".into()]);
    let row = |(case, distribution): &(&Measured, &Distribution)| {
        let found = |p: f64| distribution.percentiles.iter().find(|percentile| percentile.p == p);
        let mut texts: Vec<String> =
            shown.iter().map(|p| found(*p).map_or(String::new(), |found| text(found, &scale))).collect();
        texts.extend([scale.show(distribution.max_ns as f64), distribution.observations.to_string()]);
        (regimes::name(report, case), texts)
    };
    (!cases.is_empty()).then(|| Rows { columns, rows: cases.iter().map(row).collect() })
}

/// `p50`, `p99.9`.
pub fn name(p: f64) -> String {
    // 0.99999 × 100 is not quite 99.999.
    format!("p{}", (p * 100.0 * 1e6).round() / 1e6)
}

fn text(percentile: &Percentile, scale: &Scale) -> String {
    let value = scale.show(percentile.ns);
    let reach = percentile.ci95.map_or(String::new(), |ci95| format!(" {}", reach(percentile.ns, ci95)));
    let pooled = if percentile.pooled { " (pool)" } else { "" };
    format!("{value}{reach}{pooled}")
}
