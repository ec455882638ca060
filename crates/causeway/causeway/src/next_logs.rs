//! The logs that a publisher will go on in, mapped before it needs them.
//!
//! A log can be mapped for writing only before it is sealed, and all publishers are waited for. One that publishes
//! nothing looks at nothing, so a thread of its own maps each log when it comes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use causeway_os::Context;
use causeway_os::handshake::Offer;
use causeway_os::lock::lock;
use causeway_os::memory::Access;

use crate::connection::Membership;
use crate::error::{Error, Result};
use crate::log::mapped::MappedLog;
use crate::request::Request;
use crate::wire::{Op, answer, from_halves, take_fds, tell};

/// The logs that are mapped for one publisher, and the connection on which they come.
#[derive(Debug)]
pub struct NextLogs {
    mapped: Arc<Mapped>,
    /// Its end is that of the thread.
    _socket: Membership,
}

#[derive(Debug, Default)]
struct Mapped {
    /// By epoch: at most the newest that has begun, and those after it.
    logs: Mutex<Vec<Arc<MappedLog>>>,
    arrived: Condvar,
}

impl Mapped {
    fn add(&self, log: MappedLog) {
        let mut logs = lock(&self.logs);
        let newest = newest_begun(&logs, 0).map_or(0, |log| log.epoch());
        logs.retain(|log| log.epoch() >= newest);
        logs.push(Arc::new(log));
        self.arrived.notify_all();
    }
}

fn newest_begun(logs: &[Arc<MappedLog>], after: u64) -> Option<Arc<MappedLog>> {
    let begun = logs.iter().filter(|log| log.epoch() > after && log.start().is_some());
    begun.max_by_key(|log| log.epoch()).cloned()
}

impl NextLogs {
    /// Maps what comes on `socket` from now on.
    ///
    /// # Errors
    /// [`Error::Os`] without threads.
    pub fn start(socket: OwnedFd, own: Offer) -> Result<NextLogs> {
        let (mapped, socket) = (Arc::new(Mapped::default()), Arc::new(socket));
        let (shared, connection) = (Arc::clone(&mapped), Arc::clone(&socket));
        crate::reservation::spawn("causeway-map", move || map_all(&shared, &connection, own))
            .context("start", || "the thread that maps logs")?;
        Ok(NextLogs { mapped, _socket: Membership::new(socket) })
    }

    /// The newest log after that of epoch `after`, if it has begun.
    pub fn newest(&self, after: u64) -> Option<Arc<MappedLog>> {
        newest_begun(&lock(&self.mapped.logs), after)
    }

    pub fn has(&self, epoch: u64) -> bool {
        lock(&self.mapped.logs).iter().any(|log| log.epoch() >= epoch)
    }

    /// Waits for the log of this epoch, at most for `timeout`.
    pub fn wait_for(&self, epoch: u64, timeout: Duration) {
        let is_missing = |logs: &mut Vec<Arc<MappedLog>>| logs.iter().all(|log| log.epoch() < epoch);
        drop(self.mapped.arrived.wait_timeout_while(lock(&self.mapped.logs), timeout, is_missing));
    }
}

fn map_all(mapped: &Mapped, socket: &OwnedFd, own: Offer) {
    loop {
        let (message, fds) = match answer(socket, None) {
            Ok(received) => received,
            // What was wrong with one message says nothing of the next.
            Err(Error::Refused(_) | Error::Invalid { .. }) => continue,
            Err(_) => return,
        };
        if message.op != Op::Log {
            continue;
        }
        let epoch = from_halves([message.words[0], message.words[1]]);
        // One that came too late is sealed. The publisher asks for another when it needs one.
        if let Ok(log) = take_fds(fds).and_then(|[log]| MappedLog::open(&log, Access::ReadWrite, own))
            && log.epoch() == epoch
        {
            mapped.add(log);
        }
        if tell(socket, Request::Mapped { epoch }).is_err() {
            return;
        }
    }
}
