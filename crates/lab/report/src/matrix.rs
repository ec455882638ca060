//! One pattern at one placement as rows and columns: sizes down, mechanisms across.
//!
//! Tables and charts are both made from this, so that they cannot disagree on what belongs together. The harness's
//! own cases are left out: they are not offered for selection.

use std::collections::{BTreeSet, HashMap, HashSet};

use weighbridge_record::{ALTERNATIVE_TO, Place, Summary};

use crate::model::{Measured, Report};
use crate::units::Scale;
use crate::words::IMPORTED;

/// Cases that differ only in size and mechanism, and share a unit.
#[derive(Debug)]
pub struct Matrix<'a> {
    /// How the ends talk.
    pub pattern: &'a str,
    /// Where the peers run, as asked for.
    pub place: Place<'a>,
    /// Where they ran, if that has another name: `same-llc, CPUs 0 1`.
    pub resolved: Vec<String>,
    /// The unit in the record.
    pub unit: &'a str,
    /// The unit to show.
    pub scale: Scale,
    /// Is a larger figure better?
    pub higher_is_better: bool,
    /// Do the cases do the same, so that one of them is the best? What another tool measured does only where that compares it.
    pub is_ranked: bool,
    /// Payload in bytes, one per row, ascending.
    pub sizes: Vec<u64>,
    /// Mechanisms, one per column, in the order of the record.
    pub columns: Vec<Column>,
    cells: HashMap<(u64, usize), Cell<'a>>,
}

/// A mechanism with its axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Index of its record.
    pub source: usize,
    /// Heading of the column.
    pub name: String,
    /// Are all its axes at their defaults?
    pub is_default: bool,
}

/// What is known for one size of one mechanism.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// The case was not planned.
    Absent,
    /// Skipped with a reason, which stands elsewhere.
    Skipped,
    /// The case was measured.
    Value(&'a Measured, &'a Summary),
}

impl<'a> Matrix<'a> {
    /// The cell in a row and a column, both counted from 0.
    ///
    /// # Panics
    /// When the row does not exist.
    pub fn cell(&self, row: usize, column: usize) -> Cell<'a> {
        self.cells.get(&(self.sizes[row], column)).copied().unwrap_or(Cell::Absent)
    }

    /// The measured cells of a column, by size.
    pub fn column(&self, column: usize) -> impl Iterator<Item = (u64, &'a Measured, &'a Summary)> {
        (0..self.sizes.len()).filter_map(move |row| match self.cell(row, column) {
            Cell::Value(case, summary) => Some((self.sizes[row], case, summary)),
            _ => None,
        })
    }

    /// The column with the best median of a row, unless the row has only one figure, or cases that are not ranked.
    pub fn best(&self, row: usize) -> Option<usize> {
        if !self.is_ranked {
            return None;
        }
        let medians = (0..self.columns.len()).filter_map(|column| match self.cell(row, column) {
            Cell::Value(_, summary) if summary.median.is_finite() => Some((column, summary.median)),
            _ => None,
        });
        let medians: Vec<_> = medians.collect();
        if medians.len() < 2 {
            return None;
        }
        let better = |a: (usize, f64), b: (usize, f64)| if self.is_better(b.1, a.1) { b } else { a };
        medians.into_iter().reduce(better).map(|(column, _)| column)
    }

    /// Is the one figure better than the other?
    pub fn is_better(&self, one: f64, other: f64) -> bool {
        if self.higher_is_better { one > other } else { one < other }
    }

    /// Did the roles of any case count? A tool whose output was imported names no roles.
    pub fn is_counted(&self) -> bool {
        let is_counted = |case: &Measured| case.case.as_ref().is_none_or(|case| !case.roles.is_empty());
        (0..self.columns.len()).flat_map(|column| self.column(column)).any(|(_, case, _)| is_counted(case))
    }

    /// Is there something to draw over size?
    pub fn has_sizes(&self) -> bool {
        self.sizes.len() > 1
    }
}

/// All matrices of a report, in the order in which the record first names them.
pub fn matrices(report: &Report) -> Vec<Matrix<'_>> {
    let mut groups: Vec<(Key<'_>, Vec<&Measured>)> = Vec::new();
    for case in report.cases.iter().filter(|case| case.summary.is_some() && !case.is_harness()) {
        let unit = case.unit().unwrap_or_default();
        of_key(&mut groups, Key { pattern: &case.id.pattern, place: case.id.place(), unit }).push(case);
    }
    let mut matrices: Vec<_> = groups.iter().map(|(key, cases)| matrix(report, *key, cases)).collect();
    mark_skipped(&mut matrices, report);
    matrices
}

