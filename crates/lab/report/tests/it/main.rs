//! Reports of records that are built in code, in every format.

#[macro_use]
extern crate causeway_testkit;

mod baseline;
mod chromium;
mod common;
mod data;
mod edited;
mod explain;
mod html;
mod known_answers;
mod map;
mod suites;
mod text;
