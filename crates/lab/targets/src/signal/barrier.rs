//! A sense-reversing barrier in shared memory, its count guarded by a POSIX semaphore.
//!
//! Both roles arrive at it twice in a round: the role that posts arrives last, the role that waits arrives first. So
//! one crossing is one hop.
//!
//! # Safety
//! The semaphore is initialized by `create` before a role sees it, and lives in a mapping that the end holds.
#![allow(unsafe_code)]

use std::hint;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Signal;
use super::sem_posix::Semaphore;
use crate::page::{LINES, Page, Word};
use crate::prelude::*;

const COUNT: usize = 0;
const SENSE: usize = LINES;
const GUARD: usize = 2 * LINES;
const ROLES: u32 = 2;

/// Semaphore, count and sense: a barrier of two roles.
pub(crate) struct Crossing {
    guard: Semaphore,
    count: Word<AtomicU32>,
    sense: Word<AtomicU32>,
    own_sense: u32,
}

impl Crossing {
    /// A page with a barrier in it, shared by the two roles.
    pub fn create() -> io::Result<[EndResources; 2]> {
        Page::create_two(|page| Semaphore::init(page, GUARD, 1))
    }

    pub fn attach(resources: &mut EndResources) -> io::Result<Crossing> {
        let page = Page::attach(resources)?;
        // SAFETY: `create` has initialized it.
        let guard = unsafe { Semaphore::attach(&page, GUARD) };
        Ok(Crossing { guard, count: page.word(COUNT), sense: page.word(SENSE), own_sense: 0 })
    }

    #[inline]
    pub fn cross(&mut self) -> io::Result<()> {
        self.own_sense ^= 1;
        self.guard.wait()?;
        // Only under the semaphore; its orders are those that matter.
        let arrived = self.count.load(Relaxed) + 1;
        if arrived == ROLES {
            self.count.store(0, Relaxed);
            self.guard.post()?;
            self.sense.store(self.own_sense, Release); // PAIR barrier-sense
        } else {
            self.count.store(arrived, Relaxed);
            self.guard.post()?;
            while self.sense.load(Acquire) != self.own_sense {
                // PAIR barrier-sense
                hint::spin_loop();
            }
        }
        Ok(())
    }
}

/// A barrier that is crossed for each post and each wait.
pub(super) struct Barrier(Crossing);

impl Signal for Barrier {
    const ID: &'static str = "barrier";
    const ABOUT: &'static str = "a sense-reversing barrier in shared memory, its count guarded by a POSIX semaphore; waits by spinning";
    const WAITS: &'static [Wait] = &[Wait::Spin];
    const PROPERTIES: Properties = SHARED_MEMORY;

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Crossing::create()
    }

    fn attach(_side: Side, mut resources: EndResources, _params: &CaseParams) -> io::Result<Barrier> {
        Ok(Barrier(Crossing::attach(&mut resources)?))
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        self.0.cross()
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        self.0.cross()
    }
}
