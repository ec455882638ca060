//! Every case in one table that can be sorted and filtered.

use weighbridge_record::{StoppedBy, Summary};

use crate::figure::{interval, marks};
use crate::html::escape::escaped;
use crate::html::{Page, Section};
use crate::model::Measured;
use crate::units::{Scale, count, size, with_unit};

pub const SECTION: Section = Section { id: "cases", title: "All cases", body };

/// Heading, and whether it holds text.
const COLUMNS: [(&str, bool); 15] = [
    ("mechanism", true),
    ("pattern", true),
    ("payload", false),
    ("placement", true),
    ("median", false),
    ("95 % interval", false),
    ("marks", true),
    ("runs", false),
    ("stopped by", true),
    ("spread between runs", false),
    ("spread within runs", false),
    ("voluntary switches/op", false),
    ("involuntary switches/op", false),
    ("minor faults/op", false),
    ("CPU/op", false),
];

fn body(page: &Page<'_>) -> Option<String> {
    let rows: String = page
        .report
        .cases
        .iter()
        .filter_map(|case| Some((case, case.summary.as_ref()?)))
        .map(|(case, summary)| row(page, case, summary))
        .collect();
    let head: String = COLUMNS
        .iter()
        .map(|(name, is_text)| {
            let class = if *is_text { " class=\"text\"" } else { "" };
            format!(
                "<th scope=\"col\"{class} aria-sort=\"none\"><button type=\"button\">{name}</button></th>"
            )
        })
        .collect();
    (!rows.is_empty()).then(|| {
        format!(
            "<p class=\"about\">Press a heading to sort; medians are sorted unit by unit. Spread: half the interquartile range as a share of the \
             median; where it is larger between runs than within them, more runs help and longer ones do not.</p>\n\
             <label class=\"filter\">Show only rows with <input type=\"search\" data-filters=\"all-cases\" \
             placeholder=\"pipe same-cpu\"></label>\n\
             <div class=\"scroll tall\" tabindex=\"0\"><table class=\"sortable\" id=\"all-cases\">\n\
             <thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
        )
    })
}

fn row(page: &Page<'_>, case: &Measured, summary: &Summary) -> String {
    let scale = Scale::alone(&summary.unit, summary.median);
    let width = summary.ci95.map(|[low, high]| (high - low) / summary.median);
    let per_op = &summary.per_op;
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let cells = [
        text(&case.id.pattern),
        number(case.id.payload_bytes as f64, &size(case.id.payload_bytes)),
        text(&case.id.placement),
        in_unit(&summary.unit, summary.median, &format!("{} {}", scale.show(summary.median), scale.name)),
        number(width.unwrap_or(f64::MAX), &interval(&scale, summary)),
        text(&marks(case)),
        number(f64::from(summary.runs), &summary.runs.to_string()),
        text(stopped(summary.stopped_by)),
        number(summary.spread_between, &percent(summary.spread_between)),
        number(summary.spread_within, &percent(summary.spread_within)),
        number(per_op.voluntary_switches, &count(per_op.voluntary_switches)),
        number(per_op.involuntary_switches, &count(per_op.involuntary_switches)),
        number(per_op.minor_faults, &count(per_op.minor_faults)),
        number(per_op.cpu_ns, &with_unit("ns", per_op.cpu_ns)),
    ];
    let name = escaped(&page.report.variant(case.source, &case.id));
    format!("<tr><th scope=\"row\">{name}</th>{}</tr>\n", cells.concat())
}

fn stopped(by: StoppedBy) -> &'static str {
    match by {
        StoppedBy::Precision => "precision",
        StoppedBy::MaxRuns => "max-runs",
        StoppedBy::Budget => "budget",
        StoppedBy::Interrupted => "interrupted",
        StoppedBy::Error => "error",
    }
}

fn text(value: &str) -> String {
    format!("<td class=\"text\">{}</td>", escaped(value))
}

/// A cell that is sorted by its value and not by its text.
fn number(value: f64, text: &str) -> String {
    format!("<td data-value=\"{value}\">{}</td>", escaped(text))
}

/// A cell that is sorted by its unit first: a time and a rate have no common order.
fn in_unit(unit: &str, value: f64, text: &str) -> String {
    format!("<td data-unit=\"{}\" data-value=\"{value}\">{}</td>", escaped(unit), escaped(text))
}
