//! How long to poll before sleeping, and when to let others have the CPU meanwhile.
//!
//! A wake-up costs the sleeper and the waker some microseconds, on an idle CPU of a virtual machine tens. Polling for
//! about that long before sleeping costs at worst twice what an oracle would, and mostly saves the sleep. Three things
//! spoil that, and are noticed here:
//!
//! * *Others want this CPU*, among them those without whom no message comes. So one that polls gives it up now and then; if that took long
//!   enough for others to have run, it gives it up before every look, until it is alone again.
//! * *Somebody works on this CPU.* What gave it up gets it back late. Then there is no polling for a multiple of that time, so that this costs
//!   less than two hundredths of all time.
//! * *Messages come too late.* What finds nothing halves the time for which it polls. Where a wait was so short that a faster answer would have
//!   been in time, it tries again: all in the same short moments of the clock that they share, because polling pays where both ends poll.
//!
//! The reasons and figures are in `docs/decisions/spin.md`.

use std::time::Duration;

/// A wait of up to this many times the longest polling is short: it may have been a fast answer and a slow wake-up. No
/// polling takes longer, with all the time in which others have the CPU; one who keeps it for longer at once works.
const SHORT: u64 = 3;
/// Polling that finds nothing is tried once more for each time that is so many times as long, and by all for half a
/// millisecond (2¹⁹ ns) of 64: so it takes less than two hundredths of all time.
const APART: u64 = 64;
const TRIAL_SHIFT: u32 = 19;
/// So many tries may follow each other where there was none for long.
const TRIES: u64 = 4;
/// Polling that is shorter than this is none.
const SHORTEST_NS: u64 = 1_000;
/// If `sched_yield` took longer than this, another thread ran meanwhile: it takes 170 ns when nobody else is runnable,
/// and 1,100 ns beside one other thread that polls in this way (one virtual CPU of a Xeon; docs/decisions/spin.md).
const OTHERS_RAN_NS: u64 = 700;
/// A pause between two looks that is longer than this, without giving up the CPU, is one in which others ran.
const PREEMPTED_NS: u64 = 20_000;
/// One that is alone gives up the CPU after this time for the first time, and then whenever it has polled for twice as
/// long.
const FIRST_YIELD_NS: u64 = 2_000;
/// Looks in a row where nobody else wants the CPU: about a microsecond.
const LOOKS: u32 = 32;

/// What one who waits has learned from its waits. All times are of one clock, the same for all who wait.
#[derive(Clone, Copy, Debug)]
pub struct Polling {
    longest_ns: u64,
    budget_ns: u64,
    /// The time since the last tries, up to that for which there are [`TRIES`].
    untried_ns: u64,
    last_wait_was_short: bool,
    /// The next wait polls for the longest time, whatever was learned.
    tries_next: bool,
    /// Others ran when this thread last gave up its CPU.
    shares_cpu: bool,
    rests_until_ns: u64,
}

/// The polling of one wait.
#[derive(Clone, Copy, Debug)]
pub struct Poll {
    start_ns: u64,
    /// When it has used up its time. The time of others does not count.
    end_ns: u64,
    /// When it ends at the latest.
    last_ns: u64,
    last_look_ns: u64,
    next_yield_ns: u64,
    has_yielded: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Look so many times, with a pause of the processor between.
    Look(u32),
    /// Give up the CPU, then look once.
    Yield,
    /// Sleep.
    Sleep,
}

impl Polling {
    /// Polls for at most `longest`; never, if that is zero.
    pub fn up_to(longest: Duration) -> Polling {
        let longest_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Polling {
            longest_ns,
            budget_ns: longest_ns,
            untried_ns: longest_ns.saturating_mul(APART * TRIES),
            last_wait_was_short: false,
            tries_next: false,
            shares_cpu: false,
            rests_until_ns: 0,
        }
    }

