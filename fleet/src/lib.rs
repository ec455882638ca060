//! Records of many machines: a store that is files, and what they say together.
//!
//! The record (JSON Lines) stays the only truth; everything here follows from records. The way of a record: [`rows`] makes a row of each
//! of its cases, with the columns of [`schema`] · [`table`] writes them as Parquet · [`push`] puts both into the object store of
//! [`store`], named by content. The way of a question: [`lake`] reads the rows of all machines · [`analysis`] finds what they say (the
//! arithmetic is in `weighbridge-stats`) · [`report`] shows it; [`compare`] and [`sql`] answer one's own, [`compact`] copies closed days
//! into few files.
//!
//! No daemon, no catalogue, no lock: who writes needs to know of nobody else.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod analysis;
mod clock;
pub mod compact;
pub mod compare;
pub mod examples;
pub mod failure;
pub mod filter;
pub mod lake;
pub mod push;
pub mod report;
pub mod rows;
pub mod schema;
pub mod secrets;
pub mod sql;
pub mod store;
pub mod table;

pub use failure::{Exit, Failure};
