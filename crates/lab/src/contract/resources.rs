//! What the coordinator makes for one end of a case, and what the end says of itself afterwards.

use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The two ends of a case. What each of them does is the pattern's business.
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
    /// Resources that are only descriptors.
    pub fn of(fds: impl IntoIterator<Item = OwnedFd>) -> EndResources {
        EndResources { fds: fds.into_iter().collect(), ..EndResources::default() }
    }

    /// Takes the next descriptor.
    ///
    /// # Panics
    /// If there is none: `create` and `attach` of one mechanism disagree.
    pub fn take_fd(&mut self) -> OwnedFd {
        assert!(!self.fds.is_empty(), "attach wants more descriptors than create made");
        self.fds.remove(0)
    }
}

/// Effective settings, read back from the kernel: name to value with unit in the name.
pub type Facts = BTreeMap<String, String>;
