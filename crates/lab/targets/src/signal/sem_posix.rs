//! POSIX semaphores in shared memory, one for each direction.
//!
//! # Safety
//! A semaphore is initialized by `create` before a role sees it, lives in a mapping that the end holds, and is never
//! destroyed: on Linux it owns nothing but its memory.
#![allow(unsafe_code)]

use super::Signal;
use crate::page::{LINES, Page};
use crate::prelude::*;
use crate::sys;

pub(super) struct Semaphore {
    at: *mut libc::sem_t,
    _page: Page,
}

impl Semaphore {
    pub fn init(page: &Page, offset: usize, value: u32) -> io::Result<()> {
        // SAFETY: the object lies in the page, which no other process has mapped yet.
        sys::check(unsafe { libc::sem_init(page.object(offset), 1, value) }).map(drop)
    }

    /// The one at `offset`.
    ///
    /// # Safety
    /// It was initialized.
    pub unsafe fn attach(page: &Page, offset: usize) -> Semaphore {
        Semaphore { at: page.object(offset), _page: page.clone() }
    }

    #[inline]
    pub fn post(&self) -> io::Result<()> {
        // SAFETY: an initialized semaphore (see `attach`).
        sys::check(unsafe { libc::sem_post(self.at) }).map(drop)
    }

    #[inline]
    pub fn wait(&self) -> io::Result<()> {
        // SAFETY: as in `post`.
        sys::retry(|| sys::check(unsafe { libc::sem_wait(self.at) })).map(drop)
    }
}

pub(super) struct SemPosix {
    mine: Semaphore,
    theirs: Semaphore,
}

impl Signal for SemPosix {
    const ID: &'static str = "sem-posix";
    const ABOUT: &'static str =
        "a process-shared POSIX semaphore (sem_t in shared memory) for each direction";
    const WAITS: &'static [Wait] = &[Wait::Block];
    const PROPERTIES: Properties = SHARED_MEMORY;

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Page::create_two(|page| {
            Semaphore::init(page, 0, 0)?;
            Semaphore::init(page, LINES, 0)
        })
    }

    fn attach(side: Side, mut resources: EndResources, _params: &CaseParams) -> io::Result<SemPosix> {
        let page = Page::attach(&mut resources)?;
        let (mine, theirs) = if side == Side::Near { (0, LINES) } else { (LINES, 0) };
        // SAFETY: `create` has initialized both.
        unsafe {
            Ok(SemPosix { mine: Semaphore::attach(&page, mine), theirs: Semaphore::attach(&page, theirs) })
        }
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        self.mine.post()
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        self.theirs.wait()
    }
}
