//! What both halves of a socket share: the connection, and the messages that zbus has still to read.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ::zbus::fdo::ConnectionCredentials;
use causeway_dbus_wire::wire::Header;

use super::bus_object;
use crate::asynchronous::{Doorbell, MESSAGES_PER_TURN, MessageSink, Turn, send};
use crate::connection::{Call, Connection, Incoming, Outgoing, Taken};
use crate::error::{Error, Result, name};

/// Behind both halves.
#[derive(Debug)]
pub(super) struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    /// None after the end.
    connection: Option<Connection>,
    has_said_hello: bool,
    /// What zbus has still to read, each whole.
    unread: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    unread_bytes: usize,
    /// What no future of the program sends: answers to calls that could not be delivered, and messages whose future was dropped.
    deferred: VecDeque<Outgoing>,
    reader: Option<Waker>,
    driver: Option<Waker>,
    /// Why there is no connection any more.
    why: String,
}

impl Shared {
    /// Registers a connection with the present runtime.
    pub(super) fn new(mut connection: Connection) -> Result<(Arc<Shared>, Doorbell)> {
        let doorbell = Doorbell::register(&mut connection)?;
        let state = State {
            connection: Some(connection),
            has_said_hello: false,
            unread: VecDeque::new(),
            unread_bytes: 0,
            deferred: VecDeque::new(),
            reader: None,
            driver: None,
            why: String::new(),
        };
        Ok((Arc::new(Shared(Mutex::new(state))), doorbell))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The GUID of the bus; empty after the end.
    pub(super) fn bus_id(&self) -> String {
        self.state().connection.as_ref().map(Connection::bus_id).unwrap_or_default()
    }

    /// Gives zbus these bytes to read.
    pub(super) fn give(&self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.state().push(bytes, Vec::new());
        }
    }

    /// Leaves the bus.
    pub(super) fn close(&self) {
        self.state().finish("the connection was closed".into());
    }

    /// Process and user that serve the bus.
    pub(super) fn credentials(&self) -> ConnectionCredentials {
        let none = ConnectionCredentials::default();
        match self.state().connection.as_ref().and_then(Connection::credentials_of_bus) {
            Some((uid, pid)) => none.set_unix_user_id(uid).set_process_id(pid),
            None => none,
        }
    }

    /// The next message for zbus, with its descriptors.
    pub(super) async fn receive(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.unread.is_empty() && state.take() {
                state.wake_driver();
            }
            if let Some((message, descriptors)) = state.unread.pop_front() {
                state.unread_bytes -= message.len();
                return Poll::Ready(Ok((message, descriptors)));
            }
            if state.connection.is_none() {
                return Poll::Ready(Err(state.error()));
            }
            state.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Sends a message of zbus, or answers it.
    pub(super) async fn send(&self, bytes: &[u8], descriptors: &[impl AsFd]) -> io::Result<()> {
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let Some(message) = self.state().prepare(bytes, &descriptors)? else { return Ok(()) };
        match send(self, message).await {
            Ok(()) => Ok(()),
            Err(error) => self.state().not_sent(bytes, error),
        }
    }
}

impl MessageSink for Shared {
    fn try_send(&self, message: &mut Outgoing) -> Result<bool> {
        let mut state = self.state();
        let Some(connection) = &mut state.connection else {
            return Err(Error::Disconnected(state.why.clone()));
        };
        let is_sent = connection.try_send(message)?;
        if !is_sent {
            state.take();
        }
        Ok(is_sent)
    }

