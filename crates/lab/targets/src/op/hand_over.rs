//! Allocation by one role, free by another: through a ring of pointers between threads of one process.
//!
//! An operation is one object on its whole way, and is counted where it ends, so that nothing is counted that others only
//! have begun. What it costs includes the ring, a bounded queue of crossbeam's; how expensive that is shows
//! `pool-array-queue`. No role waits: a role that finds its ring empty or full does less and reads again whether to go on.
//!
//! # Safety
//! A pointer comes from `malloc`, is in one ring at a time, and is freed once by the role that takes it out.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::{Arc, OnceLock};

use crossbeam_queue::ArrayQueue;

use super::alloc::{self, CAPS, allocate, free};
use super::{Op, OpContext, parallel};
use crate::prelude::*;
use weighbridge_harness::allocator::Allocator;

/// Objects that may be on their way between two roles.
const DEPTH: usize = 1024;

/// One ring for each role but the first.
type Rings = Arc<Vec<ArrayQueue<usize>>>;

/// The rings of this process, which plays one case.
fn rings(roles: usize) -> Rings {
    static RINGS: OnceLock<Rings> = OnceLock::new();
    RINGS.get_or_init(|| Arc::new((1..roles).map(|_| ArrayQueue::new(DEPTH)).collect())).clone()
}

/// One role's end: the rings that it puts into, or takes out of.
struct Ends {
    rings: Rings,
    own: std::ops::Range<usize>,
    next: usize,
    bytes: usize,
    facts: Facts,
}

impl Ends {
    fn new(context: &OpContext<'_>) -> io::Result<Ends> {
        let own = if context.role == 0 { 0..context.roles - 1 } else { context.role - 1..context.role };
        Ok(Ends {
            rings: rings(context.roles),
            next: own.start,
            own,
            bytes: context.params.payload_bytes,
            facts: alloc::facts(context.params)?,
        })
    }

    #[inline]
    fn turn(&mut self) -> &ArrayQueue<usize> {
        let ring = &self.rings[self.next];
        self.next = if self.next + 1 == self.own.end { self.own.start } else { self.next + 1 };
        ring
    }

    /// Allocates up to `n` objects, as long as there is room.
    #[inline]
    fn give(&mut self, n: u64) -> io::Result<(u64, u64)> {
        let mut done = 0;
        let mut full = 0;
        while done < n && full < self.own.len() {
            let bytes = self.bytes;
            let ring = self.turn();
            if ring.is_full() {
                full += 1;
                continue;
            }
            // This role alone puts into the ring, so the room stays.
            ring.push(allocate(bytes)?.expose_provenance()).expect("only this role puts something in");
            (done, full) = (done + 1, 0);
        }
        Ok((done, done))
    }

    /// Frees up to `n` objects, as long as there are any.
    #[inline]
    fn take(&mut self, n: u64) -> (u64, u64) {
        let mut done = 0;
        let mut empty = 0;
        while done < n && empty < self.own.len() {
            match self.turn().pop() {
                Some(object) => {
                    // SAFETY: `give` has put it in, and it is out of the ring now.
                    unsafe { free(ptr::with_exposed_provenance_mut(object)) };
                    (done, empty) = (done + 1, 0);
                }
                None => empty += 1,
            }
        }
        (done, done)
    }
}

/// The first role allocates, and all others free; or the other way round.
pub(super) struct HandOver<const FIRST_GIVES: bool> {
    ends: Ends,
    gives: bool,
}

impl<const FIRST_GIVES: bool> Op for HandOver<FIRST_GIVES> {
    const ID: &'static str = if FIRST_GIVES { "alloc-one-free-all" } else { "alloc-remote-free" };
    const ABOUT: &'static str = if FIRST_GIVES {
        "the first role allocates, all others free: objects freed in a second, by threads of one process"
    } else {
        "all roles but the first allocate, the first frees: objects freed in a second, by threads of one process"
    };
    const CAPS: Caps = CAPS;
    const AXES: &'static [Axis] = &[Allocator::AXIS];
    const HAS_SOLO: bool = false;
    // Where objects are freed.
    const COUNTS: fn(usize) -> bool = |role| (role == 0) != FIRST_GIVES;

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        match parallel::roles(params) {
            0 | 1 => Err(Unsupported(
                "one role has no other role to hand an object to; use roles=2 or more".into(),
            )),
            _ => alloc::fit(params),
        }
    }

    fn setup(context: &OpContext<'_>) -> io::Result<Self> {
        Ok(HandOver { ends: Ends::new(context)?, gives: (context.role == 0) == FIRST_GIVES })
    }

    fn once(&mut self) -> io::Result<u64> {
        unreachable!("it is only done as far as the other role allows")
    }

    #[inline]
    fn up_to(&mut self, n: u64) -> io::Result<(u64, u64)> {
        if self.gives { self.ends.give(n) } else { Ok(self.ends.take(n)) }
    }

    /// How far the heap grows depends on which role is ahead.
    fn faults(_params: &CaseParams) -> Option<f64> {
        None
    }

    fn finish(&mut self) -> io::Result<Facts> {
        let mut facts = self.ends.facts.clone();
        facts.insert("ring_slots".into(), DEPTH.to_string());
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::CaseId;

    #[test]
    fn what_is_given_is_taken_and_no_role_waits() {
        let id = CaseId::new("parallel", "alloc-remote-free", 64, "free").with("roles", "3");
        let axes = [Allocator::AXIS, Axis { name: "roles", ..<alloc::Bulk as alloc::Size>::COUNT }];
        let params = CaseParams::new(&id, &axes, &[]).unwrap();
        let role = |role| HandOver::<false>::setup(&OpContext { params: &params, role, roles: 3 }).unwrap();
        let (mut taker, mut first, mut second) = (role(0), role(1), role(2));
        assert_eq!(taker.up_to(5).unwrap(), (0, 0), "nothing was given yet");
        assert_eq!(first.up_to(10).unwrap(), (10, 10));
        assert_eq!(second.up_to(u64::MAX).unwrap(), (DEPTH as u64, DEPTH as u64), "until its ring is full");
        assert_eq!(taker.up_to(u64::MAX).unwrap().0, 10 + DEPTH as u64);
        assert!(!(HandOver::<false>::COUNTS)(1) && (HandOver::<false>::COUNTS)(0));
        assert!((HandOver::<true>::COUNTS)(1) && !(HandOver::<true>::COUNTS)(0));
    }
}
