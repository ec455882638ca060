//! A subscriber page, the status pages and the wake page, mapped.
//!
//! # Safety
//!
//! Pages are made into references to structures of the layout in [`layout`](super::layout), which are made of atomics: every bit
//! pattern is a valid value of them. A mapping is as long as its structure needs and page-aligned, and outlives the
//! references because they are borrowed from it.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};

use causeway_os::memory::{self, Access, LoadU32, Mapping, Seals};

use super::layout::{PAGE_BYTES, STATUS_BYTES, Status, SubscriberWords, WakeWords};
use crate::error::{Error, Result};
use crate::reservation;

/// Offset of the low half of the cursor.
const CURSOR_LOW: usize = if cfg!(target_endian = "little") { 0 } else { 4 };

#[derive(Debug)]
pub struct SubscriberPage(Mapping);

impl SubscriberPage {
    /// A new page for a subscriber, and the descriptor to hand to it.
    pub fn create() -> Result<(OwnedFd, SubscriberPage)> {
        create_pages("causeway-subscriber", PAGE_BYTES).map(|(fd, mapping)| (fd, SubscriberPage(mapping)))
    }

    /// Maps the subscriber's own page, for writing, and then seals it: from now on no process can map it for writing, or take
    /// its memory away. Its subscriber does this, because only a mapping that is there before the seal can be written.
    pub fn open_own(fd: &OwnedFd) -> Result<SubscriberPage> {
        let page = open_pages(fd, PAGE_BYTES, LENGTH_SEALS, Access::ReadWrite)?;
        SubscriberPage::seal(fd)?;
        Ok(SubscriberPage(page))
    }

    /// Seals a page that this process made for itself and has mapped.
    pub fn seal(fd: &OwnedFd) -> Result<()> {
        Ok(memory::add_seals(fd, Seals::FUTURE_WRITE | Seals::SEAL)?)
    }

    /// Fails unless this is the descriptor of a page that its subscriber has sealed, whose memory exists.
    pub fn check_sealed(fd: &OwnedFd) -> Result<()> {
        check_pages(fd, PAGE_BYTES, &PAGE_SEALS)
    }

    /// Maps the page of a subscriber in another process, for reading, if it is sealed and its memory exists.
    pub fn open(fd: &OwnedFd) -> Result<SubscriberPage> {
        open_pages(fd, PAGE_BYTES, &PAGE_SEALS, Access::ReadOnly).map(SubscriberPage)
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

#[derive(Debug)]
pub struct StatusPages(Mapping);

impl StatusPages {
    /// New pages, and a descriptor through which peers can only read them.
    pub fn create() -> Result<(OwnedFd, StatusPages)> {
        let (fd, mapping) = create_pages("causeway-status", STATUS_BYTES)?;
        memory::add_seals(&fd, Seals::FUTURE_WRITE | Seals::SEAL)?;
        Ok((fd, StatusPages(mapping)))
    }

    pub fn open(fd: &OwnedFd) -> Result<StatusPages> {
        open_pages(fd, STATUS_BYTES, &PAGE_SEALS, Access::ReadOnly).map(StatusPages)
    }

    #[inline(always)]
    pub fn words(&self) -> &Status {
        // SAFETY: two pages, page-aligned; the structure fits (asserted) and is made of atomics.
        unsafe { &*self.0.as_ptr().cast::<Status>() }
    }
}

#[derive(Debug)]
pub struct WakePage(Mapping);

impl WakePage {
    /// A new page, and the descriptor to hand to processes of the same user. Its seals are final: none of them can keep the
    /// others from mapping it.
    pub fn create() -> Result<(OwnedFd, WakePage)> {
        let (fd, mapping) = create_pages("causeway-wake", PAGE_BYTES)?;
        memory::add_seals(&fd, Seals::SEAL)?;
        Ok((fd, WakePage(mapping)))
    }

    pub fn open(fd: &OwnedFd) -> Result<WakePage> {
        open_pages(fd, PAGE_BYTES, LENGTH_SEALS, Access::ReadWrite).map(WakePage)
    }

    #[inline(always)]
    pub fn words(&self) -> &WakeWords {
        // SAFETY: one page, page-aligned; the structure fits (asserted) and is made of atomics.
        unsafe { &*self.0.as_ptr().cast::<WakeWords>() }
    }
}

/// The seals of a page that only its owner writes.
const PAGE_SEALS: [(Seals, &str); 4] = [
    (Seals::SHRINK, "its length is not sealed"),
    (Seals::GROW, "its length is not sealed"),
    (Seals::FUTURE_WRITE, "it is not sealed against other writers, which could take its memory away"),
    (Seals::SEAL, "its seals are not final"),
];
/// Of these, the ones that keep its length.
const LENGTH_SEALS: &[(Seals, &str)] = PAGE_SEALS.split_at(2).0;

/// Fails for a file that is not `bytes` long, lacks one of `required`, or whose memory does not exist: reading it would be
/// charged to the reader.
fn check_pages(fd: &OwnedFd, bytes: u64, required: &[(Seals, &str)]) -> Result<()> {
    let invalid = |why: &str| Error::invalid("page descriptor", why);
    let seals =
        memory::seals(fd.as_fd()).map_err(|_| invalid("it is not a memory file that can be sealed"))?;
    if let Some((_, lacks)) = required.iter().find(|(seal, _)| !seals.contains(*seal)) {
        return Err(invalid(lacks));
    }
    let stat = rustix::fs::fstat(fd).map_err(|error| causeway_os::Error::new("stat", "a page", error))?;
    if u64::try_from(stat.st_size) != Ok(bytes) || (stat.st_blocks as u64) * 512 < bytes {
        return Err(invalid("it does not have the length of such a page, or its memory does not exist"));
    }
    Ok(())
}

/// Checks pages that another process sent, and maps them.
fn open_pages(fd: &OwnedFd, bytes: u64, required: &[(Seals, &str)], access: Access) -> Result<Mapping> {
    check_pages(fd, bytes, required)?;
    let pages = Mapping::shared(fd, bytes as usize, access)?;
    pages.dont_fork()?;
    Ok(pages)
}

/// New pages and their descriptor; their length is sealed.
fn create_pages(name: &str, bytes: u64) -> Result<(OwnedFd, Mapping)> {
    let fd = reservation::memory_file(name, bytes)?;
    let mapping = Mapping::shared(&fd, bytes as usize, Access::ReadWrite)?;
    mapping.prefault()?;
    mapping.dont_fork()?;
    memory::add_seals(&fd, Seals::SHRINK | Seals::GROW)?;
    Ok((fd, mapping))
}
