//! Where every shared word lies. The same facts stand a second time as assertions below and a third time as
//! tables in `docs/wire.md`.
//!
//! Three kinds of memory exist. The *log* is written by publishers and read by all. A *receiver page* is written
//! by one receiver and read by publishers and the server. The *status page* is written by the process that serves
//! the group and read by all.

use super::atomic::{AtomicU32, AtomicU64, QuietU64};

/// First eight bytes of a log: `CAUSEWY1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CAUSEWY1");
/// Changes whenever the meaning of any byte changes. A process that finds another number refuses.
pub const ABI: u32 = 2;
/// Smallest and largest capacity, as powers of two: 4 KiB and 1 GiB.
pub const CAPACITY_LOG2: std::ops::RangeInclusive<u32> = 12..=30;
/// Receivers that one group can have.
pub const RECEIVERS_MAX: usize = if cfg!(loom) { 2 } else { 256 };
/// Bytes before the ring: one page of constants, one page of words.
pub const PREFIX_BYTES: u64 = 8192;
/// Offset of [`Tail`] in the log.
pub const TAIL_OFFSET: u64 = 4096;
/// Size of a receiver page and of the status page.
pub const PAGE_BYTES: u64 = 4096;

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
    /// Position of the first frame; a multiple of the capacity.
    pub start: QuietU64,
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

/// The words of a log that change, one page, written by publishers (and by the server when one died).
#[derive(Debug)]
#[repr(C)]
pub struct Tail {
    /// Frames may be claimed that end here or before. In an `sw` log all ones: there the header of the next frame is always valid.
    pub limit: Apart<AtomicU64>,
    /// Positions below may be overwritten at any time.
    pub floor: Apart<AtomicU64>,
    /// A recent frame boundary, never below the floor: where a publisher that lost its place starts to look.
    pub hint: Apart<AtomicU64>,
    /// Futex word of sleeping receivers.
    pub wake_seq: Apart<AtomicU32>,
    /// Slot + 1 of the publisher that frees space, or 0.
    pub reclaim_lock: Apart<AtomicU32>,
    /// CPU + 1 on which somebody was last woken from, or 0: a hint for spinning.
    pub last_cpu: Apart<AtomicU32>,
    /// One bit per publisher that waits for space.
    pub writers_waiting: Apart<AtomicU64>,
    /// Low bit: which of `marks` is valid.
    pub mark_index: Apart<AtomicU64>,
    /// Where a receiver that lost its place continues.
    pub marks: [Mark; 2],
    /// Per receiver: the last armed word for which somebody rang. A hint that saves rings.
    pub woken: [AtomicU32; RECEIVERS_MAX],
    /// Per receiver: the generation that publishers no longer wait for, because it was late; 0 for none.
    pub expelled: [AtomicU32; RECEIVERS_MAX],
}

/// A receiver's page: everything that a receiver says to others. Publishers treat it as hostile input.
#[derive(Debug)]
#[repr(C)]
pub struct ReceiverWords {
    /// Everything below is consumed. Its low half is the futex word of publishers that wait for space.
    pub cursor: Apart<AtomicU64>,
    /// Low two bits: 0 awake, 1 asleep on the futex, 2 asleep on its doorbell. The rest counts.
    pub arm: Apart<AtomicU32>,
    /// Messages received; for display only.
    pub received: QuietU64,
    /// Messages lost; for display only.
    pub lost_messages: QuietU64,
    /// Bytes of log lost; for display only.
    pub lost_bytes: QuietU64,
}

/// The status page.
#[derive(Debug)]
#[repr(C)]
pub struct Status {
    /// Changes after a receiver joined or left. Its descriptors were sent to every publisher before.
    pub members: Apart<AtomicU64>,
    /// One bit per publisher that lives.
    pub publishers: AtomicU64,
    /// Of those, the ones that live in the process of the server and die with it.
    pub local_publishers: AtomicU64,
    /// 0 while publishers are still awaited, 1 when the log is sealed, 2 when nothing will be published any more.
    pub phase: AtomicU64,
    /// Per receiver slot: the generation that lives in it, 0 for nobody.
    pub receivers: [AtomicU32; RECEIVERS_MAX],
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
            writers_waiting: Default::default(),
            mark_index: Default::default(),
            marks: Default::default(),
            woken: std::array::from_fn(|_| AtomicU32::new(0)),
            expelled: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl Default for ReceiverWords {
    fn default() -> ReceiverWords {
        ReceiverWords {
            cursor: Default::default(),
            arm: Default::default(),
            received: QuietU64::new(0),
            lost_messages: QuietU64::new(0),
            lost_bytes: QuietU64::new(0),
        }
    }
}

impl Default for Status {
    fn default() -> Status {
        Status {
            members: Default::default(),
            publishers: AtomicU64::new(0),
            local_publishers: AtomicU64::new(0),
            phase: AtomicU64::new(0),
            receivers: std::array::from_fn(|_| AtomicU32::new(0)),
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

    const _: () = assert!(offset_of!(Tail, limit) == 0x000);
    const _: () = assert!(offset_of!(Tail, floor) == 0x080);
    const _: () = assert!(offset_of!(Tail, hint) == 0x100);
    const _: () = assert!(offset_of!(Tail, wake_seq) == 0x180);
    const _: () = assert!(offset_of!(Tail, reclaim_lock) == 0x200);
    const _: () = assert!(offset_of!(Tail, last_cpu) == 0x280);
    const _: () = assert!(offset_of!(Tail, writers_waiting) == 0x300);
    const _: () = assert!(offset_of!(Tail, mark_index) == 0x380);
    const _: () = assert!(offset_of!(Tail, marks) == 0x400);
    const _: () = assert!(offset_of!(Tail, woken) == 0x420);
    const _: () = assert!(offset_of!(Tail, expelled) == 0x820);
    const _: () = assert!(size_of::<Tail>() as u64 <= PREFIX_BYTES - TAIL_OFFSET);

    const _: () = assert!(offset_of!(ReceiverWords, cursor) == 0x000);
    const _: () = assert!(offset_of!(ReceiverWords, arm) == 0x080);
    const _: () = assert!(offset_of!(ReceiverWords, received) == 0x100);
    const _: () = assert!(offset_of!(ReceiverWords, lost_messages) == 0x108);
    const _: () = assert!(offset_of!(ReceiverWords, lost_bytes) == 0x110);
    const _: () = assert!(size_of::<ReceiverWords>() as u64 <= PAGE_BYTES);

    const _: () = assert!(offset_of!(Status, members) == 0x00);
    const _: () = assert!(offset_of!(Status, publishers) == 0x80);
    const _: () = assert!(offset_of!(Status, local_publishers) == 0x88);
    const _: () = assert!(offset_of!(Status, phase) == 0x90);
    const _: () = assert!(offset_of!(Status, receivers) == 0x98);
    const _: () = assert!(size_of::<Status>() as u64 <= PAGE_BYTES);
}
