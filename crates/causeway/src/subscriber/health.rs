//! How a receiver and its group stand.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_os::process::poll;

use super::Subscriber;
use crate::error::Result;
use crate::log::Peek;

/// How a receiver and the group stand, for a program that wonders why nothing comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether the process that serves the group has gone, as far as this receiver has noticed. Traffic goes on.
    pub server_is_gone: bool,
    /// A publisher that has claimed the next message and not finished it, for whatever reason.
    pub unfinished_by: Option<u8>,
    /// Publishers known to the server when it was last alive.
    pub publishers: u32,
    /// Whether this receiver was late and publishers no longer wait for it.
    pub demoted: bool,
}

impl Subscriber {
    /// How this receiver and its group stand.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a publisher broke the protocol.
    pub fn health(&mut self) -> Result<Health> {
        let hung_up = poll(&[self.socket.as_fd()], Some(Duration::ZERO))?[0];
        let unfinished_by = match self.lost {
            Some(_) => None,
            None => match self.reader.peek()? {
                Peek::Empty(owner) => {
                    self.announce();
                    owner
                }
                Peek::Lost(loss) => self.note_loss(loss).map(|()| None)?,
                Peek::Frame(_) | Peek::Sealed => None,
            },
        };
        Ok(Health {
            server_is_gone: hung_up || self.server_is_gone(),
            unfinished_by,
            publishers: self.status.words().publishers.load(Ordering::Acquire).count_ones(),
            demoted: self.is_expelled(),
        })
    }
}
