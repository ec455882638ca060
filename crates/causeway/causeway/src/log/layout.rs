//! The place of every shared word. The same facts stand a second time as assertions below and a third time as tables in
//! `docs/wire.md`.
//!
//! Four kinds of memory exist. The *log* is written by publishers and read by all. A *subscriber page* is written
//! by one subscriber and read by publishers and the server. The *status pages* are written by the process that serves
//! the group and read by all. The *wake page* is written by all, who are processes of one user.

use super::atomic::{AtomicU32, AtomicU64, Ordering, QuietU64};
use super::word::PUBLISHERS_MAX;

/// First eight bytes of a log: `CAUSEWY1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CAUSEWY1");
/// Changes whenever the meaning of any byte changes. A process that finds another number refuses the log.
pub const ABI: u32 = 6;
/// Smallest and largest capacity, as powers of two: 4 KiB and 1 GiB.
pub const CAPACITY_LOG2: std::ops::RangeInclusive<u32> = 12..=30;
/// Subscribers that one group can have.
pub const SUBSCRIBERS_MAX: usize = if cfg!(loom) { 2 } else { 1024 };
/// Words of the bitmap that has a bit for each of them.
pub const PRESENT_WORDS: usize = SUBSCRIBERS_MAX.div_ceil(64);
/// Payload files that one subscriber can read at the same time.
pub const REFERENCES_MAX: usize = 16;
/// Bytes before the ring: one page of constants, three pages of words.
pub const PREFIX_BYTES: u64 = 16384;
/// Offset of [`Tail`] in the log.
pub const TAIL_OFFSET: u64 = 4096;
/// Size of a subscriber page.
pub const PAGE_BYTES: u64 = 4096;
/// Size of the status file: two pages.
pub const STATUS_BYTES: u64 = 8192;

/// A word with 128 bytes to itself: two cache lines, because the prefetcher fetches them in pairs.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Apart<T>(pub T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Constants of a log, written once before anybody else has the descriptor.
#[repr(C)]
#[derive(Debug, Default)]
pub struct LogHeader {
    /// [`MAGIC`].
    pub magic: QuietU64,
    /// [`ABI`] in the low half, the kind (0 `sw`, 1 `mw`) in the high half.
    pub abi_and_kind: QuietU64,
    /// Random number of the group, low and high half. The low 29 bits, made odd, are the key of its free frames.
    pub group_id: [QuietU64; 2],
    /// Number of this log in the life of its group, from 0.
    pub epoch: QuietU64,
    /// Binary logarithm of the capacity.
    pub capacity_log2: QuietU64,
    /// Position of the first frame, where the log before it ended; [`NOT_BEGUN`] until that is known.
    pub start: QuietU64,
    /// The number at which messages are counted from `start` on: those before it, as far as they were decided then.
    pub messages: QuietU64,
}

/// The first position of a log that publishers may map, and not yet use: the log before it has not ended.
pub const NOT_BEGUN: u64 = u64::MAX;

/// What one publisher tells the server. A cache line of its own, which nobody else writes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct PublisherWords {
    /// `mw`: the position of its last claim, stored before the claim: where its unfinished frame is, if it has one.
    pub claim: QuietU64,
    /// Messages published through this slot. `mw`: stored after each; `sw`: those before the hint.
    pub published: QuietU64,
}

/// A frame boundary and how many messages lie before it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mark {
    /// Position of the boundary.
    pub position: AtomicU64,
    /// Messages before it since the group began.
    pub messages: AtomicU64,
}

