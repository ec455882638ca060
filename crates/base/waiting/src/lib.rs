//! How log and bus wait alike, and how times and sizes are written.
//!
//! [`patience`]: what a deadline for those who are behind counts. [`polling`]: how long to poll before sleeping. [`duration`] and [`size`]: times
//! and sizes on the command lines of all programs. [`pool`]: threads for what would keep others waiting.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod duration;
pub mod patience;
pub mod polling;
pub mod pool;
pub mod size;
