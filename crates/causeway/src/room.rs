//! Room for what is made: memory that is there from the start, and threads that can live. Or an error then.
//!
//! A page of a memory file that does not exist yet is made when somebody first touches it. If there is no memory then, the
//! kernel can only send SIGBUS, to a receiver too. So every page is asked for at the start, in a call that can fail.

mod control_group;
mod thread;

pub use thread::spawn;

use std::os::fd::OwnedFd;

use causeway_os::memory;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// A memory file of `bytes` bytes, every page of which exists.
pub fn memory_file(name: &str, bytes: u64) -> causeway_os::Result<OwnedFd> {
    let fd = memory::memfd(name, bytes)?;
    let failed = |error| causeway_os::Error::new("reserve", format!("{bytes} bytes of memory"), error);
    rustix::io::retry_on_intr(|| fallocate(&fd, FallocateFlags::empty(), 0, bytes)).map_err(failed)?;
    Ok(fd)
}

/// Fails if the control groups of this process cannot hold `bytes` more, whatever else is given up.
pub fn check(bytes: u64) -> causeway_os::Result<()> {
    match control_group::room() {
        Some(room) if room < bytes => Err(causeway_os::Error::new(
            "reserve",
            format!("{bytes} bytes of memory, where the control group has room for {room}"),
            Errno::NOMEM,
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_memory_is_there_before_anybody_touches_it() {
        let fd = memory_file("reserved", 64 << 10).unwrap();
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_blocks * 512, 64 << 10);
    }
}
