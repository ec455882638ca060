//! Descriptors of other processes in the hands of the authority, whose thread closes none of them: what is behind one is its sender's choice, and
//! closing a socket that lingers waits.

use std::ops::Deref;
use std::os::fd::OwnedFd;

/// What closes descriptors of others.
pub type Close = fn(Vec<OwnedFd>);

/// Descriptors of another process. Those that nobody has taken when it is dropped are left to the host to close.
#[derive(Debug)]
pub struct ForeignDescriptors {
    fds: Vec<OwnedFd>,
    close: Close,
}

impl ForeignDescriptors {
    pub fn new(fds: Vec<OwnedFd>, close: Close) -> ForeignDescriptors {
        ForeignDescriptors { fds, close }
    }

    /// All of them, for one who knows where to close them.
    pub fn take(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.fds)
    }

    /// The first one, if it passes this check.
    pub fn take_first_if(&mut self, check: impl FnOnce(&OwnedFd) -> bool) -> Option<OwnedFd> {
        self.fds.first().is_some_and(check).then(|| self.fds.remove(0))
    }

    /// For one who takes what it wants and leaves the rest.
    pub fn as_mut_vec(&mut self) -> &mut Vec<OwnedFd> {
        &mut self.fds
    }
}

impl Deref for ForeignDescriptors {
    type Target = [OwnedFd];

    fn deref(&self) -> &[OwnedFd] {
        &self.fds
    }
}

impl Drop for ForeignDescriptors {
    fn drop(&mut self) {
        if !self.fds.is_empty() {
            (self.close)(self.take());
        }
    }
}
