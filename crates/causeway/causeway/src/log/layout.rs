//! The place of every shared word. The same facts stand a second time in the table below and a third time in those of
//! `docs/wire.md`.
//!
//! Four kinds of memory exist. The *log* is written by publishers and read by all. A *subscriber page* is written
//! by one subscriber and read by publishers and the server. The *status pages* are written by the process that serves
//! the group and read by all. The *wake page* is written by all, who are processes of one user.

use super::atomic::{AtomicU32, AtomicU64, Ordering, QuietU64};
use super::word::PUBLISHERS_MAX;

/// First eight bytes of a log: `CAUSEWY1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CAUSEWY1");
/// The format levels that this release has. A level says where every byte lies and what it means; a process refuses a log of another
/// one. Level 2 states in its header where its parts lie ([`Places`]).
pub const FORMATS: std::ops::RangeInclusive<u32> = 1..=2;
/// The level of a group whose creator asks for none: that of the release before.
pub const FORMAT_DEFAULT: u32 = 1;
/// Smallest and largest capacity, as powers of two: 4 KiB and 1 GiB.
pub const CAPACITY_LOG2: std::ops::RangeInclusive<u32> = 12..=30;
/// Subscribers that one group can have.
pub const SUBSCRIBERS_MAX: usize = if cfg!(loom) { 2 } else { 1024 };
/// Words of the bitmap that has a bit for each of them.
pub const PRESENT_WORDS: usize = SUBSCRIBERS_MAX.div_ceil(64);
/// Payload files that one subscriber can read at the same time.
pub const REFERENCES_MAX: usize = 16;
/// Bytes before the ring at level 1: one page of constants, three pages of words.
pub const PREFIX_BYTES: u64 = 16384;
/// The same at level 2, as this release makes it: one page more, for words that later releases add.
pub const PREFIX_BYTES_2: u64 = 20480;
/// The most that a log of level 2 may state.
pub const PREFIX_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the page of constants.
pub const HEADER_PAGE_BYTES: u64 = 4096;
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

/// As many words, or structures of words, as there are slots.
#[repr(transparent)]
#[derive(Debug)]
pub struct Slots<T, const N: usize>(pub [T; N]);

impl<T: Default, const N: usize> Default for Slots<T, N> {
    fn default() -> Slots<T, N> {
        Slots(std::array::from_fn(|_| T::default()))
    }
}

impl<T, const N: usize> std::ops::Deref for Slots<T, N> {
    type Target = [T; N];
    #[inline(always)]
    fn deref(&self) -> &[T; N] {
        &self.0
    }
}

/// Constants of a log, written once before anybody else has the descriptor.
#[repr(C)]
#[derive(Debug, Default)]
pub struct LogHeader {
    /// [`MAGIC`].
    pub magic: QuietU64,
    /// The format level in the low half, the kind (0 `sw`, 1 `mw`) in the high half.
    pub level_and_kind: QuietU64,
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
    /// From level 2 on: offset of [`Tail`].
    pub tail_offset: QuietU64,
    /// From level 2 on: offset of the ring.
    pub ring_offset: QuietU64,
    /// From level 2 on: features of this log, `compat` in the low half and `ro_compat` in the high half.
    pub compat_and_ro_compat: QuietU64,
    /// From level 2 on: features of this log, `incompat`.
    pub incompat: QuietU64,
}

/// Where the parts of a log lie. At level 1 that is known, from level 2 on the header states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Offset of [`Tail`].
    pub tail: u64,
    /// Offset of the ring.
    pub ring: u64,
}

impl Places {
    /// Those of a log that this release makes.
    pub fn of_level(level: u32) -> Places {
        Places { tail: TAIL_OFFSET, ring: if level == 1 { PREFIX_BYTES } else { PREFIX_BYTES_2 } }
    }

    /// Whether a log can be so, whoever says it: whole pages, in this order, with space for [`Tail`], and no more than the most.
    pub fn are_possible(self) -> bool {
        let whole =
            self.tail.is_multiple_of(HEADER_PAGE_BYTES) && self.ring.is_multiple_of(HEADER_PAGE_BYTES);
        let space = self.ring.checked_sub(self.tail).is_some_and(|space| space >= size_of::<Tail>() as u64);
        whole && space && self.tail >= HEADER_PAGE_BYTES && self.ring <= PREFIX_BYTES_MAX
    }
}

/// The first position of a log that publishers may map, and not yet use: the log before it has not ended.
pub const NOT_BEGUN: u64 = u64::MAX;

