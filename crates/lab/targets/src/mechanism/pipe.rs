//! Anonymous pipes, one for each direction.

use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use super::copying::Copying;
use super::fd::{self, ByteStream, Line};
use super::fits_sysctl;
use crate::prelude::*;

pub(super) struct Pipe;

pub(super) const PIPE_SIZE: Axis = Axis {
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

    fn properties(_params: &CaseParams) -> Properties {
        properties::of_kernel(Across::PassedDescriptors)
    }

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
pub(super) fn create_two(
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
pub(super) fn fits_pipe_size(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let Some(bytes) = params.number(PIPE_SIZE.name) else { return Ok(()) };
    fits_sysctl(host, "fs/pipe-max-size", bytes as u64, &format!("a pipe of {bytes} bytes"))
}

pub(super) fn attach(mut resources: EndResources, params: &CaseParams) -> io::Result<Copying<ByteStream>> {
    let line = Line::take(&mut resources, params.wait)?;
    Copying::new(ByteStream { line, facts, figures: None }, params.payload_bytes)
}

pub(super) fn facts(pipe: BorrowedFd<'_>) -> io::Result<Facts> {
    Ok(Facts::from([("pipe_bytes".into(), fcntl_getpipe_size(pipe)?.to_string())]))
}
