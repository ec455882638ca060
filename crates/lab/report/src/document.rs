//! A report as sections of paragraphs, lists, tables, folds and charts: composed once, rendered as text, Markdown and HTML.
//!
//! Nothing here depends on a format. A terminal leaves out the content of a [`Block::Fold`]; a terminal and Markdown show the
//! figures of a [`Chart`].

use crate::chart::{Chart, Drawing};
use crate::figure::Figure;
use crate::words::plain;

/// A name and a text.
pub type Fact = (String, String);

/// A name and a text, made safe to show.
pub fn fact(name: &str, value: &str) -> Fact {
    (plain(name), plain(value))
}

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Heading of the report.
    pub title: String,
    /// Warnings, shown before all sections.
    pub warnings: Vec<String>,
    /// Sections in reading order.
    pub sections: Vec<Section>,
}

/// A part with a heading of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Name of the anchor, unique in a document.
    pub id: String,
    /// Heading of the section.
    pub title: String,
    /// Content of the section.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section, or none where there is nothing to show.
    pub fn new(id: &str, title: &str, blocks: Vec<Block>) -> Vec<Section> {
        let section = (!blocks.is_empty()).then(|| Section { id: id.into(), title: title.into(), blocks });
        section.into_iter().collect()
    }

    /// A section of sentences, then more.
    pub fn of(title: &str, sentences: impl IntoIterator<Item = String>, more: Vec<Block>) -> Section {
        let id = title.to_lowercase().split_whitespace().collect::<Vec<_>>().join("-");
        let blocks = sentences.into_iter().map(Block::Paragraph).chain(more).collect();
        Section { id, title: title.into(), blocks }
    }

    /// Does a format without drawings have anything to show of it, apart from text about what that format leaves out?
    pub fn is_worth_text(&self, with_folds: bool) -> bool {
        let is_words = |block: &Block| matches!(block, Block::Heading(_) | Block::Paragraph(_));
        self.blocks.iter().any(|block| block.has_content(with_folds)) || self.blocks.iter().all(is_words)
    }
}

/// What a section is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading inside a section.
    Heading(String),
    /// A paragraph of sentences.
    Paragraph(String),
    /// Entries of a list.
    List(Vec<Item>),
    /// Names and texts.
    Facts(Vec<Fact>),
    /// Rows and columns.
    Table(Table),
    /// Lines of a program's output, as they are.
    Verbatim(String),
    /// A drawing, and its figures as a table.
    Chart(Box<Chart>),
    /// Rows in an order, with bars.
    Ranking(Ranking),
    /// Content that a reader opens when needed; not shown on a terminal.
    Fold {
        /// What is inside, in a few words.
        summary: String,
        /// Is it open when the page is loaded?
        is_open: bool,
        /// What the fold hides.
        blocks: Vec<Block>,
    },
}

impl Block {
    fn has_content(&self, with_folds: bool) -> bool {
        match self {
            Block::Heading(_) | Block::Paragraph(_) => false,
            Block::List(items) => !items.is_empty(),
            Block::Facts(facts) => !facts.is_empty(),
            Block::Verbatim(text) => !text.is_empty(),
            Block::Table(table) => !table.rows.is_empty(),
            Block::Chart(chart) => chart.figures.is_some(),
            Block::Ranking(ranking) => !ranking.rows.is_empty(),
            Block::Fold { blocks, .. } => with_folds && blocks.iter().any(|block| block.has_content(true)),
        }
    }

    /// A closed fold.
    pub fn fold(summary: String, blocks: Vec<Block>) -> Block {
        Block::Fold { summary, is_open: false, blocks }
    }

    /// A list of sentences.
    pub fn sentences(sentences: impl IntoIterator<Item = String>) -> Block {
        Block::List(sentences.into_iter().map(Item::from).collect())
    }

    /// A list below a heading; nothing where the list is empty.
    pub fn headed(heading: &str, items: Vec<Item>) -> impl Iterator<Item = Block> {
        let is_shown = !items.is_empty();
        [Block::Heading(heading.into()), Block::List(items)].into_iter().filter(move |_| is_shown)
    }

