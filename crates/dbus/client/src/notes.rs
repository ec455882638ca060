//! When each message of some connections was sent and arrived, for a time line.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use causeway_bus::client::{Observer, Seen};
use causeway_dbus_wire::wire::Header;

/// What a connection did with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The unique name of the connection.
    pub connection: String,
    /// Did it send the message? Otherwise the message arrived there.
    pub is_sent: bool,
    /// The unique name of the message's sender; empty where the message does not say it.
    pub sender: String,
    /// The serial that the sender gave it.
    pub serial: u32,
    /// Kind, interface and member.
    pub title: String,
    /// From when to when it was written, or waited for and read.
    pub at: Range<Instant>,
}

/// Notes that several connections take, also of different threads.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Vec<Note>>>);

impl Notes {
    /// Hands out what was noted until now, in the order in which it was done.
    #[must_use]
    pub fn take(&self) -> Vec<Note> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Notes {
    /// Bytes that are not a message are not noted.
    fn observe(&mut self, Seen { connection, is_sent, bytes, since }: Seen<'_>) {
        let at = since..Instant::now();
        let Ok(header) = Header::parse(bytes) else { return };
        let note = Note {
            connection: connection.into(),
            is_sent,
            // Of its own messages the bus writes the name only into what others get.
            sender: if is_sent { connection } else { header.sender.unwrap_or_default() }.into(),
            serial: header.serial,
            title: header.title(),
            at,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }
}
