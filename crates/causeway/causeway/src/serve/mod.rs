//! Serving a group: one thread that sends descriptors and watches which peers live. No message passes through it.
//!
//! It sleeps in `epoll_wait`, with a timeout only while a visitor has requested nothing yet. What it does on an event
//! is in
//! [`state`] and [`admission`].

mod admission;
mod allowance;
mod connections;
mod epochs;
mod first;
mod formats;
mod hold;
mod listener;
mod logs;
mod payload_files;
mod payloads;
mod places;
mod rates;
mod report;
mod state;
mod subscribers;

pub use connections::Origin;
pub use listener::{Listener, absolute, connect_to};
pub use places::{Places, Share};
pub use report::{PublisherReport, Report, SubscriberReport};

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_os::Context;
use causeway_os::epoll::Token;
use causeway_os::lock::lock;
use causeway_os::process::{is_overflow_user, overflow_user_refused};
use causeway_os::socket::seqpacket_pair;
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::time::Timespec;

use crate::error::{Error, Result};
use crate::log::Writer;
use crate::log::mapped::MappedLog;
use crate::options::{Access, GroupOptions};
use crate::wire::receive;
use connections::{LISTENER, PIDFD, WAKE};
use state::State;

/// Threads that may read requests at the same time, on kernels where a read can block. A request beyond them ends its
/// connection.
const READERS_MAX: usize = 64;

/// How long one wait for a log that is being made lasts; its end is announced.
const MAKING_SLICE: Duration = Duration::from_secs(1);

/// A group that this process serves. Its drop ends the connections to all peers.
#[derive(Debug)]
pub struct Host {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    epoll: Arc<OwnedFd>,
    /// Wakes the thread that serves: it is to end, or a roll has begun whose deadline it does not know.
    wake: OwnedFd,
    /// Threads that read one request each: see [`Shared::read`].
    readers: AtomicUsize,
    rolled: Condvar,
}

impl Host {
    /// Makes the memory of a group and starts to serve it.
    pub fn start(name: &str, options: GroupOptions) -> Result<Host> {
        crate::kernel::check()?;
        let on = || "the descriptors that serve a group";
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("make", on)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("make", on)?;
        epoll::add(&epoll, &wake, Token::new(WAKE, 0).data(), EventFlags::IN).context("watch", on)?;
        let epoll = Arc::new(epoll);
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(name, options, Arc::clone(&epoll))?),
            epoll,
            wake,
            readers: AtomicUsize::new(0),
            rolled: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        let thread = crate::reservation::spawn("causeway-serve", move || served.run())
            .context("start", || "the thread that serves a group")?;
        Ok(Host { shared, thread: Some(thread) })
    }

    /// What this process can do with the group without a connection.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// The log, writable: for publishers of this process.
    pub fn log(&self) -> Arc<MappedLog> {
        Arc::clone(&self.state().logs.present)
    }

    /// A connected socket: for this process, or for another one that joins with the permissions of this process's user.
    pub fn connect(&self, origin: Origin) -> Result<OwnedFd> {
        let (near, far) = seqpacket_pair()?;
        self.state().connect(near, origin)?;
        Ok(far)
    }

    /// Serves the group on a socket with this path too. A socket that a dead server left is replaced.
    pub fn listen(&self, path: &Path) -> Result<()> {
        let (admits_other_users, asks_for_own_user) = {
            let options = &self.state().options;
            let rules = [&options.publishers, &options.subscribers];
            (options.admits_other_users(), rules.contains(&&Access::SameUser))
        };
        // Its own processes would be refused as strangers, which says nothing of why.
        if asks_for_own_user && is_overflow_user() {
            return Err(Error::invalid("user", overflow_user_refused()));
        }
        let listener = Listener::bind(path, admits_other_users)?;
        let added = self.state().connections.add_listener(listener);
        Ok(added.context("watch", || path.display().to_string())?)
    }

    pub fn resize(&self, capacity_bytes: u64) -> Result<()> {
        let mut state = self.shared.wait_while_rolling(self.state());
        if !state.can_resize() {
            return Err(Error::invalid(
                "call",
                "the publishers of this group are in other processes, which were not prepared for another log; create it with \
                 GroupOptions::late_publishers",
            ));
        }
        state.want_log(capacity_bytes).map_err(Error::Refused)?;
        self.roll(state)
    }

    /// See [`Group::disconnect_publisher`](crate::Group::disconnect_publisher).
    pub fn disconnect_publisher(&self, publisher: u8) -> Result<bool> {
        let mut state = self.shared.wait_while_rolling(self.state());
        let found = state.cast_out(publisher)?;
        if found {
            let rolled = self.roll(state);
            // Without another log it stays where it is.
            self.state().publishers.outcasts &= !(1 << publisher);
            rolled?;
        }
        Ok(found)
    }

    /// Makes the log that is wanted, and returns when the publishers go on in it.
    fn roll<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<()> {
        while let Some(make) = state.take_wanted_log() {
            drop(state);
            let made = make();
            state = self.state();
            let added = state.add_log(made);
            self.shared.rolled.notify_all();
            added?;
        }
        // Whoever waits for another format may want one more.
        self.shared.make_wanted_log(self.shared.wait_while_rolling(state));
        Ok(())
    }

    /// See [`Group::upgrade`](crate::Group::upgrade).
    pub fn upgrade(&self) -> Result<u32> {
        let mut state = self.shared.wait_while_rolling(self.state());
        let level = state.upgrade().map_err(Error::Refused)?;
        self.roll(state)?;
        Ok(level)
    }

    /// Ends the log of one publisher, which is `writer`, and returns the one to go on in.
    pub fn begin_next(&self, writer: &mut Writer<Arc<MappedLog>>) -> Result<Arc<MappedLog>> {
        let mut state = self.state();
        let begun = state.begin_next(|_| Ok(writer.end_log()));
        self.shared.make_wanted_log(state);
        begun
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.state().is_stopping = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.state().close();
    }
}

