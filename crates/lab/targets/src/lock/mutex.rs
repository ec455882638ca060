//! The C library's mutex, shared between processes.
//!
//! # Safety
//! The mutex is initialized in the coordinator before a role sees it, and lives in a page that the role holds.
#![allow(unsafe_code)]

use super::Lock;
use crate::page::Page;
use crate::prelude::*;
use crate::signal::init_mutex;
use crate::sys;

pub struct Mutex {
    at: *mut libc::pthread_mutex_t,
    _page: Page,
}

impl Lock for Mutex {
    const ID: &'static str = "mutex";
    const ABOUT: &'static str = "a process-shared pthread mutex, with default attributes otherwise";
    const WAIT: &'static [Wait] = &[Wait::Block];

    fn init(page: &Page) -> io::Result<()> {
        init_mutex(page, 0)
    }

    fn attach(page: &Page) -> Mutex {
        Mutex { at: page.object(0), _page: page.clone() }
    }

    #[inline]
    fn lock(&mut self) -> io::Result<()> {
        // SAFETY: `init` has initialized it.
        sys::check_code(unsafe { libc::pthread_mutex_lock(self.at) })
    }

    #[inline]
    fn unlock(&mut self) -> io::Result<()> {
        // SAFETY: as above, and this role holds it.
        sys::check_code(unsafe { libc::pthread_mutex_unlock(self.at) })
    }
}
