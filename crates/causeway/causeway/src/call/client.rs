//! The calling side.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use super::connection::{
    Connected, Origin, connect, kind_and_descriptors, reply, request, send_descriptors, take_descriptors,
    topic,
};
use super::error::CallError;
use super::incoming::{Incoming, WaitOutcome};
use super::outgoing::Outgoing;
use crate::connection::{Membership, hang_up};
use crate::error::{Error, Refusal, Result};
use crate::group::ServerIdentity;
use crate::log::{Frame, Label};
use crate::serve::{absolute, connect_to};
use crate::wire::answer;

/// Calls a server. Several calls may be in flight, and their replies may come in any order.
///
/// ```
/// use std::time::Duration;
/// use causeway::call::{self, Client};
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("answers");
/// let server = call::serve(&path, |request| {
///     let answer = [request.bytes, b"!"].concat();
///     let _ = request.responder.reply(&answer);
/// })?;
///
/// let mut client = Client::connect(&path)?;
/// let reply = client.call(b"hello", Some(Duration::from_secs(1)))?;
/// assert_eq!(reply.bytes, b"hello!");
///
/// let first = client.begin(b"1", None)?;
/// let second = client.begin(b"2", None)?;
/// assert_eq!(client.wait(second)?.bytes, b"2!");
/// assert_eq!(client.wait(first)?.bytes, b"1!");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    socket: Membership,
    outgoing: Outgoing,
    incoming: Incoming,
    /// The calls whose replies were not taken yet, by ascending number.
    calls: VecDeque<Pending>,
    last_number: u64,
    /// How the connection ended, once this is known.
    end: Option<End>,
}

/// A call that was begun. Belongs to the [`Client`] that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// The number of the call, for a program that cannot keep a value of this type.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The call of this number. A client that has begun none with it says that it is over ([`CallError::Cancelled`]).
    pub fn from_number(number: u64) -> CallId {
        CallId(number)
    }
}

/// The reply to a call. Valid until the next use of the client.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reply<'a> {
    /// The payload, a copy that the server cannot change.
    pub bytes: &'a [u8],
    /// The descriptors that the server sent with it.
    pub descriptors: Vec<OwnedFd>,
}

#[derive(Debug)]
struct Pending {
    number: u64,
    deadline: Option<Instant>,
    /// Kept until the program asks for it.
    answer: Option<Result<OwnReply, CallError>>,
}

/// Payload and descriptors.
type OwnReply = (Vec<u8>, Vec<OwnedFd>);

#[derive(Clone, Copy, Debug)]
enum End {
    Gone,
    NotRead,
}

impl From<End> for CallError {
    fn from(end: End) -> CallError {
        match end {
            End::Gone => CallError::ServerGone,
            End::NotRead => CallError::RepliesNotRead,
        }
    }
}

/// What lies at the beginning of the log of replies.
enum Next {
    /// The reply to the call that is waited for: in the buffer.
    Own(Frame, Vec<OwnedFd>),
    /// Another one, which was stored.
    Other,
    /// Nothing yet.
    Nothing,
}

