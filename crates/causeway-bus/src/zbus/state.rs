//! What both halves of a socket share: the connection, and the messages that zbus has still to read.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ::zbus::fdo::ConnectionCredentials;
use weighbridge_dbus::wire::{Header, Kind};

use super::bus_object;
use crate::asynchronous::{Doorbell, MESSAGES_PER_TURN, SPACE_POLL, Turn};
use crate::connection::{Call, Connection, Incoming, Message, Outgoing, Taken};
use crate::error::{Error, Result};

/// Behind both halves.
#[derive(Debug)]
pub(super) struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    /// None after the end.
    connection: Option<Connection>,
    /// What zbus has still to read, each whole.
    unread: VecDeque<Vec<u8>>,
    unread_bytes: usize,
    /// Changes of match rules that the authority has not answered yet, by the serial of the call.
    changes: HashMap<u32, RuleChange>,
    reader: Option<Waker>,
    driver: Option<Waker>,
    /// Why there is no connection any more.
    why: String,
}

#[derive(Debug)]
enum RuleChange {
    Add(u64),
    Remove(String),
}

impl Shared {
    /// Registers a connection with the present runtime.
    pub(super) fn new(mut connection: Connection) -> Result<(Arc<Shared>, Doorbell)> {
        let doorbell = Doorbell::register(&mut connection)?;
        let state = State {
            connection: Some(connection),
            unread: VecDeque::new(),
            unread_bytes: 0,
            changes: HashMap::new(),
            reader: None,
            driver: None,
            why: String::new(),
        };
        Ok((Arc::new(Shared(Mutex::new(state))), doorbell))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the client is who it is.
    pub(super) fn welcome(&self) {
        let id = self.state().connection.as_ref().map(Connection::bus_id);
        self.reply_line(&format!("OK {}", id.unwrap_or_default()));
    }

    /// Answers a line of the handshake.
    pub(super) fn reply_line(&self, line: &str) {
        self.state().push(format!("{line}\r\n").into_bytes());
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

    /// The next message for zbus.
    pub(super) async fn receive(&self) -> io::Result<Vec<u8>> {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.unread.is_empty() && state.take() {
                state.wake_driver();
            }
            if let Some(message) = state.unread.pop_front() {
                state.unread_bytes -= message.len();
                return Poll::Ready(Ok(message));
            }
            if state.connection.is_none() {
                return Poll::Ready(Err(state.error()));
            }
            state.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Sends a message of zbus, or answers it. While there is no space, other tasks run, and what comes is taken.
    pub(super) async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(mut message) = self.state().prepare(bytes)? else { return Ok(()) };
        loop {
            {
                let mut state = self.state();
                let Some(connection) = &mut state.connection else { return Err(state.error()) };
                match connection.try_send(&mut message) {
                    Ok(true) => return Ok(()),
                    Ok(false) => drop(state.take()),
                    Err(error) => return state.not_sent(bytes, error),
                }
            }
            tokio::time::sleep(SPACE_POLL).await;
        }
    }
}

impl State {
    /// A message of zbus, ready to be sent. `None` if it was answered here, or has no destination any more.
    fn prepare(&mut self, bytes: &[u8]) -> io::Result<Option<Outgoing>> {
        let Some(connection) = &mut self.connection else { return Err(self.error()) };
        let header = Header::parse(bytes).map_err(|fault| invalid(&fault.to_string()))?;
        if header.message_bytes() != bytes.len() {
            return Err(invalid("the message is not whole"));
        }
        if header.unix_fds > 0 {
            return Err(invalid("descriptors do not pass over this connection"));
        }
        if bus_object::is_for_bus(&header) {
            if let Some(answer) = bus_object::answer(connection, &header, bytes) {
                self.answer(&header, answer);
                return Ok(None);
            }
            let change = match (header.member, bus_object::first_text(&header, bytes)) {
                // First the rule, then its registration: a signal between both is received.
                (Some("AddMatch"), Some(rule)) => connection.insert_rule(rule).map(RuleChange::Add).map(Some),
                (Some("RemoveMatch"), Some(rule)) => Ok(Some(RuleChange::Remove(rule.to_owned()))),
                _ => Ok(None),
            };
            match change {
                Ok(change) => self.changes.extend(change.map(|change| (header.serial, change))),
                Err(error) => {
                    self.answer(&header, Err(error));
                    return Ok(None);
                }
            }
        }
        match connection.prepare_message(&header, bytes) {
            Ok(message) => {
                if !header.expects_reply() {
                    self.change_rule(header.serial, true);
                }
                Ok(Some(message))
            }
            Err(error) => self.not_sent(bytes, error).map(|()| None),
        }
    }

    /// Gives zbus the answer to its call.
    fn answer(&mut self, call: &Header<'_>, outcome: Result<weighbridge_dbus::wire::Body>) {
        if let (true, Some(connection)) = (call.expects_reply(), &self.connection) {
            let reply = bus_object::reply(connection, call.serial, outcome);
            self.push(reply);
        }
    }

    /// A message cannot be sent: a caller gets an error reply, the sender of another message the error, unless the destination is gone.
    fn not_sent(&mut self, bytes: &[u8], error: Error) -> io::Result<()> {
        let header = Header::parse(bytes).map_err(|fault| invalid(&fault.to_string()))?;
        if let Some(connection) = &mut self.connection {
            connection.drop_call(header.serial);
        }
        self.change_rule(header.serial, false);
        match error {
            error if header.expects_reply() => {
                self.answer(&header, Err(error));
                Ok(())
            }
            Error::Method { .. } => Ok(()),
            error => Err(io::Error::other(error)),
        }
    }

    /// The authority has answered a change of a rule, or will not.
    fn change_rule(&mut self, serial: u32, is_done: bool) {
        let (Some(change), Some(connection)) = (self.changes.remove(&serial), &mut self.connection) else {
            return;
        };
        match change {
            RuleChange::Add(key) if !is_done => connection.remove_rule(key),
            RuleChange::Remove(rule) if is_done => connection.remove_equal_rule(&rule),
            _ => {}
        }
    }

    fn push(&mut self, message: Vec<u8>) {
        let unread_before = self.unread_bytes;
        self.unread_bytes += message.len();
        self.unread.push_back(message);
        self.reader.take().into_iter().for_each(Waker::wake);
        let checked = self.connection.as_mut().map(|connection| connection.check_inbox(unread_before));
        if let Some(Err(error)) = checked {
            self.finish(error.to_string());
        }
    }

    /// Takes what has come. Returns whether there is more.
    fn take(&mut self) -> bool {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(connection) = &mut self.connection else { return false };
            match connection.take_next() {
                Ok(None) => return false,
                Ok(Some(Taken::Incoming(
                    Incoming::Call(Call(message)) | Incoming::Signal(message) | Incoming::Reply(message),
                ))) => {
                    self.push(message.bytes().to_vec());
                }
                Ok(Some(Taken::Incoming(Incoming::AuthorityGone))) => {
                    self.finish(Error::AuthorityGone.to_string());
                }
                Ok(Some(Taken::Answer(serial, answer))) => self.take_answer(serial, answer),
                Err(error) => self.finish(error.to_string()),
            }
        }
        true
    }

    fn take_answer(&mut self, serial: u32, answer: Result<Message>) {
        let is_reply = |message: &Message| message.header().kind == Kind::MethodReturn;
        self.change_rule(serial, answer.as_ref().is_ok_and(is_reply));
        let Some(connection) = &self.connection else { return };
        let bytes = match answer {
            Ok(message) => message.bytes().to_vec(),
            Err(error) => bus_object::reply(connection, serial, Err(error)),
        };
        self.push(bytes);
    }

    /// The connection has ended. What was received can still be read.
    fn finish(&mut self, why: String) {
        if self.connection.take().is_some() {
            self.why = why;
        }
        self.reader.take().into_iter().for_each(Waker::wake);
        self.wake_driver();
    }

    fn wake_driver(&mut self) {
        self.driver.take().into_iter().for_each(Waker::wake);
    }

    fn error(&self) -> io::Error {
        io::Error::new(io::ErrorKind::UnexpectedEof, self.why.clone())
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Takes messages for zbus until the connection ends: also while zbus does not read, or this member would stand in the way of others.
pub(super) async fn drive(shared: Arc<Shared>, doorbell: Doorbell) {
    poll_fn(|cx| poll_driver(&shared, &doorbell, cx)).await;
}

fn poll_driver(shared: &Shared, doorbell: &Doorbell, cx: &mut Context<'_>) -> Poll<()> {
    let mut state = shared.state();
    state.driver = Some(cx.waker().clone());
    doorbell
        .poll_turns(cx, || {
            let has_more = state.take();
            match &mut state.connection {
                None => Turn::Over(()),
                Some(_) if has_more => Turn::More,
                Some(connection) => Turn::Idle(connection.prepare_to_wait()),
            }
        })
        .map(drop)
}
