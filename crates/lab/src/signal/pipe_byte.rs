//! Pipes, one for each direction, with one byte in them.

use std::io;

use rustix::pipe::{PipeFlags, pipe_with};

use super::Signal;
use super::descriptor::Descriptor;
use crate::contract::{Handoff, Side};
use crate::link::{Link, Wait};
use crate::mechanism::fd::WAITS;

/// `pipe(2)` as a signal.
pub struct PipeByte(Descriptor<1>);

impl Signal for PipeByte {
    const ID: &'static str = "pipe-byte";
    const ABOUT: &'static str = "a pipe for each direction: a post writes one byte, a wait reads it";
    const WAITS: &'static [Wait] = WAITS;

    fn plan(_link: &Link) -> io::Result<[Handoff; 2]> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((there_read, there_write), (back_read, back_write)) = (pipe()?, pipe()?);
        Ok([Handoff::of([back_read, there_write]), Handoff::of([there_read, back_write])])
    }

    fn attach(_side: Side, handoff: Handoff, link: &Link) -> io::Result<PipeByte> {
        Descriptor::attach(handoff, [1], link).map(PipeByte)
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        self.0.post()
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        self.0.wait()
    }
}
