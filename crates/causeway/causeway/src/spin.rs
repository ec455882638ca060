//! How long to poll before sleeping.
//!
//! A wake-up costs the sleeper and the waker some microseconds, on an idle CPU of a virtual machine tens. Polling for that
//! long before sleeping costs at worst twice what an oracle would, and mostly saves the sleep. It never pays where the
//! publisher needs the CPU that polls. See `docs/decisions/spin.md`.
//!
//! Publishers store the CPU from which they last woke a subscriber, so that is known after the first sleep. Before it, a
//! thread that may run on one CPU only does not poll: the publisher may have been given the same one.

use std::time::Duration;

/// The longest time to poll: about what a wake-up of an idle CPU costs.
const LONGEST: Duration = Duration::from_micros(50);

/// A sleep of up to this many times [`LONGEST`] is ambiguous: it may have been a short wait and a slow wake-up.
const AMBIGUOUS: u32 = 3;
/// Of this many ambiguous sleeps in a row …
const ROUND: u32 = 32;
/// … the first few restore the full budget once more.
const RETRIES: u32 = 4;

/// What a subscriber has learned from its waits.
#[derive(Debug)]
pub struct Spin {
    budget: Duration,
    longest: Duration,
    /// Sleeps since polling last succeeded.
    sleeps: u32,
    /// Whether this thread may run on one CPU only. Asked once: the system call costs as much as a sleep.
    single_cpu: bool,
    /// What the last call of [`Spin::budget`] found.
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
        let cpus = || causeway_os::sched::allowed_cpus().map_or(1, |cpus| cpus.len());
        let single_cpu = !longest.is_zero() && cpus() == 1;
        Spin { budget: longest, longest, sleeps: 0, single_cpu, may_poll: false }
    }

    /// How long to poll this time; `None` where polling is out of the question, so that nothing is learned from this wait and no
    /// clock is needed. `last_cpu` is the CPU + 1 from which publishers last woke a subscriber, 0 if unknown.
    pub fn budget(&mut self, last_cpu: u32) -> Option<Duration> {
        let shares_cpu = || match last_cpu {
            0 => self.single_cpu,
            last_cpu => last_cpu == causeway_os::sched::current_cpu() + 1,
        };
        self.may_poll = !self.longest.is_zero() && !shares_cpu();
        self.may_poll.then_some(self.budget)
    }

    #[inline(always)]
    pub fn may_poll(&self) -> bool {
        self.may_poll
    }

    /// Learns from a wait that ended while polling.
    #[inline]
    pub fn polling_succeeded(&mut self) {
        (self.budget, self.sleeps) = (self.longest, 0);
    }

    /// Learns from a wait that took `waited` and ended in a sleep. Halves the budget, unless the wait was so short that most
    /// of it may have been the wake-up itself.
    pub fn slept(&mut self, waited: Duration) {
        let retry = waited <= self.longest * AMBIGUOUS && self.sleeps % ROUND < RETRIES;
        self.budget = if retry { self.longest } else { self.budget / 2 };
        self.sleeps = self.sleeps.wrapping_add(1);
    }
}

/// When to poll first for a message that is due.
///
/// A poll for a message that is not there yet fetches the cache line that it will be written to, and the publisher has to
/// fetch the line back before it can write: both lose the time of a transfer between two CPUs. An answer takes at least two
/// transfers. So a subscriber whose first poll was empty pauses that long before the first poll of the next wait; one whose
/// first poll finds a message polls at once. See `docs/decisions/spin.md`.
#[derive(Debug, Default)]
pub struct Pace {
    /// Whether the last first poll without a pause was empty.
    was_empty: bool,
    /// Waits so far, modulo 2³².
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

    fn spin(budget: Duration, single_cpu: bool) -> Spin {
        Spin { budget, single_cpu, ..Spin::up_to(LONGEST) }
    }

    #[test]
    fn long_waits_end_the_polling_and_a_short_one_restores_it() {
        let mut spin = spin(LONGEST, false);
        for _ in 0..20 {
            spin.slept(Duration::from_secs(1));
        }
        assert_eq!(spin.budget(0), Some(Duration::ZERO));
        spin.polling_succeeded();
        assert_eq!(spin.budget(0), Some(LONGEST));
    }

    #[test]
    fn ambiguous_sleeps_are_followed_by_few_retries() {
        let mut spin = spin(Duration::ZERO, false);
        let mut retries = 0;
        for _ in 0..10 * ROUND {
            spin.slept(LONGEST * 2);
            retries += u32::from(spin.budget == LONGEST);
        }
        assert_eq!(retries, 10 * RETRIES);
    }

    #[test]
    fn no_subscriber_polls_on_the_cpu_that_the_publisher_needs() {
        let mut spin = spin(LONGEST, false);
        // This thread may move between the two calls; on one of a few tries it does not.
        let stayed = |_| spin.budget(causeway_os::sched::current_cpu() + 1).is_none();
        assert!((0..1000).any(stayed));
    }

    #[test]
    fn a_thread_with_one_cpu_polls_once_the_publisher_is_known_to_run_elsewhere() {
        let mut spin = spin(LONGEST, true);
        assert_eq!((spin.budget(0), spin.may_poll()), (None, false));
        assert_eq!(spin.budget(u32::MAX), Some(LONGEST), "no thread runs on that CPU");
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
