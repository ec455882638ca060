//! Charts as data: what is drawn, and over which axes. The page draws them; other formats show their figures.

use weighbridge_record::Picture;

use crate::axis::Axis;
use crate::document::Table;
use crate::flame::Flame;
use crate::look::Look;

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// How to read it; may be empty.
    pub about: String,
    /// What is drawn.
    pub drawing: Drawing,
    /// The same as a table, for formats without drawings; charts that another table belongs to have none.
    pub figures: Option<Table>,
}

/// What a chart is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// Lines with interval bands.
    Lines(Axis, Axis, Vec<Line>),
    /// A dot with its interval for each name; the axis is that of the values.
    Dots(Axis, Vec<Line>),
    /// A bar for each name, made of pieces one after the other; the axis is that of the values.
    Bars(Axis, Vec<Bar>),
    /// Series above one another over the same samples; the level changes after that number of samples.
    Strips(Vec<Strip>, Option<usize>),
    /// Functions above those that call them.
    Flame(Flame),
    /// Lanes with what fills them, and arrows.
    Timeline(Picture),
    /// Columns side by side.
    Columns(Columns),
    /// Messages between those who send and receive them, in the order of time.
    Sequence(Vec<Message>),
    /// Cells in rows and columns.
    Map(CellMap),
}

/// Cells in rows and columns, each a number of steps above or below the level of its column.
#[derive(Clone, Debug, PartialEq)]
pub struct CellMap {
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Row after row; 127 where there is no figure.
    pub cells: Vec<i8>,
    /// A step, as a natural logarithm.
    pub step: f64,
    /// Steps at which the color is full.
    pub full: i8,
}

/// Columns of parts on top of each other, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// What a column counts: `messages`.
    pub unit: String,
    /// The parts of each column, from the bottom.
    pub kinds: Vec<Kind>,
    /// The columns.
    pub stacks: Vec<Stack>,
}

/// What the parts of all columns at one place are.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Its name; one kind alone needs none.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// Its class, or its time.
    pub name: String,
    /// The height of each kind.
    pub parts: Vec<f64>,
}

/// A message of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// When.
    pub at: String,
    /// Who sends it.
    pub from: String,
    /// Who receives it, if that is one.
    pub to: Option<String>,
    /// What stands at its arrow.
    pub label: String,
    /// What is shown beside the pointer.
    pub tooltip: String,
    /// How it is drawn.
    pub look: Look,
}

/// A bar of pieces from left to right; those below 0 go to the left.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub name: String,
    pub pieces: Vec<Piece>,
}

/// A piece of a bar; its name and its look are the same in all bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub name: String,
    pub look: Look,
    pub value: f64,
    /// What is shown beside the pointer, plain text, one line each.
    pub hover: Vec<String>,
}

/// A value of a line or a dot.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where on the horizontal axis; counts for nothing in a dot.
    pub x: f64,
    pub y: f64,
    pub interval: Option<[f64; 2]>,
    /// As of a piece.
    pub hover: Vec<String>,
}

/// One mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    pub look: Look,
    /// Is it hidden until the reader clicks on its name?
    pub is_hidden: bool,
    /// From left to right.
    pub points: Vec<Point>,
}

impl Line {
    /// A line that is shown.
    pub fn new(name: impl Into<String>, look: Look, points: Vec<Point>) -> Line {
        Line { name: name.into(), look, is_hidden: false, points }
    }
}

/// One of several series above one another, all over the same samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Strip {
    /// What the strip shows, and in which unit.
    pub label: String,
    /// One value per sample.
    pub values: Vec<f64>,
    /// Levels between which it changes.
    pub levels: Vec<f64>,
}

/// Largest number of strips in one chart.
pub const MOST_STRIPS: usize = 8;
