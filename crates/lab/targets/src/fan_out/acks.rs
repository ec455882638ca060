//! Acknowledgements: receivers add to one count, and the receiver that completes it wakes the sender.

use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

use causeway_os::futex;

use crate::shared_counters::{Counter, SharedCounters};

/// Role of the sender, whose counters say what is expected; the receivers are the roles after it.
const SENDER: usize = 0;

/// How long a sender waits for receivers that may never get its message.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_millis(20);
/// The same before anything is timed, when some of them have yet to start.
pub(super) const FIRST_STALL_TIMEOUT: Duration = Duration::from_secs(8);

pub(super) struct Acks<'a> {
    counters: &'a SharedCounters,
    receivers: u64,
    target: u32,
    /// A lossy mechanism needs one.
    pub(super) stall_timeout: Option<Duration>,
}

impl<'a> Acks<'a> {
    pub(super) fn new(
        counters: &'a SharedCounters,
        receivers: usize,
        stall_timeout: Option<Duration>,
    ) -> Acks<'a> {
        Acks { counters, receivers: receivers as u64, target: 0, stall_timeout }
    }

    /// Before messages up to `end` are sent: says what the count will be when all have them. It wraps around.
    #[inline]
    pub(super) fn expect(&mut self, end: u64) {
        self.target = end.wrapping_mul(self.receivers) as u32;
        self.counters.counter(SENDER, Counter::AckTarget).store(u64::from(self.target), Release); // PAIR target
    }

    /// How many messages before `end` are under way, those to each receiver counted: none of them lacks more.
    #[inline]
    pub(super) fn under_way(&self, end: u64) -> u64 {
        let all = end.wrapping_mul(self.receivers) as u32;
        u64::from(all.wrapping_sub(self.counters.futex().load(Acquire))) // PAIR acked
    }

    /// Sleeps until all receivers have the messages before `end`. `false` after the stall timeout.
    #[inline]
    pub(super) fn wait(&self, end: u64) -> io::Result<bool> {
        let acked = self.counters.futex();
        loop {
            let count = acked.load(Acquire); // PAIR acked
            if count == self.target {
                return Ok(true);
            }
            if futex::wait(acked, count, self.stall_timeout)? == futex::Outcome::TimedOut {
                self.counters.counter(SENDER, Counter::TimedOutBefore).store(end, Release); // PAIR timed-out
                return Ok(false);
            }
        }
    }
}

/// A receiver's side: it now has `count` more messages, or knows that they are lost.
#[inline]
pub(super) fn acknowledge(counters: &SharedCounters, count: u64) -> io::Result<()> {
    let acked = counters.futex();
    // PAIR acked. Release: what this receiver has published; Acquire: nothing.
    let now = acked.fetch_add(count as u32, AcqRel).wrapping_add(count as u32);
    if u64::from(now) == counters.counter(SENDER, Counter::AckTarget).load(Acquire) {
        // PAIR target
        futex::wake(acked, 1)?;
    }
    Ok(())
}

/// The message before which the sender waits for nothing any more.
pub(super) fn timed_out_before(counters: &SharedCounters) -> u64 {
    counters.counter(SENDER, Counter::TimedOutBefore).load(Acquire) // PAIR timed-out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    fn counters(receivers: usize) -> SharedCounters {
        SharedCounters::open(SharedCounters::create(receivers + 1).unwrap(), receivers + 1).unwrap()
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
                assert_eq!(counters.futex().load(Relaxed), 3 * round as u32);
            }
        });
    }

    #[test]
    fn a_stall_ends_and_says_up_to_where_and_later_messages_account_for_lost_ones() {
        let counters = counters(2);
        let mut acks = Acks::new(&counters, 2, Some(Duration::from_millis(1)));
        acks.expect(5);
        acknowledge(&counters, 5).unwrap();
        acknowledge(&counters, 4).unwrap();
        assert!(!acks.wait(5).unwrap());
        assert_eq!(timed_out_before(&counters), 5);
        acks.expect(6);
        acknowledge(&counters, 1).unwrap();
        acknowledge(&counters, 2).unwrap();
        assert!(acks.wait(6).unwrap());
    }

    #[test]
    fn what_is_under_way_is_counted_to_each_receiver() {
        let counters = counters(3);
        let mut acks = Acks::new(&counters, 3, None);
        acks.expect(10);
        (0..4).for_each(|_| acknowledge(&counters, 1).unwrap());
        assert_eq!([2, 3, 10].map(|end| acks.under_way(end)), [2, 5, 26]);
    }

    #[test]
    fn the_count_may_wrap_around() {
        let counters = counters(1);
        let mut acks = Acks::new(&counters, 1, None);
        counters.futex().store(u32::MAX, Relaxed);
        acks.expect(u64::from(u32::MAX) + 2);
        acknowledge(&counters, 2).unwrap();
        assert!(acks.wait(0).unwrap());
    }
}
