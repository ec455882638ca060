//! Event counters, one for each direction.

use std::io;

use rustix::event::{EventfdFlags, eventfd};

use super::Signal;
use super::descriptor::Descriptor;
use crate::contract::{EndResources, Side};
use crate::mechanism::fd::WAITS;
use crate::params::{CaseParams, Wait};

/// `eventfd(2)`.
pub struct EventFd(Descriptor<8>);

impl Signal for EventFd {
    const ID: &'static str = "eventfd";
    const ABOUT: &'static str =
        "an eventfd for each direction: a post writes 1, a wait reads the counter down";
    const WAITS: &'static [Wait] = WAITS;

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let counter = || eventfd(0, EventfdFlags::CLOEXEC);
        let (there, back) = (counter()?, counter()?);
        Ok([EndResources::of([back.try_clone()?, there.try_clone()?]), EndResources::of([there, back])])
    }

    fn attach(_side: Side, resources: EndResources, params: &CaseParams) -> io::Result<EventFd> {
        Descriptor::attach(resources, 1u64.to_ne_bytes(), params).map(EventFd)
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
