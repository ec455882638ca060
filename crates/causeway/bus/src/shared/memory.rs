//! Memory files of a bus: reserved before they are shared, checked before they are mapped, copied word by word.

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use causeway_os::Context;
use causeway_os::memory::{self, Access, Mapping, Seals};
use rustix::fs::FallocateFlags;

use super::FORMAT;
use crate::error::{Error, Result};

/// The length is fixed: no process gets SIGBUS.
pub const LENGTH: Seals = Seals::SHRINK.union(Seals::GROW);
/// And no further process can write.
pub const ONE_WRITER: Seals = LENGTH.union(Seals::FUTURE_WRITE).union(Seals::SEAL);

/// A new memory file whose pages all exist.
pub fn create(name: &str, bytes: u64) -> Result<OwnedFd> {
    let fd = memory::memfd(name, bytes)?;
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes))
        .context("reserve", || format!("{bytes} bytes of memory"))?;
    Ok(fd)
}

/// Length of a file from another process, which must have these seals, and memory behind every byte.
pub fn checked_bytes(fd: &OwnedFd, what: &str, seals: Seals) -> Result<u64> {
    let found = memory::seals(fd).map_err(|_| invalid(what, "not a memory file that can be sealed"))?;
    if !found.contains(seals) {
        return Err(invalid(what, "a seal is missing"));
    }
    let stat = rustix::fs::fstat(fd).context("stat", || what)?;
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    if (stat.st_blocks as u64) * 512 < bytes {
        return Err(invalid(what, "not all of its memory is allocated"));
    }
    Ok(bytes)
}

/// The error of a file from another process that is not what it should be.
pub fn invalid(what: &str, why: impl Display) -> Error {
    Error::Refused(format!("invalid {what}: {why}"))
}

/// Maps the start of a file; a forked child does not get the mapping.
pub fn map(fd: &OwnedFd, bytes: u64, access: Access) -> Result<Mapping> {
    let mapping = Mapping::shared(fd, bytes as usize, access)?;
    mapping.dont_fork()?;
    Ok(mapping)
}

/// As [`map`], of a file from another process, which is of this kind and of the version of this program. Returns also
/// what stands behind the number of the version.
pub fn open(fd: &OwnedFd, what: &str, magic: u64, bytes: u64, access: Access) -> Result<(Mapping, u32)> {
    let mapping = map(fd, bytes, access)?;
    let [first, second] = [0, 8].map(|offset| mapping.load_u64(offset).load(Ordering::Relaxed));
    if first != magic || second as u32 != FORMAT {
        return Err(invalid(what, format!("it is not of format {FORMAT}")));
    }
    Ok((mapping, (second >> 32) as u32))
}

/// Copies out of shared memory what others may change meanwhile; the copy may then be torn. `from` is a multiple of 8, and
/// the bytes lie inside the mapping, rounded up to a multiple of 8.
#[inline]
pub fn copy_out(mapping: &Mapping, from: usize, into: &mut [u8]) {
    let mut words = mapping.load_u64s(from, into.len().div_ceil(8));
    let (whole, rest) = into.as_chunks_mut::<8>();
    whole.iter_mut().zip(&mut words).for_each(|(chunk, word)| *chunk = word.to_ne_bytes());
    if let Some(word) = words.next() {
        rest.copy_from_slice(&word.to_ne_bytes()[..rest.len()]);
    }
}
