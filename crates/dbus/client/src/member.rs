//! A native member of a bus in shared memory, used like a connection: whole messages are sent and received.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_bus::{Connection, ConnectionOptions, Error as BusError, Message};
use causeway_dbus_wire::wire::{Body, Builder};

use crate::connection::{PATIENCE, driver_call};
use crate::{Error, Notes};

/// Of its messages that others have not read yet, unless it is told; longer ones than a quarter go another way.
const OUTBOX_BYTES: u64 = 32 << 20;

/// A native member.
#[derive(Debug)]
pub struct Member {
    connection: Box<Connection>,
    /// Messages that came while a reply was awaited.
    kept: VecDeque<Vec<u8>>,
    last_serial: u32,
    /// Where messages are noted, if they are.
    notes: Option<Notes>,
    /// Those that arrived, where they are kept.
    descriptors: Option<Vec<OwnedFd>>,
}

impl Member {
    /// Joins the bus that is served at a path.
    ///
    /// # Errors
    /// Nobody serves there, or the bus refuses.
    pub fn join(path: &Path) -> Result<Member, Error> {
        Member::join_with_outbox(path, OUTBOX_BYTES)
    }

    /// Joins the bus that is served at a path, with an outbox of so many bytes, a power of two. The memory is taken when it joins.
    ///
    /// # Errors
    /// As [`join`](Member::join).
    pub fn join_with_outbox(path: &Path, outbox_bytes: u64) -> Result<Member, Error> {
        let options = ConnectionOptions { outbox_bytes, ..ConnectionOptions::default() };
        let connection = Connection::open_with(path, options).map_err(|error| Error::Connect {
            address: format!("causeway:path={}", path.display()),
            source: io::Error::other(error),
        })?;
        Ok(Member {
            connection: Box::new(connection),
            kept: VecDeque::new(),
            last_serial: 0,
            notes: None,
            descriptors: None,
        })
    }

    /// Its name on the bus.
    #[must_use]
    pub fn unique_name(&self) -> &str {
        self.connection.unique_name()
    }

    /// The serial of the message that was sent last.
    #[must_use]
    pub fn last_serial(&self) -> u32 {
        self.last_serial
    }

    /// Sends a message and returns its serial. Where there is no space, it waits until other members have read.
    ///
    /// # Errors
    /// It is too long, or the bus or this member has ended.
    pub fn send(&mut self, message: &Builder<'_>) -> Result<u32, Error> {
        self.send_with_fds(message, &[])
    }

    /// Sends a message with copies of descriptors, whose number the message says itself, and returns its serial.
    ///
    /// # Errors
    /// As [`send`](Member::send), and [`Error::Refused`] where the bus holds too many.
    pub fn send_with_fds(&mut self, message: &Builder<'_>, fds: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        let since = Instant::now();
        let fds: Vec<OwnedFd> = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>()?;
        self.last_serial = self.connection.send_message_with_descriptors(message, fds)?;
        if let (Some(_), Ok(bytes)) = (&self.notes, message.build(self.last_serial)) {
            self.note(true, &bytes, since);
        }
        Ok(self.last_serial)
    }

    /// From now on each message that is sent or received is noted.
    pub fn note_messages(&mut self, notes: Notes) {
        self.notes = Some(notes);
    }

    fn note(&self, is_sent: bool, bytes: &[u8], since: Instant) {
        if let Some(notes) = &self.notes {
            notes.add(self.unique_name(), is_sent, bytes, since);
        }
    }

    /// Calls a method of the driver and waits for the reply. Other messages that come meanwhile are kept for
    /// [`receive`](Member::receive).
    ///
    /// # Errors
    /// The reply is an error or does not come in time.
    pub fn ask_driver(&mut self, member: &str, body: Body) -> Result<Vec<u8>, Error> {
        let serial = self.send(&driver_call(member, body))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.connection.next_message(Some(left))?.ok_or(Error::TimedOut)?;
            let header = message.header();
            match header.error_name {
                _ if header.reply_serial != Some(serial) => self.kept.push_back(message.bytes().to_vec()),
                Some(name) => {
                    return Err(Error::Refused {
                        name: name.into(),
                        message: message.text().unwrap_or_default().into(),
                    });
                }
                None => return Ok(message.bytes().to_vec()),
            }
        }
    }

    /// The next message, or nothing if none comes within `patience`. Zero looks without waiting.
    ///
    /// # Errors
    /// The bus or this member has ended.
    pub fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        if let Some(kept) = self.kept.pop_front() {
            return Ok(Some(kept));
        }
        let since = Instant::now();
        let message = self.connection.next_message(Some(patience))?;
        if let Some(message) = &message {
            self.note(false, message.bytes(), since);
            if let Some(descriptors) = &mut self.descriptors {
                descriptors.extend(message.take_descriptors());
            }
        }
        Ok(message.as_ref().map(Message::bytes).map(<[u8]>::to_vec))
    }

    /// From now on descriptors that arrive are kept for [`take_descriptors`](Member::take_descriptors).
    pub fn keep_descriptors(&mut self) {
        self.descriptors.get_or_insert_default();
    }

    /// The descriptors that arrived since the last call, in order.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        self.descriptors.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Makes the descriptor that is waited for.
    ///
    /// # Errors
    /// The kernel's, or the bus has ended.
    pub fn use_descriptor(&mut self) -> Result<(), Error> {
        Ok(self.connection.use_descriptor()?)
    }

    /// To be called before the descriptor is waited for; false if there is something to receive already.
    ///
    /// # Panics
    /// [`use_descriptor`](Member::use_descriptor) was not called before.
    pub fn prepare_to_wait(&mut self) -> bool {
        self.kept.is_empty() && self.connection.prepare_to_wait()
    }
}

impl AsFd for Member {
    /// Readable when something has come after [`Member::prepare_to_wait`].
    ///
    /// # Panics
    /// [`use_descriptor`](Member::use_descriptor) was not called before.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl From<BusError> for Error {
    fn from(error: BusError) -> Error {
        match error {
            BusError::Method { name, message } => Error::Refused { name, message },
            BusError::TooLong { .. } => Error::Refused {
                name: causeway_bus::name::LIMITS_EXCEEDED.into(),
                message: error.to_string(),
            },
            BusError::Disconnected(_) | BusError::AuthorityGone => Error::Closed,
            other => Error::Io(io::Error::other(other)),
        }
    }
}