    fn abandon(&self, message: Outgoing) {
        let mut state = self.state();
        if message.is_staged() {
            return state.send_later(message);
        }
        if let Some(connection) = &mut state.connection {
            connection.drop_message(message.serial);
        }
    }
}

impl State {
    /// A message of zbus, ready to be sent. `None` if it was answered here, or has no destination any more.
    fn prepare(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<Option<Outgoing>> {
        let Some(connection) = &mut self.connection else { return Err(self.error()) };
        let header = Header::parse(bytes).map_err(|fault| invalid(&fault.to_string()))?;
        if header.message_bytes() != bytes.len() {
            return Err(invalid("the message is incomplete"));
        }
        if header.unix_fds as usize != descriptors.len() {
            return Err(invalid("the message announces another number of descriptors than it has"));
        }
        if let Some(answer) = bus_object::answer(connection, &mut self.has_said_hello, &header, bytes) {
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
                if self.take() {
                    self.wake_driver();
                }
                Ok(None)
            }
            Err(error) => self.not_sent(bytes, error).map(|()| None),
        }
    }

    /// A message cannot be sent: a caller gets an error reply, the sender of another message the error, unless the destination is gone.
    fn not_sent(&mut self, bytes: &[u8], error: Error) -> io::Result<()> {
        let header = Header::parse(bytes).map_err(|fault| invalid(&fault.to_string()))?;
        let Some(connection) = &mut self.connection else { return Err(self.error()) };
        connection.drop_message(header.serial);
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
        let unread_before = self.unread_bytes;
        self.unread_bytes += message.len();
        self.unread.push_back((message, descriptors));
        self.reader.take().into_iter().for_each(Waker::wake);
        let checked = self.connection.as_mut().map(|connection| connection.check_inbox(unread_before));
        if let Some(Err(error)) = checked {
            self.finish(error.to_string());
        }
    }

    /// Drains received messages. Returns whether there is more.
    fn take(&mut self) -> bool {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(connection) = &mut self.connection else { return false };
            match connection.take_next() {
                Ok(None) => return false,
                Ok(Some(Taken::Incoming(
                    Incoming::Call(Call(message)) | Incoming::Signal(message) | Incoming::Reply(message),
                ))) => self.push(message.bytes().to_vec(), message.take_descriptors()),
                Ok(Some(Taken::Incoming(Incoming::AuthorityGone))) => {
                    self.finish(Error::AuthorityGone.to_string());
                }
                // Replies come as messages here.
                Ok(Some(Taken::Answer(..))) => {}
                Ok(Some(Taken::Refusal(refusal))) => self.send_later(refusal),
                Err(error) => self.finish(error.to_string()),
            }
        }
        true
    }

    /// The connection has ended. What was received can still be read.
    fn finish(&mut self, why: String) {
        if self.connection.take().is_some() {
            self.why = why;
        }
        self.reader.take().into_iter().for_each(Waker::wake);
        self.wake_driver();
    }

    /// Leaves a message to the driver.
    fn send_later(&mut self, message: Outgoing) {
        self.deferred.push_back(message);
        self.wake_driver();
    }

    fn wake_driver(&mut self) {
        self.driver.take().into_iter().for_each(Waker::wake);
    }

    fn error(&self) -> io::Error {
        io::Error::new(io::ErrorKind::UnexpectedEof, self.why.clone())
    }
}

pub(super) fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Takes messages for zbus until the connection ends: also while zbus does not read, or this member would block others.
pub(super) async fn drive(shared: Arc<Shared>, doorbell: Doorbell) {
    while let Some(message) = poll_fn(|cx| poll_driver(&shared, &doorbell, cx)).await {
        let serial = message.serial;
        // Nobody waits to learn that it failed.
        if send(&*shared, message).await.is_err()
            && let Some(connection) = &mut shared.state().connection
        {
            connection.drop_message(serial);
        }
    }
}

/// The next message that nobody else sends; `None` at the end of the connection or of the runtime.
fn poll_driver(shared: &Shared, doorbell: &Doorbell, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
    let mut state = shared.state();
    state.driver = Some(cx.waker().clone());
    let outcome = doorbell.poll_turns(cx, || {
        let has_more = state.take();
        if let Some(message) = state.deferred.pop_front() {
            return Turn::Over(Some(message));
        }
        match &mut state.connection {
            None => Turn::Over(None),
            Some(_) if has_more => Turn::More,
            Some(connection) => Turn::Idle(connection.prepare_to_wait()),
        }
    });
    outcome.map(Option::flatten)
}
