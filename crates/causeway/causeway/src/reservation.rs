//! Reserving memory and mappings before they are needed, in calls that can fail.
//!
//! The kernel makes a page of a memory file when a process first touches it. If there is no memory then, it can only send
//! SIGBUS, to a subscriber too. So every page is reserved at the start.

mod control_group;

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use causeway_os::memory::{self, Access, Mapping};
use causeway_os::process::without_signals;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Bytes reserved by one system call: few enough to be done between two signals of a timer.
const STEP_BYTES: u64 = 4 << 20;

/// A new memory file of `bytes` bytes, every page of which exists.
pub fn memory_file(name: &str, bytes: u64) -> causeway_os::Result<OwnedFd> {
    let fd = memory::memfd(name, bytes)?;
    reserve(&fd, bytes)?;
    Ok(fd)
}

/// Allocates every page of the first `bytes` bytes of a memory file.
pub fn reserve(fd: &OwnedFd, bytes: u64) -> causeway_os::Result<()> {
    step_by_step(bytes, |offset, len| fallocate(fd, FallocateFlags::empty(), offset, len))
        .map_err(|error| causeway_os::Error::new("reserve", format!("{bytes} bytes of memory"), error))
}

/// Calls `work` with successive offsets and lengths up to `bytes`. A signal undoes all that a call has done; if signals keep
/// coming, smaller calls complete between them.
fn step_by_step(bytes: u64, mut work: impl FnMut(u64, u64) -> Result<(), Errno>) -> Result<(), Errno> {
    let (mut done, mut step) = (0, STEP_BYTES);
    while done < bytes {
        let len = step.min(bytes - done);
        match work(done, len) {
            Ok(()) => done += len,
            Err(Errno::INTR) => step = (step / 2).max(memory::page_bytes() as u64),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A line of `/proc/meminfo`, in bytes.
pub fn machine_bytes(key: &str) -> Option<u64> {
    control_group::line_of(&control_group::meminfo(), key)
}

/// Memory that the control groups of this process leave for logs; `None` without a limit. More is refused when a group is created.
pub fn memory_available_bytes() -> Option<u64> {
    control_group::available_bytes()
}

/// Fails if the control groups of this process cannot hold `bytes` more, even after they reclaim what they can.
pub fn check(bytes: u64) -> causeway_os::Result<()> {
    match control_group::available_bytes() {
        Some(available_bytes) if available_bytes < bytes => Err(causeway_os::Error::new(
            "reserve",
            format!("{bytes} bytes of memory, of which the control group has {available_bytes} available"),
            Errno::NOMEM,
        )),
        _ => Ok(()),
    }
}

/// Mappings that a new thread may need before it runs: two each for stack, signal stack and heap, and some for other threads
/// that map at the same time.
const MAPPINGS: usize = 16;

/// Starts a thread that takes no signals. A thread that gets no mappings for its stack, its signal stack and its heap aborts the
/// whole program, so mappings are made and dropped again before.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let bare = |error: causeway_os::Error| {
        error.raw_os_error().map_or(ErrorKind::Other.into(), io::Error::from_raw_os_error)
    };
    let page = memory::memfd("causeway-reservation", memory::page_bytes() as u64).map_err(bare)?;
    let mapped: causeway_os::Result<Vec<Mapping>> = (0..MAPPINGS)
        .map(|_| Mapping::shared(&page, memory::page_bytes(), Access::ReadOnly)) // the same page each time, so that the mappings do not merge
        .collect();
    drop(mapped.map_err(bare)?);
    // A handler of the program that runs in a thread of the library would interrupt what others wait for.
    without_signals(|| std::thread::Builder::new().name(name.into()).spawn(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_memory_exists_before_any_process_touches_it() {
        let fd = memory_file("reserved", 64 << 10).unwrap();
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_blocks * 512, 64 << 10);
    }

    /// A kernel that gets 100 pages done between two signals, and undoes what it did not finish.
    #[test]
    fn a_large_log_is_reserved_between_signals_that_never_stop() {
        let (bytes, page) = (2 * STEP_BYTES + 4096, memory::page_bytes() as u64);
        let (mut done, mut calls) = (0, 0);
        let work = |offset, len| {
            assert_eq!(offset, done, "what was done is not done again");
            calls += 1;
            assert!(calls < 10_000, "no end");
            if len > 100 * page {
                return Err(Errno::INTR);
            }
            done += len;
            Ok(())
        };
        assert_eq!(step_by_step(bytes, work), Ok(()));
        assert_eq!(done, bytes);
        assert_eq!(step_by_step(bytes, |_, _| Err(Errno::NOSPC)), Err(Errno::NOSPC), "not repeated");
    }
}