/// The words of a log that change, three pages, written by publishers (and by the server when one died).
#[derive(Debug)]
#[repr(C)]
pub struct Tail {
    /// Frames may be claimed that end here or before. In an `sw` log all ones: there the header of the next frame is always valid.
    pub limit: Apart<AtomicU64>,
    /// Positions below may be overwritten at any time.
    pub floor: Apart<AtomicU64>,
    /// A recent frame boundary, never below the floor: where a publisher that was overtaken resumes.
    pub hint: Apart<AtomicU64>,
    /// Counts the wake-ups where subscribers do not trust each other; otherwise the wake page does.
    pub wake_seq: Apart<AtomicU32>,
    /// Slot + 1 of the publisher that reclaims space, or 0.
    pub reclaim_lock: Apart<AtomicU32>,
    /// CPU + 1 from which a publisher last woke a subscriber, or 0: a hint for spinning.
    pub last_cpu: Apart<AtomicU32>,
    /// One bit per publisher that waits for space.
    pub publishers_waiting: Apart<AtomicU64>,
    /// Low bit: which of `marks` is valid.
    pub mark_index: Apart<AtomicU64>,
    /// Where a subscriber that was overtaken resumes.
    pub marks: [Mark; 2],
    /// Per subscriber slot: the generation that was demoted for missing its deadline, so that publishers no longer wait for
    /// it; 0 for none.
    pub demoted: [AtomicU32; SUBSCRIBERS_MAX],
    /// How often a publisher found the log full and gave a message up.
    pub given_up: Apart<QuietU64>,
    /// Per publisher slot.
    pub publishers: [PublisherWords; PUBLISHERS_MAX],
}

/// A subscriber page: everything that a subscriber tells other processes. They treat it as hostile input.
#[derive(Debug)]
#[repr(C)]
pub struct SubscriberWords {
    /// The position up to which everything was consumed. Its low half is the futex word of publishers that wait for space.
    pub cursor: Apart<AtomicU64>,
    /// Low two bits: 0 awake, 1 asleep on the futex that all share, 2 asleep on its doorbell, 3 asleep on this
    /// word. The rest counts.
    pub arm: Apart<AtomicU32>,
    /// Messages received; for display only.
    pub received: QuietU64,
    /// Messages lost; for display only.
    pub lost_messages: QuietU64,
    /// Bytes of log lost; for display only.
    pub lost_bytes: QuietU64,
    /// The process of the subscriber in the low half, its PID namespace in the high half; 0 if it does not say. For publishers
    /// that wait for it when no server is left that would notice its death.
    pub process: QuietU64,
    /// The filter of its topics in the low half: a bit for each; 0 for all topics. Written before the subscriber is ready.
    pub topics: QuietU64,
    /// Counts the references that it has given back. Futex word of publishers that wait for a payload file.
    pub released: Apart<AtomicU32>,
    /// The payload files that it reads, 0 for none.
    pub references: Apart<[AtomicU64; REFERENCES_MAX]>,
}

/// The wake page: where processes of one user sleep. All of them map it for writing, because a futex on memory that a process
/// may only read costs it twice as much.
#[derive(Debug)]
#[repr(C)]
pub struct WakeWords {
    /// Counts the wake-ups, and is the futex word of those who sleep: of a group in the first, of a connection for calls in the
    /// first for requests and the second for replies.
    pub wake_seq: [Apart<AtomicU32>; 2],
}

/// The status pages.
#[derive(Debug)]
#[repr(C)]
pub struct Status {
    /// Incremented after a subscriber joined or left.
    pub subscriber_changes: Apart<AtomicU64>,
    /// Subscribers that have found their place in the log. Futex word of publishers that wait for subscribers.
    pub placed: Apart<AtomicU32>,
    /// One bit per live publisher.
    pub publishers: AtomicU64,
    /// One bit per live publisher in the process of the server, with which it dies.
    pub local_publishers: AtomicU64,
    /// 0 while the server waits for publishers, 1 when the log is sealed, 2 when nothing will be published any more.
    pub phase: AtomicU64,
    /// Publishers whose connection ended although they had not said that they leave.
    pub killed_publishers: AtomicU64,
    /// One bit per subscriber slot in use: what a publisher looks at, so that its work grows with those present.
    pub present: [AtomicU64; PRESENT_WORDS],
    /// Per subscriber slot: the generation that uses it, 0 for none.
    pub subscribers: [AtomicU32; SUBSCRIBERS_MAX],
    /// Number of the present log, stored before the log before it ends.
    pub epoch: AtomicU64,
    /// First position of the present log, stored when it begins.
    pub log_start: AtomicU64,
}

