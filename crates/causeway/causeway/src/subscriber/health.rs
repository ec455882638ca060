//! The state of a subscriber and of its group.

use std::sync::atomic::Ordering;

use super::Subscriber;
use crate::connection::has_ended;
use crate::error::Result;
use crate::log::{Memory, Peek};

/// The state of a subscriber and of its group: why no message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the process that serves the group is gone, as far as this subscriber has noticed. Messages still flow.
    pub server_is_gone: bool,
    /// The publisher that has claimed the next message and not finished it, if there is one.
    pub unfinished_by: Option<u8>,
    /// Publishers of the group, as the server last counted them.
    pub publishers: u32,
    /// Whether this subscriber missed its deadline, so that publishers no longer wait for it.
    pub demoted: bool,
    /// How often a publisher found the log full and gave a message up
    /// ([`Publisher::try_publish`](crate::Publisher::try_publish) and [`publish_timeout`](crate::Publisher::publish_timeout);
    /// each attempt counts). These messages are in no subscriber's [`Received::Lost`](crate::Received::Lost).
    pub given_up: u64,
    /// Publishers that ended without leaving, as far as the server has noticed: killed, and not dropped. 0 at the end of a group
    /// that ended as it should.
    pub killed_publishers: u64,
}

impl Subscriber {
    /// The state of this subscriber and of its group.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a publisher violated the protocol, and
    /// [`Error::MissedDeadline`](crate::Error::MissedDeadline) when the policy disconnects this subscriber.
    pub fn health(&mut self) -> Result<Health> {
        let unfinished_by = match self.lost {
            Some(_) => None,
            None => match self.reader.peek()? {
                Peek::Empty(owner) => {
                    self.publish_cursor();
                    owner
                }
                Peek::Lost(loss) => self.note_loss(loss).map(|()| None)?,
                Peek::Frame(_) | Peek::Sealed => None,
            },
        };
        Ok(Health {
            server_is_gone: has_ended(&**self.socket, None) || self.server_is_gone(),
            unfinished_by,
            publishers: self.status.words().publishers.load(Ordering::Acquire).count_ones(),
            demoted: self.is_demoted(),
            given_up: self.log.tail().given_up.load(Ordering::Relaxed),
            killed_publishers: self.status.words().killed_publishers.load(Ordering::Relaxed),
        })
    }
}