    /// A drawing; `about` may be empty.
    pub fn chart(title: impl Into<String>, about: &str, drawing: Drawing, figures: Option<Table>) -> Block {
        Block::Chart(Box::new(Chart { title: title.into(), about: about.into(), drawing, figures }))
    }
}

/// What costs how much, lowest first, with a bar for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The question.
    pub title: String,
    /// What the figures are multiples of.
    pub unit: String,
    /// Lowest cost first.
    pub rows: Vec<Rank>,
    /// What follows for who demands something that the first does not have, a line each.
    pub follows: Vec<String>,
}

/// A row of a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    /// Those of the row.
    pub names: Vec<String>,
    /// Their costs as text: `1.37–1.46`.
    pub times: String,
    /// The lowest of their costs, above 0: where the solid part of the bar ends.
    pub estimate: f64,
    /// The lowest and the highest end of what is known of them, above 0.
    pub ends: [f64; 2],
    /// The same as text, `1.31–1.52`, where that is more than their costs.
    pub interval: Option<String>,
    /// Do all of the row cost less than all of the next, for sure?
    pub is_sure: bool,
}

/// Bars whose longest is so many times the first are drawn by doublings.
const LINEAR_MAX: f64 = 8.0;

impl Ranking {
    /// Are bars drawn by doublings, so that short ones can be told apart beside long ones?
    pub fn is_logarithmic(&self) -> bool {
        self.longest() > LINEAR_MAX
    }

    fn longest(&self) -> f64 {
        self.rows.iter().map(|row| row.ends[1].max(row.estimate)).fold(1.0, f64::max)
    }

    /// Where the solid and the shaded part of a bar end, the cost and the highest end of the interval, as shares of the longest.
    pub fn shares(&self, row: &Rank) -> [f64; 2] {
        let log = |times: f64| 1.0 + times.log2().max(-0.9);
        let share = |times: f64| {
            if self.is_logarithmic() { log(times) / log(self.longest()) } else { times / self.longest() }
        };
        [row.estimate, row.ends[1].max(row.estimate)].map(share)
    }

    /// The same without bars.
    pub fn table(&self) -> Table {
        let row = |row: &Rank| {
            let interval = row.interval.clone().unwrap_or_default();
            [row.times.clone(), interval, row.names.join(", "), if row.is_sure { "yes" } else { "no" }.into()]
        };
        let title = format!("{}: {}", self.title, self.unit);
        let heads = ["times", "interval", "mechanisms", "surely ahead of the next row"];
        Table::new(&title, heads, self.rows.iter().map(row)).with_texts([2, 3])
    }

    /// The heading, with what bars count where that is not the cost itself.
    pub fn heading(&self) -> String {
        let bars = if self.is_logarithmic() { "; bars by doublings" } else { "" };
        format!("{}: {}{bars}", self.title, self.unit)
    }
}

/// An entry of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Always shown: `mq-posix: 64 KiB, 1 MiB at same-cpu, two-cpus (roundtrip, stream)`.
    pub text: String,
    /// Parts that follow a colon: the first always, the others as far as the line has room.
    pub further: Vec<String>,
    /// Entries below it.
    pub items: Vec<Item>,
    /// Does the entry replace what a fold shows? Formats with folds leave it out.
    pub only_without_folds: bool,
}

impl From<String> for Item {
    fn from(text: String) -> Item {
        Item { text, ..Item::default() }
    }
}

impl Item {
    /// An entry with others below it.
    pub fn over(text: impl Into<String>, items: Vec<Item>) -> Item {
        Item { text: text.into(), items, ..Item::default() }
    }

    /// An entry for formats without folds only, in place of the content of a fold.
    pub fn without_folds(text: String) -> Item {
        Item { text, only_without_folds: true, ..Item::default() }
    }

    /// On a line of the given width, with `…` for what has no room.
    pub fn fitted(&self, width: usize) -> String {
        use textwrap::core::display_width;
        let Some((first, rest)) = self.further.split_first() else { return self.text.clone() };
        let mut out = format!("{}: {first}", self.text);
        for (index, part) in rest.iter().enumerate() {
            let is_last = index + 1 == rest.len();
            let needed = display_width(&out) + 2 + display_width(part) + if is_last { 0 } else { 3 };
            if needed > width {
                return out + "; …";
            }
            out = format!("{out}; {part}");
        }
        out
    }
}

