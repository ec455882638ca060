//! How an experiment is connected to a bus: by a socket, or as a native member.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use causeway_dbus_wire::wire::Builder;
use weighbridge_dbus_client::{Connection, Error, Monitoring, Notes, become_monitor, native_path};

use crate::native::Native;

/// A connection to a bus. Experiments know nothing else of it, so whatever stands between them and the bus is examined with it.
pub trait Link: fmt::Debug + Send {
    /// Its unique name.
    fn unique_name(&self) -> &str;

    /// Sends a message with copies of descriptors, and returns its serial.
    ///
    /// # Errors
    /// It cannot be sent, or the connection has ended.
    fn send(&mut self, message: &Builder<'_>, descriptors: &[BorrowedFd<'_>]) -> Result<u32, Error>;

    /// The next message, or nothing if none comes within `patience`. Zero looks without waiting.
    ///
    /// # Errors
    /// The bus ended the connection, or sent what is no message.
    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, Error>;

    /// From now on every message of the bus is received; false where the bus does not do that.
    ///
    /// # Errors
    /// The connection has ended.
    fn become_monitor(&mut self) -> Result<bool, Error>;

    /// From now on each message that is sent or arrives is noted.
    fn note_messages(&mut self, notes: Notes);

    /// From now on descriptors that arrive are kept.
    fn keep_descriptors(&mut self);

    /// The descriptors that arrived since the last call, in order.
    fn take_descriptors(&mut self) -> Vec<OwnedFd>;

    /// The socket, for bytes of an experiment's own; a native member has none.
    fn socket(&mut self) -> Option<&mut Connection>;
}

/// Connects to the bus at an address: as a native member where it is one of a bus of those, else by a socket.
///
/// # Errors
/// No bus answers there, or it does not let this process in.
pub fn connect(address: &str) -> Result<Box<dyn Link>, Error> {
    Ok(match native_path(address) {
        Some(path) => Box::new(Native::join(&path)?),
        None => Box::new(Connection::open(address)?),
    })
}

impl Link for Connection {
    fn unique_name(&self) -> &str {
        Connection::unique_name(self)
    }

    fn send(&mut self, message: &Builder<'_>, descriptors: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        self.send_with_fds(message, descriptors)
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        Connection::receive(self, patience)
    }

    fn become_monitor(&mut self) -> Result<bool, Error> {
        Ok(become_monitor(self)? == Monitoring::Everything)
    }

    fn note_messages(&mut self, notes: Notes) {
        Connection::note_messages(self, notes);
    }

    fn keep_descriptors(&mut self) {
        Connection::keep_descriptors(self);
    }

    fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        Connection::take_descriptors(self)
    }

    fn socket(&mut self) -> Option<&mut Connection> {
        Some(self)
    }
}
