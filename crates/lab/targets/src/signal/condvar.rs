//! A process-shared mutex, and a condition variable for each direction.
//!
//! # Safety
//! Mutex and condition variables are initialized by `create` before a role sees them, live in a mapping that the end holds,
//! and are never destroyed: on Linux they own nothing but their memory. The turns beside them are only accessed with the
//! mutex held.
#![allow(unsafe_code)]

use super::Signal;
use crate::page::{LINES, Page};
use crate::prelude::*;
use crate::sys;

const MUTEX: usize = 0;
const NEAR: usize = LINES;
const FAR: usize = 2 * LINES;

/// A condition variable and the turn that it announces.
#[repr(C)]
struct Announced {
    condition: libc::pthread_cond_t,
    turn: u32,
}

pub(super) struct Condvar {
    mutex: *mut libc::pthread_mutex_t,
    mine: *mut Announced,
    theirs: *mut Announced,
    seen: u32,
    _page: Page,
}

impl Signal for Condvar {
    const ID: &'static str = "condvar";
    const ABOUT: &'static str =
        "a process-shared pthread mutex and a condition variable for each direction, in shared memory";
    const WAITS: &'static [Wait] = &[Wait::Block];
    const PROPERTIES: Properties = SHARED_MEMORY;

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Page::create_two(|page| {
            init_mutex(page, MUTEX)?;
            init_condition(page, NEAR)?;
            init_condition(page, FAR)
        })
    }

    fn attach(side: Side, mut resources: EndResources, _params: &CaseParams) -> io::Result<Condvar> {
        let page = Page::attach(&mut resources)?;
        let (mine, theirs) = if side == Side::Near { (NEAR, FAR) } else { (FAR, NEAR) };
        Ok(Condvar {
            mutex: page.object(MUTEX),
            mine: page.object(mine),
            theirs: page.object(theirs),
            seen: 0,
            _page: page,
        })
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        // SAFETY: initialized by `create`; the turn is written with the mutex held.
        unsafe {
            sys::check_code(libc::pthread_mutex_lock(self.mutex))?;
            (*self.mine).turn = (*self.mine).turn.wrapping_add(1);
            sys::check_code(libc::pthread_mutex_unlock(self.mutex))?;
            // Not with the mutex held: who is woken on the same CPU would run into it, and be switched away again.
            sys::check_code(libc::pthread_cond_signal(&raw mut (*self.mine).condition))
        }
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        self.seen = self.seen.wrapping_add(1);
        // SAFETY: initialized by `create`; the turn is read with the mutex held. It is read anew each time, because the
        // call in between may write anything.
        unsafe {
            sys::check_code(libc::pthread_mutex_lock(self.mutex))?;
            while (*self.theirs).turn != self.seen {
                sys::check_code(libc::pthread_cond_wait(&raw mut (*self.theirs).condition, self.mutex))?;
            }
            sys::check_code(libc::pthread_mutex_unlock(self.mutex))
        }
    }
}

/// Initializes a process-shared mutex in a page that no other process has mapped yet.
pub(crate) fn init_mutex(page: &Page, offset: usize) -> io::Result<()> {
    // SAFETY: the attributes are initialized before use and destroyed after; the object lies in the page.
    unsafe {
        let mut attributes = std::mem::zeroed();
        sys::check_code(libc::pthread_mutexattr_init(&mut attributes))?;
        sys::check_code(libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED))?;
        let done = sys::check_code(libc::pthread_mutex_init(page.object(offset), &attributes));
        libc::pthread_mutexattr_destroy(&mut attributes);
        done
    }
}

fn init_condition(page: &Page, offset: usize) -> io::Result<()> {
    // SAFETY: as in `init_mutex`; the condition variable is the first field of its object.
    unsafe {
        let mut attributes = std::mem::zeroed();
        sys::check_code(libc::pthread_condattr_init(&mut attributes))?;
        sys::check_code(libc::pthread_condattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED))?;
        let at = &raw mut (*page.object::<Announced>(offset)).condition;
        let done = sys::check_code(libc::pthread_cond_init(at, &attributes));
        libc::pthread_condattr_destroy(&mut attributes);
        done
    }
}
