//! What the tasks of a program share: the connection, the calls under way, what waits to be taken.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use causeway_dbus_wire::wire::{Body, FLAG_NO_REPLY_EXPECTED};
use tokio::task::coop::poll_proceed;
use tokio::time::{Instant, timeout_at};

use super::MESSAGES_PER_TURN;
use super::doorbell::{Doorbell, Turn};
use super::sending::{MessageSink, send};
use crate::authority::{DRIVER, DRIVER_PATH};
use crate::connection::{Call, Connection, Incoming, Message, Outgoing, Reply, Taken, outcome};
use crate::content::Payload;
use crate::error::{Error, Result, name};

/// Behind every handle of a connection.
#[derive(Debug)]
pub(super) struct Shared(Mutex<State>);

/// The connection and what its tasks wait for.
#[derive(Debug)]
pub(super) struct State {
    pub connection: Connection,
    calls: HashMap<u32, Waiting>,
    /// By the key of the rule.
    pub signals: HashMap<u64, Queue<Message>>,
    pub incoming: Queue<Call>,
    /// Streams that take the incoming calls.
    pub servers: usize,
    /// Bytes of the messages in these queues.
    queued_bytes: usize,
    pub deferred: VecDeque<DeferredSend>,
    driver: Option<Waker>,
    /// Why the connection has ended.
    end: Option<Error>,
}

/// A call whose future waits.
#[derive(Debug, Default)]
struct Waiting {
    reply: Option<Result<Reply>>,
    waker: Option<Waker>,
}

/// What a stream has still to take.
#[derive(Debug)]
pub(super) struct Queue<T> {
    items: VecDeque<Result<T>>,
    wakers: Vec<Waker>,
}

/// What is to be sent although no future of the program waits for it.
#[derive(Debug)]
pub(super) enum DeferredSend {
    /// An answer that this library gives.
    Answer(Call, std::result::Result<Body, (&'static str, &'static str)>),
    /// The stream of a rule was dropped.
    RemoveMatch(String),
    /// A message that is ready, whatever became of the future that was to send it.
    Send(Outgoing),
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { items: VecDeque::new(), wakers: Vec::new() }
    }
}

