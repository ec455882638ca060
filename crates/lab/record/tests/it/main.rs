//! Records as they were written before, and the output of other tools.

mod import;
mod old_schema;
