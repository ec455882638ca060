//! Waiting for messages and for space, without lost wake-ups and without system calls while no process sleeps.
//!
//! A subscriber stores that it is armed, executes a full fence, checks the log once more, and only then sleeps. A publisher
//! commits, executes a full fence (part of the commit), and loads which subscribers are armed. In every interleaving one of
//! the two sees the other. A publisher that notifies a subscriber stores that afterwards: a publisher that dies in between
//! causes a second notification at worst.

use super::atomic::{Ordering, fence};
use super::layout::{SubscriberWords, Tail};

/// What a subscriber waits on. The number is what the low bits of its armed word hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// The futex that all subscribers of a group share.
    Futex = 1,
    /// The subscriber's own file descriptor.
    Doorbell = 2,
}

/// A subscriber's own side of waiting.
#[derive(Debug)]
pub struct Waiter {
    /// Number of the present wait, in the upper thirty bits.
    count: u32,
    armed: bool,
}

/// The value of the futex word with which a wait began: the kernel sleeps only while the word still has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "check the log once more after arming, then sleep or disarm"]
pub struct Armed(pub u32);

impl Waiter {
    /// `generation` distinguishes subscribers that use the same slot one after the other: a notification of the previous one
    /// must not suppress a notification of this one.
    pub fn new(generation: u32) -> Waiter {
        Waiter { count: generation.wrapping_shl(20) << 2, armed: false }
    }

    /// Announces a wait. After this the caller must check the log again before it sleeps.
    pub fn arm(&mut self, tail: &Tail, own: &SubscriberWords, target: WaitTarget) -> Armed {
        let wake_seq = tail.wake_seq.load(Ordering::Acquire); // PAIR wake-seq: before arming, or the wake is missed
        self.count = self.count.wrapping_add(4);
        self.armed = true;
        own.arm.store(self.count | target as u32, Ordering::Relaxed);
        fence(Ordering::SeqCst); // PAIR log-armed: the fence after the commit in `Writer`
        Armed(wake_seq)
    }

    /// Ends the wait: no notification is needed.
    pub fn disarm(&mut self, own: &SubscriberWords) {
        if self.armed {
            own.arm.store(self.count, Ordering::Relaxed);
            self.armed = false;
        }
    }

    /// Whether a wait is announced.
    pub fn is_armed(&self) -> bool {
        self.armed
    }
}

/// A subscriber as the process that wakes it sees it.
pub trait WaitingSubscriber {
    /// Its slot.
    fn slot(&self) -> usize;
    /// The words of its page.
    fn words(&self) -> &SubscriberWords;
    /// Makes its file descriptor readable. Never blocks.
    fn ring_doorbell(&self);
    /// Scratch of [`wake_waiters`]: the armed word for which this call notifies the subscriber, 0 for none.
    fn notified(&mut self) -> &mut u32;
}

/// Wakes every subscriber that waits. To be called after the commit, which ends with a full fence. `wake_all` wakes all
/// threads on the shared futex word. Returns whether any subscriber was woken.
#[inline(always)]
pub fn wake_waiters<S: WaitingSubscriber>(
    tail: &Tail,
    subscribers: &mut [S],
    wake_all: impl FnOnce(),
) -> bool {
    let mut any_armed = false;
    for subscriber in subscribers.iter() {
        any_armed |= subscriber.words().arm.load(Ordering::Relaxed) & 3 != 0;
    }
    any_armed && wake_waiters_slow(tail, subscribers, wake_all)
}

#[cold]
fn wake_waiters_slow<S: WaitingSubscriber>(
    tail: &Tail,
    subscribers: &mut [S],
    wake_all: impl FnOnce(),
) -> bool {
    let (mut any_on_futex, mut any_woken) = (false, false);
    for subscriber in subscribers.iter_mut() {
        let arm = subscriber.words().arm.load(Ordering::Relaxed);
        *subscriber.notified() = 0;
        if arm & 3 == 0 || tail.woken[subscriber.slot()].load(Ordering::Relaxed) == arm {
            continue;
        }
        *subscriber.notified() = arm;
        any_woken = true;
        match arm & 3 {
            1 => any_on_futex = true,
            _ => subscriber.ring_doorbell(),
        }
    }
    if any_on_futex {
        tail.wake_seq.fetch_add(1, Ordering::Release); // PAIR wake-seq
        wake_all();
    }
    for subscriber in subscribers.iter_mut() {
        let (slot, notified) = (subscriber.slot(), *subscriber.notified());
        if notified != 0 {
            tail.woken[slot].store(notified, Ordering::Relaxed);
        }
    }
    any_woken
}

/// Announces that a publisher waits for space. After this it must load the subscribers' cursors again before it sleeps on one
/// of them.
pub fn await_space(tail: &Tail, owner: u8) {
    tail.publishers_waiting.fetch_or(1 << owner, Ordering::Relaxed);
    fence(Ordering::SeqCst); // PAIR space: the fence in `advance_cursor`
}

/// Ends [`await_space`].
pub fn stop_awaiting_space(tail: &Tail, owner: u8) {
    tail.publishers_waiting.fetch_and(!(1 << owner), Ordering::Relaxed);
}

/// Publishes a subscriber's cursor. Returns whether publishers may sleep on it and must be woken: checked only when the
/// cursor crosses an eighth of the ring, because a publisher that sleeps is at least that far away.
#[inline(always)]
pub fn advance_cursor(tail: &Tail, own: &SubscriberWords, capacity_bytes: u64, from: u64, to: u64) -> bool {
    own.cursor.store(to, Ordering::Release); // PAIR cursor: Acquire in `Gate::lowest`
    let shift = capacity_bytes.trailing_zeros() - 3;
    if from >> shift == to >> shift {
        return false;
    }
    fence(Ordering::SeqCst); // PAIR space
    tail.publishers_waiting.load(Ordering::Relaxed) != 0
}
