//! One thread per process that notices the death of servers, for receivers that sleep on a futex.
//!
//! A futex does not say that everybody who could wake it is gone; a socket does. The thread sleeps in `epoll_wait`
//! without a time-out and starts with the first receiver that needs it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use causeway_os::futex;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::error::{Error, Result};
use crate::log::Memory;
use crate::log::mapped::MappedLog;

/// What the thread and one receiver share.
#[derive(Debug)]
pub struct Watched {
    log: Arc<MappedLog>,
    gone: AtomicBool,
    sleeping: AtomicBool,
}

impl Watched {
    /// Whether the server is gone.
    pub fn server_is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Brackets a sleep on the log's futex: between the two calls the thread sees to it that the death of the server
    /// ends the sleep. After `true` the caller must ask [`Watched::server_is_gone`] before it sleeps.
    pub fn set_sleeping(&self, sleeping: bool) {
        self.sleeping.store(sleeping, Ordering::SeqCst);
    }
}

/// A receiver's place in the list of the thread. Ends with its drop.
#[derive(Debug)]
pub struct Watch {
    watched: Arc<Watched>,
    token: u64,
    /// A second descriptor of the receiver's socket, which stays open as long as epoll may report it.
    socket: OwnedFd,
}

#[derive(Debug)]
struct Watcher {
    epoll: OwnedFd,
    list: Mutex<(u64, HashMap<u64, Arc<Watched>>)>,
}

impl Watch {
    /// Watches the server at the other end of `socket` for a receiver of `log`.
    pub fn start(socket: &OwnedFd, log: Arc<MappedLog>) -> Result<Watch> {
        let watcher = Watcher::get()?;
        let failed = |error: std::io::Error| Error::os("watch", "the server of a group", error);
        let socket = socket.try_clone().map_err(failed)?;
        let watched =
            Arc::new(Watched { log, gone: AtomicBool::new(false), sleeping: AtomicBool::new(false) });
        let mut list = watcher.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.0 += 1;
        let token = list.0;
        list.1.insert(token, Arc::clone(&watched));
        drop(list);
        let watch = Watch { watched, token, socket };
        epoll::add(
            &watcher.epoll,
            &watch.socket,
            EventData::new_u64(token),
            EventFlags::RDHUP | EventFlags::ONESHOT,
        )
        .map_err(|error| failed(error.into()))?;
        Ok(watch)
    }

    /// What the thread found out.
    pub fn watched(&self) -> &Watched {
        &self.watched
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(watcher) = Watcher::get() {
            let _ = epoll::delete(&watcher.epoll, &self.socket);
            watcher.list.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.token);
        }
    }
}

impl Watcher {
    /// The watcher of this process. If it cannot be started (no descriptors, no threads), the next caller tries again.
    fn get() -> Result<&'static Watcher> {
        static WATCHER: OnceLock<Watcher> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        if let Some(watcher) = WATCHER.get() {
            return Ok(watcher);
        }
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if WATCHER.get().is_none() {
            let failed = |error: std::io::Error| Error::os("start", "the thread that watches servers", error);
            let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
            let running = epoll.try_clone().map_err(failed)?;
            std::thread::Builder::new()
                .name("causeway-watch".into())
                .spawn(move || Watcher::run(&running))
                .map_err(failed)?;
            return Ok(WATCHER.get_or_init(|| Watcher { epoll, list: Mutex::new((0, HashMap::new())) }));
        }
        Watcher::get()
    }

    fn run(epoll: &OwnedFd) {
        let mut events = Vec::with_capacity(16);
        loop {
            events.clear();
            match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let Ok(watcher) = Watcher::get() else { return };
            for event in &events {
                let token = event.data.u64();
                let watched =
                    watcher.list.lock().unwrap_or_else(PoisonError::into_inner).1.get(&token).cloned();
                if let Some(watched) = watched {
                    watched.gone.store(true, Ordering::SeqCst);
                    watched.rouse();
                    watcher.list.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&token);
                }
            }
        }
    }
}

impl Watched {
    /// Wakes the sleeper until it says that it is awake: it may have been on its way into the kernel at the first try,
    /// and the word that it compares is not ours to change.
    fn rouse(&self) {
        while self.sleeping.load(Ordering::SeqCst) {
            let _ = futex::wake(&self.log.tail().wake_seq, u32::MAX);
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
