//! Acknowledgements: receivers add to one count, and whoever makes it complete wakes the sender.

use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use causeway_os::futex;

use crate::shared_counters::SharedCounters;

/// Line of the sender: what all receivers together will have acknowledged, and up to which message it waits no longer.
const SENDER: usize = 0;
const TARGET: usize = 0;
const GIVEN_UP: usize = 1;
/// Line of the count.
const ACKED: usize = 1;
/// Lines before those of the receivers; role 1 has the first of them.
const BEFORE_RECEIVERS: usize = 1;
/// Words of a receiver's line.
pub(super) const VOLUNTARY: usize = 0;
pub(super) const INVOLUNTARY: usize = 1;
pub(super) const LOST: usize = 2;

/// How long a sender waits for receivers that may never get its message.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);
/// The same before anything is timed, when some of them have yet to start.
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(8);

/// Lines of the counters.
pub(super) fn lines(receivers: usize) -> usize {
    BEFORE_RECEIVERS + 1 + receivers
}

/// Line of the receiver that is this role.
pub(super) fn line(role: usize) -> usize {
    BEFORE_RECEIVERS + role
}

/// The sender's side.
#[derive(Debug)]
pub(super) struct Acks<'a> {
    counters: &'a SharedCounters,
    receivers: u64,
    target: u32,
    patience: Option<Duration>,
}

impl<'a> Acks<'a> {
    /// A lossy mechanism needs an end of patience.
    pub(super) fn new(
        counters: &'a SharedCounters,
        receivers: usize,
        patience: Option<Duration>,
    ) -> Acks<'a> {
        Acks { counters, receivers: receivers as u64, target: 0, patience }
    }

    /// With another patience, where there is an end of it.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = self.patience.map(|_| patience);
    }

    /// Before messages up to `end` are sent: says what the count will be when all have them. It wraps around.
    #[inline]
    pub(super) fn expect(&mut self, end: u64) {
        self.target = end.wrapping_mul(self.receivers) as u32;
        self.counters.word(SENDER, TARGET).store(u64::from(self.target), Release); // PAIR target
    }

    /// Sleeps until all receivers have the messages before `end`. `false` when patience is at its end.
    #[inline]
    pub(super) fn wait(&self, end: u64) -> io::Result<bool> {
        let acked = self.counters.futex(ACKED);
        loop {
            let count = acked.load(Acquire); // PAIR acked
            if count == self.target {
                return Ok(true);
            }
            if futex::wait(acked, count, self.patience)? == futex::Outcome::TimedOut {
                self.counters.word(SENDER, GIVEN_UP).store(end, Release); // PAIR given-up
                return Ok(false);
            }
        }
    }
}

/// A receiver's side: it now has `count` more messages, or knows that they are lost.
#[inline]
pub(super) fn acknowledge(counters: &SharedCounters, count: u64) -> io::Result<()> {
    let acked = counters.futex(ACKED);
    // PAIR acked. Release: what this receiver has published; Acquire: nothing.
    let now = acked.fetch_add(count as u32, AcqRel).wrapping_add(count as u32);
    if u64::from(now) == counters.word(SENDER, TARGET).load(Acquire) {
        // PAIR target
        futex::wake(acked, 1)?;
    }
    Ok(())
}

/// The message before which the sender waits for nothing any more.
pub(super) fn given_up(counters: &SharedCounters) -> u64 {
    counters.word(SENDER, GIVEN_UP).load(Acquire) // PAIR given-up
}

/// A word of all receivers, added up.
pub(super) fn sum(counters: &SharedCounters, receivers: usize, word: usize) -> u64 {
    (1..=receivers).map(|role| counters.word(line(role), word).load(Relaxed)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(receivers: usize) -> SharedCounters {
        SharedCounters::open(SharedCounters::create(lines(receivers)).unwrap(), lines(receivers)).unwrap()
    }

    #[test]
    fn the_sender_sleeps_until_the_last_receiver_has_the_message() {
        let counters = counters(3);
        let mut acks = Acks::new(&counters, 3, None);
        std::thread::scope(|scope| {
            for round in 1..200 {
                acks.expect(round);
                for _ in 0..3 {
                    scope.spawn(|| acknowledge(&counters, 1).unwrap());
                }
                assert!(acks.wait(round).unwrap());
                assert_eq!(counters.futex(ACKED).load(Relaxed), 3 * round as u32);
            }
        });
    }

    #[test]
    fn patience_ends_and_says_up_to_where_and_later_messages_account_for_lost_ones() {
        let counters = counters(2);
        let mut acks = Acks::new(&counters, 2, Some(Duration::from_millis(1)));
        acks.expect(5);
        acknowledge(&counters, 5).unwrap();
        acknowledge(&counters, 4).unwrap();
        assert!(!acks.wait(5).unwrap());
        assert_eq!(given_up(&counters), 5);
        acks.expect(6);
        acknowledge(&counters, 1).unwrap();
        acknowledge(&counters, 2).unwrap();
        assert!(acks.wait(6).unwrap());
    }

    #[test]
    fn the_count_may_wrap_around() {
        let counters = counters(1);
        let mut acks = Acks::new(&counters, 1, None);
        counters.futex(ACKED).store(u32::MAX, Relaxed);
        acks.expect(u64::from(u32::MAX) + 2);
        acknowledge(&counters, 2).unwrap();
        assert!(acks.wait(0).unwrap());
    }
}