impl Status {
    /// Slot and generation of each subscriber that is present, by slot. To be called by publishers after they have loaded
    /// `subscriber_changes`: what they miss changes that counter.
    pub fn present_subscribers(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.present.iter().enumerate().flat_map(move |(index, word)| {
            let bits = word.load(Ordering::Acquire); // PAIR present
            SetBits(bits).filter_map(move |bit| {
                let slot = index * 64 + bit;
                let generation = self.subscribers.get(slot)?.load(Ordering::Acquire);
                (generation != 0).then_some((slot, generation))
            })
        })
    }

    /// Enters a subscriber into a slot, or with generation 0 removes the one that is there. To be called by the server,
    /// which then increments `subscriber_changes`.
    pub fn set_subscriber(&self, slot: usize, generation: u32) {
        self.subscribers[slot].store(generation, Ordering::Release);
        let (word, bit) = (&self.present[slot / 64], 1 << (slot % 64));
        match generation {
            0 => word.fetch_and(!bit, Ordering::Release),
            _ => word.fetch_or(bit, Ordering::Release), // PAIR present: its generation is there before it
        };
    }
}

/// The numbers of the bits that are set, lowest first.
struct SetBits(u64);

impl Iterator for SetBits {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        (bit < 64).then(|| {
            self.0 &= self.0 - 1;
            bit
        })
    }
}

impl Default for Tail {
    fn default() -> Tail {
        Tail {
            limit: Default::default(),
            floor: Default::default(),
            hint: Default::default(),
            wake_seq: Default::default(),
            reclaim_lock: Default::default(),
            last_cpu: Default::default(),
            publishers_waiting: Default::default(),
            mark_index: Default::default(),
            marks: Default::default(),
            demoted: std::array::from_fn(|_| AtomicU32::new(0)),
            given_up: Default::default(),
            publishers: std::array::from_fn(|_| PublisherWords::default()),
        }
    }
}

impl Default for SubscriberWords {
    fn default() -> SubscriberWords {
        SubscriberWords {
            cursor: Default::default(),
            arm: Default::default(),
            received: QuietU64::new(0),
            lost_messages: QuietU64::new(0),
            lost_bytes: QuietU64::new(0),
            process: QuietU64::new(0),
            topics: QuietU64::new(0),
            released: Default::default(),
            references: Default::default(),
        }
    }
}

impl Default for WakeWords {
    fn default() -> WakeWords {
        WakeWords { wake_seq: std::array::from_fn(|_| Apart(AtomicU32::new(0))) }
    }
}

impl Default for Status {
    fn default() -> Status {
        Status {
            subscriber_changes: Default::default(),
            placed: Default::default(),
            publishers: AtomicU64::new(0),
            local_publishers: AtomicU64::new(0),
            phase: AtomicU64::new(0),
            killed_publishers: AtomicU64::new(0),
            present: std::array::from_fn(|_| AtomicU64::new(0)),
            subscribers: std::array::from_fn(|_| AtomicU32::new(0)),
            epoch: AtomicU64::new(0),
            log_start: AtomicU64::new(0),
        }
    }
}

#[cfg(not(loom))]
mod checked {
    use super::*;
    use std::mem::{offset_of, size_of};

    const _: () = assert!(offset_of!(LogHeader, magic) == 0x00);
    const _: () = assert!(offset_of!(LogHeader, abi_and_kind) == 0x08);
    const _: () = assert!(offset_of!(LogHeader, group_id) == 0x10);
    const _: () = assert!(offset_of!(LogHeader, epoch) == 0x20);
    const _: () = assert!(offset_of!(LogHeader, capacity_log2) == 0x28);
    const _: () = assert!(offset_of!(LogHeader, start) == 0x30);
    const _: () = assert!(offset_of!(LogHeader, messages) == 0x38);

