//! What a record is, what its findings say, and the output of other tools as lines of one.

mod contests;
mod fields;
mod import;
mod laws;