impl Client {
    /// Connects to the server at `path`. Does not wait for one: a program that may start before the server retries.
    ///
    /// # Errors
    /// As [`Group::join`](crate::Group::join); [`Error::Refused`] by the access rule or without a place.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client> {
        crate::kernel::check()?;
        Client::new(connect_to(&absolute(path.as_ref()))?, Origin::Path)
    }

    /// Calls the process at the other end of a connected `SOCK_SEQPACKET` socket, which serves it with
    /// [`Connection::over`](super::Connection::over). Fails as [`Client::connect`].
    pub fn over(socket: OwnedFd) -> Result<Client> {
        crate::kernel::check()?;
        Client::new(socket, Origin::Pair)
    }

    fn new(socket: OwnedFd, origin: Origin) -> Result<Client> {
        let Connected { outgoing, incoming, socket } = connect(socket, origin)?;
        let socket = Membership::new(socket);
        Ok(Client { socket, outgoing, incoming, calls: VecDeque::new(), last_number: 0, end: None })
    }

    /// The process that serves, as the kernel reports it: who made the socket to which this client connected.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn server(&self) -> Result<ServerIdentity> {
        ServerIdentity::of(&self.socket)
    }

    /// The longest request, in bytes.
    pub fn request_bytes_max(&self) -> usize {
        self.outgoing.payload_bytes_max()
    }

    /// Sets how long [`Client::wait`] polls before it sleeps, at most. Zero sleeps at once; the default is 50 µs.
    pub fn spin_at_most(&mut self, longest: Duration) {
        self.incoming.spin_at_most(longest);
    }

    /// Sends a request and waits for its reply, at most for `timeout`; without one it waits without a limit.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call(&mut self, request: &[u8], timeout: Option<Duration>) -> Result<Reply<'_>, CallError> {
        let call = self.begin(request, timeout)?;
        self.wait(call)
    }

    /// Sends a request. Its reply, which [`Client::wait`] returns, must come within `timeout`.
    ///
    /// While the server has not taken enough of the earlier requests, this waits, and stores replies that come
    /// meanwhile.
    ///
    /// # Errors
    /// [`CallError::Deadline`], [`CallError::ServerGone`], [`CallError::RequestTooLong`] or [`CallError::Failed`]: the request was
    /// not sent.
    pub fn begin(&mut self, request: &[u8], timeout: Option<Duration>) -> Result<CallId, CallError> {
        self.begin_with_descriptors(request, &[], timeout)
    }

    /// As [`Client::begin`], with copies of up to 16 descriptors; [`CallError::Failed`] when the server takes none
    /// ([`ServeOptions::descriptors`](super::ServeOptions::descriptors)).
    pub fn begin_with_descriptors(
        &mut self,
        request: &[u8],
        fds: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<CallId, CallError> {
        let mut loan = self.loan(request.len(), timeout)?;
        loan.copy_from_slice(request);
        if fds.is_empty() {
            return loan.begin();
        }
        send_descriptors(&loan.client.socket, loan.client.last_number + 1, fds)?;
        loan.send(fds.len())
    }

    /// Space in the log for a request of `payload_bytes`, to be written in place and then begun. Waits and fails as
    /// [`Client::begin`].
    #[inline]
    pub fn loan(
        &mut self,
        payload_bytes: usize,
        timeout: Option<Duration>,
    ) -> Result<RequestLoan<'_>, CallError> {
        // None for a time that no machine runs.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.check_request(payload_bytes)?;
        if !self.outgoing.try_loan(payload_bytes)? {
            self.wait_for_space(payload_bytes, deadline)?;
        }
        Ok(RequestLoan { client: self, deadline })
    }

    #[inline]
    fn check_request(&self, bytes: usize) -> Result<(), CallError> {
        let limit_bytes = self.outgoing.payload_bytes_max();
        match self.end {
            _ if bytes > limit_bytes => Err(CallError::RequestTooLong { bytes, limit_bytes }),
            Some(end) => Err(end.into()),
            None => Ok(()),
        }
    }

    /// Waits until the log of requests has space. The server may wait for this client to read its replies.
    #[cold]
    fn wait_for_space(&mut self, payload_bytes: usize, deadline: Option<Instant>) -> Result<(), CallError> {
        loop {
            while matches!(self.take_next(0)?, Next::Other) {}
            if self.incoming.ask_whether_gone() {
                return Err(self.note_end().into());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(CallError::Deadline);
            }
            self.outgoing.wait_for_space(deadline)?;
            if self.outgoing.try_loan(payload_bytes)? {
                return Ok(());
            }
        }
    }

    /// Waits for the reply to a call, until its deadline. Replies to other calls that come meanwhile are stored.
    ///
    /// # Errors
    /// [`CallError`]; after any of them, the call is over.
    pub fn wait(&mut self, call: CallId) -> Result<Reply<'_>, CallError> {
        let index = self.index_of(call.0).ok_or(CallError::Cancelled)?;
        if self.calls[index].answer.is_some() {
            return self.stored(index);
        }
        let deadline = self.calls[index].deadline;
        let ended = loop {
            match self.take_next(call.0) {
                Ok(Next::Own(frame, descriptors)) => {
                    self.forget(call.0);
                    return self.reply(&frame, descriptors);
                }
                Ok(Next::Other) => continue,
                Ok(Next::Nothing) => {}
                Err(error) => break error,
            }
            if let Some(end) = self.end {
                break end.into();
            }
            match self.incoming.wait(deadline) {
                Ok(WaitOutcome::Ready) => {}
                Ok(WaitOutcome::TimedOut) => {
                    self.tell_cancelled(call.0);
                    break CallError::Deadline;
                }
                Ok(WaitOutcome::Gone) => break self.note_end().into(),
                Err(error) => break error.into(),
            }
        };
        self.forget(call.0);
        Err(ended)
    }

    /// The calls whose replies have come, or which have failed otherwise: [`Client::wait`] returns at once for them.
    /// Does not wait.
    ///
    /// # Errors
    /// [`CallError::Failed`] when the server violated the protocol.
    pub fn poll(&mut self) -> Result<Vec<CallId>, CallError> {
        while matches!(self.take_next(0)?, Next::Other) {}
        if self.end.is_none() && self.incoming.ask_whether_gone() {
            // Once more: what it sent before it died.
            while matches!(self.take_next(0)?, Next::Other) {}
            self.note_end();
        }
        let (end, now) = (self.end, Instant::now());
        let is_over = |call: &&Pending| {
            call.answer.is_some() || end.is_some() || call.deadline.is_some_and(|deadline| now >= deadline)
        };
        Ok(self.calls.iter().filter(is_over).map(|call| CallId(call.number)).collect())
    }

    /// Cancels a call: its reply is discarded, and the server is told that nobody waits for it. Returns whether the
    /// call was in flight, or its reply not taken yet. Without space for it in the log, the server is not told.
    pub fn cancel(&mut self, call: CallId) -> bool {
        let Some(index) = self.index_of(call.0) else { return false };
        if self.calls[index].answer.is_none() {
            self.tell_cancelled(call.0);
        }
        self.calls.remove(index);
        true
    }

    /// How many calls are in flight, or have replies that were not taken yet.
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    fn tell_cancelled(&mut self, number: u64) {
        let label = Label { topic: topic(request::CANCEL, 0), correlation: number };
        // It only saves the server work.
        let _ = self.outgoing.try_send(label, &[]);
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        self.calls.binary_search_by_key(&number, |call| call.number).ok()
    }

    fn forget(&mut self, number: u64) {
        if let Some(index) = self.index_of(number) {
            self.calls.remove(index);
        }
    }

    /// Takes the next reply. That to call `wanted` stays in the buffer. A server that violates the protocol is left.
    fn take_next(&mut self, wanted: u64) -> Result<Next, CallError> {
        let taken = self.incoming.try_take().and_then(|frame| {
            let Some(frame) = frame else { return Ok(None) };
            let (_, count) = kind_and_descriptors(frame.topic);
            Ok(Some((frame, take_descriptors(&self.incoming, frame.correlation, count)?)))
        });
        let taken = taken.inspect_err(|_| {
            self.end.get_or_insert(End::Gone);
            hang_up(&self.socket);
        })?;
        let Some((frame, descriptors)) = taken else { return Ok(Next::Nothing) };
        if frame.correlation == wanted {
            return Ok(Next::Own(frame, descriptors));
        }
        // A call that was cancelled, or that never was: its reply is nobody's.
        if let Some(index) = self.index_of(frame.correlation) {
            let answer = match self.failure_of(&frame) {
                Some(failure) => Err(failure),
                None => Ok((self.incoming.payload(&frame).to_vec(), descriptors)),
            };
            // The first answer counts.
            self.calls[index].answer.get_or_insert(answer);
        }
        Ok(Next::Other)
    }

    /// Why this message is not a reply.
    fn failure_of(&self, frame: &Frame) -> Option<CallError> {
        match kind_and_descriptors(frame.topic).0 {
            reply::REPLY => None,
            reply::NO_REPLY => Some(CallError::NoReply),
            reply::TOO_LONG => {
                let bytes = self.incoming.payload(frame).try_into().map_or(0, u64::from_le_bytes);
                Some(CallError::ReplyTooLong { bytes, limit_bytes: self.incoming.payload_bytes_max() })
            }
            other => Some(CallError::Failed(Error::invalid("reply", format!("kind {other}")))),
        }
    }

    fn reply(&self, frame: &Frame, descriptors: Vec<OwnedFd>) -> Result<Reply<'_>, CallError> {
        match self.failure_of(frame) {
            Some(failure) => Err(failure),
            None => Ok(Reply { bytes: self.incoming.payload(frame), descriptors }),
        }
    }

    /// A reply that came before it was waited for.
    fn stored(&mut self, index: usize) -> Result<Reply<'_>, CallError> {
        let answer = self.calls.remove(index).and_then(|call| call.answer);
        let (bytes, descriptors) = answer.ok_or(CallError::Cancelled)??;
        Ok(Reply { bytes: self.incoming.replace_buffer(bytes), descriptors })
    }

    /// The server is gone: finds out whether it said why.
    fn note_end(&mut self) -> End {
        let is_not_read =
            matches!(answer(&self.socket, Some(Duration::ZERO)), Err(Error::Refused(Refusal::NotReading)));
        *self.end.get_or_insert(if is_not_read { End::NotRead } else { End::Gone })
    }
}

