//! What only measuring needs of Linux: counters of processes and CPUs, the kernel's trace files, topology, network interfaces
//! and namespaces of our own, the marks that an emulator counts between, and what the machine says it is.
//!
//! A fence like [`causeway_os`], on top of it: whatever needs `unsafe` or the format of a kernel file is written here once. It holds no
//! policy and knows no case, run or record.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod counters;
pub mod dmi;
pub mod namespace;
pub mod network;
pub mod topology;
pub mod tracefs;
pub mod window_marks;
