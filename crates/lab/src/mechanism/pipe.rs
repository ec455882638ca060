//! Anonymous pipes, one for each direction.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use super::copying::Copying;
use super::fd::{self, ByteStream};
use crate::axis::{Axis, Values};
use crate::contract::{Caps, Facts, Fit, Handoff, Mechanism, Side};
use crate::host::Host;
use crate::link::{Link, Wait};

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

    fn fit(host: &Host, link: &Link) -> Fit {
        fits_pipe_size(host, link)
    }

    fn plan(link: &Link) -> io::Result<[Handoff; 2]> {
        let (request_read, request_write) = new_pipe(link)?;
        let (reply_read, reply_write) = new_pipe(link)?;
        Ok([Handoff::of([reply_read, request_write]), Handoff::of([request_read, reply_write])])
    }

    fn attach(_side: Side, handoff: Handoff, link: &Link) -> io::Result<Self::End> {
        attach(handoff, link)
    }
}

/// A pipe of the size that the case asks for.
pub fn new_pipe(link: &Link) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    set_size(&write, link)?;
    Ok((read, write))
}

/// Sets the size that the case asks for.
pub fn set_size(pipe: impl AsFd, link: &Link) -> io::Result<()> {
    if let Some(bytes) = link.number(PIPE_SIZE.name) {
        fcntl_setpipe_size(pipe, bytes)?;
    }
    Ok(())
}

/// May this case have a pipe of the size that it asks for?
pub fn fits_pipe_size(host: &Host, link: &Link) -> Fit {
    let most = host.sysctl_number("fs/pipe-max-size").unwrap_or(u64::MAX);
    match link.number(PIPE_SIZE.name) {
        Some(bytes) if bytes as u64 > most => Fit::No(format!(
            "a pipe of {bytes} bytes exceeds fs.pipe-max-size = {most}; raise it with sysctl fs.pipe-max-size={bytes}"
        )),
        _ => Fit::Yes,
    }
}

/// The two descriptors of one end, reading first.
pub fn attach(mut handoff: Handoff, link: &Link) -> io::Result<Copying<ByteStream>> {
    let (read, write) = (handoff.take_fd(), handoff.take_fd());
    let facts = Facts::from([("pipe_bytes".into(), fcntl_getpipe_size(&write)?.to_string())]);
    Copying::new(ByteStream::new(read, write, link, facts)?, link.payload_bytes)
}
