//! A pool of objects behind a bounded queue, to be compared with `alloc-reuse`: is taking an object out of a queue and
//! putting it back cheaper than asking the allocator?
//!
//! # Safety
//! Objects come from `malloc` and stay allocated as long as the process.
#![allow(unsafe_code)]

use std::hint;
use std::sync::OnceLock;

use crossbeam_queue::ArrayQueue;

use super::alloc::{self, allocate};
use super::{Op, OpContext};
use crate::prelude::*;

const OBJECTS: usize = 1024;

/// The pool of this process, which plays one case; all its roles share it. The role that comes first fills it.
fn pool(bytes: usize) -> &'static ArrayQueue<usize> {
    static POOL: OnceLock<ArrayQueue<usize>> = OnceLock::new();
    POOL.get_or_init(|| {
        let pool = ArrayQueue::new(OBJECTS);
        while !pool.is_full() {
            let object = allocate(bytes).expect("memory for the objects of a pool");
            // SAFETY: just allocated, with at least one byte. It is touched, so that no role takes its first page fault later.
            unsafe { object.cast::<u8>().write(0) };
            pool.push(object.expose_provenance()).expect("there is room, and no other role knows of it");
        }
        pool
    })
}

pub(super) struct PoolArrayQueue(&'static ArrayQueue<usize>);

impl Op for PoolArrayQueue {
    const ID: &'static str = "pool-array-queue";
    const ABOUT: &'static str =
        "an object taken out of a pool of 1024 and put back, through crossbeam's ArrayQueue as a free list";
    const CAPS: Caps = alloc::CAPS;

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        alloc::fit_object(params)
    }

    fn setup(context: &OpContext<'_>) -> io::Result<PoolArrayQueue> {
        Ok(PoolArrayQueue(pool(context.params.payload_bytes)))
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let object = self.0.pop().ok_or_else(|| io::Error::other("the pool is empty"))?;
        self.0.push(hint::black_box(object)).map_err(|_| io::Error::other("the pool is full"))?;
        Ok(1)
    }
}
