//! The calls of the timed loops, straight to the kernel.
//!
//! # Safety
//! Reading and writing take a pointer and a length from one slice that lives across the call.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;

/// `read(2)`.
#[inline]
pub(crate) fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length come from one slice.
    let count = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// `write(2)`, again until all of `bytes` are written. Returns how many calls were interrupted.
#[inline]
pub(crate) fn write_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<u64> {
    let mut interrupted = 0;
    while !bytes.is_empty() {
        // SAFETY: pointer and length come from one slice.
        let count = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(count) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => interrupted += 1,
                error => return Err(error),
            },
        }
    }
    Ok(interrupted)
}

/// Makes a descriptor that its owner has lent return instead of wait.
pub(crate) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the request takes a pointer to an int, which lives across the call.
    match unsafe { libc::ioctl(fd, libc::FIONBIO, &raw const on) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sum of bytes: the same in whatever pieces they are read.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    match bytes {
        [byte] => u64::from(*byte),
        bytes => bytes.iter().map(|byte| u64::from(*byte)).sum(),
    }
}
