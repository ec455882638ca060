//! One thread of the process watches the control sockets of all its connections: one that sleeps on a futex sees no
//! end. The log has a thread of this kind, too: `watch.rs` of `causeway`.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};

use causeway_os::Context;
use causeway_os::lock::lock;
use rustix::event::epoll;

use crate::error::Result;
use crate::shared::order::OrderLog;

/// What the watcher tells a connection.
#[derive(Debug)]
pub struct Watched {
    key: u64,
    order: Arc<OrderLog>,
    slot: u16,
    /// Whether the authority is gone, or has evicted this connection.
    pub has_ended: AtomicBool,
    /// Rung, too, if the connection sleeps there.
    pub doorbell: OnceLock<OwnedFd>,
}

impl Watched {
    /// The authority is gone, or has evicted this connection: wakes it if it sleeps.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst); // PAIR bus-armed
        let ring = |doorbell: &OwnedFd| _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        self.order.end_sleep(self.slot, || self.doorbell.get().map(ring).is_some());
    }
}

#[derive(Debug)]
struct Watcher {
    /// The process whose thread it is: a forked child has no such thread, and shares the epoll instance of its parent.
    process: u32,
    epoll: OwnedFd,
    /// By keys of which none is used twice: the number of a descriptor is another one's once it is closed.
    watched: Mutex<HashMap<u64, Arc<Watched>>>,
}

static LAST_KEY: AtomicU64 = AtomicU64::new(0);

static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);

/// Watches a control socket until [`forget`].
pub fn watch(socket: &OwnedFd, order: Arc<OrderLog>, slot: u16) -> Result<Arc<Watched>> {
    let key = LAST_KEY.fetch_add(1, Ordering::Relaxed);
    let watched = Watched { key, order, slot, has_ended: AtomicBool::new(false), doorbell: OnceLock::new() };
    let watched = Arc::new(watched);
    let mut global = lock(&WATCHER);
    let process = std::process::id();
    let watcher = match global.as_ref().filter(|watcher| watcher.process == process) {
        Some(watcher) => Arc::clone(watcher),
        None => {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("make", || "an epoll instance")?;
            let watcher = Arc::new(Watcher { process, epoll, watched: Mutex::default() });
            let theirs = Arc::clone(&watcher);
            causeway_os::process::without_signals(|| {
                std::thread::Builder::new().name("causeway-bus".into()).spawn(move || run(&theirs))
            })
            .context("start", || "a thread that watches the bus")?;
            global.insert(watcher).clone()
        }
    };
    drop(global);
    lock(&watcher.watched).insert(key, Arc::clone(&watched));
    // Only the end: packets are read by the connection itself. Once, or an end would be reported for ever.
    let flags = epoll::EventFlags::RDHUP | epoll::EventFlags::ONESHOT;
    epoll::add(&watcher.epoll, socket, epoll::EventData::new_u64(key), flags)
        .context("watch", || "the control socket")?;
    Ok(watched)
}

/// Watches it no longer. To be called before it is closed.
pub fn forget(socket: &OwnedFd, watched: &Watched) {
    let Some(watcher) = lock(&WATCHER).clone() else { return };
    let _ = epoll::delete(&watcher.epoll, socket);
    lock(&watcher.watched).remove(&watched.key);
}

fn run(watcher: &Watcher) {
    let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
    let mut ready = [none; 32];
    loop {
        let count = match epoll::wait(&watcher.epoll, &mut ready[..], None) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        ready[..count].iter().for_each(|event| watcher.end(event.data.u64()));
    }
}

impl Watcher {
    /// Ends the connection of this key, if it is still watched.
    fn end(&self, key: u64) {
        // Under the lock: after `forget` the slot may be another's, and its line is not touched any more.
        if let Some(ended) = lock(&self.watched).get(&key) {
            ended.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The end of one that is forgotten may be on its way to the thread already, when its number is another one's.
    #[test]
    fn an_end_that_comes_late_does_not_end_the_next_connection_with_this_number() {
        let (_fd, order) = OrderLog::create(64, 3).unwrap();
        let order = Arc::new(order);
        let (other, _peer) = UnixStream::pair().unwrap();
        let (first, next) = loop {
            let (socket, _peer) = UnixStream::pair().unwrap();
            let socket = OwnedFd::from(socket);
            let (first, number) = (watch(&socket, Arc::clone(&order), 1).unwrap(), socket.as_raw_fd());
            forget(&socket, &first);
            drop(socket);
            // Another test may take the number.
            let next = rustix::io::fcntl_dupfd_cloexec(&other, number).unwrap();
            if next.as_raw_fd() == number {
                break (first, next);
            }
        };
        let second = watch(&next, order, 1).unwrap();
        let watcher = lock(&WATCHER).clone().unwrap();
        watcher.end(first.key);
        assert!(!second.has_ended.load(Ordering::SeqCst));
        watcher.end(second.key);
        assert!(second.has_ended.load(Ordering::SeqCst));
    }
}
