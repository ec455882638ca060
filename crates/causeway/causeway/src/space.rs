//! Waiting for space on behalf of every publisher of this process that waits with something else: in a task, or in a loop of descriptors.
//!
//! A full log has no descriptor to wait for, because subscribers must not write to memory that a publisher uses. So one
//! thread sleeps on the cursors of all subscribers that such publishers wait for, however many publishers there are.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use causeway_os::futex;
use causeway_os::futex::wait_any;
use causeway_os::lock::lock;
use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Result};
use crate::log::Memory;
use crate::log::mapped::MappedLog;
use crate::log::pages::SubscriberPage;
use crate::log::wait::{await_space, stop_awaiting_space};

/// What a publisher waits for: the slowest subscriber, if one is in the way, beyond this cursor.
#[derive(Debug)]
pub struct Space {
    pub log: Arc<MappedLog>,
    pub owner: u8,
    /// The page of the slowest subscriber, and its cursor.
    pub on: Option<(Arc<SubscriberPage>, u64)>,
}

/// A wait ends after this time in any case: then the publisher checks deadlines and whether the server lives.
const SLICE: Duration = causeway_waiting::patience::LOOK;
/// The same where the unfinished message of another publisher is in the way, whose end no event announces; and between
/// two looks at the cursors where the kernel cannot wait for several (`futex_waitv`, Linux 5.16).
const SHORT_SLICE: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Entry {
    on: Option<(Arc<SubscriberPage>, u64)>,
    due: Instant,
    waker: Waker,
    is_over: bool,
}

#[derive(Debug)]
struct Waits {
    entries: Option<HashMap<u64, Entry>>,
    next_id: u64,
}

/// `entries` is there once the thread runs.
static WAITS: Mutex<Waits> = Mutex::new(Waits { entries: None, next_id: 0 });
/// Changes with every new entry: the thread sleeps on it too.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// A wait for space. Dropped, it leaves no trace.
#[derive(Debug)]
pub struct SpaceWait {
    id: u64,
    log: Arc<MappedLog>,
    owner: u8,
}

impl SpaceWait {
    /// Announces that the publisher waits. It must try once more after this, and wait only if that fails.
    ///
    /// # Errors
    /// [`Error::Os`] without threads or mappings.
    pub fn start(space: Space, waker: &Waker) -> Result<SpaceWait> {
        await_space(space.log.tail(), space.owner);
        let due = Instant::now() + if space.on.is_some() { SLICE } else { SHORT_SLICE };
        let mut waits = lock(&WAITS);
        waits.next_id += 1;
        let id = waits.next_id;
        let wait = SpaceWait { id, log: space.log, owner: space.owner };
        if waits.entries.is_none() {
            if let Err(error) = crate::reservation::spawn("causeway-space", run) {
                drop(waits); // the drop of `wait` takes the lock
                return Err(Error::os("start", "the thread that waits for space", error));
            }
            waits.entries = Some(HashMap::new());
        }
        let entry = Entry { on: space.on, due, waker: waker.clone(), is_over: false };
        waits.entries.as_mut().map(|entries| entries.insert(id, entry));
        drop(waits);
        CHANGES.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(&CHANGES, 1);
        Ok(wait)
    }

    /// Whether the publisher should try again. If not, `waker` is woken when it should.
    pub fn is_over(&self, waker: &Waker) -> bool {
        let mut waits = lock(&WAITS);
        let entry = waits.entries.as_mut().and_then(|entries| entries.get_mut(&self.id));
        entry.is_none_or(|entry| {
            entry.waker.clone_from(waker);
            entry.is_over
        })
    }
}

impl Drop for SpaceWait {
    fn drop(&mut self) {
        if let Some(entries) = &mut lock(&WAITS).entries {
            entries.remove(&self.id);
        }
        stop_awaiting_space(self.log.tail(), self.owner);
    }
}

/// A descriptor that becomes readable when a publisher should try again, for a loop of `poll` or `epoll` that waits for other things too. Of
/// [`Publisher::notify_space`](crate::Publisher::notify_space). Dropped, it leaves no trace.
#[derive(Debug)]
pub struct SpaceNotice {
    wait: SpaceWait,
    bell: Arc<Bell>,
}

/// An eventfd of this process alone, to which a thread adds one.
#[derive(Debug)]
struct Bell(OwnedFd);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // It does not block, and what is full is readable.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl SpaceNotice {
    /// Announces that the publisher waits.
    ///
    /// # Errors
    /// [`Error::Os`] without descriptors or threads.
    pub(crate) fn start(space: Space) -> Result<SpaceNotice> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::os("make", "a descriptor for space", error))?;
        let bell = Arc::new(Bell(bell));
        let wait = SpaceWait::start(space, &Waker::from(Arc::clone(&bell)))?;
        Ok(SpaceNotice { wait, bell })
    }

    /// Whether the publisher should try again, without asking the kernel.
    pub fn is_due(&self) -> bool {
        self.wait.is_over(&Waker::from(Arc::clone(&self.bell)))
    }
}

impl AsFd for SpaceNotice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.0.as_fd()
    }
}

fn run() {
    loop {
        let changes = CHANGES.load(Ordering::SeqCst);
        let now = Instant::now();
        let (mut cursors, mut wakers, mut due) = (Vec::new(), Vec::new(), None::<Instant>);
        if let Some(entries) = &mut lock(&WAITS).entries {
            for entry in entries.values_mut().filter(|entry| !entry.is_over) {
                let cursor = |page: &SubscriberPage| page.words().cursor.load(Ordering::Acquire);
                let advanced = entry.on.as_ref().is_some_and(|(page, seen)| cursor(page) > *seen);
                if advanced || now >= entry.due {
                    entry.is_over = true;
                    wakers.push(entry.waker.clone());
                    continue;
                }
                due = Some(due.map_or(entry.due, |due| due.min(entry.due)));
                // A cursor that went back is that of a hostile subscriber: sleeping on it would not be one.
                cursors.extend(entry.on.clone().filter(|(page, seen)| cursor(page) == *seen));
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        let words: Vec<_> =
            cursors.iter().map(|(page, seen)| (page.cursor_to_wait_for(), *seen as u32)).collect();
        let left = due.map(|due| due.saturating_duration_since(now));
        if wait_any((&CHANGES, changes), &words, left).is_err() {
            let left = if words.is_empty() { left } else { left.map(|left| left.min(SHORT_SLICE)) };
            let _ = futex::wait(&CHANGES, changes, left);
        }
    }
}
