//! The findings as a document: text for a terminal, and a page with pictures.

mod sections;

use weighbridge_report::{Document, Style, grouped};

use crate::analysis::Findings;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a terminal or a pipe.
    Text,
    /// For programs.
    Json,
    /// A page that works offline.
    Html,
}

/// The report.
pub fn report(findings: &Findings, format: Format, style: Style) -> String {
    match format {
        Format::Json => serde_json::to_string_pretty(findings).expect("findings are plain data") + "\n",
        Format::Text => document(findings).text(style),
        Format::Html => document(findings).html(),
    }
}

fn document(findings: &Findings) -> Document {
    Document {
        title: format!("{} machines of {}", grouped(findings.coverage.machines as u64), findings.store),
        warnings: sections::warnings(findings),
        sections: sections::all(findings),
    }
}
