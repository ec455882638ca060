//! The store and its questions, from the outside.

mod claims;
mod document;
mod lakes;
mod push;
mod questions;
mod support;
