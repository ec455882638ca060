//! How long to look before sleeping.
//!
//! A wake-up costs the sleeper and the waker some microseconds, on an idle CPU of a virtual machine tens. Looking for
//! that long before sleeping is at worst twice the cost of knowing beforehand, and mostly saves the sleep. It is never
//! worth it when the publisher would need the very CPU that looks. See `docs/decisions/spin.md`.
//!
//! Publishers note the CPU from which they last woke somebody, so that is known after the first sleep. Before it, a
//! thread that may run on one CPU only does not look: the publisher may have been given the same one.

use std::time::Duration;

/// The longest time to look: about what a wake-up of an idle CPU costs.
const LONGEST: Duration = Duration::from_micros(50);

/// A sleep that took up to so many times [`LONGEST`] may have been a short wait and a slow wake-up: worth a try.
const DOUBTFUL: u32 = 3;
/// Of this many doubtful sleeps in a row …
const ROUND: u32 = 32;
/// … so many are followed by another try to look.
const TRIES: u32 = 4;

/// What a receiver has learnt about its waits.
#[derive(Debug)]
pub struct Spin {
    budget: Duration,
    longest: Duration,
    /// Sleeps since looking was last enough.
    sleeps: u32,
    /// Was there a second CPU at all when this began? Asked once: asking costs as much as a sleep.
    single_cpu: bool,
}

impl Default for Spin {
    fn default() -> Spin {
        Spin::up_to(LONGEST)
    }
}

impl Spin {
    /// Looks at most for `longest`; zero never looks.
    pub fn up_to(longest: Duration) -> Spin {
        let cpus = || causeway_os::sched::allowed_cpus().map_or(1, |cpus| cpus.len());
        Spin { budget: longest, longest, sleeps: 0, single_cpu: !longest.is_zero() && cpus() == 1 }
    }

    /// How long to look this time. `last_cpu` is the CPU + 1 from which publishers last woke somebody, 0 if unknown.
    pub fn budget(&self, last_cpu: u32) -> Duration {
        let shares_cpu = || match last_cpu {
            0 => self.single_cpu,
            last_cpu => last_cpu == causeway_os::sched::current_cpu() + 1,
        };
        if self.budget.is_zero() || shares_cpu() { Duration::ZERO } else { self.budget }
    }

    /// Learns from a wait that ended while looking: that is done again.
    #[inline]
    pub fn looking_was_enough(&mut self) {
        (self.budget, self.sleeps) = (self.longest, 0);
    }

    /// Learns from a sleep after `waited` in all. It halves the time spent in vain, unless the wait was so short that
    /// most of it may have been the wake-up itself.
    pub fn slept(&mut self, waited: Duration) {
        let doubtful = waited <= self.longest * DOUBTFUL && self.sleeps % ROUND < TRIES;
        self.budget = if doubtful { self.longest } else { self.budget / 2 };
        self.sleeps = self.sleeps.wrapping_add(1);
    }
}

/// When to take the first look at a message that is due.
///
/// A look at a message that is not there yet fetches the line it will be written to, and the publisher has to fetch it
/// back before it can write: both lose the time of a line's way between two CPUs. An answer cannot come sooner than that
/// way, there and back. So a receiver that has found nothing at its first look lets so much time pass before the next
/// first look; one that finds messages waiting takes the next look at once. See `docs/decisions/spin.md`.
#[derive(Debug, Default)]
pub struct Pace {
    /// Whether the last look that was taken at once was in vain.
    in_vain: bool,
    /// Waits so far, modulo 2³².
    waits: u32,
}

/// About 50 ns where the processor's pause takes 25.
const PAUSES: u32 = 2;
/// One look in so many is taken at once all the same: messages may be waiting by now.
const AT_ONCE: u32 = 64;

impl Pace {
    /// Pauses before the first look.
    #[inline(always)]
    pub fn pauses(&mut self) -> u32 {
        self.waits = self.waits.wrapping_add(1);
        if self.in_vain && !self.waits.is_multiple_of(AT_ONCE) { PAUSES } else { 0 }
    }

    /// Learns from the first look after so many `pauses`.
    #[inline(always)]
    pub fn looked(&mut self, pauses: u32, found: bool) {
        self.in_vain = !found || (self.in_vain && pauses > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_end_the_looking_and_a_short_one_brings_it_back() {
        let mut spin = Spin { budget: LONGEST, longest: LONGEST, sleeps: 0, single_cpu: false };
        for _ in 0..20 {
            spin.slept(Duration::from_secs(1));
        }
        assert_eq!(spin.budget(0), Duration::ZERO);
        spin.looking_was_enough();
        assert_eq!(spin.budget(0), LONGEST);
    }

    #[test]
    fn doubtful_sleeps_are_followed_by_few_tries() {
        let mut spin = Spin { budget: Duration::ZERO, longest: LONGEST, sleeps: 0, single_cpu: false };
        let mut tries = 0;
        for _ in 0..10 * ROUND {
            spin.slept(LONGEST * 2);
            tries += u32::from(spin.budget == LONGEST);
        }
        assert_eq!(tries, 10 * TRIES);
    }

    #[test]
    fn nobody_looks_on_the_cpu_that_the_publisher_needs() {
        let spin = Spin { budget: LONGEST, longest: LONGEST, sleeps: 0, single_cpu: false };
        // This thread may move between the two calls; on one of a few tries it does not.
        let stayed = |_| spin.budget(causeway_os::sched::current_cpu() + 1).is_zero();
        assert!((0..1000).any(stayed));
    }

    #[test]
    fn who_may_run_on_one_cpu_only_looks_once_the_publisher_is_known_to_be_elsewhere() {
        let spin = Spin { budget: LONGEST, longest: LONGEST, sleeps: 0, single_cpu: true };
        assert_eq!(spin.budget(0), Duration::ZERO);
        assert_eq!(spin.budget(u32::MAX), LONGEST, "no thread runs on that CPU");
    }

    /// First looks of `waits` waits that were taken at once, when `comes` says whether a message is there already.
    fn at_once(pace: &mut Pace, waits: u32, comes: impl Fn(u32) -> bool) -> u32 {
        let mut at_once = 0;
        for _ in 0..waits {
            let pauses = pace.pauses();
            at_once += u32::from(pauses == 0);
            pace.looked(pauses, comes(pauses));
        }
        at_once
    }

    #[test]
    fn messages_that_wait_are_looked_at_at_once() {
        assert_eq!(at_once(&mut Pace::default(), 100, |_| true), 100);
    }

    #[test]
    fn who_looked_in_vain_lets_the_next_message_come_first() {
        let answers = |pauses| pauses > 0;
        let mut pace = Pace::default();
        assert!(at_once(&mut pace, 10 * AT_ONCE, answers) <= 11);
        // Once messages wait, one look that was taken at once all the same shows it.
        assert!(at_once(&mut pace, 2 * AT_ONCE, |_| true) > AT_ONCE);
    }
}
