//! One ring in shared memory, written once and read by all where it lies; one futex wakes all that sleep.
//!
//! Layout: word 0 is the number of messages written (writer: sender), word 1, on a line of its own, the number of receivers
//! that sleep or are about to (writers: receivers); slots from byte 256 on.
//!
//! # Safety
//! A slot is written only by the sender, and only while no receiver reads it: the sender begins a burst when all receivers
//! have acknowledged the one before, or are behind by `ahead_max` messages at most, and there are as many slots. Receivers read slots only below
//! the number of messages written, and acknowledge after they have read.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use causeway_os::futex;
use causeway_os::memory::{self, Access, Mapping};

use super::burst;
use super::multicast::{Multicast, MulticastReceiver, MulticastSender};
use crate::many::of_each_role;
use crate::prelude::*;
use weighbridge_harness::ctx;

const HEAD: usize = 0;
const SLEEPERS: usize = 128;
const SLOTS: usize = 256;
const LINE_BYTES: usize = 64;

pub(super) struct Ring;

impl Multicast for Ring {
    const ID: &'static str = "ring-broadcast";
    const ABOUT: &'static str =
        "one ring in shared memory that all receivers read, one futex wake for all that sleep";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::ZERO_COPY);
    type Sender = Sender;
    type Receiver = Receiver;

    fn properties(_params: &CaseParams) -> Properties {
        SHARED_MEMORY
    }

    fn ahead_max(params: &CaseParams) -> Option<u64> {
        Some(under_way(params))
    }

    fn create(params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        let memory = memory::memfd("weighbridge-ring", bytes(params) as u64)?;
        of_each_role(memory, receivers + 1)
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        Ok(Sender(Memory::open(resources, params)?))
    }

    fn receiver(resources: EndResources, params: &CaseParams) -> io::Result<Receiver> {
        Ok(Receiver(Memory::open(resources, params)?))
    }
}

fn slot_bytes(params: &CaseParams) -> usize {
    params.payload_bytes.next_multiple_of(LINE_BYTES)
}

fn bytes(params: &CaseParams) -> usize {
    SLOTS + slot_bytes(params) * slot_count(params) as usize
}

/// Bursts that the sender may be ahead of its receivers together, at a rate.
const BURSTS_AHEAD: u64 = 64;

/// Most messages that some receiver has yet to read.
fn under_way(params: &CaseParams) -> u64 {
    burst(params) * if ctx::rate(params).is_some() { BURSTS_AHEAD } else { 1 }
}

/// A power of two, so that numbers may wrap around.
fn slot_count(params: &CaseParams) -> u32 {
    (under_way(params) as u32).next_power_of_two()
}

struct Memory {
    map: Mapping,
    len: usize,
    slot_bytes: usize,
    slot_count: u32,
    next: u32,
}

impl Memory {
    fn open(mut resources: EndResources, params: &CaseParams) -> io::Result<Memory> {
        let map = Mapping::shared(resources.take_fd().as_fd(), bytes(params), Access::ReadWrite)?;
        map.prefault()?;
        Ok(Memory {
            map,
            len: params.payload_bytes,
            slot_bytes: slot_bytes(params),
            slot_count: slot_count(params),
            next: 0,
        })
    }

    fn head(&self) -> &AtomicU32 {
        self.map.atomic_u32(HEAD)
    }

    fn sleepers(&self) -> &AtomicU32 {
        self.map.atomic_u32(SLEEPERS)
    }

    fn slot(&self) -> usize {
        SLOTS + (self.next % self.slot_count) as usize * self.slot_bytes
    }
}

pub(super) struct Sender(Memory);

impl MulticastSender for Sender {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        // SAFETY: all receivers have acknowledged what was in this slot, so only the sender uses it now.
        write(unsafe { self.0.map.slice_mut(self.0.slot(), self.0.len) });
        self.0.next = self.0.next.wrapping_add(1);
        // PAIR ring-head. SeqCst here and at the other side: either the sender sees the sleeper, or the sleeper the message.
        self.0.head().store(self.0.next, SeqCst);
        if self.0.sleepers().load(SeqCst) > 0 {
            futex::wake(self.0.head(), u32::MAX >> 1)?;
        }
        Ok(())
    }
}

pub(super) struct Receiver(Memory);

impl MulticastReceiver for Receiver {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        let memory = &mut self.0;
        // PAIR ring-head
        if memory.head().load(SeqCst) == memory.next {
            memory.sleepers().fetch_add(1, SeqCst);
            while memory.head().load(SeqCst) == memory.next {
                let _ = futex::wait(memory.head(), memory.next, None)?;
            }
            memory.sleepers().fetch_sub(1, Relaxed);
        }
        let slot = memory.slot();
        memory.next = memory.next.wrapping_add(1);
        // SAFETY: the message is below the head, and its slot is not written again before this receiver acknowledges it.
        Ok(Some(unsafe { memory.map.slice(slot, memory.len) }))
    }
}
