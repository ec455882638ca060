//! How a subscriber waits: it polls for a while, then sleeps on the futex that all share or on a descriptor of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use causeway_os::process::poll;
use causeway_os::{Context, clock, futex};
use causeway_waiting::polling::{Pollable, Polling};
use rustix::net::{AddressFamily, RecvFlags, SocketType, sockopt};

use super::Subscriber;
use crate::error::{Error, Result};
use crate::log::Memory;
use crate::log::wait::{Armed, WaitTarget};
use crate::spin::{self, Spin};
use crate::trust::Trust;

/// How a wait ended. Both are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Waited {
    /// The next [`Subscriber::try_recv`] returns a message or a loss.
    Ready,
    /// The timeout has passed.
    TimedOut,
}

/// Reads that empty a full doorbell: a notification is one byte, and takes some hundred of the 208 KiB that the buffer
/// of a socket usually has. What is left after them makes one wait end early.
pub(crate) const DRAIN_READS_MAX: usize = 4096;

/// How long the kernel may take from closing one descriptor of a process that ends to closing the next.
const EXIT_TIME: Duration = Duration::from_millis(50);

/// Polls of [`Subscriber::spin`] between two reads of the clock.
const POLLS_PER_CLOCK_READ: u32 = 64;

impl Subscriber {
    /// Waits for a message without ever sleeping, at most for `timeout`: for a thread that has a CPU to itself.
    ///
    /// Call it before [`Subscriber::try_recv`], not after an empty one: a poll for a message that is not there yet
    /// delays its publication, and this call knows when to take the first one. Fails as [`Subscriber::recv`].
    #[inline]
    pub fn spin(&mut self, timeout: Option<Duration>) -> Result<Waited> {
        let pauses = self.pace.pauses();
        (0..pauses).for_each(|_| std::hint::spin_loop());
        let found = self.is_ready()?;
        self.pace.polled(pauses, found);
        if found {
            return Ok(Waited::Ready);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            for _ in 0..POLLS_PER_CLOCK_READ {
                std::hint::spin_loop();
                if self.is_ready()? {
                    return Ok(Waited::Ready);
                }
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Waited::TimedOut);
            }
        }
    }

    /// Waits for a message or a loss, at most for `timeout`: polls for a while, then sleeps on a futex. Consumes
    /// nothing; for a loop that then calls [`Subscriber::try_recv`] or [`Subscriber::try_recv_in_place`]. As
    /// [`Subscriber::spin`], it knows when to take the first look: call it before the receive.
    ///
    /// # Errors
    /// As [`Subscriber::recv`]. A subscriber that waits is told that the publishers are gone even if they were killed.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Waited> {
        if self.first_poll()? {
            return Ok(Waited::Ready);
        }
        if !self.spin.look_where(self.log.tail().last_cpu.load(Ordering::Relaxed)) {
            let now = |timeout| Instant::now().checked_add(timeout);
            return self.sleep_until(timeout.and_then(now));
        }
        let start_ns = clock::monotonic_ns();
        let timeout_ns =
            timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        if spin::poll(self, start_ns, start_ns.saturating_add(timeout_ns))? {
            return Ok(Waited::Ready);
        }
        let polled = Duration::from_nanos(clock::monotonic_ns().saturating_sub(start_ns));
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout.saturating_sub(polled)));
        let waited = self.sleep_until(deadline);
        spin::slept(self, start_ns);
        waited
    }

    /// The first poll of a wait, at the moment that the waits before it have shown to be right.
    #[inline]
    fn first_poll(&mut self) -> Result<bool> {
        if !self.spin.may_poll() {
            // If it can, at the log alone: whether the group has ended is asked before the sleep.
            return if self.needs_care {
                self.poll_ready()
            } else {
                Ok(self.reader.is_ready() == Some(true))
            };
        }
        let pauses = self.pace.pauses();
        (0..pauses).for_each(|_| std::hint::spin_loop());
        let found = self.poll_ready()?;
        self.pace.polled(pauses, found);
        Ok(found)
    }

    fn sleep_until(&mut self, deadline: Option<Instant>) -> Result<Waited> {
        loop {
            self.check_deadline()?;
            self.find_demotion();
            // A doorbell that is closed is rung no more.
            let target = if self.doorbell_closed { futex_of(self.trust) } else { self.wait_target };
            if target != WaitTarget::Doorbell && self.watch.is_none() {
                self.start_watch()?;
            }
            // Before the log is checked, which takes account of it.
            let seen = match &self.watch {
                Some(watch) if target != WaitTarget::Doorbell => {
                    let seen = watch.watched().gone();
                    watch.watched().ends().announce(seen);
                    seen
                }
                _ => 0,
            };
            let epoch = self.log.epoch();
            let armed = self.waiter.arm(&self.wake_word, self.page.words(), target);
            let ready = self.poll_ready();
            // A wait that was announced in one log does not hold in the next, which may have another wake word.
            let may_sleep = self.log.epoch() == epoch;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let slept = match ready {
                Ok(false) if may_sleep && left.is_none_or(|left| !left.is_zero()) => {
                    self.sleep(target, armed, left, seen)
                }
                _ => {
                    self.watch.iter().for_each(|watch| watch.watched().ends().awake());
                    Ok(())
                }
            };
            self.waiter.disarm(self.page.words());
            slept?;
            if ready? || self.poll_ready()? {
                return Ok(Waited::Ready);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Waited::TimedOut);
            }
        }
    }

    fn sleep(&mut self, target: WaitTarget, armed: Armed, left: Option<Duration>, seen: u32) -> Result<()> {
        match (target, &self.watch) {
            (WaitTarget::SharedFutex | WaitTarget::OwnFutex, Some(watch)) => {
                let word = &*self.wake_word;
                let slept = watch.watched().sleep(seen, || {
                    if target == WaitTarget::OwnFutex {
                        let own = (&*self.page.words().arm, armed.arm);
                        return futex::wait_and_compare(own, (word, armed.wake_seq), left);
                    }
                    match self.page.words().topics.load(Ordering::Relaxed) as u32 {
                        0 => futex::wait(word, armed.wake_seq, left),
                        filter => futex::wait_bitset(word, armed.wake_seq, left, filter),
                    }
                });
                Ok(slept.context("wait for", || "a message")?)
            }
            _ => {
                if poll(&[self.doorbell.as_fd()], left)?[0] {
                    self.drain_doorbell();
                }
                Ok(())
            }
        }
    }

    /// Empties the doorbell, with a bounded number of reads: a hostile process may fill it all the time.
    fn drain_doorbell(&mut self) {
        let mut notifications = [0; 64];
        for _ in 0..DRAIN_READS_MAX {
            match rustix::net::recv(&self.doorbell, &mut notifications[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return self.note_closed_doorbell(),
                Ok((_, length)) if length == notifications.len() => {}
                Err(rustix::io::Errno::CONNRESET) => return self.note_closed_doorbell(),
                _ => return,
            }
        }
    }

    /// Nobody can ring any more. When all processes of the group end at once, their ends of the lifeline close too.
    #[cold]
    fn note_closed_doorbell(&mut self) {
        let first = !std::mem::replace(&mut self.doorbell_closed, true);
        let time = if first { EXIT_TIME } else { Duration::ZERO };
        self.lifeline_closed |= poll(&[self.lifeline.as_fd()], Some(time)).is_ok_and(|closed| closed[0]);
    }

    /// Prepares a wait in an event loop: after `Ok(true)` the next message makes [`Subscriber::as_fd`] readable.
    ///
    /// After `Ok(false)` there is something to receive already: do not wait. Call this before every wait, level- or
    /// edge-triggered; it also drains the descriptor. It takes two system calls less than a sleep.
    ///
    /// The descriptor also becomes readable (and hung up) when the last publisher leaves or is killed.
    ///
    /// # Errors
    /// As [`Subscriber::recv`]: whichever call comes next reports the end of the group. [`Error::ServerGone`] when the
    /// server is gone and no publisher can ring this descriptor, although some live: use [`Subscriber::wait`] instead.
    ///
    /// ```
    /// # use causeway::{Group, GroupOptions, Policy, Received, TryRecvError};
    /// # use std::os::fd::AsFd;
    /// # let group = Group::create("prices", GroupOptions::new())?;
    /// # let mut publisher = group.publisher()?;
    /// let mut subscriber = group.subscribe(Policy::Reliable)?;
    /// # publisher.publish(b"42.17")?;
    /// loop {
    ///     match subscriber.try_recv() {
    ///         Ok(Received::Message(message)) => assert_eq!(message.bytes, b"42.17"),
    ///         Ok(Received::Lost { messages, .. }) => eprintln!("{messages} messages lost"),
    ///         Ok(Received::Demoted) => eprintln!("publishers no longer wait"),
    ///         Err(TryRecvError::Empty) => {
    ///             if subscriber.arm()? {
    ///                 // … poll(subscriber.as_fd()) together with other descriptors …
    ///                 # break;
    ///             }
    ///         }
    ///         Err(TryRecvError::Disconnected) => break,
    ///         Err(TryRecvError::Failed(error)) => return Err(error),
    ///     }
    /// }
    /// # Ok::<(), causeway::Error>(())
    /// ```
    pub fn arm(&mut self) -> Result<bool> {
        self.find_demotion();
        if self.poll_ready()? {
            return Ok(false);
        }
        self.drain_doorbell();
        if self.doorbell_closed {
            return match self.poll_ready() {
                Ok(false) => Err(Error::ServerGone),
                ready => ready.map(|_| false),
            };
        }
        let _ = self.waiter.arm(&self.wake_word, self.page.words(), WaitTarget::Doorbell);
        if self.poll_ready()? {
            self.waiter.disarm(self.page.words());
            return Ok(false);
        }
        Ok(true)
    }

    /// Reverts [`Subscriber::arm`], after a wait that ended for another reason. Without it, one publisher makes one
    /// system call that wakes no process.
    pub fn disarm(&mut self) {
        self.waiter.disarm(self.page.words());
    }

    /// Sets how long [`Subscriber::wait`] and [`Subscriber::recv`] poll before they sleep, at most. Zero sleeps at
    /// once; the default is 50 µs. They poll for less where that finds nothing, and the time in which others have the
    /// CPU does not count, up to three times as long in all.
    pub fn spin_at_most(&mut self, longest: Duration) {
        self.spin = Spin::up_to(longest);
    }

    /// Whether [`Subscriber::wait`] sleeps on this subscriber's own descriptor (`true`) or on a futex (`false`, the
    /// default; see [`Trust`](crate::Trust)): for measurements, and for sandboxes that forbid futexes on shared memory.
    pub fn sleep_on_descriptor(&mut self, own: bool) {
        self.wait_target = if own { WaitTarget::Doorbell } else { futex_of(self.trust) };
    }
}

