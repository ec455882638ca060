//! What shared memory is: a memory file, a file in `/dev/shm`, a file on disk. None of them has a name.

use std::path::Path;

use causeway_os::memory;

use crate::prelude::*;

choice! {
    /// What shared memory is made of.
    pub(crate) enum Backing { Memfd = "memfd", Shm = "shm", File = "file" }
    axis "backing", default Memfd: "what the shared memory is: a memfd, a file in /dev/shm (as shm_open has it), a file on disk"
}

/// `bytes` zero bytes of the kind of memory that the case asks for.
pub(super) fn create(params: &CaseParams, name: &str, bytes: u64) -> io::Result<OwnedFd> {
    Ok(match params.choice() {
        Backing::Shm => memory::unnamed_file(Path::new("/dev/shm"), bytes)?,
        Backing::File => memory::unnamed_file(Path::new("/var/tmp"), bytes)?,
        Backing::Memfd => memory::memfd(name, bytes)?,
    })
}
