//! The log protocol: a ring of frames in shared memory, claimed and committed by exchanging one word each, read
//! without writing anything.
//!
//! This is the inside of the library; programs use [`Group`](crate::Group). It is public so that models, property
//! tests and fuzzers run exactly the code that ships. It is generic over [`Memory`], and its atomics are loom's
//! under `--cfg loom`. Bytes and orders are described in `docs/wire.md`.
//!
//! What holds at every instruction:
//!
//! * I1 every granule from the end of the chain to the limit of a shared log, that one included, is free with the lap
//!   it lies in;
//! * I2 a frame is decided once, to done or to padding;
//! * I3 the chain of frames from any boundary at or above the floor leads to the end;
//! * I4 no byte that a receiver holds and has not read is overwritten;
//! * I5 a receiver that sleeps has looked after it said so, or the publisher saw it;
//! * I6 all receivers see the same frames at the same positions.

pub mod atomic;
#[cfg(not(loom))]
mod copy;
pub mod layout;
#[cfg(not(loom))]
pub(crate) mod mapped;
pub mod memory;
#[cfg(not(loom))]
pub(crate) mod pages;
pub mod reader;
pub mod reclaim;
pub mod sleep;
pub mod word;
pub mod writer;

pub use memory::{HeapMemory, Memory};
pub use reader::{Frame, Glance, Look, Loss, Peek, Reader, Start};
pub use reclaim::Gate;
pub use writer::{Claim, Claimed, Corrupt, Evicted, Kind, Label, Writer};
