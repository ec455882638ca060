//! A time limit for `waitpid` of a tracer, which takes no time limit and returns once its process is killed.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::watchdog::describe;

/// How often the thread checks the alarms.
const PERIOD: Duration = Duration::from_millis(100);

static WATCHED: Mutex<Vec<Weak<Watched>>> = Mutex::new(Vec::new());

/// Describes a process and kills it when an operation on it takes too long.
///
/// One thread serves all alarms, so an operation costs two writes and one clock read: tracers step millions of times.
#[derive(Debug)]
pub(crate) struct Alarm(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    process: Pid,
    /// A number may belong to another process once its own has ended.
    pidfd: OwnedFd,
    /// When the operation has lasted too long, in milliseconds since the first look at the clock; 0 without an operation.
    end_ms: AtomicU64,
    report: Mutex<Option<String>>,
}

/// An operation, until it is dropped.
#[derive(Debug)]
pub(crate) struct Operation<'a>(&'a Watched);

impl Alarm {
    /// Watches the process with this number, which runs or is stopped.
    ///
    /// # Panics
    /// There is no such process, or the kernel has no pidfd (Linux 5.3).
    pub(crate) fn new(process: Pid) -> Alarm {
        static THREAD: Once = Once::new();
        let pidfd = pidfd_open(process, PidfdFlags::empty())
            .unwrap_or_else(|error| panic!("process {process}: no file descriptor of it: {error}"));
        let (end_ms, report) = (AtomicU64::new(0), Mutex::new(None));
        let watched = Arc::new(Watched { process, pidfd, end_ms, report });
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&watched));
        THREAD.call_once(|| {
            thread::Builder::new().name("alarm".into()).spawn(watch).expect("the thread of alarms starts");
        });
        Alarm(watched)
    }

    /// Begins an operation that may take this long.
    pub(crate) fn operation(&self, limit: Duration) -> Operation<'_> {
        let end_ms = now_ms() + u64::try_from(limit.as_millis()).unwrap_or(u64::MAX / 2);
        self.0.end_ms.store(end_ms.max(1), Ordering::Relaxed);
        Operation(&self.0)
    }

    /// Kills the process, if it has not ended.
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.0.pidfd, Signal::KILL);
    }

    /// The description of the process before this alarm killed it.
    pub(crate) fn report(&self) -> Option<String> {
        self.0.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.0.end_ms.store(0, Ordering::Relaxed);
    }
}

fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

fn watch() {
    loop {
        thread::sleep(PERIOD);
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|watched| watched.strong_count() > 0);
        let late: Vec<Arc<Watched>> = watched.iter().filter_map(Weak::upgrade).filter(is_late).collect();
        drop(watched);
        for watched in late {
            let mut report = watched.report.lock().unwrap_or_else(PoisonError::into_inner);
            report.get_or_insert_with(|| describe(watched.process.as_raw_nonzero().get().cast_unsigned()));
            let _ = pidfd_send_signal(&watched.pidfd, Signal::KILL);
        }
    }
}

fn is_late(watched: &Arc<Watched>) -> bool {
    let end_ms = watched.end_ms.load(Ordering::Relaxed);
    end_ms != 0 && end_ms < now_ms()
}
