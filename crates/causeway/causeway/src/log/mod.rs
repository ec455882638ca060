//! The log protocol: a ring of frames in shared memory, claimed and committed by one exchange of a word each, and read
//! without any write.
//!
//! Internal, and no part of the public interface: programs use [`Group`](crate::Group). The module is reachable so that
//! models, property tests and fuzzers run exactly the code that ships. It is generic over [`Memory`], and its atomics are
//! those of loom under `--cfg loom`. `docs/wire.md` describes bytes and orders.
//!
//! A *writer* is a publisher's access to the log, a *reader* that of a subscriber. Invariants, true after every instruction:
//!
//! * I1 every granule from the end of the chain to the limit of a shared log, that one included, is free with the lap
//!   it lies in;
//! * I2 a frame is decided once, to done or to padding;
//! * I3 the chain of frames from any boundary at or above the floor leads to the end;
//! * I4 no byte that a subscriber holds and has not read is overwritten;
//! * I5 a subscriber that sleeps has checked the log after it announced the wait, or a publisher saw the announcement;
//! * I6 all subscribers see the same frames at the same positions.

pub mod atomic;
pub mod ends;
#[cfg(not(loom))]
pub(crate) mod form;
pub mod layout;
#[cfg(not(loom))]
pub(crate) mod mapped;
pub mod memory;
#[cfg(not(loom))]
pub(crate) mod pages;
pub mod reader;
pub mod reclaim;
pub mod server;
pub mod wait;
#[cfg(not(loom))]
pub(crate) mod wake_word;
pub mod word;
pub mod writer;

pub use memory::{HeapMemory, Memory};
pub use reader::{Frame, Loss, Peek, Reader, Start, TryPeek};
pub use reclaim::Gate;
pub use writer::{Claim, Claimed, Evicted, Kind, Label, Writer};

/// A position in the log: bytes since the group began. The same message has the same position for every subscriber, and later
/// messages have higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The log holds bytes that no correct publisher writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// Where they were found.
    pub position: u64,
    /// The header word found there.
    pub word: word::Word,
}
