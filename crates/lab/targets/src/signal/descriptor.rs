//! Signals over descriptors: a post writes a few bytes without meaning, a wait reads them.
//!
//! Each signal is a [`Channel`] that says what the descriptors are; everything else is the same for all of them.

use std::marker::PhantomData;

use causeway_os::socket;
use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};

use super::Signal;
use crate::mechanism::fd::{Line, WAITS, peer_gone};
use crate::prelude::*;
use crate::sys;

pub(super) trait Channel: 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    const POST: Self::Bytes;
    const PROPERTIES: Properties = properties::of_kernel(Across::PassedDescriptors);
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Copy;

    /// Of each end, near end first: the descriptor that it reads and the one that it writes.
    fn create() -> io::Result<[[OwnedFd; 2]; 2]>;
}

pub(super) struct EventFd;

impl Channel for EventFd {
    const ID: &'static str = "eventfd";
    const ABOUT: &'static str =
        "an eventfd for each direction: a post writes 1, a wait reads the counter down";
    const POST: [u8; 8] = 1u64.to_ne_bytes();
    // It is the same counter for both, and no end of it closes.
    const PROPERTIES: Properties =
        properties::of_kernel(Across::PassedDescriptors).with(Property::SurvivesKill, false);
    type Bytes = [u8; 8];

    fn create() -> io::Result<[[OwnedFd; 2]; 2]> {
        let counter = || eventfd(0, EventfdFlags::CLOEXEC);
        let (there, back) = (counter()?, counter()?);
        Ok([[back.try_clone()?, there.try_clone()?], [there, back]])
    }
}

pub(super) struct PipeByte;

impl Channel for PipeByte {
    const ID: &'static str = "pipe-byte";
    const ABOUT: &'static str = "a pipe for each direction: a post writes one byte, a wait reads it";
    const POST: [u8; 1] = [1];
    type Bytes = [u8; 1];

    fn create() -> io::Result<[[OwnedFd; 2]; 2]> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((there_read, there_write), (back_read, back_write)) = (pipe()?, pipe()?);
        Ok([[back_read, there_write], [there_read, back_write]])
    }
}

pub(super) struct SocketByte;

impl Channel for SocketByte {
    const ID: &'static str = "socket-byte";
    const ABOUT: &'static str = "a pair of Unix stream sockets: a post writes one byte, a wait reads it";
    const POST: [u8; 1] = [1];
    type Bytes = [u8; 1];

    fn create() -> io::Result<[[OwnedFd; 2]; 2]> {
        let (near, far) = socket::stream_pair()?;
        Ok([[near.try_clone()?, near], [far.try_clone()?, far]])
    }
}

pub(super) struct Descriptor<C> {
    line: Line,
    channel: PhantomData<C>,
}

impl<C: Channel> Signal for Descriptor<C> {
    const ID: &'static str = C::ID;
    const ABOUT: &'static str = C::ABOUT;
    const WAITS: &'static [Wait] = WAITS;
    const PROPERTIES: Properties = C::PROPERTIES;

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Ok(C::create()?.map(EndResources::of))
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self> {
        Ok(Descriptor { line: Line::take(&mut resources, params.wait)?, channel: PhantomData })
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        let bytes = C::POST;
        let wanted = bytes.as_ref().len();
        match self.line.writer.call(|fd| sys::write(&fd, bytes.as_ref()))? {
            written if written == wanted => Ok(()),
            written => Err(io::Error::other(format!("{written} of {wanted} bytes were written"))),
        }
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        let mut bytes = C::POST;
        let wanted = bytes.as_ref().len();
        match self.line.reader.read(bytes.as_mut())? {
            read if read == wanted => Ok(()),
            0 => Err(peer_gone()),
            read => Err(io::Error::other(format!("{read} of {wanted} bytes were read"))),
        }
    }
}
