//! A channel to a thread that sleeps on descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};

use rustix::event::{EventfdFlags, eventfd};

use crate::failure::{Failure, Result};

/// The end that tells. Its clones tell the same one.
#[derive(Debug)]
pub struct Teller<T> {
    sender: mpsc::Sender<T>,
    bell: Arc<OwnedFd>,
}

impl<T> Clone for Teller<T> {
    fn clone(&self) -> Teller<T> {
        Teller { sender: self.sender.clone(), bell: Arc::clone(&self.bell) }
    }
}

impl<T> Teller<T> {
    /// Tells something, and wakes who listens. One that has ended is told nothing.
    pub fn tell(&self, news: T) {
        let _ = self.sender.send(news);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// The end that is told. Readable when there is something.
#[derive(Debug)]
pub struct Listener<T> {
    receiver: mpsc::Receiver<T>,
    bell: Arc<OwnedFd>,
}

impl<T> Listener<T> {
    /// All that was told, and the end is not readable any more until there is more.
    pub fn take(&self) -> impl Iterator<Item = T> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count[..]);
        self.receiver.try_iter()
    }
}

impl<T> AsFd for Listener<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Both ends.
pub fn channel<T>() -> Result<(Teller<T>, Listener<T>)> {
    let (sender, receiver) = mpsc::channel();
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(Failure::of)?);
    Ok((Teller { sender, bell: Arc::clone(&bell) }, Listener { receiver, bell }))
}
