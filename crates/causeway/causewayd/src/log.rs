//! What an administrator should know, in lines: to standard error, or to the system's log.
//!
//! A line that would have to wait is dropped, and so are lines of a flood, whose number is said: a client must not be
//! able to stop the bus by what is said about it.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use causeway_os::lock::lock;
use rustix::event::{PollFd, PollFlags};

/// Lines in one second.
const LINES_MAX: u64 = 20;
/// A pipe that has room takes as much as this at once.
const BYTES_MAX: usize = 4096;
/// Facility `daemon`, severity `warning`.
const PRIORITY: u32 = 3 << 3 | 4;

/// Is what is usual said, too?
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);
static TO_SYSTEM: AtomicBool = AtomicBool::new(false);
/// Does the bus serve? Until then who has started it sees at standard error why it does not.
static SERVES: AtomicBool = AtomicBool::new(false);
/// Are lines left out of which nobody was told yet? So that each turn of the loop can ask at no cost.
static OMITS: AtomicBool = AtomicBool::new(false);

/// From now on lines go to the system's log, and to standard error only until the bus [`serves`], where there is no such log, and where a bug has
/// ended a thread.
pub fn to_system() {
    // Relaxed: nothing else depends on it.
    if !TO_SYSTEM.swap(true, Ordering::Relaxed) {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |bug| {
            log(&bug.to_string());
            before(bug);
        }));
    }
}

/// The bus serves: what is said from now on is for the log alone.
pub fn serves() {
    // Relaxed: nothing else depends on it.
    SERVES.store(true, Ordering::Relaxed);
}

/// From now on what is usual is said, too.
pub fn be_verbose() {
    // Relaxed: nothing else depends on it.
    IS_VERBOSE.store(true, Ordering::Relaxed);
}

/// Says what is usual, where that was asked for.
pub fn detail(line: impl FnOnce() -> String) {
    // Relaxed: nothing else depends on it.
    if IS_VERBOSE.load(Ordering::Relaxed) {
        log(&line());
    }
}

/// Says a line, if it can be said now.
pub fn log(line: &str) {
    turn();
    let lines = {
        let mut pace = pace();
        pace.lines += 1;
        pace.lines
    };
    if lines <= LINES_MAX {
        say(line);
    } else {
        // Relaxed: the loop logs itself; what another thread leaves out is told a turn later.
        OMITS.store(true, Ordering::Relaxed);
    }
}

fn say(line: &str) {
    if TO_SYSTEM.load(Ordering::Relaxed) {
        let text = format!("<{PRIORITY}>causewayd[{}]: {line}", std::process::id());
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to(text.as_bytes(), "/dev/log")
        });
        // A log that is full loses the line; one that is not there has never had any.
        let is_there = sent.err().is_none_or(|error| error.kind() == ErrorKind::WouldBlock);
        if is_there && SERVES.load(Ordering::Relaxed) {
            return;
        }
    }
    let mut text = format!("causewayd: {line}\n").into_bytes();
    text.truncate(BYTES_MAX);
    // Locked first: what another thread writes in between would fill the pipe, and this one would wait with its line.
    let mut stderr = std::io::stderr().lock();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    if rustix::event::poll(&mut ready, Some(&now)).is_ok_and(|count| count > 0) {
        let _ = stderr.write_all(&text);
    }
}

/// When lines were said, in seconds since the first, and how many in that second, those left out included.
struct Pace {
    start: Option<Instant>,
    second: u64,
    lines: u64,
}

static PACE: Mutex<Pace> = Mutex::new(Pace { start: None, second: 0, lines: 0 });

impl Pace {
    /// The lines left out in a second that is over.
    fn turn(&mut self) -> Option<u64> {
        let second = self.start.get_or_insert_with(Instant::now).elapsed().as_secs();
        if second == self.second {
            return None;
        }
        let before = std::mem::take(&mut self.lines);
        self.second = second;
        before.checked_sub(LINES_MAX).filter(|omitted| *omitted > 0)
    }
}

fn pace() -> MutexGuard<'static, Pace> {
    lock(&PACE)
}

/// Would a line be said now?
pub fn has_room() -> bool {
    let pace = pace();
    pace.lines < LINES_MAX || pace.start.is_some_and(|start| start.elapsed().as_secs() != pace.second)
}

/// Says how many lines were left out in a second that is over. To be called when [`omitted_until`] says.
pub fn tell_omitted() {
    if OMITS.load(Ordering::Relaxed) {
        turn();
    }
}

fn turn() {
    let omitted = pace().turn();
    if let Some(omitted) = omitted {
        OMITS.store(false, Ordering::Relaxed);
        say(&format!(
            "{omitted} more lines like these were left out: at most {LINES_MAX} are said in one second"
        ));
    }
}

/// Until when lines are left out of which nobody was told yet; nothing where there are none.
pub fn omitted_until() -> Option<Instant> {
    if !OMITS.load(Ordering::Relaxed) {
        return None;
    }
    let pace = pace();
    let start = pace.start.filter(|_| pace.lines > LINES_MAX)?;
    Some(start + Duration::from_secs(pace.second + 1))
}
