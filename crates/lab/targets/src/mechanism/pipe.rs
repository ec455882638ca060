//! Anonymous pipes, one for each direction.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use super::copying::Copying;
use super::fd::{self, ByteStream};
use weighbridge_harness::axis::{Axis, Values};
use weighbridge_harness::contract::{Caps, EndResources, Facts, Mechanism, Side, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};

/// `pipe(2)`.
#[derive(Debug)]
pub struct Pipe;

/// Capacity of a pipe.
pub const PIPE_SIZE: Axis = Axis {
    name: "pipe-size",
    default: "default",
    values: Values::Bytes,
    about: "capacity of the pipe in bytes (F_SETPIPE_SZ); default is what the kernel gives",
};

impl Mechanism for Pipe {
    const ID: &'static str = "pipe";
    const ABOUT: &'static str = "pipe(2), one for each direction, written and read whole";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::BYTE_STREAM);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = &[PIPE_SIZE];
    type End = Copying<ByteStream>;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fits_pipe_size(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        create_two(params, || Ok(pipe_with(PipeFlags::CLOEXEC)?))
    }

    fn attach(_side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        attach(resources, params)
    }
}

/// Two pipes of the size that the case asks for, from whatever makes a reading and a writing end.
pub fn create_two(
    params: &CaseParams,
    make: impl Fn() -> io::Result<(OwnedFd, OwnedFd)>,
) -> io::Result<[EndResources; 2]> {
    let make = || -> io::Result<_> {
        let (read, write) = make()?;
        if let Some(bytes) = params.number(PIPE_SIZE.name) {
            fcntl_setpipe_size(&write, bytes)?;
        }
        Ok((read, write))
    };
    let (request_read, request_write) = make()?;
    let (reply_read, reply_write) = make()?;
    Ok([EndResources::of([reply_read, request_write]), EndResources::of([request_read, reply_write])])
}

/// May this case have a pipe of the size that it asks for?
pub fn fits_pipe_size(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let most = host.sysctl_number("fs/pipe-max-size").unwrap_or(u64::MAX);
    match params.number(PIPE_SIZE.name) {
        Some(bytes) if bytes as u64 > most => Err(Unsupported(format!(
            "a pipe of {bytes} bytes exceeds fs.pipe-max-size = {most}; raise it with sysctl fs.pipe-max-size={bytes}"
        ))),
        _ => Ok(()),
    }
}

/// The two descriptors of one end, reading first.
pub fn attach(mut resources: EndResources, params: &CaseParams) -> io::Result<Copying<ByteStream>> {
    let (read, write) = (resources.take_fd(), resources.take_fd());
    Copying::new(ByteStream::new(read, write, params, facts)?, params.payload_bytes)
}

/// How much a pipe holds.
pub fn facts(pipe: BorrowedFd<'_>) -> io::Result<Facts> {
    Ok(Facts::from([("pipe_bytes".into(), fcntl_getpipe_size(pipe)?.to_string())]))
}
