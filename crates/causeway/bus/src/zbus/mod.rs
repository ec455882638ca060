//! Programs of zbus on this bus, unchanged but for the line that connects.
//!
//! Proxies, object servers, signal streams and names of zbus work as over a socket to a D-Bus broker, and messages pass through shared
//! memory. What zbus asks of the bus itself is answered here where the directory has the answer, and by the authority otherwise.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Instead of `zbus::connection::Builder::session()?`:
//! let connection = causeway_bus::zbus::session().await?.build().await?;
//! println!("{:?}", connection.unique_name());
//! # Ok(())
//! # }
//! ```
//!
//! What differs: the program needs a tokio runtime; when the authority ends, the connection ends; a call that has
//! no answer when its callee leaves the bus ends with `NoReply`, as with a broker, and a call without a timeout of zbus (`method_timeout`) waits as long
//! as that takes.

mod bus_object;
mod unread;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use ::zbus::connection::Builder;
use ::zbus::connection::socket::{ReadHalf, Split, WriteHalf};
use ::zbus::export::async_trait::async_trait;
use ::zbus::fdo::ConnectionCredentials;
use causeway_dbus_wire::sasl::{Progress, Server};
use causeway_dbus_wire::wire;

use crate::asynchronous::driver::Driven;
use crate::asynchronous::{join, join_session};
use crate::connection::Connection;
use crate::error::Result;
use unread::{Unread, invalid};

/// Begins a connection of zbus to the bus that is served at a path, as [`Connection::open`] and [`Socket::new`] do.
pub async fn builder(path: impl AsRef<Path>) -> Result<Builder<'static>> {
    Ok(Builder::socket(Socket::new(join(path.as_ref()).await?)?))
}

/// Begins a connection of zbus to the bus of the session, as [`Connection::session`] and [`Socket::new`] do.
pub async fn session() -> Result<Builder<'static>> {
    Ok(Builder::socket(Socket::new(join_session().await?)?))
}

/// A member of the bus as a socket of zbus, for [`Builder::socket`].
#[derive(Debug)]
pub struct Socket(Arc<Driven<Unread>>);

/// The half that zbus reads from.
#[derive(Debug)]
pub struct Reader {
    member: Arc<Driven<Unread>>,
    /// The message that is read, and how far.
    message: Vec<u8>,
    at: usize,
}

/// The half that zbus writes to.
#[derive(Debug)]
pub struct Writer {
    member: Arc<Driven<Unread>>,
    /// Until messages begin. The kernel has authenticated this process when it joined the bus.
    handshake: Option<Server>,
    unsent: Vec<u8>,
}

impl Socket {
    /// Registers a connection with the present tokio runtime.
    ///
    /// # Errors
    /// The kernel lacks descriptors, or the process that serves the bus is gone.
    ///
    /// # Panics
    /// Outside a tokio runtime, and in one without I/O. Sending panics in a runtime without time.
    pub fn new(connection: Connection) -> Result<Socket> {
        Ok(Socket(Arc::new(Driven::new(connection, Unread::default())?)))
    }
}

impl ::zbus::connection::socket::Socket for Socket {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let read = Reader { member: Arc::clone(&self.0), message: Vec::new(), at: 0 };
        Split::new(read, Writer { member: self.0, handshake: Some(Server::new(None)), unsent: Vec::new() })
    }
}

#[async_trait]
impl ReadHalf for Reader {
    // Not `receive_message`: only bytes get the number by which zbus keeps the order across its streams.
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut descriptors = Vec::new();
        if self.at == self.message.len() {
            (self.message, descriptors) = self.member.receive().await?;
            self.at = 0;
        }
        let left = &self.message[self.at..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok((count, descriptors))
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }

    async fn peer_credentials(&mut self) -> io::Result<ConnectionCredentials> {
        Ok(self.member.credentials())
    }
}

#[async_trait]
impl WriteHalf for Writer {
    async fn send_message(&mut self, message: &::zbus::Message) -> ::zbus::Result<()> {
        Ok(self.member.send_bytes(message.data(), message.data().fds()).await?)
    }

    /// What zbus sends before it has a name: the handshake, and its first call.
    async fn sendmsg(&mut self, buffer: &[u8], _: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.unsent.extend_from_slice(buffer);
        if let Some(server) = &mut self.handshake {
            let mut answers = Vec::new();
            let progress = server.advance(&mut self.unsent, &self.member.bus_id(), &mut answers);
            self.member.give(answers);
            match progress {
                Progress::Unfinished => return Ok(buffer.len()),
                Progress::Failed(why) => return Err(invalid(why)),
                Progress::Begun => self.handshake = None,
            }
        }
        while let Some(message) = whole_message(&mut self.unsent)? {
            self.member.send_bytes(&message, &[] as &[OwnedFd]).await?;
        }
        Ok(buffer.len())
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }

    async fn close(&mut self) -> io::Result<()> {
        self.member.close();
        Ok(())
    }

    async fn peer_credentials(&mut self) -> io::Result<ConnectionCredentials> {
        Ok(self.member.credentials())
    }
}

/// Takes the first message out of bytes that were cut anywhere, once all of it is there.
fn whole_message(unsent: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let whole = wire::whole_message(unsent).map_err(|fault| invalid(&format!("invalid message: {fault}")))?;
    Ok(whole.map(|bytes| unsent.drain(..bytes).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_however_their_bytes_are_cut() {
        let hello = causeway_dbus_wire::wire::Builder::call("/", "Hello")
            .destination("org.freedesktop.DBus")
            .build(1)
            .unwrap();
        let all = [&hello[..], &hello[..]].concat();
        for piece in [1, 7, all.len()] {
            let (mut unsent, mut messages) = (Vec::new(), Vec::new());
            for bytes in all.chunks(piece) {
                unsent.extend_from_slice(bytes);
                while let Some(message) = whole_message(&mut unsent).unwrap() {
                    messages.push(message);
                }
            }
            assert_eq!(messages, [hello.clone(), hello.clone()]);
        }
        assert!(whole_message(&mut b"neither nor message".to_vec()).is_err());
    }
}
