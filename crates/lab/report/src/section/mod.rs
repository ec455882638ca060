//! The sections of a report, one file each, and their order. `rows` is a table that `figures` shows.

mod answers;
mod baseline;
mod cases;
mod check;
mod compare;
mod distribution;
mod explain;
mod figures;
mod findings;
mod functions;
mod imported;
mod legend;
mod machine;
mod observation;
mod remarks;
mod rows;
mod scaling;
mod series;
mod timeline;

use crate::document::{Document, Section};
use crate::look::Looks;
use crate::matrix::{Matrix, matrices};
use crate::model::Report;
use crate::{notes, suite};

pub use answers::follows;
pub use compare::verdict_in_words;
pub use distribution::name as percentile_name;
pub use findings::{common_axes, named};
pub use remarks::skipped;

/// What sections are made from.
pub struct Context<'a> {
    /// The records.
    pub report: &'a Report,
    /// Their cases as tables.
    pub matrices: Vec<Matrix<'a>>,
    /// How each mechanism is drawn.
    pub looks: Looks,
}

/// The sections of a file; none where there is nothing to show.
type Make = fn(&Context<'_>) -> Vec<Section>;

// A report is the machine and one of these: the first three in a row for what was measured, behind the answers; the last for explanations alone. What
// compares shows the few sections that `document` names.

const BEFORE_FIGURES: &[Make] = &[
    compare::sections,
    imported::sections,
    |cx| suite::sections(cx.report),
    check::sections,
    explain::sections,
];
const FIGURES: &[Make] = &[findings::sections, figures::sections, legend::sections];
const AFTER_FIGURES: &[Make] = &[
    functions::sections,
    baseline::sections,
    scaling::sections,
    distribution::sections,
    series::sections,
    observation::sections,
    timeline::sections,
    cases::sections,
    remarks::sections,
];
const OF_EXPLAIN: &[Make] =
    &[explain::sections, observation::sections, timeline::sections, compare::sections, remarks::sections];

/// The report, composed once for all formats.
pub fn document(report: &Report) -> Document {
    let matrices = matrices(report);
    let looks = Looks::new(&matrices);
    let cx = Context { report, matrices, looks };
    const ANSWERS: &[Make] = &[answers::sections];
    const MACHINE: &[Make] = &[machine::sections];
    let shown = if report.is_compared {
        [MACHINE, &[baseline::sections]].concat()
    } else if !report.functions_compared.is_empty() {
        [MACHINE, &[functions::sections]].concat()
    } else if report.cases.is_empty() && is_explained(report) {
        [MACHINE, OF_EXPLAIN].concat()
    } else if report.cases.is_empty() && !report.verdicts.is_empty() {
        [MACHINE, &[compare::sections, remarks::sections]].concat()
    } else if report.checks.is_empty() {
        [ANSWERS, MACHINE, BEFORE_FIGURES, FIGURES, AFTER_FIGURES].concat()
    } else {
        [MACHINE, BEFORE_FIGURES, AFTER_FIGURES].concat()
    };
    let sections = shown.into_iter().flat_map(|make| make(&cx));
    Document { title: title(report), warnings: notes::warnings(report), sections: sections.collect() }
}

fn is_explained(report: &Report) -> bool {
    !report.explanations.is_empty() || !report.observations.is_empty() || !report.timelines.is_empty()
}

/// Where and when.
fn title(report: &Report) -> String {
    let header = report.sources.first().and_then(|source| source.header.as_ref());
    let of = header.map(|header| match header.is_imported() {
        true => format!(": imported from {}", header.tool.name),
        false => format!(": {}, {}", header.machine.hostname, header.started),
    });
    let others = report.sources.len().saturating_sub(1);
    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!("Weighbridge report{}{others}", of.unwrap_or_default())
}
