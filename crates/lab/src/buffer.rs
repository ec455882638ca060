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
    ///
    /// # Errors
    /// No memory.
    pub fn new(len: usize) -> io::Result<Buffer> {
        Ok(Buffer { map: Mapping::anonymous(len)?, is_locked: false })
    }

    /// Touches every page, and locks them where that is allowed.
    ///
    /// # Errors
    /// The kernel's; not being allowed to lock is none.
    pub fn prefault(&mut self) -> io::Result<()> {
        self.map.prefault()?;
        self.is_locked = self.map.lock().is_ok();
        Ok(())
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
