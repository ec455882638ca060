//! Private memory for messages: page-aligned, touched and locked before anything is timed.
//!
//! # Safety
//! A buffer is the only owner of its mapping, which is readable, writable, and lives as long as the buffer; so slices of
//! it borrow like those of a `Vec`.
#![allow(unsafe_code)]

use std::io;

use causeway_os::memory::Mapping;

/// Anonymous memory.
#[derive(Debug)]
pub struct Buffer {
    map: Mapping,
    is_locked: bool,
}

impl Buffer {
    /// At least `len` bytes of zeros, not yet touched.
    pub fn new(len: usize) -> io::Result<Buffer> {
        Ok(Buffer { map: Mapping::anonymous(len)?, is_locked: false })
    }

    /// Touches every page, and locks them where that is allowed.
    pub fn prefault(&mut self) -> io::Result<()> {
        self.map.prefault()?;
        self.is_locked = self.map.lock().is_ok();
        Ok(())
    }

    /// Has it in pages of the least size, however large pages may be here: so faults can be counted.
    pub fn use_small_pages(&mut self) -> io::Result<()> {
        self.advise(libc::MADV_NOHUGEPAGE)
    }

    /// Gives all of it back to the kernel: it reads as zeros, and each page is touched for the first time again.
    pub fn give_back(&mut self) -> io::Result<()> {
        self.advise(libc::MADV_DONTNEED)
    }

    fn advise(&mut self, advice: libc::c_int) -> io::Result<()> {
        let bytes = self.bytes_mut();
        // SAFETY: the range is the whole of a private anonymous mapping that is borrowed mutably; with either advice its
        // bytes stay readable and writable.
        let failed = unsafe { libc::madvise(bytes.as_mut_ptr().cast(), bytes.len(), advice) } < 0;
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Was it locked?
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// All of it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable, as long as this buffer, and only written through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.map.len()) }
    }

    /// All of it.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is writable, as long as this buffer, and `&mut self` is its only user.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_ptr(), self.map.len()) }
    }
}
