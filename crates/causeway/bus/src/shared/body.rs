//! A message that is too long for the outbox: a memory file of its own, which nobody can change any more.
//!
//! # Safety
//! The file is sealed against writing before it is mapped, which the kernel only allows while no writable mapping exists, and
//! against getting shorter. So its bytes never change, and every byte of the mapping is there.
#![allow(unsafe_code)]

use std::fs::File;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use causeway_os::Context;
use causeway_os::memory::{self as os_memory, Mapping, Seals};

use super::memory;
use crate::content::Bytes;
use crate::error::{Error, Result};

/// What such a file is sealed against: changes of its bytes and its length, and further seals.
pub const SEALS: Seals = memory::LENGTH.union(Seals::WRITE).union(Seals::SEAL);

/// Puts a message into a sealed file.
pub fn write(message: &[u8]) -> Result<OwnedFd> {
    let mut file = MessageFile::create()?;
    file.append(message)?;
    file.seal()
}

/// A long message that is put together in a memory file, piece by piece.
#[derive(Debug)]
pub struct MessageFile {
    file: File,
    bytes: u64,
}

impl MessageFile {
    /// An empty file. Fails if this process has no descriptor or memory left.
    pub fn create() -> Result<MessageFile> {
        Ok(MessageFile { file: os_memory::memfd("causeway-message", 0)?.into(), bytes: 0 })
    }

    /// Bytes that it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a piece. Fails if there is no memory left.
    pub fn append(&mut self, piece: &[u8]) -> Result<()> {
        let what = || format!("{} bytes into a memory file", piece.len());
        self.file.write_all_at(piece, self.bytes).context("write", what)?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    /// Nobody changes it any more.
    pub fn seal(self) -> Result<OwnedFd> {
        let fd = OwnedFd::from(self.file);
        os_memory::add_seals(&fd, SEALS)?;
        Ok(fd)
    }

    /// As [`MessageFile::seal`], and maps it.
    pub fn finish(self) -> Result<(Bytes, OwnedFd)> {
        let bytes = self.bytes;
        let fd = self.seal()?;
        Ok((SealedBody::open(&fd, bytes)?.into(), fd))
    }
}

/// Bytes of a file that holds a message, which must be a memory file with [`SEALS`] and all its memory.
pub fn checked_bytes(fd: &OwnedFd) -> Result<u64> {
    memory::checked_bytes(fd, "file of a message", SEALS)
}

/// A message in a sealed file, mapped: its bytes were not copied.
#[derive(Debug)]
pub struct SealedBody {
    mapping: Mapping,
}

impl SealedBody {
    /// Maps a message of `bytes` bytes. Fails as [`checked_bytes`], or if the file has another length.
    pub fn open(fd: &OwnedFd, bytes: u64) -> Result<SealedBody> {
        let found = checked_bytes(fd)?;
        if found != bytes || bytes == 0 {
            return Err(Error::Refused(format!(
                "the file of a message has {found} bytes instead of {bytes}"
            )));
        }
        Ok(SealedBody { mapping: Mapping::view(fd, bytes as usize)? })
    }
}

impl Deref for SealedBody {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: nothing writes the bytes of a file that is sealed against it, which was checked before it was mapped.
        unsafe { self.mapping.slice(0, self.mapping.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_from_its_file_and_nobody_can_change_it() {
        let message: Vec<u8> = (0..100_001).map(|n| (n % 251) as u8).collect();
        let fd = write(&message).unwrap();
        assert_eq!(*SealedBody::open(&fd, 100_001).unwrap(), message[..]);
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, 5).is_err());
        assert!(SealedBody::open(&fd, 100_000).unwrap_err().to_string().contains("100001 bytes instead"));
    }

    #[test]
    fn a_file_that_can_still_change_is_refused() {
        let fd = os_memory::memfd("test", 4096).unwrap();
        for seals in [Seals::empty(), memory::LENGTH, Seals::WRITE] {
            os_memory::add_seals(&fd, seals).unwrap();
            assert!(SealedBody::open(&fd, 4096).unwrap_err().to_string().contains("seal is missing"));
        }
        let sparse = os_memory::memfd("test", 1 << 20).unwrap();
        os_memory::add_seals(&sparse, SEALS).unwrap();
        let refused = SealedBody::open(&sparse, 1 << 20).unwrap_err().to_string();
        assert!(refused.contains("is allocated"), "{refused}");
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert!(SealedBody::open(&pipe, 1).is_err());
    }
}
