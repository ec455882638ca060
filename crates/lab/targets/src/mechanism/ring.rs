//! One ring in shared memory for each direction, and a doorbell: `ring-spin`, `ring-futex`, `ring-eventfd`.
//!
//! A single producer fills slots in order and a single consumer empties them. A slot's first line holds its sequence
//! number, its length and the beginning of its payload, so that a small message costs one line. What a side does when it
//! finds nothing (or no room) is the doorbell's business; that is all in which the three mechanisms differ.
//!
//! # Safety
//! The mapping lives as long as the end that owns it, and slot addresses are computed from a slot count and a stride that
//! both ends derive from the same case. A slot belongs to the producer until it stores the slot's sequence number
//! (Release) and to the consumer from the load that sees it (Acquire) until it stores its count of emptied slots; so a
//! slice of its payload has one user at a time. The ends trust each other: this is a laboratory, not a bus.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use causeway_os::memory::{self, Access, Mapping};

use super::backing::{self, Backing};
use super::doorbell::{Doorbell, Words};
use super::fd::sharing;
use super::yes_no;
use crate::page::LINES;
use crate::prelude::*;

const DEPTH: Axis = Axis {
    name: "depth",
    default: "default",
    values: Values::Count,
    about: "slots of the ring; default is what fits 256 KiB, at least 2 and at most 64",
};

/// Bytes that a ring takes unless its messages are larger: it should stay in a second-level cache.
const DEFAULT_RING_BYTES: usize = 256 << 10;
/// Sequence number and length.
const SLOT_HEADER: usize = 16;

// Words of a ring, each on lines of its own.
const EMPTIED: usize = 0;
const DATA_ARMED: usize = LINES;
const DATA_WORD: usize = 2 * LINES;
const ROOM_ARMED: usize = 3 * LINES;
const ROOM_WORD: usize = 4 * LINES;
const SLOTS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    slots: usize,
    stride: usize,
}

impl Shape {
    fn of(params: &CaseParams) -> Shape {
        let stride = (SLOT_HEADER + params.payload_bytes).next_multiple_of(LINES);
        let slots = params.number(DEPTH.name).unwrap_or((DEFAULT_RING_BYTES / stride).clamp(2, 64));
        Shape { slots, stride }
    }

    fn ring_bytes(self) -> usize {
        (SLOTS + self.slots * self.stride).next_multiple_of(memory::page_bytes())
    }
}

pub(super) struct Ring<D>(PhantomData<D>);

impl<D: Doorbell> Mechanism for Ring<D> {
    const ID: &'static str = D::ID;
    const ABOUT: &'static str = D::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ZERO_COPY);
    const WAITS: &'static [Wait] = D::WAITS;
    const AXES: &'static [Axis] = &[Backing::AXIS, DEPTH];
    const TO_ITSELF: Result<usize, &'static str> = Ok(usize::MAX);
    type End = RingEnd<D>;

    fn properties(_params: &CaseParams) -> Properties {
        D::PROPERTIES
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        let slots = params.number(DEPTH.name).unwrap_or(2);
        let stride = (SLOT_HEADER + params.payload_bytes).checked_next_multiple_of(LINES);
        let fits = stride.and_then(|stride| stride.checked_mul(slots)).is_some_and(|bytes| bytes < 1 << 40);
        if fits {
            return Ok(());
        }
        let bytes = params.payload_bytes;
        Err(Unsupported(format!("{slots} slots of {bytes} bytes exceed memory; lower depth")))
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let bytes = 2 * Shape::of(params).ring_bytes() as u64;
        let memory = backing::create(params, "weighbridge-ring", bytes)?;
        sharing(memory, D::create()?)
    }

    fn attach(side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<RingEnd<D>> {
        let shape = Shape::of(params);
        let memory = resources.take_fd();
        let map = Mapping::shared(memory.as_fd(), 2 * shape.ring_bytes(), Access::ReadWrite)?;
        let mut fds = resources.fds.into_iter();
        let (my_data, my_room, their_data, their_room) = (fds.next(), fds.next(), fds.next(), fds.next());
        let second = shape.ring_bytes();
        let (outgoing, incoming) = if side == Side::Near { (0, second) } else { (second, 0) };
        Ok(RingEnd {
            map,
            shape,
            outgoing,
            incoming,
            filled: 0,
            emptied: 0,
            emptied_by_other: 0,
            data_bell: D::attach(my_data, their_data, params)?,
            room_bell: D::attach(my_room, their_room, params)?,
            is_locked: false,
        })
    }
}

pub(super) struct RingEnd<D> {
    map: Mapping,
    shape: Shape,
    outgoing: usize,
    incoming: usize,
    /// Slots that this end has filled in the outgoing ring.
    filled: u64,
    /// Slots that this end has emptied in the incoming ring.
    emptied: u64,
    /// What this end last saw of the other's count, so that it need not look at every message.
    emptied_by_other: u64,
    data_bell: D,
    room_bell: D,
    is_locked: bool,
}

impl<D> RingEnd<D> {
    /// Offset of the slot with this count.
    #[inline]
    fn slot(&self, ring: usize, count: u64) -> usize {
        ring + SLOTS + (count % self.shape.slots as u64) as usize * self.shape.stride
    }
}

pub(super) struct RingTx<'a, D: Doorbell> {
    end: &'a mut RingEnd<D>,
    slot: usize,
    len: usize,
}

