//! Whether to poll before sleeping, and when to take the first look.
//!
//! How long is decided by [`Polling`]. It never pays where the publisher needs the CPU that polls: publishers store the
//! CPU from which they last woke a subscriber, so that is known after the first sleep. Before it, a thread that may run
//! on one CPU only does not poll: the publisher may have been given the same one. See `docs/decisions/spin.md`.

use std::time::Duration;

use causeway_os::clock;
use causeway_waiting::polling::{self, Pollable, Polling};

use crate::error::Error;

/// The longest time to poll: about what a wake-up of an idle CPU costs.
const LONGEST: Duration = Duration::from_micros(50);

/// What a subscriber has learned from its waits.
#[derive(Debug)]
pub struct Spin {
    polling: Polling,
    /// Whether this thread may run on one CPU only. Asked once: the system call costs as much as a sleep.
    single_cpu: bool,
    /// What the last call of [`Spin::look_where`] found.
    may_poll: bool,
}

impl Default for Spin {
    fn default() -> Spin {
        Spin::up_to(LONGEST)
    }
}

impl Spin {
    /// Polls at most for `longest`; zero never polls.
    pub fn up_to(longest: Duration) -> Spin {
        let polling = Polling::up_to(longest);
        let cpus = || causeway_os::sched::allowed_cpus().map_or(1, |cpus| cpus.len());
        Spin { polling, single_cpu: polling.is_on() && cpus() == 1, may_poll: false }
    }

    /// Whether polling is possible this time; where it is out of the question, nothing is learned from the wait and no
    /// clock is needed. `last_cpu` is the CPU + 1 from which publishers last woke a subscriber, 0 if unknown.
    pub fn look_where(&mut self, last_cpu: u32) -> bool {
        let shares_cpu = || match last_cpu {
            0 => self.single_cpu,
            last_cpu => last_cpu == causeway_os::sched::current_cpu() + 1,
        };
        self.may_poll = self.polling.is_on() && !shares_cpu();
        self.may_poll
    }

    #[inline(always)]
    pub fn may_poll(&self) -> bool {
        self.may_poll
    }

    #[inline(always)]
    pub fn polling(&mut self) -> &mut Polling {
        &mut self.polling
    }
}

/// Polls for a while from `start_ns` on, at most until `end_ns`, both of `CLOCK_MONOTONIC`. Returns whether the wait is
/// over; if not, a sleep follows, and then [`slept`].
#[inline]
pub fn poll<W: Pollable<Error = Error>>(one: &mut W, start_ns: u64, end_ns: u64) -> Result<bool, Error> {
    polling::poll(one, (start_ns, end_ns), clock::monotonic_ns)
}

/// The wait that began at `start_ns` has ended in a sleep.
pub fn slept(one: &mut impl Pollable, start_ns: u64) {
    let waited_ns = clock::monotonic_ns().saturating_sub(start_ns);
    one.polling().slept(waited_ns);
}

/// When to poll first for a message that is due.
///
/// A poll for a message that is not there yet fetches the cache line that it will be written to, and the publisher has
/// to fetch the line back before it can write: both lose the time of a transfer between two CPUs. An answer takes at
/// least two transfers. So a subscriber whose first poll was empty pauses that long before the first poll of the next
/// wait; one whose first poll finds a message polls at once. See `docs/decisions/spin.md`.
#[derive(Debug, Default)]
pub struct Pace {
    /// Whether the last first poll without a pause was empty.
    was_empty: bool,
    /// Pollable so far, modulo 2³².
    waits: u32,
}

/// About 50 ns where the processor's pause takes 25.
const PAUSES: u32 = 2;
/// One first poll in this many is taken without a pause: messages may be waiting by now.
const AT_ONCE: u32 = 64;

impl Pace {
    /// Processor pauses before the first poll.
    #[inline(always)]
    pub fn pauses(&mut self) -> u32 {
        self.waits = self.waits.wrapping_add(1);
        if self.was_empty && !self.waits.is_multiple_of(AT_ONCE) { PAUSES } else { 0 }
    }

    /// Learns from the first poll, which came after `pauses`.
    #[inline(always)]
    pub fn polled(&mut self, pauses: u32, found: bool) {
        self.was_empty = !found || (self.was_empty && pauses > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(single_cpu: bool) -> Spin {
        Spin { single_cpu, ..Spin::default() }
    }

    #[test]
    fn no_subscriber_polls_on_the_cpu_that_the_publisher_needs() {
        let mut spin = spin(false);
        // This thread may move between the two calls; on one of a few tries it does not.
        let stayed = |_| !spin.look_where(causeway_os::sched::current_cpu() + 1);
        assert!((0..1000).any(stayed));
    }

    #[test]
    fn a_thread_with_one_cpu_polls_once_the_publisher_is_known_to_run_elsewhere() {
        let mut spin = spin(true);
        assert_eq!((spin.look_where(0), spin.may_poll()), (false, false));
        assert!(spin.look_where(u32::MAX), "no thread runs on that CPU");
    }

    #[test]
    fn one_that_must_not_poll_never_does() {
        assert!(!Spin::up_to(Duration::ZERO).look_where(u32::MAX));
    }

    /// How many of `waits` first polls came without a pause, where `comes` says whether a message is there already.
    fn at_once(pace: &mut Pace, waits: u32, comes: impl Fn(u32) -> bool) -> u32 {
        let mut at_once = 0;
        for _ in 0..waits {
            let pauses = pace.pauses();
            at_once += u32::from(pauses == 0);
            pace.polled(pauses, comes(pauses));
        }
        at_once
    }

    #[test]
    fn messages_that_wait_are_polled_for_at_once() {
        assert_eq!(at_once(&mut Pace::default(), 100, |_| true), 100);
    }

    #[test]
    fn after_an_empty_poll_the_next_first_poll_comes_after_a_pause() {
        let answers = |pauses| pauses > 0;
        let mut pace = Pace::default();
        assert!(at_once(&mut pace, 10 * AT_ONCE, answers) <= 11);
        // Once messages wait, one first poll without a pause finds out.
        assert!(at_once(&mut pace, 2 * AT_ONCE, |_| true) > AT_ONCE);
    }
}
