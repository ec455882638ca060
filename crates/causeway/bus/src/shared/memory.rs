//! Memory files of a bus: reserved before they are shared, checked before they are mapped, copied word by word.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_os::memory::{self, Access, Mapping, Seals};
use rustix::fs::FallocateFlags;

use crate::error::{Error, Result};

/// The length is fixed: no process gets SIGBUS.
pub const LENGTH: &[Seals] = &[Seals::SHRINK, Seals::GROW];
/// And no further process can write.
pub const ONE_WRITER: &[Seals] = &[Seals::SHRINK, Seals::GROW, Seals::FUTURE_WRITE, Seals::SEAL];

/// A new memory file whose pages all exist.
pub fn create(name: &str, bytes: u64) -> Result<OwnedFd> {
    let fd = memory::memfd(name, bytes)?;
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes))
        .map_err(|error| causeway_os::Error::new("reserve", format!("{bytes} bytes of memory"), error))?;
    Ok(fd)
}

/// Adds seals; nobody can change the length, and with [`ONE_WRITER`] nobody else can map for writing from now on.
pub fn seal(fd: &OwnedFd, seals: &[Seals]) -> Result<()> {
    let all = seals.iter().fold(Seals::NONE, |all, seal| all | *seal);
    Ok(memory::add_seals(fd, all)?)
}

/// Length of a file from another process, which must have these seals, and memory behind every byte.
pub fn checked_bytes(fd: &OwnedFd, what: &str, seals: &[Seals]) -> Result<u64> {
    let refuse = |why: &str| Error::Refused(format!("invalid {what}: {why}"));
    let found = memory::seals(fd).map_err(|_| refuse("not a memory file that can be sealed"))?;
    if seals.iter().any(|seal| !found.contains(*seal)) {
        return Err(refuse("a seal is missing"));
    }
    let stat =
        rustix::fs::fstat(fd).map_err(|error| causeway_os::Error::new("stat", what.to_owned(), error))?;
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    if (stat.st_blocks as u64) * 512 < bytes {
        return Err(refuse("not all of its memory is allocated"));
    }
    Ok(bytes)
}

/// Maps the start of a file; a forked child does not get the mapping.
pub fn map(fd: &OwnedFd, bytes: u64, access: Access) -> Result<Mapping> {
    let mapping = Mapping::shared(fd, bytes as usize, access)?;
    mapping.dont_fork()?;
    Ok(mapping)
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

/// Copies into shared memory that this process may write. Bounds as in [`copy_out`]; what is rounded up becomes 0.
#[inline]
pub fn copy_in(mapping: &Mapping, to: usize, from: &[u8]) {
    let words = mapping.atomic_u64s(to, from.len().div_ceil(8));
    let (whole, rest) = from.as_chunks::<8>();
    let store = |word: &AtomicU64, bytes: [u8; 8]| word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    words.iter().zip(whole).for_each(|(word, bytes)| store(word, *bytes));
    if let Some(last) = words.get(whole.len()) {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        store(last, bytes);
    }
}
