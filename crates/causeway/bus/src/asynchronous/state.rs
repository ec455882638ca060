//! What the tasks of a program wait for: replies to their calls, signals, calls of others.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use causeway_dbus_wire::wire::{Body, FLAG_NO_REPLY_EXPECTED};
use tokio::task::coop::poll_proceed;
use tokio::time::{Instant, timeout_at};

use super::driver::{self, Waiting, again};
use crate::connection::{Call, Callee, Incoming, Message, Refusal, Reply, outcome};
use crate::content::Payload;
use crate::error::{Error, Result, name};

pub(super) type Shared = driver::Shared<Waiters>;
pub(super) type State = driver::State<Waiters>;

/// The futures and streams of a program.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    calls: HashMap<u32, PendingReply>,
    /// By the key of the rule.
    pub signals: HashMap<u64, Queue<Message>>,
    pub incoming: Queue<Call>,
    /// Streams that take the incoming calls.
    pub servers: usize,
}

#[derive(Debug, Default)]
struct PendingReply {
    reply: Option<Result<Reply>>,
    waker: Option<Waker>,
}

/// What a stream has still to take.
#[derive(Debug)]
pub(super) struct Queue<T> {
    items: VecDeque<Result<T>>,
    wakers: Vec<Waker>,
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

impl Waiters {
    fn tell(&mut self, error: &Error) {
        self.signals.values_mut().for_each(|queue| queue.push(Err(again(error))));
        self.incoming.push(Err(again(error)));
    }
}

impl Waiting for Waiters {
    fn deliver(state: &mut State, incoming: Incoming) {
        let queued_before = state.queued_bytes;
        let State { connection: Some(connection), waiting, queued_bytes, .. } = state else { return };
        match incoming {
            Incoming::Call(call) => state.deliver_call(call),
            Incoming::Signal(signal) => {
                for key in connection.matching_rules(&signal) {
                    if let Some(queue) = waiting.signals.get_mut(&key) {
                        *queued_bytes += signal.bytes().len();
                        queue.push(Ok(signal.clone()));
                    }
                }
            }
            // Only whole messages have such replies, and there are none here.
            Incoming::Reply(_) => {}
            Incoming::AuthorityGone => {
                for serial in connection.calls_of_the_bus() {
                    connection.drop_call(serial);
                    waiting.finish_call(serial, Err(Error::AuthorityGone));
                }
                waiting.tell(&Error::AuthorityGone);
            }
        }
        state.check_inbox(queued_before);
    }

    fn finish_call(&mut self, serial: u32, answer: Result<Message>) {
        if let Some(pending) = self.calls.get_mut(&serial) {
            pending.reply = Some(answer.and_then(outcome));
            pending.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    fn end(state: &mut State, why: &Error) {
        for pending in state.waiting.calls.values_mut() {
            pending.reply.get_or_insert_with(|| Err(again(why)));
            pending.waker.take().into_iter().for_each(Waker::wake);
        }
        state.waiting.tell(why);
    }
}

impl State {
    fn deliver_call(&mut self, call: Call) {
        let Some(connection) = &mut self.connection else { return };
        let answer = match connection.standard_answer(&call) {
            Some(answer) => answer.map(Payload::from),
            None if self.waiting.servers > 0 => {
                self.queued_bytes += call.bytes().len();
                return self.waiting.incoming.push(Ok(call));
            }
            None => Err(Refusal::new(name::UNKNOWN_METHOD, "this connection has no objects")),
        };
        if let Ok(Some(answer)) = connection.prepare_answer(&call, answer) {
            self.defer(answer);
        }
    }

    /// The next item of a queue. `None` after its last one.
    pub(super) fn poll_queue<T: AsRef<Message>>(
        &mut self,
        queue: impl Fn(&mut Waiters) -> Option<&mut Queue<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<T>>> {
        let coop = ready!(poll_proceed(cx));
        if queue(&mut self.waiting).is_some_and(|queue| queue.items.is_empty()) {
            self.take_some();
        }
        let has_ended = self.why_ended().is_some();
        let Some(queue) = queue(&mut self.waiting) else { return Poll::Ready(None) };
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

    /// A stream of signals was dropped; `rule` is its rule if the authority knows that.
    pub(super) fn drop_signals(&mut self, key: u64, rule: Option<&str>) {
        let Some(connection) = &mut self.connection else { return };
        connection.remove_rule(key);
        let removal = rule.map(|rule| {
            let body = Payload::from(Body::default().text(rule));
            connection.prepare_call(FLAG_NO_REPLY_EXPECTED, &Callee::driver("RemoveMatch"), body)
        });
        if let Some(Ok(call)) = removal {
            self.defer(call);
        }
        if let Some(queue) = self.waiting.signals.remove(&key) {
            self.discount(&queue);
        }
    }

    /// A stream of incoming calls was dropped: those that no other takes are refused.
    pub(super) fn drop_server(&mut self) {
        self.waiting.servers -= 1;
        if self.waiting.servers > 0 {
            return self.waiting.incoming.wake();
        }
        let queue = std::mem::take(&mut self.waiting.incoming);
        self.discount(&queue);
        queue.items.into_iter().flatten().for_each(|call| self.deliver_call(call));
    }

    /// The messages of a queue do not wait any more.
    fn discount<T: AsRef<Message>>(&mut self, queue: &Queue<T>) {
        let bytes = queue.items.iter().flatten().map(|message| message.as_ref().bytes().len());
        self.queued_bytes -= bytes.sum::<usize>();
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
    pub(super) async fn start(
        shared: Arc<Shared>,
        timeout: Duration,
        callee: &Callee<'_>,
        payload: Payload,
    ) -> Result<InFlight> {
        let start = Instant::now();
        let deadline = start.checked_add(timeout).unwrap_or_else(|| start + FOR_EVER);
        let call = {
            let mut state = shared.state();
            let call = state.open()?.prepare_call(0, callee, payload)?;
            state.waiting.calls.insert(call.serial(), PendingReply::default());
            call
        };
        let in_flight = InFlight { shared, serial: call.serial(), timeout, deadline };
        in_flight.shared.state().open()?.check_callee(call.to())?;
        match timeout_at(deadline, in_flight.shared.send(call)).await {
            Ok(sent) => sent.map(|()| in_flight),
            Err(_) => Err(Error::timed_out(timeout)),
        }
    }

    pub(super) async fn reply(self) -> Result<Reply> {
        match timeout_at(self.deadline, poll_fn(|cx| self.poll(cx))).await {
            Ok(reply) => reply,
            Err(_) => Err(Error::timed_out(self.timeout)),
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Reply>> {
        let coop = ready!(poll_proceed(cx));
        let mut state = self.shared.state();
        state.take_some();
        let pending = state.waiting.calls.entry(self.serial).or_default();
        if let Some(reply) = pending.reply.take() {
            coop.made_progress();
            return Poll::Ready(reply);
        }
        pending.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// As good as for ever: tokio's clock does not reach further.
const FOR_EVER: Duration = Duration::from_secs(86_400 * 365 * 30);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.waiting.calls.remove(&self.serial);
        if let Some(connection) = &mut state.connection {
            connection.drop_call(self.serial);
        }
    }
}
