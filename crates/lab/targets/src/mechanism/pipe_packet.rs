//! Pipes in packet mode, which keep messages apart: each write is a packet, and each read takes one.
//!
//! The kernel gives each packet a page of its own, so a pipe of 64 KiB holds 16 packets, however short they are. A longer
//! write is not refused by the kernel but split into several packets, and what of a packet does not fit the reader's buffer
//! is thrown away in silence (pipe(2)). So messages above `PIPE_BUF` are refused here, and packets are received into a
//! buffer that takes any.

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::pipe::{PipeFlags, pipe_with};

use super::copying::{Copying, Transport};
use super::fd::{self, Line};
use super::pipe;
use super::yes_no;
use crate::prelude::*;
use crate::sys;

pub(super) struct PipePacket;

/// The longest write that is one packet.
const MOST_BYTES: usize = libc::PIPE_BUF;

impl Mechanism for PipePacket {
    const ID: &'static str = "pipe-packet";
    const ABOUT: &'static str =
        "pipe2(2) with O_DIRECT, one for each direction: each write is a packet of up to 4 KiB";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::NEVER_EMPTY);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = &[pipe::PIPE_SIZE];
    const IN_SUITES: InSuites = InSuites::AtSmallSizes("a packet of a pipe holds at most a page");
    type End = Copying<Packets>;

    fn properties(_params: &CaseParams) -> Properties {
        properties::of_kernel(Across::PassedDescriptors)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        if params.payload_bytes > MOST_BYTES {
            return Err(Unsupported(format!(
                "a message of {} bytes exceeds PIPE_BUF = {MOST_BYTES}, above which a pipe splits a packet; no setting \
                 raises that, use a smaller size",
                params.payload_bytes
            )));
        }
        pipe::fits_pipe_size(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        pipe::create_two(params, || Ok(pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT)?))
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        Copying::new(Packets(Line::take(&mut resources, params.wait)?), params.payload_bytes)
    }
}

pub(super) struct Packets(Line);

impl Transport for Packets {
    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.writer.call(|fd| sys::write(&fd, message)).map(drop)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.reader.read(buffer)? {
            0 => Err(fd::peer_gone()),
            count => Ok(count),
        }
    }

    fn least_buffer_bytes(&self) -> usize {
        MOST_BYTES
    }

    fn facts(&self) -> io::Result<Facts> {
        let pipe = self.0.writer.fd();
        let mut facts = pipe::facts(pipe)?;
        facts.insert("packets".into(), yes_no(fcntl_getfl(pipe)?.contains(OFlags::DIRECT)));
        Ok(facts)
    }
}
