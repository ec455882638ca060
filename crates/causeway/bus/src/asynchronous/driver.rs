//! One task for each connection in a tokio runtime: it takes what comes for all, and sends what no future of the
//! program sends. It drives the connection; the driver of D-Bus, `org.freedesktop.DBus`, is the authority's.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use causeway_os::lock::lock;
use tokio::task::AbortHandle;

use super::doorbell::{Doorbell, Turn};
use crate::connection::{Connection, Incoming, Message, Outgoing, Taken};
use crate::error::{Error, Result};

/// Messages that a task takes before others of the runtime get their turn.
const MESSAGES_PER_TURN: usize = 128;
/// How long a task sleeps before it looks again whether there is space for its message.
const SPACE_POLL: Duration = Duration::from_millis(1);

/// What the tasks of a program wait for.
pub(crate) trait Waiting: Send + Sized + 'static {
    /// Dispatches a received message.
    fn deliver(state: &mut State<Self>, incoming: Incoming);

    /// The call with this serial has ended. Replies to whole messages come as [`Incoming::Reply`] instead.
    fn finish_call(&mut self, _serial: u32, _answer: Result<Message>) {}

    /// The connection has ended: tells all that wait.
    fn end(state: &mut State<Self>, why: &Error);
}

/// A connection whose messages are taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Driven<W> {
    shared: Arc<Shared<W>>,
    driver: AbortHandle,
}

/// What the handles of a program and the driver share.
#[derive(Debug)]
pub(crate) struct Shared<W>(Mutex<State<W>>);

#[derive(Debug)]
pub(crate) struct State<W> {
    /// None once it was left.
    pub connection: Option<Connection>,
    pub waiting: W,
    /// Bytes of the messages that the program has still to take.
    pub queued_bytes: usize,
    /// What no future of the program sends: answers of this library, and messages whose future was dropped.
    deferred: VecDeque<Outgoing>,
    driver: Option<Waker>,
    end: Option<Error>,
}

impl<W: Waiting> Driven<W> {
    /// Registers a connection with the present runtime. Panics outside a tokio runtime, and in one without I/O.
    pub fn new(mut connection: Connection, waiting: W) -> Result<Driven<W>> {
        let doorbell = Doorbell::register(&mut connection)?;
        let shared = Arc::new(Shared(Mutex::new(State {
            connection: Some(connection),
            waiting,
            queued_bytes: 0,
            deferred: VecDeque::new(),
            driver: None,
            end: None,
        })));
        let driver = tokio::spawn(drive(Arc::clone(&shared), doorbell)).abort_handle();
        Ok(Driven { shared, driver })
    }
}

impl<W> Driven<W> {
    /// What does not keep the driver going.
    pub fn shared(&self) -> Arc<Shared<W>> {
        Arc::clone(&self.shared)
    }
}

impl<W> Deref for Driven<W> {
    type Target = Shared<W>;
    fn deref(&self) -> &Shared<W> {
        &self.shared
    }
}