    const _: () = assert!(offset_of!(Tail, limit) == 0x000);
    const _: () = assert!(offset_of!(Tail, floor) == 0x080);
    const _: () = assert!(offset_of!(Tail, hint) == 0x100);
    const _: () = assert!(offset_of!(Tail, wake_seq) == 0x180);
    const _: () = assert!(offset_of!(Tail, reclaim_lock) == 0x200);
    const _: () = assert!(offset_of!(Tail, last_cpu) == 0x280);
    const _: () = assert!(offset_of!(Tail, publishers_waiting) == 0x300);
    const _: () = assert!(offset_of!(Tail, mark_index) == 0x380);
    const _: () = assert!(offset_of!(Tail, marks) == 0x400);
    const _: () = assert!(offset_of!(Tail, demoted) == 0x420);
    const _: () = assert!(offset_of!(Tail, given_up) == 0x1480);
    const _: () = assert!(offset_of!(Tail, publishers) == 0x1500);
    const _: () = assert!(size_of::<Tail>() as u64 <= PREFIX_BYTES - TAIL_OFFSET);

    const _: () = assert!(size_of::<PublisherWords>() == 64);
    const _: () = assert!(offset_of!(PublisherWords, claim) == 0x00);
    const _: () = assert!(offset_of!(PublisherWords, published) == 0x08);

    const _: () = assert!(offset_of!(SubscriberWords, cursor) == 0x000);
    const _: () = assert!(offset_of!(SubscriberWords, arm) == 0x080);
    const _: () = assert!(offset_of!(SubscriberWords, received) == 0x100);
    const _: () = assert!(offset_of!(SubscriberWords, lost_messages) == 0x108);
    const _: () = assert!(offset_of!(SubscriberWords, lost_bytes) == 0x110);
    const _: () = assert!(offset_of!(SubscriberWords, process) == 0x118);
    const _: () = assert!(offset_of!(SubscriberWords, topics) == 0x120);
    const _: () = assert!(offset_of!(SubscriberWords, released) == 0x180);
    const _: () = assert!(offset_of!(SubscriberWords, references) == 0x200);
    const _: () = assert!(size_of::<SubscriberWords>() as u64 <= PAGE_BYTES);

    const _: () = assert!(offset_of!(WakeWords, wake_seq) == 0x000);
    const _: () = assert!(size_of::<WakeWords>() == 0x100);

    const _: () = assert!(offset_of!(Status, subscriber_changes) == 0x00);
    const _: () = assert!(offset_of!(Status, placed) == 0x80);
    const _: () = assert!(offset_of!(Status, publishers) == 0x100);
    const _: () = assert!(offset_of!(Status, local_publishers) == 0x108);
    const _: () = assert!(offset_of!(Status, phase) == 0x110);
    const _: () = assert!(offset_of!(Status, present) == 0x120);
    const _: () = assert!(offset_of!(Status, subscribers) == 0x1a0);
    const _: () = assert!(offset_of!(Status, epoch) == 0x11a0);
    const _: () = assert!(offset_of!(Status, log_start) == 0x11a8);
    const _: () = assert!(size_of::<Status>() as u64 <= STATUS_BYTES);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Generations without a bit stand where a walk over all slots would find them.
    #[test]
    fn a_publisher_looks_at_the_subscribers_present_and_at_no_other_slot() {
        let status = Status::default();
        status.subscribers.iter().for_each(|word| word.store(9, Ordering::Relaxed));
        for (slot, generation) in [(1023, 3), (0, 1), (64, 2), (500, 7)] {
            status.set_subscriber(slot, generation);
        }
        status.set_subscriber(500, 0);
        assert!(status.present_subscribers().eq([(0, 1), (64, 2), (1023, 3)]));
    }
}
