//! What publishers may publish yet, where that is limited, as token buckets: kept here, and filled and emptied by [`rates`](super::rates).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::options::OverRate;

/// The rate of so long may come at once.
const BURST: Duration = Duration::from_secs(1);
/// Processes without a publisher of which an allowance is kept; each costs a descriptor.
pub const LEFT_MAX: usize = 64;

/// What publishers may publish yet, where that is limited.
#[derive(Debug, Default)]
pub struct Rates {
    /// By connection, and so by publisher: the next one in a slot has another.
    pub present: BTreeMap<u64, Counted>,
    /// By the number of their process: those that have left.
    pub left: BTreeMap<u32, Left>,
    /// Who is told of each that is disconnected.
    pub told: Option<SyncSender<OverRate>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    pub messages: f64,
    pub at: Instant,
}

#[derive(Debug)]
pub struct Counted {
    pub allowance: Allowance,
    /// What its slot had published when it was last looked at.
    pub published: u64,
    pub is_told_of: bool,
}

#[derive(Debug)]
pub struct Left {
    pub uid: u32,
    pub process: OwnedFd,
    pub allowance: Allowance,
}

impl Allowance {
    pub fn full(rate: f64, at: Instant) -> Allowance {
        Allowance { messages: rate * BURST.as_secs_f64(), at }
    }

    /// Time has passed, and so many messages were published in it.
    pub fn passed(self, rate: f64, now: Instant, messages: u64) -> Allowance {
        let earned = rate * now.saturating_duration_since(self.at).as_secs_f64();
        let full = Allowance::full(rate, now);
        Allowance { messages: (self.messages + earned - messages as f64).min(full.messages), ..full }
    }

    pub fn is_full(self, rate: f64) -> bool {
        self.messages >= Allowance::full(rate, self.at).messages
    }

    pub fn excess(self) -> Option<u64> {
        (self.messages < 0.0).then_some((-self.messages).ceil() as u64)
    }
}

impl Rates {
    /// Tells this one from now on; one that does not take what it is told misses it.
    pub fn tell(&mut self, told: SyncSender<OverRate>) {
        self.told = Some(told);
    }

    /// Forgets processes that have ended, and those that may publish as one that never did.
    pub fn forget(&mut self, rate: f64, now: Instant) {
        self.left.retain(|_, left| {
            !has_ended(&left.process) && !left.allowance.passed(rate, now, 0).is_full(rate)
        });
    }
}

/// Whether this process has ended.
pub fn has_ended(process: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|ended| ended > 0)
}
