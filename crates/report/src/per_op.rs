//! What an operation costs beside time: context switches, faults, CPU time, and whatever else a pattern counts; one
//! row per mechanism.

use std::collections::BTreeSet;

use weighbridge_record::PerOp;

use crate::matrix::Matrix;
use crate::units::{Scale, Series, count};

/// The counts of one matrix.
#[derive(Debug)]
pub struct Rows {
    /// Names of the columns after the mechanism.
    pub columns: Vec<String>,
    /// How many of them, the first ones, are per operation; the others carry units of their own.
    pub per_operation: usize,
    /// Mechanism, then one text per column: a value, or `low … high` over the sizes.
    pub rows: Vec<(String, Vec<String>)>,
}

/// Counts per operation of every mechanism, and medians of its series, over its sizes.
pub fn rows(matrix: &Matrix<'_>) -> Rows {
    let places = 0..matrix.columns.len();
    let counts = |column| matrix.column(column).map(|(_, _, summary)| &summary.per_op);
    let cpu = Scale::new("ns", places.clone().flat_map(counts).map(|per_op| per_op.cpu_ns));
    let series = series(matrix);
    let mut columns: Vec<String> =
        ["voluntary switches", "involuntary switches", "minor faults"].map(String::from).into();
    columns.push(format!("CPU {}", cpu.name));
    let per_operation = columns.len();
    columns.extend(series.iter().map(|(_, series)| series.label()));
    let row = |column: usize| {
        let over =
            |get: fn(&PerOp) -> f64, show: &dyn Fn(f64) -> String| range(counts(column).map(get), show);
        let mut texts = vec![
            over(|per_op| per_op.voluntary_switches, &count),
            over(|per_op| per_op.involuntary_switches, &count),
            over(|per_op| per_op.minor_faults, &count),
            over(|per_op| per_op.cpu_ns, &|value| cpu.show(value)),
        ];
        texts.extend(series.iter().map(|(name, series)| {
            let values = matrix.column(column).filter_map(|(_, _, summary)| summary.series.get(*name));
            range(values.copied(), &|value| series.scale.show(value))
        }));
        (matrix.columns[column].name.clone(), texts)
    };
    Rows { columns, per_operation, rows: places.map(row).collect() }
}

/// The further series of a matrix, by name, each with a unit that suits all its mechanisms. Switches of one kind stand
/// among the counts per operation already.
fn series<'a>(matrix: &Matrix<'a>) -> Vec<(&'a str, Series)> {
    let all = || (0..matrix.columns.len()).flat_map(|column| matrix.column(column));
    let names: BTreeSet<&str> = all()
        .flat_map(|(_, _, summary)| summary.series.keys().map(String::as_str))
        .filter(|name| !name.contains("voluntary_switches"))
        .collect();
    let values = |name: &str| {
        all().filter_map(|(_, _, summary)| summary.series.get(name).copied()).collect::<Vec<_>>()
    };
    names.into_iter().map(|name| (name, Series::new(name, values(name).into_iter()))).collect()
}

/// One value, or the lowest and the highest; nothing where there is none.
fn range(values: impl Iterator<Item = f64>, show: &dyn Fn(f64) -> String) -> String {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return String::new();
    }
    match (show(low), show(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} … {high}"),
    }
}
