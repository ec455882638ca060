//! Descriptors of others, which are closed somewhere else.
//!
//! A client decides what is behind a descriptor that it sends: closing a TCP socket that lingers, or a file of a file system in
//! user space, waits for somebody. So no thread that serves the bus closes one.
//! Each user has threads of its own for this: closings that hang keep waiting those of the same user alone, and of descriptors that
//! are still to be closed a user has [`MOST_PENDING`] at most.
//!
//! `SO_LINGER` stays as it is: it belongs to the socket, and others may hold it too.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Most threads that close for one user: as many closings may hang at once before others of this user wait for them.
const MOST_CLOSERS: usize = 16;
/// A closer needs no stack to speak of.
const STACK_BYTES: usize = 64 << 10;
/// How long a closer waits for more to close.
const IDLE: Duration = Duration::from_secs(1);
/// Descriptors of one user that wait to be closed: a client that sends one more is disconnected. It is above what all clients of a user
/// hold by default, which may be let go at once.
const MOST_PENDING: usize = 1 << 15;

/// Whose descriptors they are: those of a user's clients, or (`None`) of native members.
pub type User = Option<u32>;

/// Descriptors that came from a client. Dropped, they are closed by another thread.
#[derive(Debug, Default)]
pub struct Descriptors {
    fds: Vec<OwnedFd>,
    user: User,
}

impl Descriptors {
    pub fn of(user: User) -> Descriptors {
        Descriptors { fds: Vec::new(), user }
    }

    /// Are more of this user still to be closed than a user may have?
    pub fn are_too_many_pending(&self) -> bool {
        Closer::of(self.user).lock().pending > MOST_PENDING
    }

    pub fn extend(&mut self, more: impl IntoIterator<Item = OwnedFd>) {
        self.fds.extend(more);
    }

    /// Takes the first `count` out, of which there must be as many.
    #[must_use]
    pub fn take_first(&mut self, count: usize) -> Descriptors {
        let fds = if count == 0 { Vec::new() } else { self.fds.drain(..count).collect() };
        Descriptors { fds, user: self.user }
    }
}

impl Deref for Descriptors {
    type Target = [OwnedFd];

    fn deref(&self) -> &[OwnedFd] {
        &self.fds
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        if !self.fds.is_empty() {
            close_elsewhere(self.user, std::mem::take(&mut self.fds));
        }
    }
}

pub fn close_elsewhere(user: User, descriptors: Vec<OwnedFd>) {
    Closer::of(user).close(descriptors);
}

/// Ends the connection of a client of this user at once, and closes the socket: here if nothing unread is in it, and otherwise
/// elsewhere, because there may be descriptors in it.
pub fn close_socket(user: u32, socket: OwnedFd) {
    // From here on nothing more can come. It fails if the client has gone, and then nothing can come either.
    let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
    // Descriptors come with a byte at least.
    if !matches!(rustix::io::ioctl_fionread(&socket), Ok(0)) {
        close_elsewhere(Some(user), vec![socket]);
    }
}

#[derive(Default)]
struct Closer {
    state: Mutex<State>,
    has_more: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<OwnedFd>>,
    /// Descriptors in the queue and those that are being closed.
    pending: usize,
    threads: usize,
    idle: usize,
}

impl Closer {
    fn of(user: User) -> Arc<Closer> {
        static CLOSERS: Mutex<BTreeMap<User, Arc<Closer>>> = Mutex::new(BTreeMap::new());
        let mut closers = CLOSERS.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(closers.entry(user).or_default())
    }

    /// Held for a few instructions, and never while something is closed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands descriptors to a thread. Where none can be started they are closed here: better late than never.
    fn close(self: Arc<Closer>, descriptors: Vec<OwnedFd>) {
        let mut state = self.lock();
        state.pending += descriptors.len();
        state.queue.push_back(descriptors);
        if state.queue.len() <= state.idle || state.threads == MOST_CLOSERS {
            return self.has_more.notify_one();
        }
        state.threads += 1;
        drop(state);
        let closer = Arc::clone(&self);
        let thread = thread::Builder::new().name("closer".into()).stack_size(STACK_BYTES);
        let started = causeway_os::process::without_signals(|| thread.spawn(move || closer.work()));
        if started.is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            // The threads that there are take it, if there are any.
            if state.threads == 0 {
                let left = std::mem::take(&mut state.queue);
                state.pending = 0;
                drop(state);
                drop(left);
            }
        }
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(descriptors) = state.queue.pop_front() {
                drop(state);
                let count = descriptors.len();
                drop(descriptors);
                state = self.lock();
                state.pending -= count;
                continue;
            }
            state.idle += 1;
            let waited = self.has_more.wait_timeout(state, IDLE);
            let outcome;
            (state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            if outcome.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_testkit::eventually_seen;
    use std::io::Read;

    #[test]
    fn closings_that_hang_are_counted_and_keep_no_other_user_waiting() {
        const HANGING: usize = 2 * MOST_CLOSERS;
        let (hostile, other) = (Some(u32::MAX - 1), Some(u32::MAX - 2));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peers = Vec::new();
        for _ in 0..HANGING {
            let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            peers.push(listener.accept().unwrap().0);
            rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(300))).unwrap();
            socket.set_nonblocking(true).unwrap();
            while std::io::Write::write(&mut &socket, &[0; 65_536]).is_ok() {}
            close_elsewhere(hostile, vec![socket.into()]);
        }
        let (mut read, write) = std::io::pipe().unwrap();
        close_elsewhere(other, vec![write.into()]);
        assert_eq!(read.read(&mut [0]).unwrap(), 0);
        {
            let closer = Closer::of(hostile);
            let state = closer.lock();
            assert_eq!((state.pending, state.threads), (HANGING, MOST_CLOSERS));
        }
        let mut descriptors = Descriptors::of(hostile);
        assert!(!descriptors.are_too_many_pending());
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        descriptors.extend((0..100).map(|_| null.try_clone().unwrap()));
        let closer = Closer::of(hostile);
        closer.lock().pending += MOST_PENDING;
        assert!(descriptors.are_too_many_pending() && !Descriptors::of(other).are_too_many_pending());
        closer.lock().pending -= MOST_PENDING;
        // The peers go, and with them what the closings wait for.
        drop(peers);
        drop(descriptors);
        eventually_seen("some wait", || closer.lock().pending, |pending| *pending == 0);
    }

    #[test]
    fn the_client_of_a_socket_that_hangs_is_told_at_once() {
        use std::os::unix::net::UnixStream;
        for unread in [&b""[..], b"x"] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            std::io::Write::write_all(&mut theirs, unread).unwrap();
            let copy = ours.try_clone().unwrap();
            close_socket(u32::MAX - 3, ours.into());
            assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "a copy is still open: {copy:?}");
        }
    }
}
