//! Descriptors of others, which are closed somewhere else.
//!
//! A client decides what is behind a descriptor that it sends: closing a TCP socket that lingers, or a file of a file
//! system in user space, waits for somebody. So no thread that serves the bus closes one. Each user has threads of its
//! own for this: closings that hang keep waiting those of the same user alone, and of descriptors that are still to be
//! closed a user has [`PENDING_MAX`] at most.
//!
//! `SO_LINGER` stays as it is: it belongs to the socket, and others may hold it too.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use causeway_os::lock::lock;
use causeway_waiting::pool::Pool;

use crate::pool::{run, start};

/// Most threads that close for one user: as many closings may hang at once before others of this user wait for them.
const CLOSERS_MAX: usize = 16;
/// A closer needs no stack to speak of.
const STACK_BYTES: usize = 64 << 10;
/// Descriptors of one user that wait to be closed: a client that sends one more is disconnected. It is above what all
/// clients of a user hold by default, which may be let go at once.
const PENDING_MAX: usize = 1 << 15;

/// Descriptors of clients' messages that this process has open.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// Of these, those that are let go and not closed yet are not counted there, but here.
static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// How many descriptors of clients' messages this process has open, apart from those that are let go.
pub fn open_count() -> u64 {
    // Relaxed: the thread that serves the bus alone changes it.
    OPEN.load(Relaxed) as u64
}

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
        Closer::of(self.user).pending() > PENDING_MAX
    }

    /// Are so many let go and not closed yet, of all users or half as many of this one, that no more should come in?
    pub fn are_closings_behind(&self, most: u64) -> bool {
        // Relaxed: a count that orders nothing else.
        CLOSING.load(Relaxed) as u64 > most || Closer::of(self.user).pending() as u64 > most / 2
    }

    pub fn extend(&mut self, more: impl IntoIterator<Item = OwnedFd>) {
        let before = self.fds.len();
        self.fds.extend(more);
        OPEN.fetch_add(self.fds.len() - before, Relaxed);
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
            let count = self.fds.len();
            OPEN.fetch_sub(count, Relaxed);
            CLOSING.fetch_add(count, Relaxed);
            Closer::of(self.user)
                .close(std::mem::take(&mut self.fds), move || _ = CLOSING.fetch_sub(count, Relaxed));
        }
    }
}

pub fn close_elsewhere(user: User, descriptors: Vec<OwnedFd>) {
    Closer::of(user).close(descriptors, || {});
}

/// Ends the connection of a client of this user at once, and closes the socket: here if nothing unread is in it, and
/// otherwise elsewhere, because there may be descriptors in it.
pub fn close_socket(user: u32, socket: OwnedFd) {
    // From here on nothing more can come. It fails if the client has gone, and then nothing can come either.
    let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
    // Descriptors come with a byte at least.
    if !matches!(rustix::io::ioctl_fionread(&socket), Ok(0)) {
        close_elsewhere(Some(user), vec![socket]);
    }
}

/// The threads of one user, and how many descriptors they have still to close, those that are being closed included.
struct Closer {
    pool: Arc<Pool>,
    pending: AtomicUsize,
}

impl Closer {
    fn of(user: User) -> Arc<Closer> {
        static CLOSERS: Mutex<BTreeMap<User, Arc<Closer>>> = Mutex::new(BTreeMap::new());
        let mut closers = lock(&CLOSERS);
        let new = || {
            let pool = Pool::new("closer", CLOSERS_MAX, start::<STACK_BYTES>);
            Arc::new(Closer { pool, pending: AtomicUsize::new(0) })
        };
        Arc::clone(closers.entry(user).or_insert_with(new))
    }

    fn pending(&self) -> usize {
        // Relaxed: a count that orders nothing else.
        self.pending.load(Relaxed)
    }

    fn close(self: Arc<Closer>, descriptors: Vec<OwnedFd>, closed: impl FnOnce() + Send + 'static) {
        let count = descriptors.len();
        // Relaxed, here and where it is done: see above.
        self.pending.fetch_add(count, Relaxed);
        let closer = Arc::clone(&self);
        let close = move || {
            drop(descriptors);
            closer.pending.fetch_sub(count, Relaxed);
            closed();
        };
        run(&self.pool, Box::new(close));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use causeway_testkit::eventually_seen;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn closings_that_hang_are_counted_and_keep_no_other_user_waiting() {
        const HANGING: usize = 2 * CLOSERS_MAX;
        let (hostile, other) = (Some(u32::MAX - 1), Some(u32::MAX - 2));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut sockets, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..HANGING {
            let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            peers.push(listener.accept().unwrap().0);
            rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(300))).unwrap();
            socket.set_nonblocking(true).unwrap();
            sockets.push(socket);
        }
        // A full socket may have room again once its peer has taken what was on the way.
        loop {
            for mut socket in &sockets {
                while std::io::Write::write(&mut socket, &[0; 65_536]).is_ok() {}
            }
            let mut writable: Vec<_> =
                sockets.iter().map(|socket| PollFd::new(socket, PollFlags::OUT)).collect();
            let pause = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
            if poll(&mut writable, Some(&pause)).unwrap() == 0 {
                break;
            }
        }
        for socket in sockets {
            close_elsewhere(hostile, vec![socket.into()]);
        }
        let (mut read, write) = std::io::pipe().unwrap();
        close_elsewhere(other, vec![write.into()]);
        assert_eq!(read.read(&mut [0]).unwrap(), 0);
        let closer = Closer::of(hostile);
        assert_eq!((closer.pending(), closer.pool.threads()), (HANGING, CLOSERS_MAX));
        let mut descriptors = Descriptors::of(hostile);
        assert!(!descriptors.are_too_many_pending());
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        descriptors.extend((0..100).map(|_| null.try_clone().unwrap()));
        closer.pending.fetch_add(PENDING_MAX, Relaxed);
        assert!(descriptors.are_too_many_pending() && !Descriptors::of(other).are_too_many_pending());
        closer.pending.fetch_sub(PENDING_MAX, Relaxed);
        // The peers go, and with them what the closings wait for.
        drop(peers);
        drop(descriptors);
        eventually_seen("some wait", || closer.pending(), |pending| *pending == 0);
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
