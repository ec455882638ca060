//! Waiting for messages and for space, without lost wake-ups and without system calls while no process sleeps.
//!
//! A subscriber stores that it is armed, executes a full fence, checks the log once more, and only then sleeps. A publisher
//! commits, executes a full fence (part of the commit), and loads which subscribers are armed. In every interleaving one of
//! the two sees the other. Each publisher notes in its own memory for which wait it has notified a subscriber, so that it
//! notifies once for each wait.
//!
//! Where a subscriber sleeps depends on who else could reach that place. Any process that maps a word, even for reading only,
//! can wake, move or block the threads that sleep on it. So a word that all subscribers map serves subscribers that trust each
//! other, with one system call for all of them. Others sleep on the armed word of their own page.

use super::atomic::{AtomicU32, Ordering, fence, full_fence};
use super::layout::{SubscriberWords, Tail};

/// What a subscriber waits on. The number is what the low bits of its armed word hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// The futex that all subscribers of a group share.
    SharedFutex = 1,
    /// The subscriber's own file descriptor.
    Doorbell = 2,
    /// The armed word of the subscriber's own page.
    OwnFutex = 3,
}

/// A subscriber's own side of waiting.
#[derive(Debug, Default)]
pub struct Waiter {
    /// Number of the present wait, in the upper thirty bits.
    count: u32,
    armed: bool,
}

/// The values of the words with which a wait began: the kernel sleeps only while they still have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "check the log once more after arming, then sleep or disarm"]
pub struct Armed {
    /// The counter of wake-ups.
    pub wake_seq: u32,
    /// The armed word of the subscriber's page.
    pub arm: u32,
}

impl Waiter {
    /// A subscriber that does not wait.
    pub fn new() -> Waiter {
        Waiter { count: 0, armed: false }
    }

    /// Announces a wait for the next wake-up that `wake_seq` counts. After this the caller must check the log again before it sleeps.
    pub fn arm(&mut self, wake_seq: &AtomicU32, own: &SubscriberWords, target: WaitTarget) -> Armed {
        let wake_seq = wake_seq.load(Ordering::Acquire); // PAIR wake-seq: before arming, or the wake is missed
        self.count = self.count.wrapping_add(4);
        self.armed = true;
        let arm = self.count | target as u32;
        own.arm.store(arm, Ordering::Relaxed);
        full_fence(); // PAIR log-armed: the fence after the commit in `Writer`. PAIR watched-ends: that in `Ends::learn`
        Armed { wake_seq, arm }
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
    /// The words of its page.
    fn words(&self) -> &SubscriberWords;
    /// Makes its file descriptor readable. Never blocks. Returns whether it is readable now.
    fn ring_doorbell(&mut self) -> bool;
    /// Wakes the threads that sleep on its armed word. Returns whether the kernel did it, which includes that none slept.
    fn wake_own_futex(&mut self) -> bool;
    /// What this process remembers of it.
    fn notes(&mut self) -> &mut Notes;
}

/// What one process that wakes remembers of one subscriber. Private to the process and to one generation of a slot: what
/// a subscriber writes can suppress no notification but its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes {
    /// The last armed word for which this process notified the subscriber, 0 for none.
    notified: u32,
}

/// A message that was published, for subscribers that want some topics only.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Its topic.
    pub topic: u32,
    /// Its position.
    pub position: u64,
    /// A subscriber that sleeps this far behind is woken whatever the topic: it holds space with messages that it does not want.
    pub lag_bytes_max: u64,
}

/// The bit of a topic in the filter of a subscriber. Topics share 32 bits: one that shares a bit with a wanted one wakes, too.
pub const fn topic_bit(topic: u32) -> u32 {
    1 << (topic.wrapping_mul(0x9e37_79b9) >> 27)
}

/// Wakes every subscriber that waits, and wants what was `published`; without that, all. To be called after the commit, which
/// ends with a full fence. `wake_shared` wakes the threads on the shared futex word that sleep with one of these bits, and returns
/// whether the kernel did it. Returns whether any subscriber was woken.
#[inline(always)]
pub fn wake_waiters<S: WaitingSubscriber>(
    wake_seq: &AtomicU32,
    subscribers: &mut [S],
    published: Option<Published>,
    wake_shared: impl FnOnce(u32) -> bool,
) -> bool {
    let is_armed = |subscriber: &S| subscriber.words().arm.load(Ordering::Relaxed) & 3 != 0;
    let any_armed = match &*subscribers {
        [only] => is_armed(only),
        // Without a branch for each.
        all => all.iter().fold(false, |any, subscriber| any | is_armed(subscriber)),
    };
    any_armed && wake_waiters_slow(wake_seq, subscribers, published, wake_shared)
}

