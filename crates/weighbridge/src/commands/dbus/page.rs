//! One page that works offline: the tables of the report and four pictures.

use weighbridge_analysis::timeline::markup::escaped;
use weighbridge_dbus_traffic::traffic::{Facts, MOST_STEPS};

use super::chart;
use super::document::{Document, Section, Table};
use super::sections::grouped;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;font-size:13px}td,th{padding:2px 10px;border-bottom:1px solid #ddd;text-align:left}\
.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto}svg text{font-size:9px;fill:#444}\
.grid{stroke:#ddd}div.wide{overflow-x:auto}";

/// The page.
pub fn page(document: &Document, facts: &Facts) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style></head>\
         <body>\n<h1>{0}</h1>\n",
        escaped(&document.title)
    );
    out += &sentences(&document.lead);
    out += &format!("<h2>Messages per second</h2>\n{}\n", chart::timeline(&facts.timeline));
    for section in &document.sections {
        out += &format!("<h2>{}</h2>\n{}", section.heading, sentences(&section.about));
        out += &picture(section, facts);
        out += &section.table.as_ref().map_or(String::new(), table);
    }
    if !facts.sequence.is_empty() {
        let from = facts.sequence.first().map_or(0, |step| step.time_ns) as f64 / 1e9;
        let to = facts.sequence.last().map_or(0, |step| step.time_ns) as f64 / 1e9;
        let about = format!(
            "From {from:.4} s to {to:.4} s, at most {MOST_STEPS} messages; a dot is a broadcast. Another window: --window FROM..TO."
        );
        let picture = chart::sequence(&facts.sequence);
        out += &format!("<h2>Sequence</h2>\n{}<div class=\"wide\">{picture}</div>\n", sentences(&[about]));
    }
    out + "</body></html>\n"
}

fn picture(section: &Section, facts: &Facts) -> String {
    let classes: Vec<(String, u64)> = match section.heading {
        "Sizes" => {
            facts.sizes.iter().map(|row| (format!("≤ {}", grouped(row.to_bytes)), row.messages)).collect()
        }
        "Recipients" => {
            facts.recipients.histogram.iter().map(|row| (row.recipients.to_string(), row.signals)).collect()
        }
        _ => return String::new(),
    };
    if classes.is_empty() { String::new() } else { chart::classes(&classes, "messages") }
}

fn sentences(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("<p>{}</p>\n", escaped(sentence))).collect()
}

fn table(table: &Table) -> String {
    let class = |column: usize| if column < table.numbers_from { "" } else { " class=\"n\"" };
    let head: String =
        table.head.iter().enumerate().map(|(at, name)| format!("<th{}>{name}</th>", class(at))).collect();
    let mut out = format!("<div class=\"wide\"><table><tr>{head}</tr>\n");
    for row in &table.rows {
        let cells: String = row
            .iter()
            .enumerate()
            .map(|(at, cell)| format!("<td{}>{}</td>", class(at), escaped(cell)))
            .collect();
        out += &format!("<tr>{cells}</tr>\n");
    }
    out += "</table></div>\n";
    if table.more > 0 {
        out += &format!("<p>… and {} more</p>\n", table.more);
    }
    out
}