/// What one publisher tells the server. A cache line of its own, which nobody else writes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct PublisherWords {
    /// `mw`: its [`LastClaim`], stored before the claim.
    pub claim: QuietU64,
    /// Messages published through this slot. `mw`: stored just before each is committed; `sw`: those before the hint.
    pub published: QuietU64,
    /// The subscriber that it waits for: its slot + 1 in the low half, its generation in the high half; 0 for none. For display only.
    pub waits_for: QuietU64,
    /// Since when that subscriber has kept it waiting, in nanoseconds of `CLOCK_MONOTONIC`. For display only.
    pub waits_since_ns: QuietU64,
}

/// Where a publisher's unfinished frame is, if it has one, and whether it has counted that as a message. Positions are multiples of
/// [`GRANULE_BYTES`](super::word::GRANULE_BYTES): in its word, the lowest bit is that of the count.
#[derive(Clone, Copy, Debug)]
pub struct LastClaim {
    /// Position of the frame.
    pub position: u64,
    count_bit: u64,
}

impl LastClaim {
    /// Of a publisher that has published so many messages.
    #[inline(always)]
    pub fn new(position: u64, published: u64) -> LastClaim {
        LastClaim { position, count_bit: published & 1 }
    }

    /// Whether the publisher had published `published` messages then, which is that or one more.
    pub fn was_made_at(self, published: u64) -> bool {
        self.count_bit == published & 1
    }
}

impl From<u64> for LastClaim {
    fn from(word: u64) -> LastClaim {
        LastClaim { position: word & !1, count_bit: word & 1 }
    }
}

impl From<LastClaim> for u64 {
    #[inline(always)]
    fn from(claim: LastClaim) -> u64 {
        claim.position | claim.count_bit
    }
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
#[derive(Debug, Default)]
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
    pub demoted: Slots<AtomicU32, SUBSCRIBERS_MAX>,
    /// How often a publisher found the log full and gave a message up.
    pub given_up: Apart<QuietU64>,
    /// Per publisher slot.
    pub publishers: Slots<PublisherWords, PUBLISHERS_MAX>,
}

/// A subscriber page: everything that a subscriber tells other processes. They treat it as hostile input.
#[derive(Debug, Default)]
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
#[derive(Debug, Default)]
#[repr(C)]
pub struct WakeWords {
    /// Counts the wake-ups, and is the futex word of those who sleep: of a group in the first, of a connection for calls in the
    /// first for requests and the second for replies.
    pub wake_seq: [Apart<AtomicU32>; 2],
}

/// The status pages.
#[derive(Debug, Default)]
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
    pub subscribers: Slots<AtomicU32, SUBSCRIBERS_MAX>,
    /// Number of the present log, stored before the log before it ends.
    pub epoch: AtomicU64,
    /// First position of the present log, stored when it begins.
    pub log_start: AtomicU64,
}

impl Status {
    /// One bit for each publisher that does not die with the server.
    pub fn remote_publishers(&self) -> u64 {
        self.publishers.load(Ordering::Acquire) & !self.local_publishers.load(Ordering::Acquire)
    }

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

/// Holds the place of each field, and how much memory its structure takes at most.
#[cfg(not(loom))]
macro_rules! places {
    ($($type:ident within $bytes:expr => $($field:ident $offset:literal),+;)+) => {
        $(
            $(const _: () = assert!(std::mem::offset_of!($type, $field) == $offset);)+
            const _: () = assert!(size_of::<$type>() as u64 <= $bytes);
        )+
    };
}

#[cfg(not(loom))]
places! {
    LogHeader within HEADER_PAGE_BYTES => magic 0x00, level_and_kind 0x08, group_id 0x10, epoch 0x20, capacity_log2 0x28, start 0x30,
        messages 0x38, tail_offset 0x40, ring_offset 0x48, compat_and_ro_compat 0x50, incompat 0x58;
    Tail within PREFIX_BYTES - TAIL_OFFSET => limit 0x000, floor 0x080, hint 0x100, wake_seq 0x180, reclaim_lock 0x200,
        last_cpu 0x280, publishers_waiting 0x300, mark_index 0x380, marks 0x400, demoted 0x420, given_up 0x1480,
        publishers 0x1500;
    PublisherWords within 64 => claim 0x00, published 0x08, waits_for 0x10, waits_since_ns 0x18;
    SubscriberWords within PAGE_BYTES => cursor 0x000, arm 0x080, received 0x100, lost_messages 0x108, lost_bytes 0x110,
        process 0x118, topics 0x120, released 0x180, references 0x200;
    WakeWords within 0x100 => wake_seq 0x000;
    Status within STATUS_BYTES => subscriber_changes 0x00, placed 0x80, publishers 0x100, local_publishers 0x108, phase 0x110,
        killed_publishers 0x118, present 0x120, subscribers 0x1a0, epoch 0x11a0, log_start 0x11a8;
}

// Those that stand in a row fill their places.
#[cfg(not(loom))]
const _: () = assert!(size_of::<PublisherWords>() == 64 && size_of::<WakeWords>() == 0x100);

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
