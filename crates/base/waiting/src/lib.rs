//! How log and bus wait alike.
//!
//! [`patience`]: what a deadline for those who are behind counts. [`polling`]: how long to poll before sleeping.

pub mod patience;
pub mod polling;