/// What a list holds for a key, which comes last where it is new.
pub fn of_key<K: PartialEq, V: Default>(list: &mut Vec<(K, V)>, key: K) -> &mut V {
    let at = list.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        list.push((key, V::default()));
        list.len() - 1
    });
    &mut list[at].1
}

/// What the cases of a matrix have in common.
#[derive(Clone, Copy, PartialEq)]
struct Key<'a> {
    pattern: &'a str,
    place: Place<'a>,
    unit: &'a str,
}

fn matrix<'a>(report: &'a Report, key: Key<'a>, cases: &[&'a Measured]) -> Matrix<'a> {
    let Key { pattern, place, unit } = key;
    let columns = columns(report, cases);
    let mut cells = HashMap::new();
    for case in cases {
        let column = place_of(&columns, case.source, &report.variant(case.source, &case.id));
        if let (Some(column), Some(summary)) = (column, &case.summary) {
            cells.insert((case.id.payload_bytes, column), Cell::Value(case, summary));
        }
    }
    let sizes: BTreeSet<u64> = cases.iter().map(|case| case.id.payload_bytes).collect();
    let resolved: BTreeSet<String> = cases.iter().filter_map(|case| resolved_placement(case)).collect();
    let medians = cases.iter().filter_map(|case| case.summary.as_ref()).map(|summary| summary.median);
    let alternatives: BTreeSet<Option<&String>> =
        cases.iter().map(|case| case.case.as_ref()?.facts.get(ALTERNATIVE_TO)).collect();
    Matrix {
        pattern,
        place,
        resolved: resolved.into_iter().collect(),
        unit,
        scale: Scale::new(unit, medians),
        higher_is_better: cases.iter().any(|case| case.higher_is_better()),
        is_ranked: pattern != IMPORTED
            || matches!(alternatives.first(), Some(Some(_)) if alternatives.len() == 1),
        sizes: sizes.into_iter().collect(),
        columns,
        cells,
    }
}

/// Mechanisms in the order of the record; where there are several records, the same mechanism of each side by side.
fn columns(report: &Report, cases: &[&Measured]) -> Vec<Column> {
    let mut ranks = HashMap::new();
    let mut columns = Vec::new();
    let mut seen = HashSet::new();
    for case in cases {
        let next = ranks.len();
        let rank = *ranks.entry(case.id.variant()).or_insert(next);
        if seen.insert((rank, case.source)) {
            let name = report.variant(case.source, &case.id);
            columns.push((
                rank,
                Column { source: case.source, name, is_default: case.id.variant() == case.id.mechanism },
            ));
        }
    }
    columns.sort_by_key(|(rank, column)| (*rank, column.source));
    columns.into_iter().map(|(_, column)| column).collect()
}

fn resolved_placement(measured: &Measured) -> Option<String> {
    let case = measured.case.as_ref()?;
    let mut parts = Vec::new();
    if case.resolved_placement != case.placement {
        parts.push(case.resolved_placement.clone());
    }
    let named = |cpus: &[u32]| {
        let mut cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
        cpus.dedup();
        (cpus.len(), cpus.join(" "))
    };
    match named(&case.cpus) {
        (0, _) => {}
        (1, cpu) if case.places.is_empty() => parts.push(format!("CPU {cpu}")),
        (_, cpus) if case.places.is_empty() => parts.push(format!("CPUs {cpus}")),
        _ => {
            let places: Vec<String> = case.places.iter().map(|cpus| named(cpus).1).collect();
            parts.push(format!("CPUs {} in turn", places.join(" and ")));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn place_of(columns: &[Column], source: usize, name: &str) -> Option<usize> {
    columns.iter().position(|column| column.source == source && column.name == name)
}

fn mark_skipped(matrices: &mut [Matrix<'_>], report: &Report) {
    for skip in &report.skipped {
        let id = &skip.what.case;
        let name = report.variant(skip.source, id);
        for matrix in matrices.iter_mut().filter(|of| of.pattern == id.pattern && of.place == id.place()) {
            if let Some(column) = place_of(&matrix.columns, skip.source, &name) {
                matrix.cells.entry((id.payload_bytes, column)).or_insert(Cell::Skipped);
            }
        }
    }
}
