//! The subscribers of a group, as one publisher knows them: which of them hold space, and which of them to wake.
//!
//! The server announces every subscriber on the publisher's socket and then increments a counter in the status page. A
//! publisher loads that counter after each commit and around each reclaim of space, and reads its socket only when the
//! counter has changed.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::foreign::ForeignSocket;
use crate::log::Gate;
use crate::log::layout::{SUBSCRIBERS_MAX, Tail};
use crate::log::pages::{StatusPage, SubscriberPage};
use crate::log::wait::{WaitingSubscriber, wake_waiters};
use crate::options::Policy;
use crate::subscriber_handle::SubscriberHandle;
use crate::wire::{ANSWER_TIME, FDS_MAX, Incoming, Message, Op, answer, receive};

/// The longest sleep for space. The server wakes publishers when a subscriber dies; this bounds the wait if both die at once.
const SLICE: Duration = Duration::from_millis(100);
/// The same without a server: the publisher itself checks whether the subscriber that it waits for still lives.
const SLICE_WITHOUT_SERVER: Duration = Duration::from_millis(5);

/// A publisher that finds the log full this many times, without waiting, checks once whether the server still lives: one
/// system call.
const FULLS_PER_CHECK: u32 = 16;

/// The subscribers of a group.
#[derive(Debug)]
pub struct SubscriberSet {
    socket: OwnedFd,
    status: StatusPage,
    subscribers: Vec<SubscriberHandle>,
    /// The counter of the status page that `subscribers` corresponds to.
    seen_changes: u64,
    server_gone: bool,
    /// A subscriber joined, and this publisher could not map its page or receive its descriptors: why.
    missed_subscriber: Option<Errno>,
    /// Since when the publisher has been blocked by a full log.
    blocked_since: Option<Instant>,
    /// How often the log was found full; modulo 2³².
    fulls: u32,
}

