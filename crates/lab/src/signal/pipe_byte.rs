//! Pipes, one for each direction, with one byte in them.

use std::io;

use rustix::pipe::{PipeFlags, pipe_with};

use super::Signal;
use super::descriptor::Descriptor;
use crate::contract::{EndResources, Side};
use crate::mechanism::fd::WAITS;
use crate::params::{CaseParams, Wait};

/// `pipe(2)` as a signal.
pub struct PipeByte(Descriptor<1>);

impl Signal for PipeByte {
    const ID: &'static str = "pipe-byte";
    const ABOUT: &'static str = "a pipe for each direction: a post writes one byte, a wait reads it";
    const WAITS: &'static [Wait] = WAITS;

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((there_read, there_write), (back_read, back_write)) = (pipe()?, pipe()?);
        Ok([EndResources::of([back_read, there_write]), EndResources::of([there_read, back_write])])
    }

    fn attach(_side: Side, resources: EndResources, params: &CaseParams) -> io::Result<PipeByte> {
        Descriptor::attach(resources, [1], params).map(PipeByte)
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
