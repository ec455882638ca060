//! Counters that the roles of a case share beside what they measure: what each has done so far, and a word to sleep on.
//!
//! Each role writes the counters of its own lines only, 128 bytes, so that two roles never write to the same cache line, nor
//! to a neighbor that is fetched with it. Counters are relaxed: what must have been seen before something else is ordered by
//! the end of the run ([`Ctx::follow_intervals`](weighbridge_harness::ctx::Ctx::follow_intervals)), or by the pair that a caller names.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use causeway_os::memory;
use weighbridge_probe::counters::ThreadCounters;

use crate::page::{LINES, Page};

/// What a role counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Messages sent or received.
    Messages,
    /// Bytes sent.
    Bytes,
    /// Sum over the bytes that were written or read, where they are touched.
    Sum,
    /// Messages known to be lost.
    Lost,
    /// System calls that a signal interrupted.
    Interrupted,
    /// Context switches because the role waited.
    VoluntarySwitches,
    /// Context switches because it was preempted.
    InvoluntarySwitches,
    /// What all acknowledgements will add up to once every receiver has all messages.
    AckTarget,
    /// The message before which the sender waits for no acknowledgement any more.
    TimedOutBefore,
    /// At a rate: when the role's operation with number 0 was due.
    DueFromNs,
    /// At a rate: how much later than due all operations of the role together have begun.
    LateNs,
    /// At a rate: how long after they were due all messages together have arrived.
    LatencyNs,
}

/// Counters of the roles of a case in shared memory.
pub struct SharedCounters {
    page: Page,
    roles: usize,
}

impl SharedCounters {
    /// Makes memory for the counters of `roles` roles, all zero.
    ///
    /// # Errors
    /// The kernel refuses memory or a descriptor.
    pub fn create(roles: usize) -> io::Result<OwnedFd> {
        Ok(memory::memfd("weighbridge-counters", Self::bytes(roles) as u64)?)
    }

    /// Maps and touches it.
    ///
    /// # Errors
    /// The kernel refuses the mapping.
    pub fn open(fd: impl AsFd, roles: usize) -> io::Result<SharedCounters> {
        let page = Page::map_bytes(fd, Self::bytes(roles))?;
        page.prefault()?;
        Ok(SharedCounters { page, roles })
    }

    /// Those of each role, and the word to sleep on.
    const fn bytes(roles: usize) -> usize {
        (roles + 1) * LINES
    }

    /// A counter, for accesses in another order than relaxed.
    ///
    /// # Panics
    /// If there is no such role.
    #[inline]
    pub fn counter(&self, role: usize, counter: Counter) -> &AtomicU64 {
        assert!(role < self.roles, "role {role} of {}", self.roles);
        self.page.u64_at(role * LINES + counter as usize * 8)
    }

    /// The value of a counter.
    #[inline]
    pub fn get(&self, role: usize, counter: Counter) -> u64 {
        self.counter(role, counter).load(Relaxed)
    }

    /// Sets a counter of this role.
    #[inline]
    pub fn set(&self, role: usize, counter: Counter, value: u64) {
        self.counter(role, counter).store(value, Relaxed);
    }

    /// Sets the context switches of this role, which is the calling thread.
    pub fn set_switches(&self, role: usize) {
        let thread = ThreadCounters::read();
        self.set(role, Counter::VoluntarySwitches, thread.voluntary_switches);
        self.set(role, Counter::InvoluntarySwitches, thread.involuntary_switches);
    }

    /// A counter of several roles, added up; sums wrap around.
    pub fn total(&self, roles: impl IntoIterator<Item = usize>, counter: Counter) -> u64 {
        roles.into_iter().map(|role| self.get(role, counter)).fold(0, u64::wrapping_add)
    }

    /// The word that a role may sleep on, on a line of its own.
    #[inline]
    pub fn futex(&self) -> &AtomicU32 {
        self.page.u32_at(self.roles * LINES)
    }
}

const _: () = assert!((Counter::LatencyNs as usize + 1) * 8 <= LINES, "counters of a role lie on its lines");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_seen_through_every_mapping_and_stands_alone() {
        let fd = SharedCounters::create(3).unwrap();
        let (here, there) = (SharedCounters::open(&fd, 3).unwrap(), SharedCounters::open(&fd, 3).unwrap());
        use Counter::*;
        let all = [Messages, Bytes, Sum, Lost, Interrupted, VoluntarySwitches, InvoluntarySwitches];
        let all = all.into_iter().chain([AckTarget, TimedOutBefore, DueFromNs, LateNs, LatencyNs]);
        let places: Vec<_> =
            (0..3).flat_map(|role| all.clone().map(move |counter| (role, counter))).collect();
        here.futex().store(u32::MAX, Relaxed);
        for (number, &(role, counter)) in places.iter().enumerate() {
            here.set(role, counter, number as u64);
        }
        for (number, &(role, counter)) in places.iter().enumerate() {
            assert_eq!(there.get(role, counter), number as u64);
        }
        assert_eq!(there.futex().load(Relaxed), u32::MAX);
        assert_eq!(there.total(0..3, Messages), all.count() as u64 * 3);
    }
}
