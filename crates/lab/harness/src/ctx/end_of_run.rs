//! How roles that work until they are told to stop come to an end together.
//!
//! The leading role says that its last sample is over. Each follower finishes what it has begun, publishes what it has done in
//! all, and leaves. The leading role takes what is still on its way until all have left and as much has arrived as was sent;
//! then nothing may be lost, added or changed. How long that takes depends on how much the buffers hold, so what ends a run
//! that cannot end is a stall timeout: a time in which nothing moves.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::Ctx;
use super::fixed_time::Leader;
use crate::shared::Phase;

/// Without a message or the end of a role for so long, none will come.
const STALL_S: u64 = 5;

/// What was sent and what has arrived of it: how much, and the sum of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// What is counted: `bytes`, `messages`.
    pub unit: &'static str,
    /// On the sending side.
    pub sent: (u64, u64),
    /// On the receiving side.
    pub arrived: (u64, u64),
}

impl Balance {
    /// The balance of a leading role to which no role sends.
    pub const NOTHING: Balance = Balance { unit: "messages", sent: (0, 0), arrived: (0, 0) };

    fn check(self) -> io::Result<()> {
        let Balance { unit, sent: (sent, sent_sum), arrived: (arrived, arrived_sum) } = self;
        if self.sent == self.arrived {
            return Ok(());
        }
        let arrived = format!("{arrived} {unit} with sum {arrived_sum:#x} arrived");
        Err(io::Error::other(format!("{arrived}, but {sent} with sum {sent_sum:#x} were sent")))
    }
}

impl Ctx<'_> {
    /// At the end of a slice: takes what is still on its way, until all other roles have parked so many times.
    pub(super) fn drain_turn(&self, times: usize, leader: &mut impl Leader) -> io::Result<()> {
        let wanted = (self.roles - 1) * times;
        let Some((parked, balance)) = drain(wanted, || self.shared.parked(), || leader.catch_up())? else {
            return Ok(());
        };
        let (Balance { unit, sent: (sent, _), arrived: (arrived, _) }, left) = (balance, wanted - parked);
        Err(io::Error::other(format!(
            "nothing has moved for {STALL_S} s at the end of a slice: {arrived} of {sent} {unit} have arrived, and {left} other roles \
             still work"
        )))
    }

    pub(super) fn drain_until_balanced(&self, leader: &mut impl Leader) -> io::Result<()> {
        let followers = self.roles - 1;
        match drain(followers, || self.shared.left(), || leader.balance())? {
            Some((left, _)) if left < followers => {
                let missing = followers - left;
                let why = format!("and {missing} of {followers} other roles have not come to their end");
                Err(io::Error::other(format!("nothing has moved for {STALL_S} s, {why}")))
            }
            _ => {
                leader.balance()?.check()?;
                leader.check()
            }
        }
    }

    /// Works until the leading role has its last sample. The counters begin with the timed part; what `work` says that it has
    /// done in it is counted.
    #[inline]
    pub(super) fn until_over(&mut self, mut work: impl FnMut() -> io::Result<u64>) -> io::Result<()> {
        loop {
            let phase = self.shared.phase();
            if phase >= Phase::Timed {
                self.begin_counting()?;
            }
            if phase == Phase::Over {
                return self.end_counting();
            }
            let ops = work()?;
            if phase == Phase::Timed {
                self.count(ops, 0);
            }
        }
    }
}

/// Takes what is still on its way, until so many roles are done and as much has arrived as was sent; where nothing moves any more, how
/// many are done and what has arrived by then.
fn drain(
    wanted: usize,
    done: impl Fn() -> u32,
    mut take: impl FnMut() -> io::Result<Balance>,
) -> io::Result<Option<(usize, Balance)>> {
    let mut stall = Stall::new(Instant::now());
    loop {
        // Before the look: what a role has sent before it was done is there to be taken.
        let done = done() as usize;
        let balance = take()?;
        if done == wanted && balance.arrived.0 >= balance.sent.0 {
            return Ok(None);
        }
        if stall.has_passed((done, balance.sent.0, balance.arrived.0), Instant::now()) {
            return Ok(Some((done, balance)));
        }
        thread::yield_now();
    }
}

/// Notices that nothing moves. A full pipe holds 65,536 messages of one byte, and roles that share a CPU take turns: what is
/// left may take any time, so only a time in which nothing moves counts.
struct Stall {
    seen: (usize, u64, u64),
    since: Instant,
}

impl Stall {
    fn new(now: Instant) -> Stall {
        Stall { seen: (0, 0, 0), since: now }
    }

    /// Has nothing moved for too long? `seen` is how far everything is.
    fn has_passed(&mut self, seen: (usize, u64, u64), now: Instant) -> bool {
        if seen != self.seen {
            *self = Stall { seen, since: now };
        }
        now.duration_since(self.since) > Duration::from_secs(STALL_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_moves_is_waited_for_and_one_that_does_not_has_stalled() {
        let timeout = Duration::from_secs(STALL_S);
        let mut now = Instant::now();
        let mut stall = Stall::new(now);
        let mut after = |seen, time| {
            now += time;
            stall.has_passed(seen, now)
        };
        // Longer in all than nothing may move: messages that are sent, then received, then roles that leave.
        for seen in [(0, 1, 0), (0, 2, 0), (0, 2, 1), (1, 2, 1), (2, 2, 1)] {
            assert!(!after(seen, timeout), "{seen:?}");
        }
        assert!(!after((2, 2, 1), timeout));
        assert!(after((2, 2, 1), Duration::from_nanos(1)));
    }

    #[test]
    fn what_is_lost_added_or_changed_is_named() {
        let of = |sent, arrived| Balance { unit: "bytes", sent, arrived }.check();
        assert!(of((3, 7), (3, 7)).is_ok());
        for (sent, arrived) in [((3, 7), (2, 7)), ((2, 7), (3, 7)), ((3, 7), (3, 8))] {
            let why = of(sent, arrived).unwrap_err().to_string();
            assert!(why.contains(&format!("{} bytes", arrived.0)) && why.contains("sum 0x7"), "{why}");
        }
    }
}
