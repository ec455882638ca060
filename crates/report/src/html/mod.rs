//! One HTML file that works offline: everything it needs is inside it, and it may load nothing else.
//!
//! A section is one file in `section/` and one line in [`SECTIONS`].

mod axis;
mod chart;
mod escape;
mod look;
mod section;

use std::io::{self, Write};

use crate::matrix::{Matrix, matrices};
use crate::model::Report;
use crate::notes;
use crate::words::many;

use chart::plotly_script;
use escape::escaped;
use look::Looks;

/// The sections, in the order of the page.
const SECTIONS: &[Section] = &[
    section::machine::SECTION,
    section::suite::SECTION,
    section::findings::SECTION,
    section::latency::SECTION,
    section::rates::SECTION,
    section::dots::SECTION,
    section::scaling::SECTION,
    section::distribution::SECTION,
    section::series::SECTION,
    section::per_op::SECTION,
    section::cases::SECTION,
    section::remarks::SECTION,
    section::skips::SECTION,
    section::glossary::SECTION,
];

/// One part of the page.
struct Section {
    /// Name of its anchor.
    id: &'static str,
    /// Its heading.
    title: &'static str,
    /// What stands below the heading; nothing when the record has nothing for it, and then the heading goes too.
    body: fn(&Page<'_>) -> Option<String>,
}

/// What the sections are made from.
struct Page<'a> {
    report: &'a Report,
    matrices: Vec<Matrix<'a>>,
    looks: Looks,
}

/// The report as one HTML document.
///
/// It is about 5 MB, most of it the charting script.
pub fn html(report: &Report) -> String {
    let matrices = matrices(report);
    let looks = Looks::new(&matrices);
    let page = Page { report, matrices, looks };
    let bodies: Vec<(&Section, String)> =
        SECTIONS.iter().filter_map(|section| Some((section, (section.body)(&page)?))).collect();

    let script = plotly_script();
    let mut out = String::with_capacity(script.len() + (1 << 20));
    out.push_str(include_str!("head.html"));
    out.push_str("<style>\n");
    out.push_str(include_str!("page.css"));
    out.push_str("</style>\n</head>\n<body>\n<header>\n<h1>Weighbridge report</h1>\n");
    out.push_str(&summary(report));
    out.push_str(&warnings(report));
    out.push_str("<nav aria-label=\"Sections\"><ul>\n");
    for (section, _) in &bodies {
        out.push_str(&format!("<li><a href=\"#{}\">{}</a></li>\n", section.id, section.title));
    }
    out.push_str("</ul></nav>\n</header>\n<main>\n");
    for (section, body) in &bodies {
        out.push_str(&format!("<section id=\"{}\">\n<h2>{}</h2>\n", section.id, section.title));
        out.push_str(body);
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n");
    out.push_str(&script);
    out.push_str("\n<script>\n");
    out.push_str(include_str!("page.js"));
    out.push_str("</script>\n</body>\n</html>\n");
    out
}

/// Writes [`html`].
///
/// # Errors
/// That of writing.
pub fn write_html(report: &Report, mut out: impl Write) -> io::Result<()> {
    out.write_all(html(report).as_bytes())?;
    out.flush()
}

fn summary(report: &Report) -> String {
    let measured = report.cases.iter().filter(|case| case.summary.is_some()).count();
    let skipped: std::collections::HashSet<_> =
        report.skipped.iter().map(|skip| (skip.source, &skip.what.case)).collect();
    let mut text = format!("{} measured, {} skipped", many(measured, "case"), skipped.len());
    if let Some(header) = report.sources.first().and_then(|source| source.header.as_ref()) {
        text += &format!(", on {}, {}", header.machine.hostname, header.started);
    }
    if report.has_several_sources() {
        text += &format!(", from {}", many(report.sources.len(), "record"));
    }
    format!("<p class=\"lead\">{}.</p>\n", escaped(&text))
}

fn warnings(report: &Report) -> String {
    let items: String =
        notes::warnings(report).iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
    match items.is_empty() {
        true => items,
        false => format!(
            "<div class=\"warning\" role=\"note\"><p><strong>Read this first</strong></p><ul>\n{items}</ul></div>\n"
        ),
    }
}