impl Pollable for Subscriber {
    type Error = Error;

    #[inline(always)]
    fn polling(&mut self) -> &mut Polling {
        self.spin.polling()
    }

    #[inline(always)]
    fn is_over(&mut self) -> Result<bool> {
        self.poll_ready()
    }
}

/// The descriptor to wait for in epoll, tokio or another event loop, after [`Subscriber::arm`]. Do not read from it.
impl AsFd for Subscriber {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

/// Where a subscriber of such a group sleeps.
pub(super) fn futex_of(trust: Trust) -> WaitTarget {
    match trust {
        Trust::SameUser => WaitTarget::SharedFutex,
        Trust::Strangers if compares_a_second_word() => WaitTarget::OwnFutex,
        Trust::Strangers => WaitTarget::Doorbell,
    }
}

/// Whether this kernel has, and this process may use, [`futex::wait_and_compare`].
fn compares_a_second_word() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        futex::wait_and_compare((&words[0], 0), (&words[1], 1), None).is_ok()
    })
}

/// Rejects a doorbell of another type, which could make every wait return at once.
pub(crate) fn check_doorbell(doorbell: &OwnedFd) -> Result<()> {
    let kind = sockopt::socket_type(doorbell).ok().zip(sockopt::socket_domain(doorbell).ok());
    if kind == Some((SocketType::STREAM, AddressFamily::UNIX)) {
        return Ok(());
    }
    Err(Error::invalid("doorbell descriptor", "it is not a Unix stream socket"))
}

/// Rejects a lifeline of another type, which could end the group for this subscriber at once.
pub(super) fn check_lifeline(lifeline: &OwnedFd) -> Result<()> {
    let is_pipe = rustix::fs::fstat(lifeline)
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Fifo);
    if is_pipe { Ok(()) } else { Err(Error::invalid("lifeline descriptor", "it is not a pipe")) }
}
