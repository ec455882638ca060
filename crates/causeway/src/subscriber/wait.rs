//! How a receiver waits: it looks for a while, then sleeps on the futex that all share or on a descriptor of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use causeway_os::process::poll;
use rustix::net::{AddressFamily, RecvFlags, SocketType, sockopt};

use super::{LOOKS, Subscriber};
use crate::error::{Error, Result};
use crate::log::Memory;
use crate::log::sleep::Bed;
use crate::spin::Spin;
use crate::watch::Watch;

/// How a wait ended. Both are normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Waited {
    /// The next [`Subscriber::receive`] has something to say.
    Ready,
    /// The time is over.
    TimedOut,
}

/// So many reads empty a doorbell that is full: a ring is one byte, and takes some hundred of the 208 KiB that the buffer of
/// a socket usually has. What is left after them costs a wait that ends early, and nothing else.
pub(crate) const HUSH_READS: usize = 4096;

impl Subscriber {
    /// Waits for something to receive without ever sleeping, for a thread that has a CPU to itself. At most for `timeout`;
    /// without one, until a message comes or nobody is left who could send one.
    ///
    /// Call it before [`Subscriber::receive`], and not after one that found nothing: whoever looks at a message that is
    /// not there yet makes its publication slower, and this knows when not to look.
    ///
    /// # Errors
    /// As [`Subscriber::receive`].
    #[inline]
    pub fn spin(&mut self, timeout: Option<Duration>) -> Result<Waited> {
        let pauses = self.pace.pauses();
        for _ in 0..pauses {
            std::hint::spin_loop();
        }
        let found = self.is_ready()?;
        self.pace.looked(pauses, found);
        if found {
            return Ok(Waited::Ready);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            for _ in 0..LOOKS {
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

    /// Waits for something to receive: looks for a while, then sleeps on a futex. At most for `timeout`; without one,
    /// until a message comes or nobody is left who could send one.
    ///
    /// # Errors
    /// As [`Subscriber::receive`]: it is here that a receiver which waits is told that the publishers are gone, also
    /// when they were killed.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Waited> {
        if self.ready()? {
            return Ok(Waited::Ready);
        }
        let start = Instant::now();
        let deadline = timeout.and_then(|timeout| start.checked_add(timeout));
        let budget = self.spin.budget(self.log.tail().last_cpu.load(Ordering::Relaxed));
        let budget = timeout.map_or(budget, |timeout| budget.min(timeout));
        if self.look_for(start, budget)? {
            self.spin.looking_was_enough();
            return Ok(Waited::Ready);
        }
        let waited = self.sleep_until(deadline);
        self.spin.slept(start.elapsed());
        waited
    }

    /// Looks again and again, for `budget`.
    fn look_for(&mut self, start: Instant, budget: Duration) -> Result<bool> {
        if budget.is_zero() {
            return Ok(false);
        }
        loop {
            for _ in 0..32 {
                if self.ready()? {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= budget {
                return Ok(false);
            }
        }
    }

    fn sleep_until(&mut self, deadline: Option<Instant>) -> Result<Waited> {
        loop {
            let bed = if self.server_is_gone() { Bed::Doorbell } else { self.bed };
            if bed == Bed::Futex && self.watch.is_none() {
                self.watch = Some(Watch::start(&self.socket, &self.bell, Arc::clone(&self.log))?);
            }
            let armed = self.sleeper.arm(self.log.tail(), self.page.words(), bed);
            let ready = self.ready();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let slept = match ready {
                Ok(false) if left.is_none_or(|left| !left.is_zero()) => self.sleep(bed, armed.0, left),
                _ => Ok(()),
            };
            self.sleeper.disarm(self.page.words());
            slept?;
            if ready? || self.ready()? {
                return Ok(Waited::Ready);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Waited::TimedOut);
            }
        }
    }

    fn sleep(&mut self, bed: Bed, wake_seq: u32, left: Option<Duration>) -> Result<()> {
        match (bed, &self.watch) {
            (Bed::Futex, Some(watch)) => {
                let watched = watch.watched();
                watched.set_sleeping(true);
                let slept = match watched.server_is_gone() {
                    true => Ok(()),
                    false => futex::wait(&self.log.tail().wake_seq, wake_seq, left).map(drop),
                };
                watched.set_sleeping(false);
                slept.map_err(|error| Error::os("wait for", "a message", error))
            }
            _ => {
                if poll(&[self.bell.as_fd()], left)?[0] {
                    self.hush();
                }
                Ok(())
            }
        }
    }

    /// Empties the doorbell, as far as that can be done: somebody may fill it all the time.
    fn hush(&mut self) {
        let mut rings = [0; 64];
        for _ in 0..HUSH_READS {
            match rustix::net::recv(&*self.bell, &mut rings[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => {
                    self.alone = true;
                    return;
                }
                Ok((_, length)) if length == rings.len() => {}
                Err(rustix::io::Errno::CONNRESET) => {
                    self.alone = true;
                    return;
                }
                _ => return,
            }
        }
    }

    /// Prepares to wait in somebody else's loop: from now on the next message makes [`Subscriber::as_fd`] readable.
    ///
    /// Returns `false` if there is something to receive already: then do not wait. Call it each time before going to
    /// wait, level- or edge-triggered; it takes back what rang before. It costs two system calls less than sleeping.
    ///
    /// The descriptor also becomes readable (and hung up) when the last publisher goes or is killed.
    ///
    /// # Errors
    /// As [`Subscriber::receive`]: the end of a group is told by whichever of the two is called next.
    ///
    /// ```
    /// # use causeway::{Group, GroupOptions, Policy, Received};
    /// # use std::os::fd::AsFd;
    /// # let group = Group::create("prices", GroupOptions::new())?;
    /// # let mut publisher = group.publisher()?;
    /// let mut subscriber = group.subscribe(Policy::Reliable)?;
    /// # let _ = publisher.publish(b"42.17")?;
    /// loop {
    ///     match subscriber.receive()? {
    ///         Received::Message(message) => assert_eq!(message.bytes, b"42.17"),
    ///         Received::Lost { messages, .. } => eprintln!("{messages} messages lost"),
    ///         Received::Empty => {
    ///             if subscriber.arm()? {
    ///                 // … poll(subscriber.as_fd()) together with everything else …
    ///                 # break;
    ///             }
    ///         }
    ///     }
    /// }
    /// # Ok::<(), causeway::Error>(())
    /// ```
    pub fn arm(&mut self) -> Result<bool> {
        if self.ready()? {
            return Ok(false);
        }
        self.hush();
        let _ = self.sleeper.arm(self.log.tail(), self.page.words(), Bed::Doorbell);
        if self.ready()? {
            self.sleeper.disarm(self.page.words());
            return Ok(false);
        }
        Ok(true)
    }

    /// Takes back [`Subscriber::arm`], when the wait ended for another reason: nobody needs to ring now. Not calling it
    /// costs a publisher one call at most.
    pub fn disarm(&mut self) {
        self.sleeper.disarm(self.page.words());
    }

    /// How long [`Subscriber::wait`] looks before it sleeps, at most; zero to sleep at once. The default is 50 µs.
    pub fn spin_at_most(&mut self, longest: Duration) {
        self.spin = Spin::up_to(longest);
    }

    /// Lets [`Subscriber::wait`] sleep on this receiver's own descriptor instead of the futex that all share. For
    /// measurements, and where futexes are not to be had.
    pub fn sleep_on_descriptor(&mut self, own: bool) {
        self.bed = if own { Bed::Doorbell } else { Bed::Futex };
    }
}

/// The descriptor to wait for in epoll, tokio or any other loop, after [`Subscriber::arm`]. Do not read from it.
impl AsFd for Subscriber {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// A doorbell of another type could make every wait a busy one.
pub(super) fn check_doorbell(bell: &OwnedFd) -> Result<()> {
    let kind = sockopt::socket_type(bell).ok().zip(sockopt::socket_domain(bell).ok());
    if kind != Some((SocketType::STREAM, AddressFamily::UNIX)) {
        return Err(Error::invalid("doorbell descriptor", "it is no Unix stream socket"));
    }
    Ok(())
}
