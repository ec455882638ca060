//! What may wait for a disk, a network or another process, and does so in a thread of its own: its outcome comes to the
//! loop as an event.
//!
//! The numbers of threads are limited. A file system that does not answer keeps waiting who asked for something on it;
//! once it keeps all threads of a kind, also who asks for more of that kind.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use causeway_os::lock::lock;
use causeway_waiting::pool::{Job, Pool};
use rustix::event::{EventfdFlags, eventfd};

use crate::bus::{Load, LookUp};
use crate::children::{Started, launch};
use crate::config::Config;
use crate::launch::Launcher;
use crate::pool::{run, start};
use crate::service_file::Services;

/// Threads that read files: one reads those of services, one the configuration, and one more of each may hang on those
/// of a configuration that was replaced.
const READERS_MAX: usize = 4;
/// Threads that start programs.
const LAUNCHERS_MAX: usize = 16;
/// An XML document is parsed on it.
const STACK_BYTES: usize = 1 << 20;

/// What has come of something.
#[derive(Debug)]
pub enum Outcome {
    /// Files of services were read.
    LookedUp(LookUp),
    /// A configuration, and the services of its folders; or why it cannot be used.
    Configured(Box<Result<(Config, Services), String>>),
    /// The start with this number has its program, or why it has none.
    Launched(u64, Result<Started, String>),
}

#[derive(Debug)]
pub struct Blocking {
    readers: Arc<Pool>,
    launchers: Arc<Pool>,
    outcomes: Arc<Outcomes>,
}

#[derive(Debug)]
struct Outcomes {
    list: Mutex<Vec<Outcome>>,
    /// Readable when there are some.
    ready: OwnedFd,
}

impl Outcomes {
    fn lock(&self) -> MutexGuard<'_, Vec<Outcome>> {
        lock(&self.list)
    }
}

impl Blocking {
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn new() -> rustix::io::Result<Blocking> {
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Blocking {
            readers: Pool::new("reader", READERS_MAX, start::<STACK_BYTES>),
            launchers: Pool::new("launcher", LAUNCHERS_MAX, start::<STACK_BYTES>),
            outcomes: Arc::new(Outcomes { list: Mutex::default(), ready }),
        })
    }

    /// Takes what has come since this was last asked.
    pub fn take(&self) -> Vec<Outcome> {
        let _ = rustix::io::read(&self.outcomes.ready, &mut [0; 8]);
        std::mem::take(&mut *self.outcomes.lock())
    }

    /// Reads files of services, as far as they may have changed.
    pub fn look_up(&self, look_up: LookUp) {
        run(&self.readers, self.job(|| Outcome::LookedUp(look_up.done())));
    }

    /// Reads the configuration and the files of its services.
    pub fn configure(&self, load: Load) {
        let read = move || {
            let config = load()?;
            let services = Services::read(&config.service_dirs);
            Ok((config, services))
        };
        run(&self.readers, self.job(move || Outcome::Configured(Box::new(read()))));
    }

    /// Starts a program.
    pub fn launch(
        &self,
        number: u64,
        command: Vec<String>,
        environment: Vec<(OsString, OsString)>,
        launcher: Launcher,
    ) {
        let launch = move || Outcome::Launched(number, launch(&command, &environment, launcher));
        run(&self.launchers, self.job(launch));
    }

    /// Ends a program, and waits for that.
    pub fn end(&self, started: Started) {
        run(&self.launchers, Box::new(move || drop(started)));
    }

    fn job(&self, work: impl FnOnce() -> Outcome + Send + 'static) -> Job {
        let outcomes = Arc::clone(&self.outcomes);
        Box::new(move || {
            let outcome = work();
            outcomes.lock().push(outcome);
            let _ = rustix::io::write(&outcomes.ready, &1u64.to_ne_bytes());
        })
    }
}

impl AsFd for Blocking {
    /// Readable when there is something to [`take`](Blocking::take).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outcomes.ready.as_fd()
    }
}
