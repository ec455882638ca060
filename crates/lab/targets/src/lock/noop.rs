//! No lock: each role adds to a number of its own.

use std::hint;
use std::io;

use super::Lock;
use crate::signal::page::Page;
use weighbridge_harness::contract::{Caps, InSuites};
use weighbridge_harness::params::Wait;

/// The harness itself.
#[derive(Debug)]
pub struct Noop;

impl Lock for Noop {
    const ID: &'static str = "noop";
    const ABOUT: &'static str =
        "the harness itself: the loop without any lock, each role on a number of its own";
    const CAPS: Caps = Caps::HARNESS;
    const IN_SUITES: InSuites = InSuites::Never("the harness itself, which is compared with nothing");
    const WAIT: &'static [Wait] = &[Wait::Block];

    fn attach(_page: &Page) -> Noop {
        Noop
    }

    #[inline]
    fn lock(&mut self) -> io::Result<()> {
        hint::black_box(self);
        Ok(())
    }

    #[inline]
    fn unlock(&mut self) -> io::Result<()> {
        hint::black_box(self);
        Ok(())
    }
}
