//! Who sleeps says so; who publishes looks; nobody else is disturbed.
//!
//! A receiver stores that it is armed, then a full fence, then looks into the log once more, and only then sleeps.
//! A publisher commits, then a full fence (its commit is one), then looks who is armed. In every interleaving one
//! of the two sees the other. A publisher that rings for a receiver notes so afterwards: ring first, mark after, so
//! that a publisher that dies in between has at worst caused a second ring.

use super::atomic::{Ordering, fence};
use super::layout::{ReceiverWords, Tail};

/// How a receiver wants to be woken. The number is what the low bits of its armed word hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bed {
    /// Asleep on the futex that all receivers of a group share.
    Futex = 1,
    /// Waiting for its own file descriptor.
    Doorbell = 2,
}

/// A receiver's side of the agreement.
#[derive(Debug)]
pub struct Sleeper {
    /// Number of the present sleep, in the upper thirty bits.
    count: u32,
    armed: bool,
}

/// A sleep that began: the value of the futex word to sleep on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "look into the log once more after arming, then sleep or disarm"]
pub struct Armed(pub u32);

impl Sleeper {
    /// `generation` tells receivers apart that use the same slot one after the other: a note about a ring for the
    /// last one must not silence a ring for this one.
    pub fn new(generation: u32) -> Sleeper {
        Sleeper { count: generation.wrapping_shl(20) << 2, armed: false }
    }

    /// Announces the wish to sleep. After this the caller must look into the log again before it sleeps.
    pub fn arm(&mut self, tail: &Tail, mine: &ReceiverWords, bed: Bed) -> Armed {
        let wake_seq = tail.wake_seq.load(Ordering::Acquire); // PAIR wake-seq: before arming, or the wake is missed
        self.count = self.count.wrapping_add(4);
        self.armed = true;
        mine.arm.store(self.count | bed as u32, Ordering::Relaxed);
        fence(Ordering::SeqCst); // PAIR log-armed: the fence after the commit in `Writer`
        Armed(wake_seq)
    }

    /// Says that nobody needs to ring.
    pub fn disarm(&mut self, mine: &ReceiverWords) {
        if self.armed {
            mine.arm.store(self.count, Ordering::Relaxed);
            self.armed = false;
        }
    }

    /// Whether the receiver has announced that it sleeps.
    pub fn is_armed(&self) -> bool {
        self.armed
    }
}

/// A receiver as a publisher sees it.
pub trait Sleepy {
    /// Its slot.
    fn slot(&self) -> usize;
    /// Its page.
    fn words(&self) -> &ReceiverWords;
    /// Makes its file descriptor readable. Never blocks.
    fn ring(&self);
    /// Scratch of the publisher: the armed word for which this round rang, 0 for none.
    fn rung(&mut self) -> &mut u32;
}

/// Wakes every receiver that sleeps. To be called after the commit, which ends with a full fence. `wake_all` wakes
/// everybody on the shared futex word. Returns whether anybody slept.
#[inline(always)]
pub fn wake_sleepers<R: Sleepy>(tail: &Tail, receivers: &mut [R], wake_all: impl FnOnce()) -> bool {
    let mut anybody = false;
    for receiver in receivers.iter() {
        anybody |= receiver.words().arm.load(Ordering::Relaxed) & 3 != 0;
    }
    anybody && wake_those_asleep(tail, receivers, wake_all)
}

#[cold]
fn wake_those_asleep<R: Sleepy>(tail: &Tail, receivers: &mut [R], wake_all: impl FnOnce()) -> bool {
    let (mut futex, mut anybody) = (false, false);
    for receiver in receivers.iter_mut() {
        let arm = receiver.words().arm.load(Ordering::Relaxed);
        *receiver.rung() = 0;
        if arm & 3 == 0 || tail.woken[receiver.slot()].load(Ordering::Relaxed) == arm {
            continue;
        }
        *receiver.rung() = arm;
        anybody = true;
        match arm & 3 {
            1 => futex = true,
            _ => receiver.ring(),
        }
    }
    if futex {
        tail.wake_seq.fetch_add(1, Ordering::Release); // PAIR wake-seq
        wake_all();
    }
    for receiver in receivers.iter_mut() {
        let (slot, rung) = (receiver.slot(), *receiver.rung());
        if rung != 0 {
            tail.woken[slot].store(rung, Ordering::Relaxed);
        }
    }
    anybody
}

/// A publisher says that it waits for space. After this it must look at the receivers' cursors again before it
/// sleeps on one of them.
pub fn await_space(tail: &Tail, owner: u8) {
    tail.writers_waiting.fetch_or(1 << owner, Ordering::Relaxed);
    fence(Ordering::SeqCst); // PAIR space: the fence in `moved_on`
}

/// A publisher no longer waits for space.
pub fn stop_awaiting_space(tail: &Tail, owner: u8) {
    tail.writers_waiting.fetch_and(!(1 << owner), Ordering::Relaxed);
}

/// Publishes a receiver's cursor. Returns whether publishers sleep on it and are to be woken: asked only when the
/// cursor crosses an eighth of the ring, which a publisher that sleeps is always at least away from.
#[inline(always)]
pub fn moved_on(tail: &Tail, mine: &ReceiverWords, capacity_bytes: u64, from: u64, to: u64) -> bool {
    mine.cursor.store(to, Ordering::Release); // PAIR cursor: Acquire in `Gate::lowest`
    let shift = capacity_bytes.trailing_zeros() - 3;
    if from >> shift == to >> shift {
        return false;
    }
    fence(Ordering::SeqCst); // PAIR space
    tail.writers_waiting.load(Ordering::Relaxed) != 0
}
