//! What the allocator holds of freed memory, and has not put where it belongs.
//!
//! # Safety
//! The stream is that of a file of its own, is used by one thread, and is closed before its buffer goes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::IntoRawFd;

use nix::libc;

/// Pieces of freed memory that wait for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Small ones that are not merged with their neighbors (*fastbins*).
    pub apart: u64,
    /// Those that are not sorted by their size (*unsorted bin*).
    pub unsorted: u64,
}

/// What glibc has of all threads when `free` has run. Nothing is allocated between: that would sort.
pub fn freed(free: impl FnOnce()) -> Freed {
    let mut file = tempfile::tempfile().unwrap();
    let fd = file.try_clone().map(File::into_raw_fd).unwrap();
    let mut buffer = vec![0_u8; 1 << 16];
    // SAFETY: the descriptor is the stream's from here on.
    let stream = unsafe { libc::fdopen(fd, c"w".as_ptr()) };
    assert!(!stream.is_null());
    // SAFETY: nothing was written, and the buffer outlives the stream.
    unsafe { libc::setvbuf(stream, buffer.as_mut_ptr().cast(), libc::_IOFBF, buffer.len()) };
    free();
    // SAFETY: it is open, and not used after that.
    let said = unsafe { (libc::malloc_info(0, stream), libc::fclose(stream)) };
    assert_eq!(said, (0, 0));
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    let count_in = |line: &str| line.split_once("count=\"")?.1.split_once('"')?.0.parse::<u64>().ok();
    let counts =
        |start| text.lines().map(str::trim).filter(move |line| line.starts_with(start)).filter_map(count_in);
    // The last is that of all.
    let apart = counts("<total type=\"fast\"").next_back().expect("glibc says so");
    Freed { apart, unsorted: counts("<unsorted").sum() }
}