impl<T> Queue<T> {
    fn push(&mut self, item: Result<T>) {
        self.items.push_back(item);
        self.wake();
    }

    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Shared {
    /// Registers a connection with the present runtime.
    pub(super) fn new(mut connection: Connection) -> Result<(Arc<Shared>, Doorbell)> {
        let doorbell = Doorbell::register(&mut connection)?;
        let state = State {
            connection,
            calls: HashMap::new(),
            signals: HashMap::new(),
            incoming: Queue::default(),
            servers: 0,
            queued_bytes: 0,
            deferred: VecDeque::new(),
            driver: None,
            end: None,
        };
        Ok((Arc::new(Shared(Mutex::new(state))), doorbell))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a connection that has not ended.
    pub(super) fn open(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state();
        match &state.end {
            Some(end) => Err(again(end)),
            None => Ok(state),
        }
    }

    /// Sends a message. While there is no space, other tasks run, and what comes is taken.
    pub(super) async fn send(&self, message: Outgoing) -> Result<()> {
        send(self, message).await
    }

    pub(super) async fn answer(
        &self,
        call: &Call,
        outcome: std::result::Result<Payload, (&str, &str)>,
    ) -> Result<()> {
        let answer = self.open()?.connection.prepare_answer(call, outcome)?;
        match answer {
            Some(answer) => self.send(answer).await,
            None => Ok(()),
        }
    }

    /// Runs an deferred. What fails here fails for everything else, too, or concerns somebody who is gone.
    async fn run(&self, deferred: DeferredSend) {
        let _ = match deferred {
            DeferredSend::Answer(call, outcome) => self.answer(&call, outcome.map(Payload::from)).await,
            DeferredSend::Send(message) => self.send(message).await,
            DeferredSend::RemoveMatch(rule) => {
                let body = Payload::from(Body::default().text(&rule));
                let flags = FLAG_NO_REPLY_EXPECTED;
                let call = self.state().connection.prepare_call(
                    flags,
                    DRIVER,
                    DRIVER_PATH,
                    (DRIVER, "RemoveMatch"),
                    body,
                );
                match call {
                    Ok(call) => self.send(call).await,
                    Err(error) => Err(error),
                }
            }
        };
    }
}

impl MessageSink for Shared {
    fn try_send(&self, message: &mut Outgoing) -> Result<bool> {
        let mut state = self.open()?;
        let is_sent = state.connection.try_send(message)?;
        if !is_sent {
            state.take();
        }
        Ok(is_sent)
    }

    fn abandon(&self, message: Outgoing) {
        if message.is_staged() {
            self.state().defer(DeferredSend::Send(message));
        }
    }
}

impl State {
    /// Drains received messages, and wakes the tasks that wait for them. Returns whether there is more.
    pub(super) fn take(&mut self) -> bool {
        for _ in 0..MESSAGES_PER_TURN {
            if self.end.is_some() {
                return false;
            }
            match self.connection.take_next() {
                Ok(None) => return false,
                Ok(Some(Taken::Answer(serial, answer))) => {
                    self.finish_call(serial, answer.and_then(outcome));
                }
                Ok(Some(Taken::Refusal(refusal))) => self.defer(DeferredSend::Send(refusal)),
                Ok(Some(Taken::Incoming(incoming))) => self.deliver(incoming),
                Err(error) => self.finish(error),
            }
        }
        true
    }

    fn finish_call(&mut self, serial: u32, reply: Result<Reply>) {
        if let Some(waiting) = self.calls.get_mut(&serial) {
            waiting.reply = Some(reply);
            waiting.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    fn deliver(&mut self, incoming: Incoming) {
        let queued_before = self.queued_bytes;
        match incoming {
            Incoming::Call(call) => self.deliver_call(call),
            Incoming::Signal(signal) => {
                for key in self.connection.matching_rules(&signal) {
                    if let Some(queue) = self.signals.get_mut(&key) {
                        self.queued_bytes += signal.bytes().len();
                        queue.push(Ok(signal.clone()));
                    }
                }
            }
            // Only whole messages have such replies, and there are none here.
            Incoming::Reply(_) => {}
            Incoming::AuthorityGone => {
                for serial in self.connection.calls_of_the_bus() {
                    self.connection.drop_call(serial);
                    self.finish_call(serial, Err(Error::AuthorityGone));
                }
                self.signals.values_mut().for_each(|queue| queue.push(Err(Error::AuthorityGone)));
                self.incoming.push(Err(Error::AuthorityGone));
            }
        }
        if let Err(error) = self.connection.check_inbox(queued_before) {
            self.finish(error);
        }
    }

    fn deliver_call(&mut self, call: Call) {
        let answer = match self.connection.standard_answer(&call.header()) {
            Some(answer) => answer,
            None if self.servers > 0 => {
                self.queued_bytes += call.bytes().len();
                return self.incoming.push(Ok(call));
            }
            None => Err((name::UNKNOWN_METHOD, "this connection has no objects")),
        };
        self.defer(DeferredSend::Answer(call, answer));
    }

    /// Leaves something to the driver.
    pub(super) fn defer(&mut self, deferred: DeferredSend) {
        self.deferred.push_back(deferred);
        self.driver.take().into_iter().for_each(Waker::wake);
    }

    /// The connection has ended: tells all.
    fn finish(&mut self, error: Error) {
        for waiting in self.calls.values_mut() {
            waiting.reply.get_or_insert_with(|| Err(again(&error)));
            waiting.waker.take().into_iter().for_each(Waker::wake);
        }
        self.signals.values_mut().for_each(|queue| queue.push(Err(again(&error))));
        self.incoming.push(Err(again(&error)));
        self.driver.take().into_iter().for_each(Waker::wake);
        self.end = Some(error);
    }

    /// The next item of a queue. `None` after its last one.
    pub(super) fn poll_queue<T: AsRef<Message>>(
        &mut self,
        queue: impl Fn(&mut State) -> Option<&mut Queue<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<T>>> {
        let coop = ready!(poll_proceed(cx));
        let is_empty = |state: &mut State| queue(state).is_some_and(|queue| queue.items.is_empty());
        if is_empty(self) && self.take() {
            // The rest is for the driver, or the next poll.
            self.driver.take().into_iter().for_each(Waker::wake);
        }
        let has_ended = self.end.is_some();
        let Some(queue) = queue(self) else { return Poll::Ready(None) };
        let item = match queue.items.pop_front() {
            Some(item) => item,
            None if has_ended => return Poll::Ready(None),
            None => {
                queue.wakers.retain(|waker| !waker.will_wake(cx.waker()));
                queue.wakers.push(cx.waker().clone());
                return Poll::Pending;
            }
        };
        if let Ok(item) = &item {
            self.queued_bytes -= item.as_ref().bytes().len();
        }
        coop.made_progress();
        Poll::Ready(Some(item))
    }

    /// A stream of signals was dropped.
    pub(super) fn drop_signals(&mut self, key: u64) {
        self.connection.remove_rule(key);
        if let Some(queue) = self.signals.remove(&key) {
            self.discount(&queue);
        }
    }

    /// A stream of incoming calls was dropped: those that no other takes are refused.
    pub(super) fn drop_server(&mut self) {
        self.servers -= 1;
        if self.servers > 0 {
            return self.incoming.wake();
        }
        let queue = std::mem::take(&mut self.incoming);
        self.discount(&queue);
        queue.items.into_iter().flatten().for_each(|call| self.deliver_call(call));
    }

    /// The messages of a queue do not wait any more.
    fn discount<T: AsRef<Message>>(&mut self, queue: &Queue<T>) {
        for message in queue.items.iter().flatten() {
            self.queued_bytes -= message.as_ref().bytes().len();
        }
    }
}

/// A call that is cancelled when it is dropped.
#[derive(Debug)]
pub(super) struct InFlight {
    shared: Arc<Shared>,
    serial: u32,
    timeout: Duration,
    deadline: Instant,
}

impl InFlight {
    /// Sends a call.
    pub(super) async fn start(
        shared: &Arc<Shared>,
        timeout: Duration,
        destination: &str,
        path: &str,
        method: (&str, &str),
        body: Payload,
    ) -> Result<InFlight> {
        let start = Instant::now();
        let deadline = start.checked_add(timeout).unwrap_or_else(|| start + FOR_EVER);
        let (call, in_flight) = {
            let mut state = shared.open()?;
            let call = state.connection.prepare_call(0, destination, path, method, body)?;
            state.calls.insert(call.serial, Waiting::default());
            let in_flight = InFlight { shared: Arc::clone(shared), serial: call.serial, timeout, deadline };
            (call, in_flight)
        };
        shared.open()?.connection.check_callee(call.to)?;
        match timeout_at(deadline, shared.send(call)).await {
            Ok(sent) => sent.map(|()| in_flight),
            Err(_) => Err(in_flight.no_reply()),
        }
    }

    /// Waits for the reply.
    pub(super) async fn reply(self) -> Result<Reply> {
        match timeout_at(self.deadline, poll_fn(|cx| self.poll(cx))).await {
            Ok(reply) => reply,
            Err(_) => Err(self.no_reply()),
        }
    }

    fn no_reply(&self) -> Error {
        Error::method(name::NO_REPLY, format!("no reply within {:.0?}", self.timeout))
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Reply>> {
        let coop = ready!(poll_proceed(cx));
        let mut state = self.shared.state();
        if state.take() {
            state.driver.take().into_iter().for_each(Waker::wake);
        }
        let waiting = state.calls.entry(self.serial).or_default();
        if let Some(reply) = waiting.reply.take() {
            coop.made_progress();
            return Poll::Ready(reply);
        }
        waiting.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// As good as for ever: tokio's clock does not reach further.
const FOR_EVER: Duration = Duration::from_secs(86_400 * 365 * 30);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.calls.remove(&self.serial);
        state.connection.drop_call(self.serial);
    }
}

/// Takes messages on behalf of all tasks until the connection ends, and runs deferred.
pub(super) async fn drive(shared: Arc<Shared>, doorbell: Doorbell) {
    while let Some(deferred) = poll_fn(|cx| poll_driver(&shared, &doorbell, cx)).await {
        shared.run(deferred).await;
    }
}

/// The next deferred; `None` at the end of the connection or of the runtime.
fn poll_driver(shared: &Shared, doorbell: &Doorbell, cx: &mut Context<'_>) -> Poll<Option<DeferredSend>> {
    let mut state = shared.state();
    state.driver = Some(cx.waker().clone());
    let outcome = doorbell.poll_turns(cx, || {
        let has_more = state.take();
        match state.deferred.pop_front() {
            Some(deferred) => Turn::Over(Some(deferred)),
            None if state.end.is_some() => Turn::Over(None),
            None if has_more => Turn::More,
            None => Turn::Idle(state.connection.prepare_to_wait()),
        }
    });
    outcome.map(Option::flatten)
}

/// An error of the connection, for one more that it concerns.
fn again(error: &Error) -> Error {
    match error {
        Error::AuthorityGone => Error::AuthorityGone,
        Error::Broken { member, position } => Error::Broken { member: member.clone(), position: *position },
        Error::Disconnected(why) => Error::Disconnected(why.clone()),
        other => Error::Disconnected(other.to_string()),
    }
}
