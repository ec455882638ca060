//! Pipes in packet mode, which keep messages apart: each write is a packet, and each read takes one.
//!
//! The kernel gives each packet a page of its own, so a pipe of 64 KiB holds 16 packets, however short they are. A longer
//! write is not refused by the kernel but split into several packets, and what of a packet does not fit the reader's buffer
//! is thrown away in silence (pipe(2)). So messages above `PIPE_BUF` are refused here, and packets are received into a
//! buffer that takes any.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::pipe::{PipeFlags, pipe_with};

use super::copying::{Copying, Transport};
use super::fd::{self, Reader, Writer};
use super::pipe;
use crate::sys;
use weighbridge_harness::axis::Axis;
use weighbridge_harness::contract::{Caps, EndResources, Facts, InSuites, Mechanism, Side, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};

/// `pipe2(2)` with `O_DIRECT`.
#[derive(Debug)]
pub struct PipePacket;

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
        let reader = Reader::new(resources.take_fd(), params.wait)?;
        let writer = Writer::new(resources.take_fd(), params.wait)?;
        Copying::new(Packets { reader, writer }, params.payload_bytes)
    }
}

/// A pipe to receive packets from, and one to send them to.
pub struct Packets {
    reader: Reader,
    writer: Writer,
}

impl Transport for Packets {
    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.writer.call(|fd| sys::write(&fd, message)).map(drop)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(buffer)? {
            0 => Err(fd::peer_gone()),
            count => Ok(count),
        }
    }

    fn least_buffer_bytes(&self) -> usize {
        MOST_BYTES
    }

    fn facts(&self) -> io::Result<Facts> {
        facts(self.writer.fd())
    }
}

/// How much a pipe holds, and whether what is written to it are packets.
fn facts(pipe: BorrowedFd<'_>) -> io::Result<Facts> {
    let mut facts = pipe::facts(pipe)?;
    let is_packets = fcntl_getfl(pipe)?.contains(OFlags::DIRECT);
    facts.insert("packets".into(), if is_packets { "yes" } else { "no" }.into());
    Ok(facts)
}