impl SubscriberSet {
    /// The subscribers that are announced on `socket`, which becomes non-blocking. `present` of them have joined already: a
    /// publisher that began without knowing them all could overwrite what they have not read.
    pub fn new(socket: OwnedFd, status: StatusPage, present: u32) -> Result<SubscriberSet> {
        let mut subscribers = Vec::new();
        for _ in 0..present.min(SUBSCRIBERS_MAX as u32) {
            match answer(&socket, Some(ANSWER_TIME))? {
                (message, fds) if message.op == Op::Joined => subscribers.push(from_notice(message, fds)?),
                (message, _) => {
                    return Err(Error::invalid("notice", format!("{:?} to a publisher", message.op)));
                }
            }
        }
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|error| Error::os("prepare", "a group's socket", error))?;
        Ok(SubscriberSet {
            socket,
            status,
            subscribers,
            seen_changes: 0,
            server_gone: false,
            missed_subscriber: None,
            blocked_since: None,
            fulls: 0,
        })
    }

    /// Whether the process that serves the group is gone, as far as this publisher has noticed.
    pub fn server_is_gone(&mut self) -> bool {
        if !self.server_gone {
            self.refresh();
        }
        self.server_gone
    }

    /// Learns which subscribers joined or left. One load if there was no change.
    #[inline(always)]
    pub fn update(&mut self) {
        if self.status.words().subscriber_changes.load(Ordering::Acquire) != self.seen_changes {
            self.refresh(); // PAIR subscriber-changes
        }
    }

    #[cold]
    fn refresh(&mut self) {
        let changes = self.status.words().subscriber_changes.load(Ordering::SeqCst);
        self.take_notices();
        let alive = &self.status.words().subscribers;
        self.subscribers
            .retain(|subscriber| alive[subscriber.slot].load(Ordering::Acquire) == subscriber.generation);
        self.seen_changes = changes;
    }

    fn take_notices(&mut self) {
        loop {
            match receive(&self.socket, FDS_MAX) {
                Ok(Incoming::Message(message, fds)) if message.op == Op::Joined => {
                    match from_notice(message, fds) {
                        Ok(subscriber) => {
                            self.subscribers.retain(|other| other.slot != subscriber.slot);
                            self.subscribers.push(subscriber);
                        }
                        Err(error) => self.missed_subscriber = Some(errno_of(&error)),
                    }
                }
                Ok(Incoming::Message(..) | Incoming::Malformed) => {}
                Ok(Incoming::Nothing) => return,
                Ok(Incoming::End) => {
                    self.server_gone = true;
                    return;
                }
                Err(error) => {
                    self.missed_subscriber = Some(errno_of(&error));
                    return;
                }
            }
        }
    }

    /// Wakes the subscribers that sleep, after a commit. No system call if none does.
    #[inline(always)]
    pub fn wake(&mut self, tail: &Tail) {
        self.update();
        let woken = wake_waiters(tail, &mut self.subscribers, || {
            let _ = futex::wake(&tail.wake_seq, u32::MAX);
        });
        if woken {
            tail.last_cpu.store(causeway_os::sched::current_cpu() + 1, Ordering::Relaxed);
        }
    }

    /// Fails if this publisher missed a subscriber, for lack of descriptors or memory. It could overwrite what that
    /// subscriber has not read, and would not wake it. So it leaves the group, and the server wakes all subscribers. To be
    /// called without a claim or a lock.
    #[inline(always)]
    pub fn check_complete(&self) -> Result<()> {
        match self.missed_subscriber {
            None => Ok(()),
            Some(errno) => Err(self.leave(errno)),
        }
    }

    #[cold]
    fn leave(&self, errno: Errno) -> Error {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        Error::os(
            "map the page of",
            "a new subscriber, so that this publisher has left the group (make a new publisher)",
            errno,
        )
    }

    /// Space was found: no subscriber blocks this publisher.
    #[inline(always)]
    pub fn clear_blocked(&mut self) {
        self.blocked_since = None;
    }

    /// Index and cursor of the subscriber furthest behind among those that hold space.
    fn slowest_index(&mut self, tail: &Tail) -> Option<(usize, u64)> {
        (0..self.subscribers.len())
            .filter_map(|index| self.subscribers[index].holds_space_from(tail).map(|cursor| (index, cursor)))
            .min_by_key(|(_, cursor)| *cursor)
    }

    /// Demotes the slowest subscriber if it has missed its deadline: publishers stop waiting for it. Returns whether it did.
    /// To be called each time the log is found full.
    pub fn demote_overdue(&mut self, tail: &Tail) -> bool {
        let since = *self.blocked_since.get_or_insert_with(Instant::now);
        let Some((index, _)) = self.slowest_index(tail) else { return false };
        let subscriber = &self.subscribers[index];
        if subscriber.policy.deadline().is_some_and(|deadline| since.elapsed() >= deadline) {
            tail.demoted[subscriber.slot].store(subscriber.generation, Ordering::Release);
            return true;
        }
        false
    }

    /// Removes subscribers that have died, if the server is gone. Checks that on some of the calls only: it is for a
    /// publisher that finds the log full and tries again without waiting. Returns whether it removed one.
    pub fn remove_dead_slowest(&mut self) -> bool {
        self.fulls = self.fulls.wrapping_add(1);
        if !self.fulls.is_multiple_of(FULLS_PER_CHECK) || !self.server_is_gone() {
            return false;
        }
        let before = self.subscribers.len();
        self.remove_dead();
        self.subscribers.len() != before
    }

    /// Sleeps until the slowest subscriber advances, dies or misses its deadline, or until `deadline`. Before that the
    /// publisher has announced that it waits for space ([`await_space`](crate::log::wait::await_space)) and tried again.
    pub fn sleep_until_space(
        &mut self,
        slowest: Option<(usize, u64)>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let mut slice = if self.server_is_gone() { SLICE_WITHOUT_SERVER } else { SLICE };
        let subscriber =
            slowest.and_then(|(slot, _)| self.subscribers.iter().find(|subscriber| subscriber.slot == slot));
        let (Some(subscriber), Some((_, cursor))) = (subscriber, slowest) else {
            // The unfinished frame of another publisher blocks the log, and no event announces its end; or the subscriber
            // left just now.
            std::thread::sleep(Duration::from_micros(50));
            return Ok(());
        };
        let now = Instant::now();
        if let (Some(own_deadline), Some(since)) = (subscriber.policy.deadline(), self.blocked_since) {
            slice = slice.min((since + own_deadline).saturating_duration_since(now));
        }
        if let Some(deadline) = deadline {
            slice = slice.min(deadline.saturating_duration_since(now));
        }
        // The cursor in the page is below the highest one seen only if the subscriber is hostile; then the slice ends this.
        let _ = subscriber
            .page
            .cursor_to_wait_for()
            .wait(cursor as u32, Some(slice))
            .map_err(|error| Error::os("wait for", "space in a log", error))?;
        if self.server_gone {
            self.remove_dead();
        }
        Ok(())
    }

    /// Slot and cursor of the subscriber furthest behind among those that hold space.
    pub fn slowest(&mut self, tail: &Tail) -> Option<(usize, u64)> {
        self.update();
        self.slowest_index(tail).map(|(index, cursor)| (self.subscribers[index].slot, cursor))
    }

    /// The page of the subscriber in `slot`.
    #[cfg(feature = "tokio")]
    pub fn page_of(&self, slot: usize) -> Option<Arc<SubscriberPage>> {
        self.subscribers
            .iter()
            .find(|subscriber| subscriber.slot == slot)
            .map(|subscriber| Arc::clone(&subscriber.page))
    }

    /// Removes subscribers whose end of the doorbell is closed. Without a server no other process does.
    fn remove_dead(&mut self) {
        use rustix::event::{PollFd, PollFlags};
        self.subscribers.retain(|subscriber| {
            let mut doorbell = [PollFd::new(&subscriber.doorbell, PollFlags::empty())];
            let polled = rustix::event::poll(&mut doorbell, Some(&rustix::time::Timespec::default()));
            !(polled.is_ok() && doorbell[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
        });
    }

    /// The gate for reclaiming space.
    #[inline(always)]
    pub fn gate<'a>(&'a mut self, tail: &'a Tail) -> SubscriberGate<'a> {
        SubscriberGate { set: self, tail }
    }
}

impl SubscriberHandle {
    /// Its cursor if publishers wait for it; never lower than before, whatever the subscriber writes.
    fn holds_space_from(&mut self, tail: &Tail) -> Option<u64> {
        let demoted = tail.demoted[self.slot].load(Ordering::Acquire) == self.generation;
        if !self.policy.holds_space() || demoted {
            return None;
        }
        self.seen_cursor = self.seen_cursor.max(self.words().cursor.load(Ordering::Acquire)); // PAIR cursor
        Some(self.seen_cursor)
    }
}

/// The subscribers as [`Gate`].
#[derive(Debug)]
pub struct SubscriberGate<'a> {
    set: &'a mut SubscriberSet,
    tail: &'a Tail,
}

