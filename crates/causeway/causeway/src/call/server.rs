//! The serving side: a thread that accepts clients, and one for each client.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_os::Context;
use causeway_os::lock::lock;
use causeway_os::process::poll;
use causeway_os::socket::{Credentials, peer_credentials};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::connection::{Connected, Origin, accept, kind_and_descriptors, request, take_descriptors};
use super::incoming::{Incoming, WaitOutcome};
use super::responder::{Replies, Responder};
use crate::error::{Error, Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::Frame;
use crate::options::Access;
use crate::serve::{Listener, Places, Share};
use crate::wire::Message;

/// What a server decides.
///
/// ```no_run
/// use causeway::call::ServeOptions;
///
/// let server = ServeOptions::new().capacity_bytes(1 << 20).serve("/run/answers", |request| {
///     let _ = request.responder.reply(request.bytes);
/// })?;
/// # Ok::<(), causeway::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServeOptions {
    capacity_bytes: u64,
    clients: Access,
    patience: Duration,
    descriptors: bool,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions::new()
    }
}

impl ServeOptions {
    /// Logs of 256 KiB for clients of the same user, which may keep a reply waiting for a second; no descriptors.
    pub fn new() -> ServeOptions {
        ServeOptions {
            capacity_bytes: 256 << 10,
            clients: Access::SameUser,
            patience: Duration::from_secs(1),
            descriptors: false,
        }
    }

    /// Sets the size of the two logs of each client in bytes: a power of two from 4 KiB to 1 GiB. The longest request
    /// and the longest reply are a quarter of it.
    pub fn capacity_bytes(mut self, bytes: u64) -> ServeOptions {
        self.capacity_bytes = bytes;
        self
    }

    /// Sets which users may call. [`Access::SameUser`] by default. A user other than the server's gets at most a third
    /// of the places that other such users have left.
    pub fn clients(mut self, access: Access) -> ServeOptions {
        self.clients = access;
        self
    }

    /// Sets how long a reply waits for a client that does not read; nothing that the client takes renews that. Then its
    /// connection ends. One second by default.
    pub fn patience(mut self, patience: Duration) -> ServeOptions {
        self.patience = patience;
        self
    }

    /// Lets clients send descriptors with their requests. Off by default: closing a descriptor that another process
    /// chose can block the thread that does it, which is that of the client's own connection unless the handler passes
    /// the descriptor on.
    pub fn descriptors(mut self, taken: bool) -> ServeOptions {
        self.descriptors = taken;
        self
    }

    /// Serves at `path` with these options; see [`serve`](super::serve). Fails as [`serve`](super::serve).
    pub fn serve(
        self,
        path: impl AsRef<Path>,
        handler: impl Fn(Request<'_>) + Send + Sync + 'static,
    ) -> Result<Server> {
        Server::start(self, path.as_ref(), Arc::new(handler))
    }
}

/// A call, as its handler gets it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The request, a copy that the client cannot change.
    pub bytes: &'a [u8],
    /// The descriptors that the client sent with it.
    pub descriptors: Vec<OwnedFd>,
    /// The client's process and user when it connected, as the kernel reported them.
    pub client: Credentials,
    /// Replies to the call, now or later.
    pub responder: Responder,
}

type Handler = dyn Fn(Request<'_>) + Send + Sync;

/// Serves calls until it is dropped. Handlers that run at that moment end by themselves; their clients, and all others,
/// get
/// [`CallError::ServerGone`](super::CallError::ServerGone).
#[derive(Debug)]
pub struct Server {
    clients: Arc<Mutex<Clients>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

/// The connections of a server.
#[derive(Debug, Default)]
struct Clients {
    present: BTreeMap<u64, (Weak<Replies>, Option<Share>)>,
    /// The server was dropped: a client that has just been accepted is not served any more.
    is_closed: bool,
}

/// The place of one client. Its drop frees it.
struct Place {
    clients: Arc<Mutex<Clients>>,
    token: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.clients).present.remove(&self.token);
    }
}

impl Server {
    fn start(options: ServeOptions, path: &Path, handler: Arc<Handler>) -> Result<Server> {
        crate::kernel::check()?;
        let listener = Listener::bind(path, options.clients != Access::SameUser)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .context("make", || "the descriptor that stops a server")?;
        let (stop, clients) = (Arc::new(stop), Arc::<Mutex<Clients>>::default());
        let acceptor =
            Acceptor { options, listener, handler, clients: Arc::clone(&clients), stop: Arc::clone(&stop) };
        let thread = crate::reservation::spawn("causeway-accept", move || acceptor.run())
            .context("start", || "the thread that accepts clients")?;
        Ok(Server { clients, stop, thread: Some(thread), process: std::process::id() })
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        lock(&self.clients).present.len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A forked child has neither the threads nor the memory.
        if self.process != std::process::id() {
            return;
        }
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut list = lock(&self.clients);
        list.is_closed = true;
        let clients: Vec<_> = list.present.values().filter_map(|(client, _)| client.upgrade()).collect();
        drop(list);
        clients.iter().for_each(|client| client.disconnect());
    }
}

/// The thread that accepts clients. It waits for none of them.
struct Acceptor {
    options: ServeOptions,
    listener: Listener,
    handler: Arc<Handler>,
    clients: Arc<Mutex<Clients>>,
    stop: Arc<OwnedFd>,
}

