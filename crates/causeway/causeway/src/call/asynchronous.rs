//! Calling and serving in a tokio program.
//!
//! # Safety
//! The runtime is given descriptors that it owns until they are deregistered.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use causeway_os::Context as _;
use causeway_os::lock::lock;
use causeway_os::socket::Credentials;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::task::coop::poll_proceed;

use super::client::{CallId, Client};
use super::error::{CallError, ReplyError};
use super::responder::Responder;
use super::server::{Request, ServeOptions, Server};
use crate::error::Result;
use crate::space::SpaceWait;

/// Calls a server from the tasks of a tokio program, any number of them at once.
///
/// A task of the runtime waits for replies on behalf of all calls. To limit a call use `tokio::time::timeout`: a call
/// that is dropped is cancelled.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// use causeway::call::{AsyncClient, Client, ServeOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("answers");
/// let server = ServeOptions::new().serve_async(&path, |request| async move {
///     let answer = [&request.bytes[..], b"!"].concat();
///     let _ = request.responder.reply_async(answer).await;
/// })?;
///
/// let client = AsyncClient::new(Client::connect(&path)?)?;
/// let (first, second) = (client.call(b"1"), client.call(b"2"));
/// assert_eq!(second.await?.bytes, b"2!");
/// assert_eq!(first.await?.bytes, b"1!");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncClient {
    shared: Arc<Shared>,
    driver: AbortHandle,
}

/// The reply to a call, with a payload of its own.
#[derive(Debug)]
#[non_exhaustive]
pub struct OwnedReply {
    /// The payload.
    pub bytes: Vec<u8>,
    /// The descriptors that the server sent with it.
    pub descriptors: Vec<OwnedFd>,
}

type Shared = Mutex<State>;

#[derive(Debug)]
struct State {
    client: Client,
    /// The tasks that wait for replies.
    waiting: HashMap<CallId, Waker>,
}

impl State {
    /// Takes the replies that have come, and wakes the tasks that wait for them. Returns whether the connection goes
    /// on.
    fn take_replies(&mut self) -> bool {
        // A failure ends every call that waits.
        let over = self.client.poll().ok();
        let goes_on = over.is_some() && !self.client.has_ended();
        for call in over.unwrap_or_default() {
            if let Some(waker) = self.waiting.remove(&call) {
                waker.wake();
            }
        }
        if !goes_on {
            self.waiting.drain().for_each(|(_, waker)| waker.wake());
        }
        goes_on
    }
}

impl AsyncClient {
    /// Registers a client with the present tokio runtime.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) without descriptors, or in a runtime without I/O.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(mut client: Client) -> Result<AsyncClient> {
        let on = || "a connection for calls";
        let mut ends = Vec::new();
        // Copies, which the loop owns.
        let peer = client.incoming().peer();
        let own = [peer.doorbell.as_fd(), peer.socket.as_fd()];
        for end in own.into_iter().chain(peer.pidfd.iter().map(|pidfd| pidfd.as_fd())) {
            let end = end.try_clone_to_owned().context("register", on)?;
            // SAFETY: an `OwnedFd` keeps its number, and is closed with the `AsyncFd` only.
            let registered = unsafe { AsyncFd::register_with_interest(end, Interest::READABLE) };
            ends.push(registered.map_err(io::Error::from).context("register", on)?);
        }
        let shared = Arc::new(Mutex::new(State { client, waiting: HashMap::new() }));
        let driver = tokio::spawn(drive(Arc::clone(&shared), ends)).abort_handle();
        Ok(AsyncClient { shared, driver })
    }

    /// Sends a request and waits for its reply. While the server has not taken enough of the earlier requests, other
    /// tasks run. A future that is dropped cancels the call.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call(&self, request: &[u8]) -> Result<OwnedReply, CallError> {
        let mut space = None;
        let call = poll_fn(|cx| self.poll_begin(request, &mut space, cx)).await?;
        drop(space);
        let call = InFlight { shared: &self.shared, call };
        poll_fn(|cx| call.poll(cx)).await
    }

    fn poll_begin(
        &self,
        request: &[u8],
        space: &mut Option<SpaceWait>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<CallId, CallError>> {
        let coop = std::task::ready!(poll_proceed(cx));
        loop {
            let mut state = lock(&self.shared);
            if let Some(call) = state.client.try_begin(request)? {
                coop.made_progress();
                return Poll::Ready(Ok(call));
            }
            // The server may wait for this client to take its replies.
            state.take_replies();
            if space.as_ref().is_some_and(|space| !space.is_over(cx.waker())) {
                return Poll::Pending;
            }
            *space = None;
            *space = Some(SpaceWait::start(state.client.space(), cx.waker())?);
        }
    }
}

