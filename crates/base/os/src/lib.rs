//! Linux as safe types: descriptors, memory, futexes, clocks, processes, sockets.
//!
//! This crate is a fence: whatever needs `unsafe` to talk to the kernel is written here once, with the promise it
//! relies on, so that the crates above it need none. It holds no policy. It knows nothing of messages, logs or
//! measurements; it only says what the kernel says, as a value, or why the kernel refused, as an [`Error`].
//!
//! One module per idea. Nothing here leaves a thread behind, keeps a global, or writes to a terminal.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

#[cfg(not(target_os = "linux"))]
compile_error!("causeway-os speaks to Linux and to nothing else");

pub mod bell;
pub mod clock;
pub mod epoll;
mod error;
pub mod fences;
pub mod futex;
pub mod handshake;
pub mod heap;
pub mod limits;
pub mod lock;
pub mod machine_id;
pub mod memory;
pub mod process;
pub mod sched;
pub mod serving;
pub mod socket;

pub use error::{Context, Error, Result};
