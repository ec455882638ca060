//! The document as one HTML file that works offline: everything it needs is inside it, and it may load nothing else.

mod chart;
mod columns;
pub mod escape;
mod flame;
mod map;
mod ranking;
mod sequence;
mod svg;
mod timeline;

use std::fmt::Write;

use crate::chart::{Chart, Drawing};
use crate::document::{Block, Cell, Document, Item, Section, Table};
use crate::figure::Figure;
use crate::model::Report;
use crate::section::document;

use chart::{drawn, in_words, needs_script};
use escape::escaped;

/// The report as one HTML document.
///
/// Its charts are drawn by a script of its own; without scripts every figure is in a table.
pub fn html(report: &Report) -> String {
    document(report).html()
}

impl Document {
    /// As one page that works offline.
    pub fn html(&self) -> String {
        let mut out = String::with_capacity(1 << 20);
        out.push_str(include_str!("head.html"));
        let title = escaped(&self.title);
        let _ = writeln!(out, "<title>{title}</title>");
        out.push_str("<style>\n");
        out.push_str(include_str!("page.css"));
        let _ = write!(out, "</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n");
        out.push_str(&warnings(&self.warnings));
        let sections: Vec<(&Section, String)> =
            self.sections.iter().map(|section| (section, blocks(&section.blocks))).collect();
        out.push_str("<nav aria-label=\"Sections\"><ul>\n");
        for (section, _) in &sections {
            let _ = writeln!(out, "<li><a href=\"#{}\">{}</a></li>", section.id, escaped(&section.title));
        }
        out.push_str("</ul></nav>\n");
        let has = |of: fn(&Drawing) -> bool| self.sections.iter().any(|section| has_drawing(&section.blocks, of));
        let (has_charts, has_maps) = (has(needs_script), has(|drawing| matches!(drawing, Drawing::Map(_))));
        if has_charts || has_maps {
            out.push_str(NO_SCRIPT);
        }
        out.push_str("</header>\n<main>\n");
        for (section, inside) in &sections {
            let title = escaped(&section.title);
            let _ = write!(out, "<section id=\"{}\">\n<h2>{title}</h2>\n{inside}</section>\n", section.id);
        }
        out.push_str("</main>\n");
        let scripts = [
            has_charts.then_some(include_str!("charts.js")),
            has_maps.then_some(include_str!("map.js")),
            Some(include_str!("page.js")),
        ];
        for script in scripts.into_iter().flatten() {
            let _ = write!(out, "<script>\n{script}</script>\n");
        }
        out.push_str("</body>\n</html>\n");
        out
    }
}

/// What stands where charts would be expected.
const NO_SCRIPT: &str = "<noscript><p class=\"about\">A script inside this page draws its charts, and scripts are off. Tables have their \
                         figures.</p></noscript>\n";

/// Is there a drawing of this kind?
fn has_drawing(blocks: &[Block], of: fn(&Drawing) -> bool) -> bool {
    blocks.iter().any(|block| match block {
        Block::Chart(chart) => of(&chart.drawing),
        Block::Fold { blocks, .. } => has_drawing(blocks, of),
        _ => false,
    })
}

fn warnings(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
    if items.is_empty() {
        items
    } else {
        format!(
            "<div class=\"warning\" role=\"note\"><p><strong>Read this first</strong></p><ul>\n{items}</ul></div>\n"
        )
    }
}

/// A fact longer than this has a line to itself.
const WIDE_FACT: usize = 60;

fn blocks(all: &[Block]) -> String {
    all.iter().map(block).collect()
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(text) => format!("<h3>{}</h3>\n", escaped(text)),
        Block::Paragraph(text) => format!("<p class=\"about\">{}</p>\n", escaped(text)),
        Block::List(items) => list(items),
        Block::Facts(facts) => {
            let fact = |(name, value): &(String, String)| {
                let wide = if value.len() > WIDE_FACT { " class=\"wide\"" } else { "" };
                format!("<div{wide}><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value))
            };
            format!("<dl class=\"facts\">\n{}</dl>\n", facts.iter().map(fact).collect::<String>())
        }
        Block::Table(figures) => table(figures),
        Block::Verbatim(text) => {
            let lines: Vec<String> = text.lines().map(escaped).collect();
            format!("<pre>{}</pre>\n", lines.join("\n"))
        }
        Block::Chart(of) => chart(of),
        Block::Ranking(of) => ranking::ranking(of),
        Block::Fold { summary, is_open, blocks: inside } => fold(summary, *is_open, &blocks(inside)),
    }
}