impl Acceptor {
    fn run(self) {
        let mut next_token = 0;
        loop {
            match poll(&[self.stop.as_fd(), self.listener.as_fd()], None) {
                Ok(ready) if ready[0] => return,
                Ok(ready) if !ready[1] => continue,
                Ok(_) => {}
                // Nothing can be accepted any more; the socket goes, so that clients notice.
                Err(_) => return,
            }
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    next_token += 1;
                    if let Err((socket, refusal)) = self.start(socket, next_token) {
                        let socket = ForeignSocket::new(socket);
                        let _ = rustix::io::ioctl_fionbio(&socket, true);
                        let _ = Message::refusal(refusal).send(&socket, &[]);
                    }
                }
                // Out of descriptors: the client waits in the backlog, and this thread does not spin.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(_) => {}
            }
        }
    }

    /// Starts the thread of a client, if the rules admit it and there is a place for it.
    fn start(&self, socket: OwnedFd, token: u64) -> std::result::Result<(), (OwnedFd, Refusal)> {
        let Ok(peer) = peer_credentials(&socket) else { return Err((socket, Refusal::Forbidden)) };
        if !self.options.clients.admits(peer) {
            return Err((socket, Refusal::Forbidden));
        }
        let share = Share::of(peer);
        let mut list = lock(&self.clients);
        if let Err(refusal) = Places::now().check(list.present.values().map(|(_, share)| *share), share) {
            return Err((socket, refusal));
        }
        list.present.insert(token, (Weak::new(), share));
        drop(list);
        let place = Place { clients: Arc::clone(&self.clients), token };
        let (options, handler) = (self.options.clone(), Arc::clone(&self.handler));
        // The thread is given the socket only once it runs: without a thread, the client is told so.
        let handed = Arc::new(Mutex::new(Some(socket)));
        let taken = Arc::clone(&handed);
        let run = move || {
            let socket = lock(&taken).take();
            if let Some(Ok(connection)) = socket.map(|socket| Connection::new(socket, Origin::Path, &options))
            {
                connection.run(&place, &*handler);
            }
        };
        if crate::reservation::spawn("causeway-calls", run).is_err()
            && let Some(socket) = lock(&handed).take()
        {
            return Err((socket, Refusal::Exhausted));
        }
        Ok(())
    }
}

/// The connection of one client, for a program that takes the calls of a client itself instead of with
/// [`serve`](super::serve).
#[derive(Debug)]
pub struct Connection {
    incoming: Incoming,
    replies: Arc<Replies>,
    client: Credentials,
    process: u32,
}

impl Connection {
    /// Serves the process at the other end of a connected `SOCK_SEQPACKET` socket, which calls
    /// [`Client::over`](super::Client::over). Waits for it, for a second at most at each step.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] when the client does not call, [`Error::ServerGone`] when it is gone, [`Error::Invalid`] when it is not a client
    /// or for a capacity outside the limits, [`Error::Os`] without memory or descriptors.
    pub fn over(socket: OwnedFd, options: &ServeOptions) -> Result<Connection> {
        crate::kernel::check()?;
        Connection::new(socket, Origin::Pair, options)
    }

    fn new(socket: OwnedFd, origin: Origin, options: &ServeOptions) -> Result<Connection> {
        let client = peer_credentials(&socket)?;
        let Connected { outgoing, incoming, socket } =
            accept(socket, origin, options.capacity_bytes, options.descriptors)?;
        let replies = Arc::new(Replies::new(outgoing, socket, options.patience));
        Ok(Connection { incoming, replies, client, process: std::process::id() })
    }

    /// Runs the handler for each call until the client leaves.
    fn run(mut self, place: &Place, handler: &Handler) {
        let mut list = lock(&place.clients);
        if list.is_closed {
            return;
        }
        if let Some((replies, _)) = list.present.get_mut(&place.token) {
            *replies = Arc::downgrade(&self.replies);
        }
        drop(list);
        while let Ok(request) = self.recv(None) {
            if let Some(request) = request {
                handler(request);
            }
        }
    }

    /// The next call, waiting for it at most for `timeout`; `None` when none came.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the client has left or is gone, and no call of it is left. [`Error::Corrupt`] and
    /// [`Error::Invalid`] when it violated the protocol: drop the connection.
    pub fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Request<'_>>> {
        // Not computed when there is a call.
        let mut deadline = None;
        let (frame, descriptors) = loop {
            if let Some(frame) = self.incoming.try_take()? {
                match kind_and_descriptors(frame.topic) {
                    (request::CANCEL, 0) => self.replies.cancel(frame.correlation),
                    (request::CALL, count) => {
                        break (frame, take_descriptors(&self.incoming, frame.correlation, count)?);
                    }
                    _ => return Err(Error::invalid("request", "it is neither a call nor a cancellation")),
                }
                continue;
            }
            if deadline.is_none() {
                deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            }
            match self.incoming.wait(deadline)? {
                WaitOutcome::Ready => {}
                WaitOutcome::TimedOut => return Ok(None),
                WaitOutcome::Gone => return Err(Error::Disconnected),
            }
        };
        Ok(Some(self.request(&frame, descriptors)))
    }

    #[inline]
    fn request(&self, frame: &Frame, descriptors: Vec<OwnedFd>) -> Request<'_> {
        let responder = Responder::new(Arc::clone(&self.replies), frame.correlation);
        Request { bytes: self.incoming.payload(frame), descriptors, client: self.client, responder }
    }

    /// Sets how long [`Connection::recv`] polls before it sleeps, at most. Zero sleeps at once; the default is 50 µs.
    pub fn spin_at_most(&mut self, longest: Duration) {
        self.incoming.spin_at_most(longest);
    }
}

/// Ends the connection although a forked child or a responder may hold its socket.
impl Drop for Connection {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.replies.disconnect();
        }
    }
}
