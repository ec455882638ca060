//! Words in shared memory, with sched_yield between two reads.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use super::Signal;
use super::atomic::Turns;
use super::page::{LINES, Page};
use weighbridge_harness::contract::{Caps, EndResources, Side};
use weighbridge_harness::params::{CaseParams, Wait};

/// As `atomic`, with `sched_yield`.
#[derive(Debug)]
pub struct SpinYield(Turns);

impl Signal for SpinYield {
    const ID: &'static str = "spin-yield";
    const ABOUT: &'static str =
        "a word in shared memory for each direction, and sched_yield between two looks at it";
    const CAPS: Caps = Caps::YIELDS;
    const WAITS: &'static [Wait] = &[Wait::Yield];

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Page::create_two(|_| Ok(()))
    }

    fn attach(side: Side, resources: EndResources, _params: &CaseParams) -> io::Result<SpinYield> {
        Ok(SpinYield(Turns::attach(side, resources, LINES)?))
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        let turn = self.0.next_post();
        self.0.mine.store(turn, Release); // PAIR yield-turn
        Ok(())
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        let turn = self.0.next_seen();
        while self.0.theirs.load(Acquire) != turn {
            // PAIR yield-turn
            thread::yield_now();
        }
        Ok(())
    }
}
