//! The output of other tools as lines of a record.

mod import;
