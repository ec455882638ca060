//! The tests of this crate that need more than one file.

mod machine;
mod polling;