#[cfg(feature = "tokio")]
impl Client {
    /// As [`Client::begin`], without a deadline and without waiting: `None` while there is no space.
    pub(super) fn try_begin(&mut self, request: &[u8]) -> Result<Option<CallId>, CallError> {
        self.check_request(request.len())?;
        if !self.outgoing.try_loan(request.len())? {
            return Ok(None);
        }
        let mut loan = RequestLoan { client: self, deadline: None };
        loan.copy_from_slice(request);
        loan.begin().map(Some)
    }

    /// What a caller waits for that finds no space.
    pub(super) fn space(&mut self) -> crate::space::Space {
        self.outgoing.space()
    }

    /// Whether [`Client::wait`] returns at once.
    pub(super) fn is_over(&self, call: CallId) -> bool {
        self.index_of(call.0).is_none_or(|index| self.calls[index].answer.is_some())
    }

    /// Whether the connection has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn incoming(&mut self) -> &mut Incoming {
        &mut self.incoming
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request that is being written where the server will read it. Dropped, it was not sent.
#[derive(Debug)]
#[must_use = "begin it; dropped, it was not sent"]
pub struct RequestLoan<'a> {
    client: &'a mut Client,
    deadline: Option<Instant>,
}

impl RequestLoan<'_> {
    /// Sends what was written, as [`Client::begin`].
    ///
    /// # Errors
    /// [`CallError::Failed`].
    #[inline]
    pub fn begin(self) -> Result<CallId, CallError> {
        self.send(0)
    }

    #[inline]
    fn send(self, descriptors: usize) -> Result<CallId, CallError> {
        let number = self.client.last_number + 1;
        let label = Label { topic: topic(request::CALL, descriptors), correlation: number };
        self.client.outgoing.send_loaned(label)?;
        self.client.last_number = number;
        self.client.calls.push_back(Pending { number, deadline: self.deadline, answer: None });
        Ok(CallId(number))
    }
}

impl Deref for RequestLoan<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.client.outgoing.loaned()
    }
}

impl DerefMut for RequestLoan<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.client.outgoing.loaned_mut()
    }
}

impl Drop for RequestLoan<'_> {
    fn drop(&mut self) {
        self.client.outgoing.give_back();
    }
}
