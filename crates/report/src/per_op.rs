//! What an operation costs beside time: context switches, faults, CPU time; one row per mechanism.

use weighbridge_record::PerOp;

use crate::matrix::Matrix;
use crate::units::{Scale, count};

/// Names of the columns after the mechanism; the last lacks its unit, which [`Rows::cpu_unit`] gives.
pub const COLUMNS: [&str; 4] = ["voluntary switches", "involuntary switches", "minor faults", "CPU"];

/// The counts of one matrix.
#[derive(Debug)]
pub struct Rows {
    /// `µs` or `ns` per operation.
    pub cpu_unit: String,
    /// Mechanism, then one text per column: a value, or `low … high` over the sizes.
    pub rows: Vec<(String, [String; 4])>,
}

/// Counts per operation of every mechanism, over its sizes.
pub fn rows(matrix: &Matrix<'_>) -> Rows {
    let counts = |column| matrix.column(column).map(|(_, _, summary)| &summary.per_op);
    let cpu = (0..matrix.columns.len()).flat_map(counts).map(|per_op| per_op.cpu_ns);
    let scale = Scale::new("ns", cpu);
    let row = |column: usize| {
        let over =
            |get: fn(&PerOp) -> f64, show: &dyn Fn(f64) -> String| range(counts(column).map(get), show);
        let texts = [
            over(|per_op| per_op.voluntary_switches, &count),
            over(|per_op| per_op.involuntary_switches, &count),
            over(|per_op| per_op.minor_faults, &count),
            over(|per_op| per_op.cpu_ns, &|value| scale.show(value)),
        ];
        (matrix.columns[column].name.clone(), texts)
    };
    Rows { cpu_unit: scale.name.clone(), rows: (0..matrix.columns.len()).map(row).collect() }
}

fn range(values: impl Iterator<Item = f64>, show: &dyn Fn(f64) -> String) -> String {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    match (show(low), show(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} … {high}"),
    }
}
