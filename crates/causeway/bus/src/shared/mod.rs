//! What the members of a bus share in memory. `docs/wire.md` has the bytes.
//!
//! | module | file in memory | written by |
//! |---|---|---|
//! | [`ring`], [`order`], [`statistics`] | the order log and a line of words for each member | all members |
//! | [`outbox`], [`header`] | the messages of one member | that member |
//! | [`body`] | one message that is too long for an outbox | its sender, before it is sealed |
//! | [`directory`], [`filter`] | who is there, who has which name, who wants which signals | the authority |
//!
//! [`unique_name`] says which name a connection has by its number.
//!
//! Internal, and no part of the public interface: reachable so that models, fuzzers and measurements run the code that ships.

pub mod atomic;
#[cfg(not(loom))]
pub mod body;
#[cfg(not(loom))]
pub mod directory;
#[cfg(not(loom))]
pub mod filter;
#[cfg(not(loom))]
pub mod header;
#[cfg(not(loom))]
pub(crate) mod memory;
#[cfg(not(loom))]
pub mod order;
#[cfg(not(loom))]
pub mod outbox;
pub mod ring;
#[cfg(not(loom))]
pub mod statistics;
#[cfg(not(loom))]
pub mod unique_name;

/// The format levels that this release has, of all files of a bus. A level says where every shared byte lies and what it means.
pub const FORMATS: std::ops::RangeInclusive<u32> = 1..=1;
/// The one that a bus has from its beginning to its end, if this release serves it.
pub const FORMAT: u32 = *FORMATS.end();

/// Number of the authority. 0 is nobody's: of a destination it means all.
pub const AUTHORITY_ID: u64 = 1;
