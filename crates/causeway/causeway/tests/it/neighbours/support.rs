//! What attackers of several files need.

use std::os::fd::OwnedFd;
use std::sync::mpsc;

use causeway_os::socket::send_with_fds;
use rustix::process::Uid;

use crate::common::LONG;
pub use crate::common::wire::connect;
use crate::common::wire::message;

pub use super::{public_folder, public_group};

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
