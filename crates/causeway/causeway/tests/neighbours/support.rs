//! What attackers of several files need.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;

use causeway_os::socket::send_with_fds;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::Uid;

use crate::common::LONG;
use crate::common::wire::message;

/// A user that owns nothing here.
pub const STRANGER: u32 = 4243;

/// Runs `work` in a thread of another user. `None`, with the reason printed, where this user cannot become another one.
pub fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return None;
    }
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let user = Uid::from_raw(user);
            // Of this thread alone; its sockets carry the user.
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        thread.join()
    });
    Some(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// A directory that every user can enter.
pub fn open_directory() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir().unwrap()
}

/// A connection to the group at `path`, made by hand.
pub fn connect(path: &Path) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// Sends a request of the protocol by hand; the operations have the numbers of `docs/wire.md`.
pub fn request(socket: &OwnedFd, op: u32, words: &[u32]) {
    send_with_fds(socket, &message(op, words), &[]).unwrap();
}

/// Runs `work` in a thread and fails with `what` if it has not ended in time, instead of hanging.
pub fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(LONG).unwrap_or_else(|error| panic!("{what}: {error}"))
}
