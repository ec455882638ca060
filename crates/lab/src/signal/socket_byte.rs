//! A pair of stream sockets with one byte in them.

use std::io;

use causeway_os::socket;

use super::Signal;
use super::descriptor::Descriptor;
use crate::contract::{EndResources, Side};
use crate::mechanism::fd::WAITS;
use crate::params::{CaseParams, Wait};

/// A Unix socket pair as a signal.
pub struct SocketByte(Descriptor<1>);

impl Signal for SocketByte {
    const ID: &'static str = "socket-byte";
    const ABOUT: &'static str = "a pair of Unix stream sockets: a post writes one byte, a wait reads it";
    const WAITS: &'static [Wait] = WAITS;

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (near, far) = socket::stream_pair()?;
        Ok([EndResources::of([near.try_clone()?, near]), EndResources::of([far.try_clone()?, far])])
    }

    fn attach(_side: Side, resources: EndResources, params: &CaseParams) -> io::Result<SocketByte> {
        Descriptor::attach(resources, [1], params).map(SocketByte)
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