impl Shared {
    /// Waits while a log is made, and until all publishers have mapped it or have had the time for it.
    fn wait_while_rolling<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.logs.is_making || state.roll_deadline().is_some() {
            let left = state
                .roll_deadline()
                .map_or(MAKING_SLICE, |end| end.saturating_duration_since(Instant::now()));
            (state, _) = self.rolled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state.end_late_rolls();
        }
        state
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn run(self: &Arc<Self>) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let left =
                lock(&self.state).next_deadline().map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // Without this call nobody is served: peers are told so instead of waiting for ever.
                Err(_) => return lock(&self.state).close(),
            }
            // Deaths first: what a dead publisher left unfinished delays all others.
            events.sort_by_key(|event| Token::of(event).kind != PIDFD);
            for Token { kind, number: token } in events.iter().map(Token::of) {
                match kind {
                    WAKE if lock(&self.state).is_stopping => return,
                    WAKE => drop(rustix::io::read(&self.wake, &mut [0; 8])),
                    LISTENER => self.accept(token),
                    PIDFD => lock(&self.state).reap(token),
                    _ => self.read(token),
                }
            }
            let mut state = lock(&self.state);
            if left.is_some() {
                state.end_visits();
                state.end_late_rolls();
                state.check_rates();
            }
            self.make_wanted_log(state);
            self.rolled.notify_all();
        }
    }

    /// Reads and answers a request. Where the kernel cannot keep descriptors away, the read may block while it closes
    /// one: then a thread of its own does it, without the lock.
    fn read(self: &Arc<Self>, token: u64) {
        let mut state = lock(&self.state);
        let Ok(connection) = state.connections.get(token) else { return };
        let socket = Arc::clone(&connection.socket);
        if socket.refuses_descriptors() {
            state.serve(token, receive(&*socket, 0));
            return self.make_wanted_log(state);
        }
        let shared = Arc::clone(self);
        let read = move || {
            let incoming = receive(&*socket, 0);
            drop(socket);
            let mut state = lock(&shared.state);
            state.serve(token, incoming);
            state.connections.watch_again(token);
            shared.rolled.notify_all();
            shared.make_wanted_log(state);
            shared.readers.fetch_sub(1, Ordering::Relaxed);
        };
        // Relaxed: the number guards nothing but itself.
        let may_start = self.readers.fetch_add(1, Ordering::Relaxed) < READERS_MAX;
        if !may_start || crate::reservation::spawn("causeway-read", read).is_err() {
            self.readers.fetch_sub(1, Ordering::Relaxed);
            state.disconnect(token);
        }
    }

    /// Makes the log that a publisher has asked for, in a thread of its own: the server goes on meanwhile.
    fn make_wanted_log(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let Some(make) = state.take_wanted_log() else { return };
        let shared = Arc::clone(self);
        let work = move || {
            // Those who wait for it are told.
            let made = make();
            let mut state = lock(&shared.state);
            let _ = state.add_log(made);
            shared.rolled.notify_all();
            if state.roll_deadline().is_some() {
                shared.wake();
            }
            // If others came meanwhile, that was not what they need.
            shared.make_wanted_log(state);
        };
        if let Err(error) = crate::reservation::spawn("causeway-log", work) {
            let _ = state.add_log(Err(Error::os("start", "the thread that makes a log", error)));
        }
    }

    /// Accepts one connection. If this process is out of descriptors, the connection waits in the backlog, and a short
    /// sleep keeps this thread from spinning.
    fn accept(&self, token: u64) {
        let mut state = lock(&self.state);
        let Some(listener) = state.connections.listener(token) else { return };
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                let _ = state.connect(socket, Origin::Path);
            }
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                drop(state);
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => {}
        }
    }
}
