//! What zbus waits for: messages, each whole. Those that it sends are sent, or answered, here.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Poll, Waker};

use ::zbus::fdo::ConnectionCredentials;
use causeway_dbus_wire::wire::Header;

use super::bus_object;
use crate::asynchronous::driver::{Shared, State, Waiting};
use crate::connection::{Call, Connection, Incoming, Outgoing};
use crate::error::{Error, name};

#[derive(Debug, Default)]
pub(super) struct Unread {
    has_said_hello: bool,
    messages: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    reader: Option<Waker>,
}

impl Waiting for Unread {
    fn deliver(state: &mut State<Unread>, incoming: Incoming) {
        match incoming {
            Incoming::Call(Call(message)) | Incoming::Signal(message) | Incoming::Reply(message) => {
                state.push(message.bytes().to_vec(), message.take_descriptors());
            }
            Incoming::AuthorityGone => state.finish(Error::AuthorityGone),
        }
    }

    /// Leaves the bus. What was received can still be read.
    fn end(state: &mut State<Unread>, _: &Error) {
        state.connection = None;
        state.waiting.reader.take().into_iter().for_each(Waker::wake);
    }
}

impl Shared<Unread> {
    /// The GUID of the bus; empty after the end.
    pub(super) fn bus_id(&self) -> String {
        self.state().connection.as_ref().map(Connection::bus_id).unwrap_or_default()
    }

    pub(super) fn give(&self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.state().push(bytes, Vec::new());
        }
    }

    pub(super) fn close(&self) {
        self.state().finish(Error::Invalid("the connection was closed".into()));
    }

    pub(super) fn credentials(&self) -> ConnectionCredentials {
        let none = ConnectionCredentials::default();
        match self.state().connection.as_ref().and_then(Connection::credentials_of_bus) {
            Some((uid, pid)) => none.set_unix_user_id(uid).set_process_id(pid),
            None => none,
        }
    }

    pub(super) async fn receive(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.waiting.messages.is_empty() {
                state.take_some();
            }
            if let Some((message, descriptors)) = state.waiting.messages.pop_front() {
                state.queued_bytes -= message.len();
                return Poll::Ready(Ok((message, descriptors)));
            }
            if let Err(ended) = state.connected() {
                return Poll::Ready(Err(ended));
            }
            state.waiting.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Sends a message of zbus, or answers it.
    pub(super) async fn send_bytes(&self, bytes: &[u8], descriptors: &[impl AsFd]) -> io::Result<()> {
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let Some(message) = self.state().prepare(bytes, &descriptors)? else { return Ok(()) };
        match self.send(message).await {
            Ok(()) => Ok(()),
            Err(error) => self.state().not_sent(bytes, error),
        }
    }
}

impl State<Unread> {
    /// The connection; after its end, why it has ended.
    fn connected(&mut self) -> io::Result<&mut Connection> {
        if let Some(why) = self.why_ended() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why.to_string()));
        }
        self.open().map_err(io::Error::other)
    }

    /// A message of zbus, ready to be sent. `None` if it was answered here, or has no destination any more.
    fn prepare(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<Option<Outgoing>> {
        self.connected()?;
        let header = Header::parse(bytes).map_err(|fault| invalid(&fault.to_string()))?;
        if header.message_bytes() != bytes.len() {
            return Err(invalid("the message is incomplete"));
        }
        if header.unix_fds as usize != descriptors.len() {
            return Err(invalid("the message announces another number of descriptors than it has"));
        }
        let State { connection: Some(connection), waiting, .. } = self else { return Ok(None) };
        if let Some(answer) = bus_object::answer(connection, &mut waiting.has_said_hello, &header, bytes) {
            if header.expects_reply() {
                let reply = bus_object::reply(connection, header.serial, Ok(answer));
                self.push(reply, Vec::new());
            }
            return Ok(None);
        }
        let copies: io::Result<Vec<OwnedFd>> = descriptors.iter().map(|fd| fd.try_clone_to_owned()).collect();
        match connection.prepare_message(&header, bytes, copies?) {
            Ok(Some(message)) => Ok(Some(message)),
            Ok(None) => {
                // The error reply to a call, which waits in the connection.
                self.take_some();
                Ok(None)
            }
            Err(error) => self.not_sent(bytes, error).map(|()| None),
        }
    }

    /// A message cannot be sent: a caller gets an error reply, the sender of another message the error, unless the destination is gone.
    fn not_sent(&mut self, bytes: &[u8], error: Error) -> io::Result<()> {
        let header = Header::parse(bytes).map_err(|fault| invalid(&fault.to_string()))?;
        let connection = self.connected()?;
        match error {
            error if header.expects_reply() => {
                let reply = bus_object::reply(connection, header.serial, Err(error));
                self.push(reply, Vec::new());
                Ok(())
            }
            Error::Method { name, .. } if name == name::SERVICE_UNKNOWN => Ok(()),
            error => Err(io::Error::other(error)),
        }
    }

    fn push(&mut self, message: Vec<u8>, descriptors: Vec<OwnedFd>) {
        let queued_before = self.queued_bytes;
        self.queued_bytes += message.len();
        self.waiting.messages.push_back((message, descriptors));
        self.waiting.reader.take().into_iter().for_each(Waker::wake);
        self.check_inbox(queued_before);
    }
}

pub(super) fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
