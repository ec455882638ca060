//! Waiting for space together with other things.

use std::sync::Arc;

use super::Publisher;
use crate::error::Result;
use crate::log::Memory;
use crate::space::{Space, SpaceNotice};

impl Publisher {
    /// A descriptor that becomes readable when there may be space, for a program that waits for other descriptors too. After
    /// [`TryPublishError::Full`](crate::TryPublishError::Full) ask for it, try once more, and poll if that fails too; drop it, and try again, when it is readable. Now and
    /// then it is readable without space. Publishing costs nothing more for it.
    ///
    /// ```
    /// use causeway::{Group, GroupOptions, Policy, TryPublishError};
    ///
    /// let group = Group::create("prices", GroupOptions::new().capacity_bytes(4096))?;
    /// let (mut publisher, mut subscriber) = (group.publisher()?, group.subscribe(Policy::Reliable)?);
    /// while !matches!(publisher.try_publish(&[7; 500]), Err(TryPublishError::Full)) {}
    /// let notice = publisher.notify_space()?;
    /// # std::thread::spawn(move || while subscriber.recv().is_ok() {});
    /// // A subscriber reads meanwhile.
    /// causeway_os::process::poll(&[std::os::fd::AsFd::as_fd(&notice)], None)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) without descriptors or threads: one thread waits for all publishers of a process.
    pub fn notify_space(&mut self) -> Result<SpaceNotice> {
        SpaceNotice::start(self.space())
    }

    /// What this publisher waits for while the log is full.
    pub(crate) fn space(&mut self) -> Space {
        let slowest = self.subscribers.slowest(self.log.tail());
        let page = slowest.and_then(|(slot, _)| self.subscribers.page_of(slot));
        Space {
            log: Arc::clone(&self.log),
            owner: self.writer.owner(),
            on: page.zip(slowest.map(|(_, cursor)| cursor)),
        }
    }
}