impl<D: Doorbell> AsMut<[u8]> for RingTx<'_, D> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: `slot` is inside the mapping and `len` within its stride (checked in `loan`), and the slot is the
        // producer's until `commit`.
        unsafe {
            std::slice::from_raw_parts_mut(self.end.map.as_ptr().add(self.slot + SLOT_HEADER), self.len)
        }
    }
}

/// A slot that is being emptied; dropping it gives it back.
pub(super) struct RingRx<'a, D: Doorbell> {
    end: &'a mut RingEnd<D>,
    slot: usize,
    len: usize,
}

impl<D: Doorbell> AsRef<[u8]> for RingRx<'_, D> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `slot` is inside the mapping and `len` within its stride (checked in `take`), and the slot is the
        // consumer's until this is dropped.
        unsafe { std::slice::from_raw_parts(self.end.map.as_ptr().add(self.slot + SLOT_HEADER), self.len) }
    }
}

impl<D: Doorbell> Drop for RingRx<'_, D> {
    #[inline]
    fn drop(&mut self) {
        let ring = self.end.incoming;
        self.end.emptied += 1;
        self.end.map.atomic_u64(ring + EMPTIED).store(self.end.emptied, Release); // PAIR ring-room
        let RingEnd { map, room_bell, .. } = &mut *self.end;
        let words = Words::at(map, ring + ROOM_ARMED, ring + ROOM_WORD);
        room_bell.notify(words).expect("ringing a bell that this process holds");
    }
}

impl<D: Doorbell> Endpoint for RingEnd<D> {
    type Tx<'a> = RingTx<'a, D>;
    type Rx<'a> = RingRx<'a, D>;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<RingTx<'_, D>> {
        assert!(
            SLOT_HEADER + len <= self.shape.stride,
            "a message of {len} bytes in slots of {}",
            self.shape.stride
        );
        let slots = self.shape.slots as u64;
        if self.filled - self.emptied_by_other == slots {
            let RingEnd { map, room_bell, outgoing, filled, .. } = &mut *self;
            let emptied: &AtomicU64 = map.atomic_u64(*outgoing + EMPTIED);
            let words = Words::at(map, *outgoing + ROOM_ARMED, *outgoing + ROOM_WORD);
            let has_room = || *filled - emptied.load(Acquire) < slots; // PAIR ring-room
            if !has_room() {
                room_bell.wait(words, has_room)?;
            }
            self.emptied_by_other = emptied.load(Acquire); // PAIR ring-room
        }
        let slot = self.slot(self.outgoing, self.filled);
        Ok(RingTx { end: self, slot, len })
    }

    #[inline]
    fn commit(tx: RingTx<'_, D>) -> io::Result<()> {
        let RingTx { end, slot, len } = tx;
        let ring = end.outgoing;
        end.map.atomic_u64(slot + 8).store(len as u64, Relaxed);
        end.filled += 1;
        end.map.atomic_u64(slot).store(end.filled, Release); // PAIR ring-data
        let RingEnd { map, data_bell, .. } = end;
        data_bell.notify(Words::at(map, ring + DATA_ARMED, ring + DATA_WORD))
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<RingRx<'_, D>> {
        let ring = self.incoming;
        let slot = self.slot(ring, self.emptied);
        let RingEnd { map, data_bell, emptied, .. } = &mut *self;
        let wanted = *emptied + 1;
        let sequence = map.atomic_u64(slot);
        let is_filled = || sequence.load(Acquire) == wanted; // PAIR ring-data
        if !is_filled() {
            let words = Words::at(map, ring + DATA_ARMED, ring + DATA_WORD);
            data_bell.wait(words, is_filled)?;
        }
        let len = map.atomic_u64(slot + 8).load(Relaxed) as usize;
        assert!(SLOT_HEADER + len <= self.shape.stride, "the other end wrote a length of {len}");
        Ok(RingRx { end: self, slot, len })
    }

    /// The number of the last message, which its sender wrote beside it.
    #[inline]
    fn position(&mut self) -> u64 {
        self.emptied
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.map.prefault()?;
        self.is_locked = self.map.lock().is_ok();
        Ok(())
    }

    fn facts(&self) -> io::Result<Facts> {
        Ok(Facts::from([
            ("ring_slots".into(), self.shape.slots.to_string()),
            ("ring_bytes".into(), self.shape.ring_bytes().to_string()),
            ("buffers_locked".into(), yes_no(self.is_locked)),
        ]))
    }
}
