//! A message bus in shared memory: one copy, one order, nothing in between.

pub mod log;
