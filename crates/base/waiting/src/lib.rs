//! How log and bus wait alike.
//!
//! [`patience`]: what a deadline for those who are behind counts.

pub mod patience;
