//! The sections of a report, one file each, and their order.

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
use crate::notes;
use crate::suite;

pub use compare::verdict_in_words;
pub use distribution::name as percentile_name;
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

/// The report, composed once for all formats.
pub fn document(report: &Report) -> Document {
    let matrices = matrices(report);
    let looks = Looks::new(&matrices);
    let cx = Context { report, matrices, looks };
    let mut sections: Vec<Section> = machine::section(report).into_iter().collect();
    if report.is_compared {
        sections.extend(baseline::section(report));
    } else if !report.functions_compared.is_empty() {
        sections.extend(functions::sections(report));
    } else if report.cases.is_empty() && is_explained(report) {
        sections.extend(explain::sections(report));
        sections.extend(observation::section(report));
        sections.extend(timeline::section(report));
        sections.extend(compare::section(report));
        sections.extend(remarks::sections(&cx));
    } else if !report.verdicts.is_empty() && report.cases.is_empty() {
        sections.extend(compare::section(report));
        sections.extend(remarks::sections(&cx));
    } else {
        sections.extend(compare::section(report));
        sections.extend(imported::section(report));
        sections.extend(suite::sections(report));
        sections.extend(check::section(report));
        sections.extend(explain::sections(report));
        if report.checks.is_empty() {
            sections.extend(findings::section(report));
            sections.extend(figures::sections(&cx));
            sections.extend(legend::section(&cx));
        }
        sections.extend(functions::sections(report));
        sections.extend(baseline::section(report));
        sections.extend(scaling::section(&cx));
        sections.extend(distribution::section(report));
        sections.extend(series::section(report));
        sections.extend(observation::section(report));
        sections.extend(timeline::section(report));
        sections.extend(cases::section(report));
        sections.extend(remarks::sections(&cx));
    }
    Document { title: title(report), warnings: notes::warnings(report), sections }
}

fn is_explained(report: &Report) -> bool {
    !report.explanations.is_empty() || !report.observations.is_empty() || !report.timelines.is_empty()
}

/// Where and when.
fn title(report: &Report) -> String {
    let header = report.sources.first().and_then(|source| source.header.as_ref());
    let of = header.map(|header| format!(": {}, {}", header.machine.hostname, header.started));
    let others = report.sources.len().saturating_sub(1);
    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!("Weighbridge report{}{others}", of.unwrap_or_default())
}