impl Drop for AsyncClient {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A call that is cancelled when it is dropped.
struct InFlight<'a> {
    shared: &'a Shared,
    call: CallId,
}

impl InFlight<'_> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<OwnedReply, CallError>> {
        let coop = std::task::ready!(poll_proceed(cx));
        let mut state = lock(self.shared);
        let goes_on = state.take_replies();
        if goes_on && !state.client.is_over(self.call) {
            state.waiting.insert(self.call, cx.waker().clone());
            return Poll::Pending;
        }
        coop.made_progress();
        let reply = state.client.wait(self.call);
        Poll::Ready(
            reply.map(|reply| OwnedReply { bytes: reply.bytes.to_vec(), descriptors: reply.descriptors }),
        )
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = lock(self.shared);
        state.waiting.remove(&self.call);
        // Of one that is over, nothing is left to cancel.
        state.client.cancel(self.call);
    }
}

/// Waits for replies until the connection ends: doorbell, socket and pidfd.
async fn drive(shared: Arc<Shared>, ends: Vec<AsyncFd<OwnedFd>>) {
    poll_fn(|cx| {
        loop {
            let mut any_ready = false;
            for end in &ends {
                if let Poll::Ready(ready) = end.poll_read_ready(cx) {
                    any_ready = true;
                    match ready {
                        Ok(mut guard) => guard.clear_ready(),
                        // The runtime shuts down.
                        Err(_) => return Poll::Ready(()),
                    }
                }
            }
            let mut state = lock(&shared);
            if !state.take_replies() {
                return Poll::Ready(());
            }
            if state.client.incoming().arm() && !any_ready {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// A call, as the handler of [`ServeOptions::serve_async`] gets it.
#[derive(Debug)]
#[non_exhaustive]
pub struct OwnedRequest {
    /// The request.
    pub bytes: Vec<u8>,
    /// The descriptors that the client sent with it.
    pub descriptors: Vec<OwnedFd>,
    /// The client's process and user when it connected, as the kernel reported them.
    pub client: Credentials,
    /// Replies to the call: [`Responder::reply_async`].
    pub responder: Responder,
}

impl ServeOptions {
    /// Serves at `path`; each call is a task of the present tokio runtime. A thread for each client takes its requests.
    ///
    /// # Errors
    /// As [`serve`](super::serve).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn serve_async<F>(
        self,
        path: impl AsRef<Path>,
        handler: impl Fn(OwnedRequest) -> F + Send + Sync + 'static,
    ) -> Result<Server>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Handle::current();
        self.serve(path, move |request| {
            let Request { bytes, descriptors, client, responder } = request;
            let bytes = bytes.to_vec();
            runtime.spawn(handler(OwnedRequest { bytes, descriptors, client, responder }));
        })
    }
}

impl Responder {
    /// As [`Responder::reply`]. While the client has not read enough, other tasks run; a thread of the runtime's pool
    /// for blocking work waits.
    pub async fn reply_async(self, payload: Vec<u8>) -> Result<(), ReplyError> {
        match self.try_reply(&payload) {
            Ok(replied) => replied,
            Err(responder) => match tokio::task::spawn_blocking(move || responder.reply(&payload)).await {
                Ok(replied) => replied,
                // The runtime shuts down.
                Err(_) => Err(ReplyError::ClientGone),
            },
        }
    }
}
