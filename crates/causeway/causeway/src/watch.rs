//! One thread per process that notices the death of servers and publishers, for subscribers that sleep on a futex and
//! for those that only poll.
//!
//! Neither a futex nor the log shows that every process that could publish is gone; sockets do. The thread sleeps in
//! `epoll_wait` without a timeout, starts with the first subscriber that needs it, and stores what it learns in a word
//! that the subscriber loads when there is no message. Members of the bus have such a thread, too:
//! `connection/watcher.rs` of `causeway-bus`.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use causeway_os::epoll::Token;
use causeway_os::lock::lock;
use causeway_os::{Context, futex};
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::time::Timespec;

use crate::error::Result;
use crate::log::ends::Ends;
use crate::log::pages::SubscriberPage;
use crate::log::wake_word::WakeWord;

/// What the end of a descriptor says.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// The server is gone.
    Server = 1,
    /// The server and all publishers are gone.
    AllPeers = 2,
}

/// How long after a wake-up the thread wakes a subscriber again that still sleeps.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };

/// What the thread and one subscriber share.
#[derive(Debug)]
pub struct Watched {
    wake_word: WakeWord,
    page: Arc<SubscriberPage>,
    /// Bits of [`End`].
    ends: Ends,
}

impl Watched {
    #[inline]
    pub fn server_is_gone(&self) -> bool {
        self.ends.known() != 0
    }

    #[inline]
    pub fn all_peers_gone(&self) -> bool {
        self.ends.known() & End::AllPeers as u32 != 0
    }

    /// What the thread has learned, as a number that changes when it learns more.
    pub fn gone(&self) -> u32 {
        self.ends.known()
    }

    /// What this thread and the subscriber tell each other before it sleeps.
    #[inline]
    pub fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Lets a subscriber that has announced it ([`Ends::announce`]) sleep: whatever the thread learns beyond `seen`
    /// ends the sleep. It does not begin if the thread has learned more already.
    #[inline]
    pub fn sleep<T>(&self, seen: u32, sleep: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<()> {
        self.ends.sleep(seen, sleep).map_or(Ok(()), |slept| slept.map(drop))
    }
}

/// A subscriber's entry in the list of the thread. Dropping it removes the entry.
#[derive(Debug)]
pub struct Watch {
    watcher: Arc<Watcher>,
    watched: Arc<Watched>,
    token: u64,
    /// Shared with the subscriber: they stay open as long as epoll may report them.
    ends: Vec<Arc<OwnedFd>>,
}

#[derive(Debug)]
struct Watcher {
    /// The process whose thread it is: a forked child has no such thread, and shares the epoll instance of its parent.
    process: u32,
    epoll: OwnedFd,
    list: Mutex<(u64, HashMap<u64, Arc<Watched>>)>,
}

impl Watch {
    /// Watches for what says that others are gone: of a socket or pipe [`EventFlags::RDHUP`], of a pidfd
    /// [`EventFlags::IN`].
    pub fn start(
        ends: &[(&Arc<OwnedFd>, EventFlags, End)],
        wake_word: WakeWord,
        page: Arc<SubscriberPage>,
    ) -> Result<Watch> {
        let watcher = Watcher::get()?;
        let watched = Arc::new(Watched { wake_word, page, ends: Ends::default() });
        let mut list = lock(&watcher.list);
        list.0 += 1;
        let token = list.0;
        list.1.insert(token, Arc::clone(&watched));
        drop(list);
        let shared = ends.iter().map(|(end, ..)| Arc::clone(end)).collect();
        let watch = Watch { watcher: Arc::clone(&watcher), watched, token, ends: shared };
        for (end, events, says) in ends {
            let data = Token::new(*says as u8, token).data();
            epoll::add(&watcher.epoll, end, data, *events | EventFlags::ONESHOT)
                .context("watch", || "the process at the other end")?;
        }
        Ok(watch)
    }

    #[inline]
    pub fn watched(&self) -> &Watched {
        &self.watched
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.watcher.process == std::process::id() {
            for end in &self.ends {
                let _ = epoll::delete(&self.watcher.epoll, end);
            }
            lock(&self.watcher.list).1.remove(&self.token);
        }
    }
}

impl Watcher {
    /// The watcher of this process. If it cannot be started (no descriptors, no threads), the next caller tries again.
    fn get() -> Result<Arc<Watcher>> {
        static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);
        let mut present = lock(&WATCHER);
        let process = std::process::id();
        if let Some(watcher) = present.as_ref().filter(|watcher| watcher.process == process) {
            return Ok(Arc::clone(watcher));
        }
        let on = || "the thread that watches servers";
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("start", on)?;
        let watcher = Arc::new(Watcher { process, epoll, list: Mutex::new((0, HashMap::new())) });
        let running = Arc::clone(&watcher);
        crate::reservation::spawn("causeway-watch", move || running.run()).context("start", on)?;
        *present = Some(Arc::clone(&watcher));
        Ok(watcher)
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(16);
        // Those that were told and may sleep nevertheless: at the first call they may not have reached the kernel yet.
        let mut told: Vec<Arc<Watched>> = Vec::new();
        loop {
            events.clear();
            told.retain(|watched| watched.wake());
            let again = (!told.is_empty()).then_some(AGAIN);
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), again.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            for Token { kind: gone, number } in events.iter().map(Token::of) {
                let watched = lock(&self.list).1.get(&number).cloned();
                if let Some(watched) = watched {
                    watched.ends.learn(gone.into());
                    told.push(watched);
                }
            }
        }
    }
}

impl Watched {
    /// Wakes the subscriber if it sleeps. Returns whether it must be woken again later, unless it stores that it is
    /// awake meanwhile: a subscriber's process cannot change the word that the kernel compares.
    fn wake(&self) -> bool {
        let must_wake = self.ends.must_wake();
        if must_wake {
            self.wake_word.wake(u32::MAX);
            let _ = futex::wake(&self.page.words().arm, u32::MAX);
        }
        must_wake
    }
}
