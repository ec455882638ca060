//! Records into tables, Markdown, CSV, JSON and HTML.
//!
//! A [`Report`] puts the lines of one or more records together case by case. Its sections are composed once, as a
//! document of paragraphs, lists, tables, folds and charts; [`text`], [`markdown`] and [`html`] are three renderers of it.
//! [`csv`] and [`json`] are data formats of the report itself.
//!
//! No statistic is computed here: a number comes from a line of the record, or from a line that
//! [`weighbridge_record::derive`] makes of such lines. A record that was cut off before its summaries gets them from
//! `weighbridge-stats`, and every format says which figures these are. Where the level of one run changes, the strip charts of the page ask the
//! same tests.
//!
//! ```
//! # use weighbridge_record::Reading;
//! # use weighbridge_report::{Report, Style, text};
//! let reading: Reading = weighbridge_record::read(&b""[..]).unwrap();
//! let report = Report::from_reading(reading);
//! assert!(text(&report, Style::default()).contains("No case has a figure."));
//! ```

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod advice;
mod axis;
mod calls;
mod chart;
mod coverage;
mod csv;
mod document;
mod figure;
mod flame;
mod history;
mod html;
mod json;
mod ledger;
mod lines;
mod look;
mod markdown;
mod matrix;
mod model;
mod notes;
mod regimes;
mod section;
mod suite;
mod text;
mod unfinished;
mod units;
mod verdicts;
mod words;

pub use advice::{Advice, Contender, Question, advise};
pub use chart::{CellMap, Chart, Columns, Drawing, Kind, Message, Stack};
pub use csv::csv;
pub use document::{Block, Cell, Column, Document, Item, Rank, Ranking, Section, Table, TopTable};
pub use history::{Dated, History};
pub use html::html;
pub use json::json;
pub use ledger::Ledger;
pub use look::Look;
pub use markdown::markdown;
pub use model::{Measured, Report, Source, Sourced};
pub use suite::kernel_slab::compared as kernel_tables;
pub use suite::{derived, sections, start_of_2010_s};
pub use text::{Style, skips, text};
pub use units::grouped;
pub use verdicts::{junit, verdicts_json};
pub use words::{case_name, plain};
