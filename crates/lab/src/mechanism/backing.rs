//! What shared memory is: a memory file, a file in `/dev/shm`, a file on disk. None of them has a name.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use causeway_os::memory;

use crate::axis::{Axis, Values};
use crate::params::CaseParams;

/// The axis.
pub const AXIS: Axis = Axis {
    name: "backing",
    default: "memfd",
    values: Values::OneOf(&["memfd", "shm", "file"]),
    about: "what the shared memory is: a memfd, a file in /dev/shm (as shm_open has it), a file on disk",
};

/// So many zero bytes of what the case asks for.
///
/// # Errors
/// That of the kernel.
pub fn create(params: &CaseParams, name: &str, bytes: u64) -> io::Result<OwnedFd> {
    Ok(match params.axis(AXIS.name) {
        "shm" => memory::unnamed_file(Path::new("/dev/shm"), bytes)?,
        "file" => memory::unnamed_file(Path::new("/var/tmp"), bytes)?,
        _ => memory::memfd(name, bytes)?,
    })
}
