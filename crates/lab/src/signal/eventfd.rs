//! Event counters, one for each direction.

use std::io;

use rustix::event::{EventfdFlags, eventfd};

use super::Signal;
use super::descriptor::Descriptor;
use crate::contract::{Handoff, Side};
use crate::link::{Link, Wait};
use crate::mechanism::fd::WAITS;

/// `eventfd(2)`.
pub struct EventFd(Descriptor<8>);

impl Signal for EventFd {
    const ID: &'static str = "eventfd";
    const ABOUT: &'static str =
        "an eventfd for each direction: a post writes 1, a wait reads the counter down";
    const WAITS: &'static [Wait] = WAITS;

    fn plan(_link: &Link) -> io::Result<[Handoff; 2]> {
        let counter = || eventfd(0, EventfdFlags::CLOEXEC);
        let (there, back) = (counter()?, counter()?);
        Ok([Handoff::of([back.try_clone()?, there.try_clone()?]), Handoff::of([there, back])])
    }

    fn attach(_side: Side, handoff: Handoff, link: &Link) -> io::Result<EventFd> {
        Descriptor::attach(handoff, 1u64.to_ne_bytes(), link).map(EventFd)
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
