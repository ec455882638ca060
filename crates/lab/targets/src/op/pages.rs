//! Pages of anonymous memory: mapped, written for the first time, and given back.
//!
//! # Safety
//! What is mapped is written inside its length and unmapped; no other code knows of it. Pages that are given back are read as zero
//! afterwards, and nothing was kept in them.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use causeway_os::memory::page_bytes;

use super::{Op, OpContext};
use crate::prelude::*;
use crate::sys;

#[inline]
fn map(len: usize) -> io::Result<*mut c_void> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address, so nothing that exists is mapped over.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    sys::check_mapping(base).map(|()| base)
}

pub(super) struct MmapTouchMunmap {
    pages: usize,
    page_bytes: usize,
}

fn pages(params: &CaseParams) -> usize {
    params.number("pages").unwrap_or(1)
}

impl Op for MmapTouchMunmap {
    const ID: &'static str = "mmap-touch-munmap";
    const ABOUT: &'static str = "mmap of anonymous memory without huge pages, one write to each page, munmap";
    const AXES: &'static [Axis] =
        &[Axis { name: "pages", default: "1", values: Values::Count, about: "how many pages are mapped" }];

    fn setup(context: &OpContext<'_>) -> io::Result<MmapTouchMunmap> {
        Ok(MmapTouchMunmap { pages: pages(context.params), page_bytes: page_bytes() })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let len = self.pages * self.page_bytes;
        let base = map(len)?;
        // SAFETY: every write lies inside the mapping, which is ours.
        unsafe {
            if self.pages > 1 {
                // A kernel without huge pages does not know the advice, and needs none.
                libc::madvise(base, len, libc::MADV_NOHUGEPAGE);
            }
            for page in 0..self.pages {
                base.cast::<u8>().add(page * self.page_bytes).write_volatile(1);
            }
            sys::check(libc::munmap(base, len))?;
        }
        Ok(self.pages as u64)
    }

    fn each(&self) -> u64 {
        self.pages as u64
    }

    fn faults(params: &CaseParams) -> Option<f64> {
        Some(pages(params) as f64)
    }
}

/// Pages that are written before they are given back in one system call. The entry to the kernel is then a small part of each; to free the
/// pages is work proportional to their number, and is in the figure.
const PAGES: usize = 64;

/// One write to a page that the process does not have yet.
pub(super) struct FirstTouch {
    base: NonNull<u8>,
    page_bytes: usize,
}

// SAFETY: the range belongs to no thread.
unsafe impl Send for FirstTouch {}

impl FirstTouch {
    fn len(&self) -> usize {
        PAGES * self.page_bytes
    }
}

impl Op for FirstTouch {
    const ID: &'static str = "first-touch";
    const ABOUT: &'static str = "the first write to a page of anonymous memory, and its share of the madvise that gives 64 pages back";

    fn setup(_context: &OpContext<'_>) -> io::Result<FirstTouch> {
        let page_bytes = page_bytes();
        let base = map(PAGES * page_bytes)?;
        // A kernel without huge pages does not know the advice, and needs none.
        // SAFETY: the range was mapped just now.
        unsafe { libc::madvise(base, PAGES * page_bytes, libc::MADV_NOHUGEPAGE) };
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0 unless asked to");
        Ok(FirstTouch { base, page_bytes })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        for page in 0..PAGES {
            // SAFETY: inside the mapping.
            unsafe { self.base.add(page * self.page_bytes).write_volatile(1) };
        }
        // SAFETY: the range is ours, and nothing is kept in it.
        sys::check(unsafe { libc::madvise(self.base.as_ptr().cast(), self.len(), libc::MADV_DONTNEED) })?;
        Ok(PAGES as u64)
    }

    fn each(&self) -> u64 {
        PAGES as u64
    }

    fn ops_of_once(_params: &CaseParams) -> u64 {
        PAGES as u64
    }

    fn faults(_params: &CaseParams) -> Option<f64> {
        Some(1.0)
    }
}

impl Drop for FirstTouch {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len()) };
    }
}
