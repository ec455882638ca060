//! A receiver page and the status page in memory that processes share.
//!
//! # Safety
//!
//! Pages are made into references to structures of the layout in [`layout`](super::layout), which are made of atomics: every bit
//! pattern is a valid value of them. A mapping is one page and page-aligned, and outlives the references because they are
//! borrowed from it.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};

use causeway_os::memory::{self, Access, LoadU32, Mapping, Seals};

use super::layout::{PAGE_BYTES, ReceiverWords, Status};
use crate::error::{Error, Result};
use crate::room;

/// Offset of the low half of the cursor.
const CURSOR_LOW: usize = if cfg!(target_endian = "little") { 0 } else { 4 };

/// A mapped receiver page.
#[derive(Debug)]
pub struct ReceiverPage(Mapping);

impl ReceiverPage {
    /// A new page for a receiver, and the descriptor to hand to it.
    pub fn create() -> Result<(OwnedFd, ReceiverPage)> {
        create_page("causeway-receiver").map(|(fd, mapping)| (fd, ReceiverPage(mapping)))
    }

    /// Maps one's own page.
    pub fn open_own(fd: &OwnedFd) -> Result<ReceiverPage> {
        open_page(fd, Access::ReadWrite).map(ReceiverPage)
    }

    /// Maps somebody else's page, for reading.
    pub fn open(fd: &OwnedFd) -> Result<ReceiverPage> {
        open_page(fd, Access::ReadOnly).map(ReceiverPage)
    }

    /// Its words. Publishers only load them.
    #[inline(always)]
    pub fn words(&self) -> &ReceiverWords {
        // SAFETY: one page, page-aligned; the structure fits (asserted) and is made of atomics.
        unsafe { &*self.0.as_ptr().cast::<ReceiverWords>() }
    }

    /// The half of the cursor that publishers sleep on, for those who wake them: the receiver and the server.
    #[inline(always)]
    pub fn cursor_futex(&self) -> &std::sync::atomic::AtomicU32 {
        self.0.atomic_u32(CURSOR_LOW)
    }

    /// The same word for the publishers.
    #[inline(always)]
    pub fn cursor_to_wait_for(&self) -> LoadU32<'_> {
        self.0.load_u32(CURSOR_LOW)
    }
}

/// A mapped status page.
#[derive(Debug)]
pub struct StatusPage(Mapping);

impl StatusPage {
    /// A new page, and the descriptor that peers may read it through: sealed against any further writer.
    pub fn create() -> Result<(OwnedFd, StatusPage)> {
        let (fd, mapping) = create_page("causeway-status")?;
        memory::add_seals(&fd, Seals::FUTURE_WRITE | Seals::SEAL)?;
        Ok((fd, StatusPage(mapping)))
    }

    /// Maps the page for reading.
    pub fn open(fd: &OwnedFd) -> Result<StatusPage> {
        open_page(fd, Access::ReadOnly).map(StatusPage)
    }

    /// Its words.
    #[inline(always)]
    pub fn words(&self) -> &Status {
        // SAFETY: one page, page-aligned; the structure fits (asserted) and is made of atomics.
        unsafe { &*self.0.as_ptr().cast::<Status>() }
    }
}

/// Checks a page that somebody handed over, and maps it.
fn open_page(fd: &OwnedFd, access: Access) -> Result<Mapping> {
    let seals = memory::seals(fd.as_fd())
        .map_err(|_| Error::invalid("page descriptor", "it is no memory file that can be sealed"))?;
    if !seals.contains(Seals::SHRINK | Seals::GROW) {
        return Err(Error::invalid("page descriptor", "its length is not sealed"));
    }
    Ok(Mapping::shared(fd, PAGE_BYTES as usize, access)?)
}

/// A new page and its descriptor; its length is sealed.
fn create_page(name: &str) -> Result<(OwnedFd, Mapping)> {
    let fd = room::memory_file(name, PAGE_BYTES)?;
    let mapping = Mapping::shared(&fd, PAGE_BYTES as usize, Access::ReadWrite)?;
    mapping.prefault()?;
    memory::add_seals(&fd, Seals::SHRINK | Seals::GROW)?;
    Ok((fd, mapping))
}
