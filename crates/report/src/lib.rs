//! Records into tables, Markdown, CSV, JSON and HTML.
//!
//! A [`Report`] puts the lines of a record together case by case; each renderer turns it into text. No statistic is
//! computed here and no figure appears that is not in the record, with one exception: a record that was cut off
//! before its summaries gets them from `weighbridge-stats`, and every format says so. Where the level of one run changes,
//! the strip charts of the page ask the same tests.
//!
//! ```
//! # use weighbridge_record::Reading;
//! # use weighbridge_report::{Report, Style, table};
//! let reading: Reading = weighbridge_record::read(&b""[..]).unwrap();
//! let report = Report::from_reading(reading);
//! assert!(table(&report, Style::default()).contains("No case has a figure."));
//! ```

mod against;
mod coverage;
mod csv;
mod distribution;
mod figure;
mod findings;
mod html;
mod json;
mod machine;
mod markdown;
mod matrix;
mod model;
mod notes;
mod per_op;
mod regimes;
mod rounds;
mod suite;
mod table;
mod unfinished;
mod units;
mod words;

pub use against::against;
pub use csv::csv;
pub use html::{html, write_html};
pub use json::json;
pub use markdown::markdown;
pub use model::{Measured, Report, Source, Sourced};
pub use suite::{Section, Table, sections};
pub use table::{Style, skips, table};
pub use units::{significant, with_unit};