impl<W> Drop for Driven<W> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl<W: Waiting> Shared<W> {
    pub fn state(&self) -> MutexGuard<'_, State<W>> {
        lock(&self.0)
    }

    /// Sends a message. While there is no space, other tasks run and what comes is taken. Dropped, the future sends
    /// nothing, unless the bus holds a part of the message already.
    pub async fn send(&self, message: Outgoing) -> Result<()> {
        let mut unsent = Unsent { shared: self, message: Some(message) };
        while let Some(message) = &mut unsent.message {
            match self.try_send(message) {
                Ok(false) => tokio::time::sleep(SPACE_POLL).await,
                Ok(true) => unsent.message = None,
                Err(error) => {
                    self.state().drop_message(message.serial());
                    unsent.message = None;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn try_send(&self, message: &mut Outgoing) -> Result<bool> {
        let mut state = self.state();
        let is_sent = state.open()?.try_send(message)?;
        if !is_sent {
            state.take();
        }
        Ok(is_sent)
    }
}

/// A message of a future that may be dropped.
struct Unsent<'a, W: Waiting> {
    shared: &'a Shared<W>,
    message: Option<Outgoing>,
}

impl<W: Waiting> Drop for Unsent<'_, W> {
    fn drop(&mut self) {
        match self.message.take() {
            Some(message) if message.is_staged() => self.shared.state().defer(message),
            Some(message) => self.shared.state().drop_message(message.serial()),
            None => {}
        }
    }
}

impl<W: Waiting> State<W> {
    /// The connection, if it has not ended.
    pub fn open(&mut self) -> Result<&mut Connection> {
        match (&self.end, &mut self.connection) {
            (None, Some(connection)) => Ok(connection),
            (Some(end), _) => Err(again(end)),
            (None, None) => Err(Error::AuthorityGone),
        }
    }

    /// Why the connection has ended, if it has.
    pub fn why_ended(&self) -> Option<&Error> {
        self.end.as_ref()
    }

    /// Drains received messages; the rest is left to the driver, or to the next poll.
    pub fn take_some(&mut self) {
        if self.take() {
            self.wake_driver();
        }
    }

    /// Drains received messages. Returns whether there is more.
    fn take(&mut self) -> bool {
        for _ in 0..MESSAGES_PER_TURN {
            let Ok(connection) = self.open() else { return false };
            match connection.take_next() {
                Ok(None) => return false,
                Ok(Some(Taken::Incoming(incoming))) => W::deliver(self, incoming),
                Ok(Some(Taken::Answer(serial, answer))) => self.waiting.finish_call(serial, answer),
                Ok(Some(Taken::Refusal(refusal))) => self.defer(refusal),
                Err(error) => self.finish(error),
            }
        }
        true
    }

    /// Ends the connection if the program left more bytes of messages than it may when one more came.
    pub fn check_inbox(&mut self, queued_before: usize) {
        if let Some(Err(error)) = self.connection.as_mut().map(|it| it.check_inbox(queued_before)) {
            self.finish(error);
        }
    }

    /// Leaves a message to the driver. Nobody learns whether it was sent.
    pub fn defer(&mut self, message: Outgoing) {
        self.deferred.push_back(message);
        self.wake_driver();
    }

    fn drop_message(&mut self, serial: u32) {
        if let Some(connection) = &mut self.connection {
            connection.drop_message(serial);
        }
    }

    /// The connection has ended, for the first reason that is given.
    pub fn finish(&mut self, why: Error) {
        if self.end.is_none() {
            W::end(self, &why);
            self.end = Some(why);
            self.wake_driver();
        }
    }

    fn wake_driver(&mut self) {
        self.driver.take().into_iter().for_each(Waker::wake);
    }
}

/// Takes messages until the connection ends, also while the program does not: it would block others.
async fn drive<W: Waiting>(shared: Arc<Shared<W>>, doorbell: Doorbell) {
    while let Some(message) = poll_fn(|cx| poll_driver(&shared, &doorbell, cx)).await {
        // What fails here fails for everything else, too, or concerns somebody who is gone.
        let _ = shared.send(message).await;
    }
}

/// The next message that nobody else sends; `None` at the end of the connection or of the runtime.
fn poll_driver<W: Waiting>(
    shared: &Shared<W>,
    doorbell: &Doorbell,
    cx: &mut Context<'_>,
) -> Poll<Option<Outgoing>> {
    let mut state = shared.state();
    state.driver = Some(cx.waker().clone());
    let outcome = doorbell.poll_turns(cx, || {
        let has_more = state.take();
        if let Some(message) = state.deferred.pop_front() {
            return Turn::Over(Some(message));
        }
        match state.open() {
            Err(_) => Turn::Over(None),
            Ok(_) if has_more => Turn::More,
            Ok(connection) => Turn::Idle(connection.prepare_to_wait()),
        }
    });
    outcome.map(Option::flatten)
}

/// An error of the connection, for one more that it concerns.
pub(super) fn again(error: &Error) -> Error {
    match error {
        Error::AuthorityGone => Error::AuthorityGone,
        Error::Broken { member, position } => Error::Broken { member: member.clone(), position: *position },
        Error::Disconnected(why) => Error::Disconnected(why.clone()),
        other => Error::Disconnected(other.to_string()),
    }
}