/// Rows and columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Heading of the table; may be empty.
    pub title: String,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows, each with one cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Number of columns at the left that label a row, at least one.
    pub labels: usize,
    /// Can a reader of the page sort and filter it?
    pub is_sortable: bool,
}

impl Table {
    /// A table with one column of labels and otherwise numbers.
    pub fn new<R: IntoIterator<Item: Into<Cell>>>(
        title: &str,
        heads: impl IntoIterator<Item: Into<String>>,
        rows: impl IntoIterator<Item = R>,
    ) -> Table {
        let columns = heads.into_iter().map(Column::number).collect();
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
        Table { title: title.into(), columns, rows, labels: 1, is_sortable: false }.with_texts([0])
    }

    /// The same with further columns of text.
    #[must_use]
    pub fn with_texts(mut self, columns: impl IntoIterator<Item = usize>) -> Table {
        columns.into_iter().for_each(|index| self.columns[index].is_text = true);
        self
    }

    /// Of the first rows at most `top`, and how many more there are. Columns before `numbers_from` are words.
    pub fn of_first<R>(
        heads: &[&str],
        numbers_from: usize,
        top: usize,
        from: &[R],
        row: impl Fn(&R) -> Vec<String>,
    ) -> TopTable {
        let mut table = Table::new("", heads.iter().copied(), from.iter().take(top).map(row));
        for (index, column) in table.columns.iter_mut().enumerate() {
            column.is_text = index < numbers_from;
        }
        let more = from.len() - table.rows.len();
        TopTable { table, more }
    }
}

/// The first rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TopTable {
    table: Table,
    more: usize,
}

impl TopTable {
    /// The same with further columns of text.
    #[must_use]
    pub fn with_texts(self, columns: impl IntoIterator<Item = usize>) -> TopTable {
        TopTable { table: self.table.with_texts(columns), ..self }
    }

    /// The table and a word on the rows that it leaves out.
    pub fn blocks(self) -> Vec<Block> {
        let more = self.rest();
        std::iter::once(Block::Table(self.table)).chain(more).collect()
    }

    /// The same below a chart of it.
    pub fn charted(self, title: &str, drawing: Drawing) -> Vec<Block> {
        let more = self.rest();
        std::iter::once(Block::chart(title, "", drawing, Some(self.table))).chain(more).collect()
    }

    fn rest(&self) -> Option<Block> {
        (self.more > 0).then(|| Block::Paragraph(format!("… and {} more", self.more)))
    }
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its head; a line break is a break where lines can be broken.
    pub head: String,
    /// Is it aligned to the left?
    pub is_text: bool,
    /// Is it shown only where the table is split because the columns have no room side by side?
    pub only_if_split: bool,
}

impl Column {
    /// Aligned to the right.
    pub fn number(head: impl Into<String>) -> Column {
        Column { head: head.into(), ..Column::default() }
    }

    /// Aligned to the left.
    pub fn text(head: impl Into<String>) -> Column {
        Column { is_text: true, ..Column::number(head) }
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A text that is sorted by its value, among those of its unit.
    Sorted {
        /// What is shown.
        text: String,
        /// May be empty.
        unit: String,
        /// Orders the cells of a unit.
        value: f64,
    },
    /// A measured figure.
    Figure(Figure),
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_shows_its_first_part_and_as_many_others_as_have_room() {
        let further = ["two modes".to_string(), "a step".into(), "a slope".into()].to_vec();
        let item = Item { text: "pipe".into(), further, ..Item::default() };
        assert_eq!(item.fitted(80), "pipe: two modes; a step; a slope");
        assert_eq!(item.fitted(32), "pipe: two modes; a step; a slope");
        assert_eq!(item.fitted(31), "pipe: two modes; a step; …");
        assert_eq!(item.fitted(10), "pipe: two modes; …");
    }
}
