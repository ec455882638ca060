//! One subscriber as publishers and the server see it: its page, its doorbell, and how long it may hold space.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_os::futex;
use causeway_waiting::patience::Owed;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::connection::is_hung_up;
use crate::error::{Error, errno};
use crate::foreign::ForeignSocket;
use crate::log::layout::{SubscriberWords, Tail};
use crate::log::pages::SubscriberPage;
use crate::log::wait::{Notes, WaitingSubscriber};
use crate::options::Policy;
use crate::request::Request;
use crate::wire::tell;

#[derive(Debug)]
pub struct SubscriberHandle {
    pub slot: usize,
    /// Counts the subscribers that have used the slot.
    pub generation: u32,
    pub policy: Policy,
    pub page: Arc<SubscriberPage>,
    /// Our end of its doorbell; a publisher fetches it when it needs it first. A socket, not an eventfd: sending with
    /// MSG_DONTWAIT cannot block, whatever the subscriber does with its end, whereas an eventfd blocks its writers when
    /// a holder fills it and makes it blocking.
    pub doorbell: Option<ForeignSocket>,
    /// A publisher's connection to the server, which rings doorbells for it.
    server: Option<Arc<OwnedFd>>,
    /// The doorbell was needed and was not there.
    pub lacks_doorbell: bool,
    /// Whether the subscriber has found its place in the log. Known to the server only.
    pub placed: bool,
    /// The log that it was given last, and messages up to the end of that once it was dropped. Known to the server
    /// only.
    pub epoch: u64,
    /// See `epoch`.
    pub messages_through: u64,
    /// The highest cursor seen: a cursor that decreases is ignored.
    pub seen_cursor: u64,
    /// For which of its waits this process has notified it.
    pub notes: Notes,
    /// How long it has kept this publisher waiting.
    pub stall: Stall,
}

/// How long a subscriber has kept one publisher waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stall {
    owed: Owed,
    /// When it began to owe something, in nanoseconds of `CLOCK_MONOTONIC`.
    pub since_ns: u64,
    /// The mark of the log when it was last in the way: a position, and the messages before it.
    mark: (u64, u64),
}

impl Stall {
    /// It has been waited for, for so many nanoseconds.
    pub fn add(&mut self, ns: u64) {
        self.owed.wait(ns);
    }

    /// It is in the way of the publisher at this moment, and the log has this mark: nobody passes it before this
    /// subscriber.
    pub fn note_blocking(&mut self, mark: (u64, u64), now_ns: u64) {
        let (bytes, messages) = (mark.0.saturating_sub(self.mark.0), mark.1.saturating_sub(self.mark.1));
        self.owed.pass(messages, bytes);
        self.mark = mark;
        if self.owed.is_none() {
            self.since_ns = now_ns;
        }
    }
}

impl SubscriberHandle {
    /// A subscriber that has just joined, rung by `doorbell` or through `server`.
    pub fn new(
        slot: usize,
        generation: u32,
        policy: Policy,
        page: Arc<SubscriberPage>,
        doorbell: Option<ForeignSocket>,
        server: Option<Arc<OwnedFd>>,
    ) -> SubscriberHandle {
        SubscriberHandle {
            slot,
            generation,
            policy,
            page,
            doorbell,
            server,
            lacks_doorbell: false,
            placed: false,
            epoch: 0,
            messages_through: 0,
            seen_cursor: 0,
            notes: Notes::default(),
            stall: Stall::default(),
        }
    }

    /// The highest position up to which it has said that it received; never lower than before, whatever it writes.
    #[inline(always)]
    pub fn highest_cursor(&mut self) -> u64 {
        self.seen_cursor = self.seen_cursor.max(self.words().cursor.load(Ordering::Acquire)); // PAIR cursor
        self.seen_cursor
    }

    /// Its cursor if publishers wait for it; never lower than before, whatever the subscriber writes.
    pub fn holds_space_from(&mut self, tail: &Tail) -> Option<u64> {
        let demoted = tail.demoted[self.slot].load(Ordering::Acquire) == self.generation;
        if !self.policy.holds_space() || demoted {
            return None;
        }
        Some(self.highest_cursor())
    }

    /// Whether it has kept this publisher waiting for longer than its policy allows.
    pub fn is_overdue(&self) -> bool {
        self.policy.deadline().is_some_and(|deadline| self.stall.owed.exceeds(deadline))
    }

    /// Whether its process is dead, as far as that can be seen without the server.
    pub fn is_dead(&self) -> bool {
        self.doorbell.as_ref().is_some_and(is_hung_up)
            || process_is_gone(self.words().process.load(Ordering::Relaxed))
    }
}

/// How a subscriber names its process in its page: its number, and the PID namespace in which it has that number.
pub fn own_process() -> u64 {
    match std::fs::metadata("/proc/self/ns/pid") {
        Ok(namespace) => (namespace.ino() << 32) | u64::from(std::process::id()),
        Err(_) => 0,
    }
}

/// Whether this process is gone, if it is of our PID namespace.
fn process_is_gone(process: u64) -> bool {
    if process == 0 || process >> 32 != own_process() >> 32 {
        return false;
    }
    match causeway_os::process::pidfd_open(process as u32) {
        // A pidfd is readable when its process has ended.
        Ok(pidfd) => {
            causeway_os::process::poll(&[pidfd.as_fd()], Some(Duration::ZERO)).is_ok_and(|ended| ended[0])
        }
        Err(error) => errno(&error) == Some(Errno::SRCH),
    }
}

impl WaitingSubscriber for SubscriberHandle {
    #[inline(always)]
    fn words(&self) -> &SubscriberWords {
        self.page.words()
    }

    fn ring_doorbell(&mut self) -> bool {
        let Some(doorbell) = &self.doorbell else {
            self.lacks_doorbell = true;
            return self.server.as_ref().is_some_and(|server| ask_to_wake(server));
        };
        // A full buffer is readable already, and behind a closed socket no process is left.
        !matches!(
            rustix::net::send(doorbell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Err(Errno::NOMEM | Errno::NOBUFS | Errno::INTR)
        )
    }

    fn wake_own_futex(&mut self) -> bool {
        futex::wake(&self.words().arm, u32::MAX).is_ok()
    }

    #[inline(always)]
    fn notes(&mut self) -> &mut Notes {
        &mut self.notes
    }
}

/// Asks the server to wake the subscribers that sleep. Returns whether it will: a full queue holds requests like this
/// one, and the server will look after it has read them.
pub fn ask_to_wake(server: &OwnedFd) -> bool {
    matches!(tell(server, Request::Wake), Ok(()) | Err(Error::NoAnswer))
}