fn fold(summary: &str, is_open: bool, inside: &str) -> String {
    let open = if is_open { " open" } else { "" };
    format!("<details{open}><summary>{}</summary>\n{inside}</details>\n", escaped(summary))
}

fn list(items: &[Item]) -> String {
    let items: Vec<&Item> = items.iter().filter(|item| !item.only_without_folds).collect();
    if items.is_empty() {
        return String::new();
    }
    let item = |item: &Item| {
        let below = list(&item.items);
        format!("<li>{}{below}</li>\n", escaped(&item.fitted(usize::MAX)))
    };
    format!("<ul>\n{}</ul>\n", items.into_iter().map(item).collect::<String>())
}

/// The figures of a chart are shown at once unless they have more rows.
const MOST_OPEN_ROWS: usize = 40;

fn chart(chart: &Chart) -> String {
    let is_open = |figures: &Table| figures.rows.len() <= MOST_OPEN_ROWS;
    let figures = match &chart.figures {
        Some(figures) => Some(fold("Figures", is_open(figures), &table(figures))),
        None => in_words(&chart.drawing).map(|words| format!("<noscript>\n{}</noscript>\n", table(&words))),
    };
    let about = if chart.about.is_empty() {
        String::new()
    } else {
        format!("<p class=\"about\">{}</p>\n", escaped(&chart.about))
    };
    drawn(chart) + &about + &figures.unwrap_or_default()
}

fn table(table: &Table) -> String {
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|index| !table.columns[*index].only_if_split).collect();
    let class = |index: usize| if table.columns[index].is_text { " class=\"text\"" } else { "" };
    let head = |index: &usize| {
        let text = escaped(table.columns[*index].head.trim());
        let (sort, text) = if table.is_sortable {
            (" aria-sort=\"none\"", format!("<button type=\"button\">{text}</button>"))
        } else {
            ("", text)
        };
        format!("<th scope=\"col\"{}{sort}>{text}</th>", class(*index))
    };
    let row = |cells: &Vec<Cell>| {
        let label = |place: usize| place < table.labels;
        let each =
            shown.iter().enumerate().filter_map(|(place, index)| Some((place, *index, cells.get(*index)?)));
        let cells: String = each.map(|(place, index, of)| cell(of, class(index), label(place))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let heads: String = shown.iter().map(head).collect();
    let rows: String = table.rows.iter().map(row).collect();
    let title =
        if table.title.is_empty() { String::new() } else { format!("<h4>{}</h4>\n", escaped(&table.title)) };
    let (filter, scroll, id) = if table.is_sortable {
        (FILTER, "scroll tall", " class=\"sortable\" id=\"sortable\"")
    } else {
        ("", "scroll", "")
    };
    format!(
        "{title}{filter}<div class=\"{scroll}\" tabindex=\"0\"><table{id}>\n<thead><tr>{heads}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// A document has one table that can be sorted.
const FILTER: &str = "<label class=\"filter\">Press a heading to sort. Show only rows with <input type=\"search\" \
                      data-filters=\"sortable\" placeholder=\"pipe same-cpu\"></label>\n";

fn cell(cell: &Cell, class: &str, is_label: bool) -> String {
    let (name, scope) = if is_label { ("th", " scope=\"row\"") } else { ("td", "") };
    match cell {
        Cell::Text(text) => format!("<{name}{scope}{class}>{}</{name}>", escaped(text)),
        Cell::Sorted { text, unit, value } => {
            let unit =
                if unit.is_empty() { String::new() } else { format!(" data-unit=\"{}\"", escaped(unit)) };
            format!("<{name}{scope}{class}{unit} data-value=\"{value}\">{}</{name}>", escaped(text))
        }
        Cell::Figure(Figure { value, interval, marks, is_best, .. }) => {
            let (best, value) = if *is_best {
                (" class=\"best\"", format!("<strong>{}</strong>", escaped(value)))
            } else {
                ("", escaped(value))
            };
            format!("<td{best}>{value} <small>{} {marks}</small></td>", escaped(interval))
        }
    }
}
