//! Nothing, done over and over: what the loop costs.

use std::hint;
use std::io;

use super::{Op, OpContext};
use weighbridge_harness::contract::Caps;

/// The harness itself.
#[derive(Debug)]
pub struct Noop(u64);

impl Op for Noop {
    const ID: &'static str = "noop";
    const ABOUT: &'static str = "the harness itself: the loop without any operation";
    const CAPS: Caps = Caps::HARNESS;

    fn setup(_seat: &OpContext<'_>) -> io::Result<Noop> {
        Ok(Noop(1))
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        // Otherwise the compiler sees that nothing happens, and the loop is no loop.
        Ok(hint::black_box(self.0))
    }

    fn each(&self) -> Option<u64> {
        Some(1)
    }
}
