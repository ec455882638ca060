//! A pair of stream sockets with one byte in them.

use std::io;

use causeway_os::socket;

use super::Signal;
use super::descriptor::Descriptor;
use crate::contract::{Handoff, Side};
use crate::link::{Link, Wait};
use crate::mechanism::fd::WAITS;

/// A Unix socket pair as a signal.
pub struct SocketByte(Descriptor<1>);

impl Signal for SocketByte {
    const ID: &'static str = "socket-byte";
    const ABOUT: &'static str = "a pair of Unix stream sockets: a post writes one byte, a wait reads it";
    const WAITS: &'static [Wait] = WAITS;

    fn plan(_link: &Link) -> io::Result<[Handoff; 2]> {
        let (near, far) = socket::stream_pair()?;
        Ok([Handoff::of([near.try_clone()?, near]), Handoff::of([far.try_clone()?, far])])
    }

    fn attach(_side: Side, handoff: Handoff, link: &Link) -> io::Result<SocketByte> {
        Descriptor::attach(handoff, [1], link).map(SocketByte)
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
