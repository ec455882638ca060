//! The contracts: what a mechanism promises a pattern, and what a pattern may rely on.
//!
//! A mechanism never learns which pattern drives it, and a pattern never learns which mechanism it drives. What a
//! pattern needs to know about a mechanism is in [`Caps`]; what a mechanism needs to know about a case is in [`CaseParams`].

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use crate::axis::Axis;
use crate::host::Host;
use crate::params::{CaseParams, Wait};

/// What a mechanism can do, and what must be known to judge its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps(u32);

impl Caps {
    /// Carries bytes (a signal does not).
    pub const PAYLOAD: Caps = Caps(1);
    /// Both ends send and receive.
    pub const DUPLEX: Caps = Caps(1 << 1);
    /// Sending nothing sends nothing: the smallest message is one byte.
    pub const NEVER_EMPTY: Caps = Caps(1 << 9);
    /// Keeps no message boundaries, so it cannot carry an empty message.
    pub const BYTE_STREAM: Caps = Caps(1 << 2).and(Caps::NEVER_EMPTY);
    /// May lose messages: a stream counts what arrives.
    pub const LOSSY: Caps = Caps(1 << 3);
    /// The receiver reads the sender's bytes where they lie.
    pub const ZERO_COPY: Caps = Caps(1 << 4);
    /// Nothing is exchanged: the harness measures itself.
    pub const HARNESS: Caps = Caps(1 << 5);
    /// Time is advanced by the mechanism itself, so that results are the same on every machine.
    pub const VIRTUAL_TIME: Caps = Caps(1 << 6);
    /// Each message is mapped anew, so page faults belong to it.
    pub const MAPS: Caps = Caps(1 << 7);
    /// Its roles give up the CPU by themselves, which the kernel counts as if they had been preempted.
    pub const YIELDS: Caps = Caps(1 << 8);
    /// Its roles share an address space: they are threads of one process, whatever the case says of its peers.
    pub const ONE_PROCESS: Caps = Caps(1 << 16);
    /// Nothing at all.
    pub const NONE: Caps = Caps(0);

    /// Both sets together.
    pub const fn and(self, other: Caps) -> Caps {
        Caps(self.0 | other.0)
    }

    /// Are all of `other` in this set?
    pub const fn has(self, other: Caps) -> bool {
        self.0 & other.0 == other.0
    }
}

/// May a case run here?
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fit {
    /// It may.
    Yes,
    /// It may not: one sentence with the limit's name and how to raise it.
    No(String),
}

/// The two ends of a params. What each of them does is the pattern's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that speaks first.
    Near,
    /// The other one.
    Far,
}

/// What the coordinator gives to one end.
#[derive(Debug, Default)]
pub struct EndResources {
    /// Descriptors, in an order that the mechanism knows.
    pub fds: Vec<OwnedFd>,
    /// Plain numbers, likewise.
    pub words: Vec<u64>,
    /// Stays in the coordinator, and is dropped when the peers are gone: what takes away a name that descriptors do
    /// not keep.
    pub guard: Option<Box<dyn Any + Send>>,
}

impl EndResources {
    /// Descriptors only.
    pub fn of(fds: impl IntoIterator<Item = OwnedFd>) -> EndResources {
        EndResources { fds: fds.into_iter().collect(), ..EndResources::default() }
    }

    /// Takes the next descriptor.
    ///
    /// # Panics
    /// If there is none: `plan` and `attach` of one mechanism disagree.
    pub fn take_fd(&mut self) -> OwnedFd {
        assert!(!self.fds.is_empty(), "attach wants more descriptors than plan handed over");
        self.fds.remove(0)
    }
}

/// Effective settings, read back from the kernel: name to value with unit in the name.
pub type Facts = BTreeMap<String, String>;

/// One way to move bytes between two processes.
pub trait Mechanism: 'static {
    /// Its name in case ids.
    const ID: &'static str;
    /// What a reader should know, in one sentence.
    const ABOUT: &'static str;
    /// What it can do.
    const CAPS: Caps;
    /// Ways to wait that its endpoints offer; the first is the default.
    const WAITS: &'static [Wait];
    /// Settings of its own.
    const AXES: &'static [Axis] = &[];
    /// One end of it.
    type End: Endpoint;

    /// May this case run here? A case that cannot says why; it is never clamped and never silently dropped.
    fn fit(_host: &Host, _link: &CaseParams) -> Fit {
        Fit::Yes
    }

    /// In the coordinator: creates what the two ends share, near end first.
    ///
    /// # Errors
    /// That of the kernel; the case is then skipped with it.
    fn create(host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]>;

    /// In the peer, after it is pinned.
    ///
    /// # Errors
    /// That of the kernel.
    fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self::End>;
}

/// One end of a mechanism in one peer: loan and commit, take and release, so that copying and zero-copy mechanisms
/// look alike to a pattern and no adapter's copy is measured in place of the mechanism's own.
pub trait Endpoint {
    /// A message being written. Dropped without [`commit`](Endpoint::commit), it was never sent.
    type Tx<'a>: AsMut<[u8]>
    where
        Self: 'a;
    /// A message being read; released when dropped.
    type Rx<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// Room for a message of exactly `len` bytes, waiting for it where necessary. Its content is arbitrary.
    ///
    /// # Errors
    /// The kernel's, or the peer is gone.
    fn loan(&mut self, len: usize) -> io::Result<Self::Tx<'_>>;

    /// Sends it.
    ///
    /// # Errors
    /// The kernel's, or the peer is gone.
    fn commit(tx: Self::Tx<'_>) -> io::Result<()>;

    /// Sends a message that lies elsewhere. Copies it into a loan first, unless the mechanism can send from anywhere.
    ///
    /// # Errors
    /// As [`loan`](Endpoint::loan) and [`commit`](Endpoint::commit).
    #[inline]
    fn send_from(&mut self, message: &[u8]) -> io::Result<()> {
        let mut tx = self.loan(message.len())?;
        tx.as_mut().copy_from_slice(message);
        Self::commit(tx)
    }

    /// The next message, waiting for it. `len` is what the pattern expects: a byte stream reads exactly so much, a
    /// record mechanism returns what came, and the pattern compares.
    ///
    /// # Errors
    /// The kernel's, or the peer is gone.
    fn take(&mut self, len: usize) -> io::Result<Self::Rx<'_>>;

    /// Touches and locks the memory that messages will lie in.
    ///
    /// # Errors
    /// The kernel's; not being allowed to lock memory is a fact, not an error.
    fn prefault(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns when nothing that this end has sent needs it any more. Called before it is dropped.
    ///
    /// # Errors
    /// The kernel's, or the peer is gone.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Effective settings, read back: pipe size, sndbuf, MSS …
    fn facts(&self) -> Facts {
        Facts::new()
    }
}
