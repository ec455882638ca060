//! What shared memory is: a memory file, a file in `/dev/shm`, a file on disk. None of them has a name.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use causeway_os::memory;

use weighbridge_harness::axis::choice;
use weighbridge_harness::params::CaseParams;

choice! {
    /// What shared memory is made of.
    pub(crate) enum Backing {
        /// A memory file.
        Memfd = "memfd",
        /// A file in `/dev/shm`, as `shm_open` has it.
        Shm = "shm",
        /// A file on disk.
        File = "file",
    }
    axis "backing", default Memfd: "what the shared memory is: a memfd, a file in /dev/shm (as shm_open has it), a file on disk"
}

/// `bytes` zero bytes of the kind of memory that the case asks for.
///
/// # Errors
/// That of the kernel.
pub fn create(params: &CaseParams, name: &str, bytes: u64) -> io::Result<OwnedFd> {
    Ok(match params.choice() {
        Backing::Shm => memory::unnamed_file(Path::new("/dev/shm"), bytes)?,
        Backing::File => memory::unnamed_file(Path::new("/var/tmp"), bytes)?,
        Backing::Memfd => memory::memfd(name, bytes)?,
    })
}
