//! Serving a group: one thread that sends descriptors and watches which peers live. No message passes through it.
//!
//! It sleeps in `epoll_wait` without a timeout. What it does on an event is in [`state`] and [`admission`].

mod admission;
mod report;
mod state;

pub use report::{PublisherReport, Report, SubscriberReport};

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use causeway_os::socket::seqpacket_pair;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    sockopt,
};

use crate::error::{Error, Result};
use crate::foreign::ForeignSocket;
use crate::log::mapped::MappedLog;
use crate::options::{Access, GroupOptions};
use crate::wire::{ANSWER_TIME, receive};
use state::State;

/// The kind of an epoll event: the low bits of its data.
const SOCKET: u64 = 0;
const PIDFD: u64 = 1;
const LISTENER: u64 = 2;
const STOP: u64 = 3;

/// Threads that may read requests at the same time, on kernels where a read can block. A request beyond them ends its connection.
const READERS_MAX: usize = 64;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// A group that this process serves. Its drop ends the connections to all peers.
#[derive(Debug)]
pub struct Host {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    epoll: OwnedFd,
    stop: OwnedFd,
    /// Threads that read one request each: see [`Shared::read`].
    readers: AtomicUsize,
}

impl Host {
    /// Makes the memory of a group and starts to serve it.
    pub fn start(name: &str, options: GroupOptions) -> Result<Host> {
        crate::kernel::check()?;
        let failed = |op| move |error: Errno| Error::os(op, "the descriptors that serve a group", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed("make"))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed("make"))?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN).map_err(failed("watch"))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(name, options)?),
            epoll,
            stop,
            readers: AtomicUsize::new(0),
        });
        let served = Arc::clone(&shared);
        let thread = crate::reservation::spawn("causeway-serve", move || served.run())
            .map_err(|error| Error::os("start", "the thread that serves a group", error))?;
        Ok(Host { shared, thread: Some(thread) })
    }

    /// The log, writable: for publishers of this process.
    pub fn log(&self) -> Arc<MappedLog> {
        self.shared.lock().log()
    }

    /// A connection for this process.
    pub fn connect_locally(&self) -> Result<OwnedFd> {
        self.invite(true)
    }

    /// A connected socket for another process, which joins with the permissions of this process's user.
    pub fn invite_other(&self) -> Result<OwnedFd> {
        self.invite(false)
    }

    fn invite(&self, local: bool) -> Result<OwnedFd> {
        let (near, far) = seqpacket_pair()?;
        self.shared.lock().connect(&self.shared.epoll, near, local, None)?;
        Ok(far)
    }

    /// Serves the group on a socket with this path too. A socket that a dead server left is replaced.
    pub fn listen(&self, path: &Path) -> Result<()> {
        let on = |op: &'static str| move |error: Errno| Error::os(op, path.display().to_string(), error);
        let address = SocketAddrUnix::new(path).map_err(on("use as a socket's path"))?;
        let listener = ForeignSocket::new(unix_socket()?);
        match bind(&listener, &address) {
            Err(Errno::ADDRINUSE) if is_abandoned(path, &address)? => {
                rustix::fs::unlink(path).map_err(on("remove the abandoned socket"))?;
                bind(&listener, &address).map_err(on("bind"))?;
            }
            other => other.map_err(on("bind"))?,
        }
        let mut state = self.shared.lock();
        let mode = if state.options().subscribers == Access::SameUser { 0o600 } else { 0o666 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .map_err(|error| Error::os("set the mode of", path.display().to_string(), error))?;
        listen(&listener, BACKLOG).map_err(on("listen on"))?;
        let token = state.add_listener(listener, path.to_owned());
        let data = EventData::new_u64((token << 2) | LISTENER);
        epoll::add(
            &self.shared.epoll,
            state.listener(token).ok_or_else(|| on("find")(Errno::NOENT))?,
            data,
            EventFlags::IN,
        )
        .map_err(on("watch"))
    }

    /// The group was dropped: no further publisher is made in this process.
    pub fn admit_no_more_local_publishers(&self) {
        self.shared.lock().admit_no_more_local_publishers();
    }

    /// The present state of the group.
    pub fn report(&self) -> Result<Report> {
        self.shared.lock().report()
    }

    /// See [`Group::evict`](crate::Group::evict).
    pub fn evict(&self, publisher: u8) -> Result<bool> {
        self.shared.lock().evict(publisher)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shared.lock().close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: &Arc<Self>) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            for event in &events {
                let data = event.data.u64();
                let token = data >> 2;
                match data & 3 {
                    STOP => return,
                    LISTENER => self.accept(token),
                    PIDFD => self.lock().disconnect(&self.epoll, token),
                    _ => self.read(token),
                }
            }
        }
    }

    /// Reads and answers a request. Where the kernel cannot keep descriptors away, the read may block while it closes one: then
    /// a thread of its own does it, without the lock.
    fn read(self: &Arc<Self>, token: u64) {
        let mut state = self.lock();
        let Some(socket) = state.socket(token) else { return };
        if socket.refuses_descriptors() {
            return state.serve(&self.epoll, token, receive(&*socket, 0));
        }
        let shared = Arc::clone(self);
        let read = move || {
            let incoming = receive(&*socket, 0);
            drop(socket);
            let mut state = shared.lock();
            state.serve(&shared.epoll, token, incoming);
            state.watch_again(&shared.epoll, token);
            shared.readers.fetch_sub(1, Ordering::Relaxed);
        };
        // Relaxed: the number guards nothing but itself.
        let may_start = self.readers.fetch_add(1, Ordering::Relaxed) < READERS_MAX;
        if !may_start || crate::reservation::spawn("causeway-read", read).is_err() {
            self.readers.fetch_sub(1, Ordering::Relaxed);
            state.disconnect(&self.epoll, token);
        }
    }

    /// Accepts one connection. If this process is out of descriptors, the connection waits in the backlog, and a short sleep
    /// keeps this thread from spinning.
    fn accept(&self, token: u64) {
        let mut state = self.lock();
        let Some(listener) = state.listener(token) else { return };
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                let _ = state.connect(&self.epoll, socket, false, None);
            }
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                drop(state);
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(_) => {}
        }
    }
}

/// A socket whose calls wait at most [`ANSWER_TIME`] for a server that hangs, be it to connect or to send.
fn unix_socket() -> Result<OwnedFd> {
    let failed = |error| Error::os("make", "a Unix socket", error);
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(failed)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(ANSWER_TIME)).map_err(failed)?;
    Ok(socket)
}

/// Whether this is a socket on which no process listens any more. A file that is not a socket refuses connections too, and
/// must not be removed.
fn is_abandoned(path: &Path, address: &SocketAddrUnix) -> Result<bool> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    Ok(is_socket && matches!(connect(unix_socket()?.as_fd(), address), Err(Errno::CONNREFUSED)))
}

/// Connects to the server of a group.
pub fn connect_to(path: &Path) -> Result<OwnedFd> {
    let on = |error: Errno| {
        Error::os("connect to the group at", path.display().to_string(), io::Error::from(error))
    };
    let socket = unix_socket()?;
    match connect(&socket, &SocketAddrUnix::new(path).map_err(on)?) {
        Err(Errno::AGAIN) => Err(Error::NoAnswer),
        other => other.map(|()| socket).map_err(on),
    }
}

/// A listening socket, and the file to remove with it.
#[derive(Debug)]
struct Listener {
    socket: ForeignSocket,
    path: PathBuf,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.path);
    }
}