#[cold]
fn wake_waiters_slow<S: WaitingSubscriber>(
    wake_seq: &AtomicU32,
    subscribers: &mut [S],
    published: Option<Published>,
    wake_shared: impl FnOnce(u32) -> bool,
) -> bool {
    let (mut any_filtered, mut shared_bits, mut any_woken) = (false, 0, false);
    // After the armed words were read, and before their futex is woken: a subscriber that the kernel has not queued yet finds the
    // word changed. Each futex has a change of its own, because a subscriber may arm again while others are woken.
    let change = || wake_seq.fetch_add(1, Ordering::Release); // PAIR wake-seq
    for subscriber in subscribers.iter_mut() {
        let arm = subscriber.words().arm.load(Ordering::Relaxed);
        if arm & 3 == 0 || subscriber.notes().notified == arm {
            continue;
        }
        let (filter, bits) = wake_bits(subscriber.words(), published);
        any_filtered |= filter != 0;
        if bits == 0 {
            continue;
        }
        any_woken = true;
        let done = match arm & 3 {
            1 => {
                shared_bits |= bits;
                true
            }
            2 => subscriber.ring_doorbell(),
            _ => {
                change();
                subscriber.wake_own_futex()
            }
        };
        // A notification that failed is repeated after the next commit.
        if done {
            subscriber.notes().notified = arm;
        }
    }
    if shared_bits != 0 {
        change();
        if !wake_shared(if any_filtered { shared_bits } else { u32::MAX }) {
            // Which of them the kernel did not wake is not known: all are notified again after the next commit.
            subscribers.iter_mut().for_each(|subscriber| subscriber.notes().notified = 0);
        }
    }
    any_woken
}

/// The filter of a subscriber that sleeps, 0 for none, and the bits with which to wake it, 0 if it is not to be woken. A subscriber
/// without a filter sleeps with all bits, so that any wakes it.
fn wake_bits(words: &SubscriberWords, published: Option<Published>) -> (u32, u32) {
    let filter = words.topics.load(Ordering::Relaxed) as u32;
    let Some(Published { topic, position, lag_bytes_max }) = published else { return (filter, u32::MAX) };
    let bit = topic_bit(topic);
    if filter == 0 || filter & bit != 0 {
        return (filter, bit);
    }
    let lag_bytes = position.saturating_sub(words.cursor.load(Ordering::Acquire));
    (filter, if lag_bytes >= lag_bytes_max { filter } else { 0 })
}

/// Notes the CPU from which a subscriber was woken: subscribers do not poll on that one. They load the word before each sleep,
/// so it is stored only when it changes.
#[cfg(not(loom))]
pub fn note_cpu(tail: &Tail) {
    let cpu = causeway_os::sched::current_cpu() + 1;
    if tail.last_cpu.load(Ordering::Relaxed) != cpu {
        tail.last_cpu.store(cpu, Ordering::Relaxed);
    }
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
/// cursor crosses an eighth of the ring, because a publisher that sleeps is at least that far away. `on_eighth` is called then.
#[inline(always)]
pub fn advance_cursor(
    tail: &Tail,
    own: &SubscriberWords,
    capacity_bytes: u64,
    (from, to): (u64, u64),
    on_eighth: impl FnOnce(),
) -> bool {
    own.cursor.store(to, Ordering::Release); // PAIR cursor: Acquire in `SubscriberHandle::highest_cursor`
    let shift = capacity_bytes.trailing_zeros() - 3;
    if from >> shift == to >> shift {
        return false;
    }
    on_eighth();
    fence(Ordering::SeqCst); // PAIR space
    tail.publishers_waiting.load(Ordering::Relaxed) != 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A subscriber on a futex of its own, and what another one does when the kernel wakes this one.
    struct Sleeping<'a> {
        words: &'a SubscriberWords,
        notes: Notes,
        meanwhile: Box<dyn FnMut() + 'a>,
    }

    impl WaitingSubscriber for Sleeping<'_> {
        fn words(&self) -> &SubscriberWords {
            self.words
        }
        fn ring_doorbell(&mut self) -> bool {
            unreachable!("both sleep on futexes")
        }
        fn wake_own_futex(&mut self) -> bool {
            (self.meanwhile)();
            true
        }
        fn notes(&mut self) -> &mut Notes {
            &mut self.notes
        }
    }

    /// The second one finds the message before it sleeps, takes it, and waits for the next, all while the first one is woken. Its
    /// second wait counts as notified, so the kernel must not let it sleep.
    #[test]
    fn a_subscriber_that_waits_again_while_others_are_woken_does_not_sleep_through_its_notification() {
        let (wake_seq, words) = (AtomicU32::new(0), [SubscriberWords::default(), SubscriberWords::default()]);
        let mut waiters = [Waiter::new(), Waiter::new()];
        let _ = waiters[0].arm(&wake_seq, &words[0], WaitTarget::OwnFutex);
        let _ = waiters[1].arm(&wake_seq, &words[1], WaitTarget::OwnFutex);
        let mut again = None;
        let waits_again = Box::new(|| {
            waiters[1].disarm(&words[1]);
            again = Some(waiters[1].arm(&wake_seq, &words[1], WaitTarget::OwnFutex));
        });
        let mut sleeping = [
            Sleeping { words: &words[0], notes: Notes::default(), meanwhile: waits_again },
            Sleeping { words: &words[1], notes: Notes::default(), meanwhile: Box::new(|| {}) },
        ];
        assert!(wake_waiters(&wake_seq, &mut sleeping, None, |_| true));
        let notified = sleeping[1].notes.notified;
        drop(sleeping);
        let again = again.expect("the first one was woken");
        assert_eq!(notified, again.arm, "it counts as notified");
        assert_ne!(wake_seq.load(Ordering::Relaxed), again.wake_seq, "the kernel lets it sleep");
    }
}
