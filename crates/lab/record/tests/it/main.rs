//! What a record is, and the output of other tools as lines of one.

mod fields;
mod import;
mod laws;
