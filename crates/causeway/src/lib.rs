//! A message bus in shared memory: one copy, one order, nothing in between.

#[cfg(not(loom))]
mod error;
pub mod log;

#[cfg(not(loom))]
pub use error::{Error, Gone, Refusal, Result};
