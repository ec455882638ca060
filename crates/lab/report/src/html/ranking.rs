//! A ranking as a table whose rows have bars: readable without style and without script.

use std::fmt::Write;

use super::escape::escaped;
use crate::document::Ranking;

/// The element.
pub fn ranking(of: &Ranking) -> String {
    let mut out =
        format!("<table class=\"ranking\">\n<caption>{}</caption>\n<tbody>\n", escaped(&of.heading()));
    for row in &of.rows {
        let [solid, shaded] = of.shares(row).map(|share| share * 100.0);
        let tooltip = if row.is_sure {
            "all of this row surely cost less than all of the next"
        } else {
            "no sure order to the next row"
        };
        let interval = row.interval.as_ref();
        let interval = interval.map_or(String::new(), |text| format!("<small>{}</small>", escaped(text)));
        let mark = if row.is_sure { "" } else { " ?" };
        let _ = writeln!(
            out,
            "<tr title=\"{tooltip}\"><th scope=\"row\">{}{mark}{interval}</th><td class=\"bar\"><span style=\"width:{shaded:.1}%\">\
             <span style=\"width:{:.1}%\"></span></span></td><td class=\"names\">{}</td></tr>",
            escaped(&row.times),
            solid / shaded * 100.0,
            escaped(&row.names.join(", "))
        );
    }
    out += "</tbody></table>\n";
    if !of.follows.is_empty() {
        let lines: String = of.follows.iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
        let _ = writeln!(out, "<ul class=\"follows\">{lines}</ul>");
    }
    out
}