    /// Whether it polls at all.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.longest_ns != 0
    }

    /// A wait begins, which lasts until `end_ns` at most.
    #[inline]
    pub fn begin(&self, now_ns: u64, end_ns: u64) -> Poll {
        let is_trial = self.last_wait_was_short && (now_ns >> TRIAL_SHIFT).is_multiple_of(APART);
        let budget_ns = match () {
            () if now_ns < self.rests_until_ns => 0,
            () if is_trial || self.tries_next => self.longest_ns,
            () => self.budget_ns,
        };
        Poll {
            start_ns: now_ns,
            end_ns: now_ns.saturating_add(budget_ns),
            last_ns: now_ns.saturating_add(budget_ns.saturating_mul(SHORT)).min(end_ns),
            last_look_ns: now_ns,
            next_yield_ns: now_ns + FIRST_YIELD_NS,
            has_yielded: false,
        }
    }

    /// There was nothing yet.
    #[inline]
    pub fn step(&mut self, poll: &mut Poll, now_ns: u64) -> Step {
        let since_look_ns = now_ns.saturating_sub(poll.last_look_ns);
        poll.last_look_ns = now_ns;
        if poll.has_yielded {
            self.shares_cpu = since_look_ns >= OTHERS_RAN_NS;
            if since_look_ns > self.longest_ns.saturating_mul(SHORT) {
                self.rests_until_ns = now_ns.saturating_add(since_look_ns.saturating_mul(APART));
                return Step::Sleep;
            }
            if self.shares_cpu {
                poll.end_ns = poll.end_ns.saturating_add(since_look_ns);
            }
        } else if since_look_ns >= PREEMPTED_NS {
            self.shares_cpu = true;
        }
        if now_ns >= poll.end_ns.min(poll.last_ns) {
            return Step::Sleep;
        }
        poll.has_yielded = self.shares_cpu || now_ns >= poll.next_yield_ns;
        if !poll.has_yielded {
            return Step::Look(LOOKS);
        }
        poll.next_yield_ns = now_ns + FIRST_YIELD_NS.max(now_ns - poll.start_ns);
        Step::Yield
    }

    /// The wait has ended while it polled.
    #[inline]
    pub fn found(&mut self) {
        (self.budget_ns, self.last_wait_was_short, self.tries_next) = (self.longest_ns, true, false);
        self.untried_ns = self.longest_ns.saturating_mul(APART * TRIES);
    }

    /// The wait has ended in a sleep, and took so long.
    pub fn slept(&mut self, waited_ns: u64) {
        let (price_ns, most_ns) =
            (self.longest_ns.saturating_mul(APART), self.longest_ns.saturating_mul(APART * TRIES));
        self.untried_ns = self.untried_ns.saturating_add(waited_ns).min(most_ns);
        self.last_wait_was_short = waited_ns <= self.longest_ns.saturating_mul(SHORT);
        self.tries_next = self.last_wait_was_short && self.untried_ns >= price_ns;
        self.untried_ns -= if self.tries_next { price_ns } else { 0 };
        self.budget_ns = if self.budget_ns / 2 < SHORTEST_NS { 0 } else { self.budget_ns / 2 };
    }
}

/// One that waits, and what it has learned.
pub trait Pollable {
    /// Why it may fail.
    type Error;
    /// What it has learned from its waits.
    fn polling(&mut self) -> &mut Polling;
    /// Whether the wait is over.
    fn is_over(&mut self) -> Result<bool, Self::Error>;
}

/// Polls for as long as what was learned says, at most until `end_ns`. Returns whether the wait is over; if not, a
/// sleep follows, and
/// [`Polling::slept`] is told how long it took.
#[inline]
pub fn poll<W: Pollable>(
    one: &mut W,
    (start_ns, end_ns): (u64, u64),
    now_ns: impl Fn() -> u64,
) -> Result<bool, W::Error> {
    let mut poll = one.polling().begin(start_ns, end_ns);
    let mut now = start_ns;
    loop {
        let looks = match one.polling().step(&mut poll, now) {
            Step::Look(looks) => looks,
            Step::Yield => {
                std::thread::yield_now();
                1
            }
            Step::Sleep => return Ok(false),
        };
        for _ in 0..looks {
            if one.is_over()? {
                one.polling().found();
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        now = now_ns();
    }
}
