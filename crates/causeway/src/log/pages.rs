//! A subscriber page and the status page, mapped.
//!
//! # Safety
//!
//! Pages are made into references to structures of the layout in [`layout`](super::layout), which are made of atomics: every bit
//! pattern is a valid value of them. A mapping is one page and page-aligned, and outlives the references because they are
//! borrowed from it.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};

use causeway_os::memory::{self, Access, LoadU32, Mapping, Seals};

use super::layout::{PAGE_BYTES, Status, SubscriberWords};
use crate::error::{Error, Result};
use crate::reservation;

/// Offset of the low half of the cursor.
const CURSOR_LOW: usize = if cfg!(target_endian = "little") { 0 } else { 4 };

/// A mapped subscriber page.
#[derive(Debug)]
pub struct SubscriberPage(Mapping);

impl SubscriberPage {
    /// A new page for a subscriber, and the descriptor to hand to it.
    pub fn create() -> Result<(OwnedFd, SubscriberPage)> {
        create_page("causeway-subscriber").map(|(fd, mapping)| (fd, SubscriberPage(mapping)))
    }

    /// Maps the subscriber's own page, for writing.
    pub fn open_own(fd: &OwnedFd) -> Result<SubscriberPage> {
        open_page(fd, Access::ReadWrite).map(SubscriberPage)
    }

    /// Maps the page of a subscriber in another process, for reading.
    pub fn open(fd: &OwnedFd) -> Result<SubscriberPage> {
        open_page(fd, Access::ReadOnly).map(SubscriberPage)
    }

    /// The words of the page. Publishers only load them.
    #[inline(always)]
    pub fn words(&self) -> &SubscriberWords {
        // SAFETY: one page, page-aligned; the structure fits (asserted) and is made of atomics.
        unsafe { &*self.0.as_ptr().cast::<SubscriberWords>() }
    }

    /// The half of the cursor that publishers sleep on, for the processes that wake them: the subscriber and the server.
    #[inline(always)]
    pub fn cursor_futex(&self) -> &std::sync::atomic::AtomicU32 {
        self.0.atomic_u32(CURSOR_LOW)
    }

    /// The half of the cursor that publishers sleep on, for publishers.
    #[inline(always)]
    pub fn cursor_to_wait_for(&self) -> LoadU32<'_> {
        self.0.load_u32(CURSOR_LOW)
    }
}

/// A mapped status page.
#[derive(Debug)]
pub struct StatusPage(Mapping);

impl StatusPage {
    /// A new page, and a descriptor through which peers can only read it.
    pub fn create() -> Result<(OwnedFd, StatusPage)> {
        let (fd, mapping) = create_page("causeway-status")?;
        memory::add_seals(&fd, Seals::FUTURE_WRITE | Seals::SEAL)?;
        Ok((fd, StatusPage(mapping)))
    }

    /// Maps the page for reading.
    pub fn open(fd: &OwnedFd) -> Result<StatusPage> {
        open_page(fd, Access::ReadOnly).map(StatusPage)
    }

    /// The words of the page.
    #[inline(always)]
    pub fn words(&self) -> &Status {
        // SAFETY: one page, page-aligned; the structure fits (asserted) and is made of atomics.
        unsafe { &*self.0.as_ptr().cast::<Status>() }
    }
}

/// Checks a page that another process sent, and maps it.
fn open_page(fd: &OwnedFd, access: Access) -> Result<Mapping> {
    let seals = memory::seals(fd.as_fd())
        .map_err(|_| Error::invalid("page descriptor", "it is not a memory file that can be sealed"))?;
    if !seals.contains(Seals::SHRINK | Seals::GROW) {
        return Err(Error::invalid("page descriptor", "its length is not sealed"));
    }
    Ok(Mapping::shared(fd, PAGE_BYTES as usize, access)?)
}

/// A new page and its descriptor; its length is sealed.
fn create_page(name: &str) -> Result<(OwnedFd, Mapping)> {
    let fd = reservation::memory_file(name, PAGE_BYTES)?;
    let mapping = Mapping::shared(&fd, PAGE_BYTES as usize, Access::ReadWrite)?;
    mapping.prefault()?;
    memory::add_seals(&fd, Seals::SHRINK | Seals::GROW)?;
    Ok((fd, mapping))
}
