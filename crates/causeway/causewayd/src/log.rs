//! What an administrator should know, in lines: to standard error, or to the system's log.
//!
//! A line that would have to wait is dropped, and so are lines of a flood: a client must not be able to stop the bus by what is
//! said about it.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

/// Lines in one second.
const MOST_LINES: u64 = 20;
/// A pipe that has room takes as much as this at once.
const MOST_BYTES: usize = 4096;
/// Facility `daemon`, severity `warning`.
const PRIORITY: u32 = 3 << 3 | 4;

static TO_SYSTEM: AtomicBool = AtomicBool::new(false);

/// From now on lines go to the system's log and not to standard error.
pub fn to_system() {
    // Relaxed: nothing else depends on it.
    TO_SYSTEM.store(true, Ordering::Relaxed);
}

/// Says a line, if it can be said now.
pub fn log(line: &str) {
    if !is_due() {
        return;
    }
    if TO_SYSTEM.load(Ordering::Relaxed) {
        let text = format!("<{PRIORITY}>causewayd[{}]: {line}", std::process::id());
        // Without a system's log there is nowhere to say so.
        let _ = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to(text.as_bytes(), "/dev/log")
        });
        return;
    }
    let mut text = format!("causewayd: {line}\n").into_bytes();
    text.truncate(MOST_BYTES);
    let stderr = std::io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    if rustix::event::poll(&mut ready, Some(&now)).is_ok_and(|count| count > 0) {
        let _ = stderr.lock().write_all(&text);
    }
}

/// Fewer lines than the limit were said in this second.
fn is_due() -> bool {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    static SECOND: AtomicU64 = AtomicU64::new(u64::MAX);
    static LINES: AtomicU64 = AtomicU64::new(0);
    let second = START.get_or_init(Instant::now).elapsed().as_secs();
    // Relaxed: one thread says lines; another one could at most say one too many.
    if SECOND.swap(second, Ordering::Relaxed) != second {
        LINES.store(0, Ordering::Relaxed);
    }
    LINES.fetch_add(1, Ordering::Relaxed) < MOST_LINES
}
