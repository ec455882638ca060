//! A report as headings, sentences and tables, and its two plain forms. The page is in [`super::page`].

use std::fmt::Write;

/// A report.
#[derive(Debug, Default)]
pub struct Document {
    /// What it is about.
    pub title: String,
    /// The sentences below the title.
    pub lead: Vec<String>,
    /// The rest.
    pub sections: Vec<Section>,
}

/// A heading with what is below it.
#[derive(Debug, Default)]
pub struct Section {
    /// One word or two.
    pub heading: &'static str,
    /// Sentences before the table.
    pub about: Vec<String>,
    /// A table, if there is one.
    pub table: Option<Table>,
}

/// A table. Columns before `numbers_from` are words.
#[derive(Debug)]
pub struct Table {
    /// The names of the columns.
    pub head: Vec<&'static str>,
    /// Cells, one for each column.
    pub rows: Vec<Vec<String>>,
    /// The first column of numbers.
    pub numbers_from: usize,
    /// Rows that are not shown.
    pub more: usize,
}

impl Table {
    /// The first `top` of some rows.
    pub fn new<R>(
        head: &[&'static str],
        numbers_from: usize,
        top: usize,
        from: &[R],
        row: impl Fn(&R) -> Vec<String>,
    ) -> Table {
        let rows: Vec<Vec<String>> =
            from.iter().take(top).map(|from| row(from).iter().map(|cell| plain(cell)).collect()).collect();
        Table { head: head.to_vec(), more: from.len() - rows.len(), rows, numbers_from }
    }

    fn rest(&self) -> Option<String> {
        (self.more > 0).then(|| format!("… and {} more", self.more))
    }
}

/// Text from a capture without what could move a terminal's cursor.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// For a terminal.
pub fn text(document: &Document) -> String {
    let mut out = format!("{}\n", document.title);
    for sentence in &document.lead {
        out += &format!("{sentence}\n");
    }
    for section in &document.sections {
        out += &format!("\n{}\n", section.heading);
        for sentence in &section.about {
            out += &format!("  {sentence}\n");
        }
        if let Some(table) = &section.table {
            out += &aligned(table);
        }
    }
    out
}

fn aligned(table: &Table) -> String {
    let head: Vec<String> = table.head.iter().map(|name| (*name).to_owned()).collect();
    let lines = || std::iter::once(&head).chain(&table.rows);
    let width = |column: usize| lines().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for line in lines() {
        let mut row = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            let _ = match column < table.numbers_from {
                true => write!(row, "  {cell:<width$}"),
                false => write!(row, "  {cell:>width$}"),
            };
        }
        out += row.trim_end();
        out.push('\n');
    }
    out + &table.rest().map_or(String::new(), |rest| format!("  {rest}\n"))
}

/// For a document.
pub fn markdown(document: &Document) -> String {
    let mut out = format!("# {}\n\n", document.title);
    for sentence in &document.lead {
        out += &format!("{sentence}\n\n");
    }
    for section in &document.sections {
        out += &format!("## {}\n\n", section.heading);
        for sentence in &section.about {
            out += &format!("{sentence}\n\n");
        }
        let Some(table) = &section.table else { continue };
        let rule: Vec<&str> = (0..table.head.len())
            .map(|column| if column < table.numbers_from { "---" } else { "--:" })
            .collect();
        out += &format!("| {} |\n| {} |\n", table.head.join(" | "), rule.join(" | "));
        for row in &table.rows {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            out += &format!("| {} |\n", cells.join(" | "));
        }
        out += &table.rest().map_or("\n".into(), |rest| format!("\n{rest}\n\n"));
    }
    out
}
