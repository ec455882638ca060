//! How log and bus wait alike, and how times are written.
//!
//! [`patience`]: what a deadline for those who are behind counts. [`polling`]: how long to poll before sleeping. [`duration`]: times on the
//! command lines of all programs. [`pool`]: threads for what would keep others waiting.

pub mod duration;
pub mod patience;
pub mod polling;
pub mod pool;
