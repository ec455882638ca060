//! Nothing: the loop of the pattern without a signal.

use std::hint;
use std::io;

use super::Signal;
use weighbridge_harness::contract::{Caps, EndResources, InSuites, Side};
use weighbridge_harness::params::{CaseParams, Wait};

/// The harness itself.
#[derive(Debug)]
pub struct Noop {
    count: u64,
}

impl Signal for Noop {
    const ID: &'static str = "noop";
    const ABOUT: &'static str = "the harness itself: the loop without any signal";
    const CAPS: Caps = Caps::HARNESS;
    const IN_SUITES: InSuites = InSuites::Never("the harness itself, which is compared with nothing");
    const WAITS: &'static [Wait] = &[Wait::Block];

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Ok([EndResources::default(), EndResources::default()])
    }

    fn attach(_side: Side, _resources: EndResources, _params: &CaseParams) -> io::Result<Noop> {
        Ok(Noop { count: 0 })
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        // Otherwise the compiler sees that nothing happens, and the loop is no loop.
        self.count = hint::black_box(self.count + 1);
        Ok(())
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        self.count = hint::black_box(self.count + 1);
        Ok(())
    }
}
