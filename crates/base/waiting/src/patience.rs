//! What the deadline of a reader counts that others wait for: how long it has kept them waiting, which no step of its own renews.
//!
//! A deadline that each step renews lets a reader that takes a message every 100 ms set the pace of all for ever. So a wait for a reader counts
//! for as long as it lasts, less 0.1 ms for each entry that the reader passes (and 1 ns for each byte that it passes, where entries carry their
//! bytes): one that reads as fast as it can owes nothing, however much there is to read.

use std::time::Duration;

/// The time that an entry may take: below ten thousand a second a reader is slower than the log, whatever else the machine does.
const PER_ENTRY_NS: u64 = 100_000;
/// The most of a wait that counts at once. One that waits looks again after [`LOOK`]; if it did not, it was stopped, or its machine was, and has
/// waited for nobody.
const STEP_NS: u64 = 5_000_000;
/// The longest pause between two looks of one who waits for a reader with a deadline: all of it counts.
pub const LOOK: Duration = Duration::from_millis(4);

/// The clock of one who waits: how much of its wait counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// The last look, in nanoseconds, as long as the wait lasts.
    since_ns: Option<u64>,
}

impl Clock {
    /// A look at this moment: the time since the last one, in nanoseconds, of which no more than 5 ms count. 0 for the first one.
    pub fn look(&mut self, now_ns: u64) -> u64 {
        self.since_ns.replace(now_ns).map_or(0, |since| now_ns.saturating_sub(since).min(STEP_NS))
    }

    /// The wait is over.
    #[inline]
    pub fn stop(&mut self) {
        self.since_ns = None;
    }

    /// Whether a wait lasts.
    #[inline]
    pub fn runs(&self) -> bool {
        self.since_ns.is_some()
    }

    /// As if the last look had been at this moment, in nanoseconds; for tests.
    pub fn set(&mut self, since_ns: u64) {
        self.since_ns = self.since_ns.map(|_| since_ns);
    }
}

/// How long a reader has kept one other waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owed {
    ns: u64,
}

impl Owed {
    /// It was waited for, for so many nanoseconds.
    pub fn wait(&mut self, ns: u64) {
        self.ns = self.ns.saturating_add(ns);
    }

    /// It has passed so many entries, which carried so many bytes.
    pub fn pass(&mut self, entries: u64, bytes: u64) {
        self.ns = self.ns.saturating_sub(entries.saturating_mul(PER_ENTRY_NS).saturating_add(bytes));
    }

    /// Whether it owes nothing.
    pub fn is_none(&self) -> bool {
        self.ns == 0
    }

    /// Whether it is too late for this deadline.
    pub fn exceeds(&self, deadline: Duration) -> bool {
        u128::from(self.ns) >= deadline.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_does_not_renew_a_deadline_and_reading_as_fast_as_others_write_does() {
        // By looks 5 ms apart in which the reader passes so many entries: after how many is it too late?
        let looks = |entries: fn(u32) -> u64| {
            let (mut owed, deadline) = (Owed::default(), Duration::from_millis(250));
            (0..1_000).find(|look| {
                owed.wait(STEP_NS);
                owed.pass(entries(*look), 0);
                owed.exceeds(deadline)
            })
        };
        assert_eq!(looks(|_| 0), Some(49));
        assert!(looks(|look| u64::from(look % 20 == 0)).is_some_and(|looks| looks < 60), "10 a second");
        assert_eq!(looks(|_| 50), None, "10,000 a second");
        assert_eq!(looks(|look| if look % 40 == 39 { 5_000 } else { 0 }), None, "in bursts");
    }

    #[test]
    fn a_large_entry_may_take_its_bytes_longer() {
        let mut owed = Owed::default();
        owed.wait(STEP_NS);
        owed.pass(1, 4 << 20);
        assert!(!owed.exceeds(Duration::from_millis(1)), "{owed:?}");
    }

    #[test]
    fn who_was_stopped_has_waited_for_nobody() {
        let mut clock = Clock::default();
        assert_eq!([0, 200, 60_000_000_200].map(|now| clock.look(now)), [0, 200, STEP_NS]);
        clock.stop();
        assert_eq!(clock.look(70_000_000_000), 0);
    }
}
