//! Two buffers in shared memory for each direction, and a barrier that both ends cross once for each message: while the
//! receiver reads one buffer, the sender writes the other.
//!
//! The simplest way to use shared memory that is right, and what akbench measures as mmap (`backing=file`) and shm
//! (`backing=shm`). The ends go in lockstep: each message costs a barrier, however small it is.
//!
//! # Safety
//! The mapping lives as long as the end that owns it, and a buffer's place is computed from a stride that both ends derive
//! from the same case. A buffer belongs to the sender until it crosses the barrier after writing it, and to the receiver
//! from that crossing until its next one. The sender writes the same buffer again only two crossings later, so a buffer has
//! one user at a time.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::Relaxed;

use causeway_os::memory::{self, Access, Mapping};

use super::backing::{self, Backing};
use super::fd::sharing;
use super::yes_no;
use crate::prelude::*;
use crate::signal::barrier::Crossing;

pub(super) struct BuffersBarrier;

const BUFFERS: usize = 2;
/// The length of a message stands before it, on lines of its own.
const HEADER: usize = 128;

/// Bytes of a buffer with its header, in whole pages.
fn stride(params: &CaseParams) -> Option<usize> {
    params.payload_bytes.checked_add(HEADER)?.checked_next_multiple_of(memory::page_bytes())
}

/// Bytes of the buffers of both directions.
fn total_bytes(params: &CaseParams) -> Option<usize> {
    stride(params)?.checked_mul(2 * BUFFERS).filter(|bytes| *bytes < 1 << 40)
}

impl Mechanism for BuffersBarrier {
    const ID: &'static str = "buffers-barrier";
    const ABOUT: &'static str = "two buffers in shared memory, written and read in turn; both ends meet at a barrier for each message";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ZERO_COPY);
    const WAITS: &'static [Wait] = &[Wait::Spin];
    const AXES: &'static [Axis] = &[Backing::AXIS];
    const TO_ITSELF: Result<usize, &'static str> = Err("both ends cross a barrier at the same time");
    type End = BuffersEnd;

    fn properties(_params: &CaseParams) -> Properties {
        SHARED_MEMORY
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        total_bytes(params).map(drop).ok_or_else(|| {
            let bytes = params.payload_bytes;
            Unsupported(format!(
                "two buffers of {bytes} bytes in each direction exceed memory; use a smaller size"
            ))
        })
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let bytes = total_bytes(params).expect("checked by fit");
        let memory = backing::create(params, "weighbridge-buffers", bytes as u64)?;
        let ([near_there, far_there], [near_back, far_back]) = (Crossing::create()?, Crossing::create()?);
        let both =
            |there: EndResources, back: EndResources| EndResources::of(there.fds.into_iter().chain(back.fds));
        sharing(memory, [both(near_there, near_back), both(far_there, far_back)])
    }

    fn attach(side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<BuffersEnd> {
        let stride = stride(params).expect("checked by fit");
        let memory = resources.take_fd();
        let map = Mapping::shared(memory.as_fd(), 2 * BUFFERS * stride, Access::ReadWrite)?;
        let there = Lane { first: 0, count: 0, barrier: Crossing::attach(&mut resources)? };
        let back = Lane { first: BUFFERS, count: 0, barrier: Crossing::attach(&mut resources)? };
        let (outgoing, incoming) = if side == Side::Near { (there, back) } else { (back, there) };
        Ok(BuffersEnd { map, stride, outgoing, incoming, is_locked: false })
    }
}

/// The buffers of one direction, as one end sees them.
struct Lane {
    /// Index of its first buffer in the mapping.
    first: usize,
    count: usize,
    barrier: Crossing,
}

impl Lane {
    /// Index of the buffer whose turn it is.
    #[inline]
    fn turn(&self) -> usize {
        self.first + self.count % BUFFERS
    }
}

pub(super) struct BuffersEnd {
    map: Mapping,
    stride: usize,
    outgoing: Lane,
    incoming: Lane,
    is_locked: bool,
}

impl BuffersEnd {
    /// Where a message of `len` bytes begins in a buffer.
    #[inline]
    fn place(&self, buffer: usize, len: usize) -> *mut u8 {
        assert!(HEADER + len <= self.stride, "a message of {len} bytes in buffers of {}", self.stride);
        // SAFETY: four buffers of `stride` bytes lie in the mapping, and the message lies inside its own (checked above).
        unsafe { self.map.as_ptr().add(buffer * self.stride + HEADER) }
    }
}

pub(super) struct BufferTx<'a> {
    end: &'a mut BuffersEnd,
    len: usize,
}

impl AsMut<[u8]> for BufferTx<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        let at = self.end.place(self.end.outgoing.turn(), self.len);
        // SAFETY: inside the mapping (see `place`), and the sender's until `commit`.
        unsafe { std::slice::from_raw_parts_mut(at, self.len) }
    }
}

impl Endpoint for BuffersEnd {
    type Tx<'a> = BufferTx<'a>;
    type Rx<'a> = &'a [u8];

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<BufferTx<'_>> {
        Ok(BufferTx { end: self, len })
    }

    #[inline]
    fn commit(tx: BufferTx<'_>) -> io::Result<()> {
        let BufferTx { end, len } = tx;
        // The barrier orders it: its sense is stored with Release and loaded with Acquire.
        end.map.atomic_u64(end.outgoing.turn() * end.stride).store(len as u64, Relaxed);
        end.outgoing.count += 1;
        end.outgoing.barrier.cross()
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<&[u8]> {
        self.incoming.barrier.cross()?;
        let buffer = self.incoming.turn();
        self.incoming.count += 1;
        let len = self.map.atomic_u64(buffer * self.stride).load(Relaxed) as usize;
        let at = self.place(buffer, len);
        // SAFETY: inside the mapping (see `place`), and the receiver's until the next crossing, which needs `&mut self`.
        Ok(unsafe { std::slice::from_raw_parts(at, len) })
    }

    #[inline]
    fn position(&mut self) -> u64 {
        self.incoming.count as u64
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.map.prefault()?;
        self.is_locked = self.map.lock().is_ok();
        Ok(())
    }

    fn facts(&self) -> io::Result<Facts> {
        Ok(Facts::from([
            ("buffers".into(), BUFFERS.to_string()),
            ("buffer_bytes".into(), self.stride.to_string()),
            ("buffers_locked".into(), yes_no(self.is_locked)),
        ]))
    }
}