impl Gate for SubscriberGate<'_> {
    fn subscriber_changes(&mut self) -> u64 {
        self.set.update();
        self.set.seen_changes
    }

    fn lowest(&mut self) -> u64 {
        if self.set.missed_subscriber.is_some() {
            return 0;
        }
        self.set.slowest_index(self.tail).map_or(u64::MAX, |(_, cursor)| cursor)
    }
}

/// The error number of the kernel; `EINVAL` for errors of another origin.
fn errno_of(error: &Error) -> Errno {
    match error {
        Error::Os(error) => error.raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error),
        _ => Errno::INVAL,
    }
}

/// The subscriber that a notice announces.
fn from_notice(message: Message, fds: Vec<OwnedFd>) -> Result<SubscriberHandle> {
    let [page, doorbell] = crate::wire::take_fds(fds)?;
    let [slot, generation, kind, deadline, ..] = message.words;
    let policy =
        Policy::from_words([kind, deadline]).ok_or_else(|| Error::invalid("notice", "unknown policy"))?;
    if slot as usize >= SUBSCRIBERS_MAX {
        return Err(Error::invalid("notice", format!("slot {slot}")));
    }
    let page = Arc::new(SubscriberPage::open(&page)?);
    Ok(SubscriberHandle {
        slot: slot as usize,
        generation,
        policy,
        page,
        doorbell: ForeignSocket::new(doorbell),
        seen_cursor: 0,
        notified: 0,
    })
}
