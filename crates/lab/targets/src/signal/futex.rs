//! Words in shared memory that are slept on.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};

use causeway_os::futex;

use super::Signal;
use super::atomic::Turns;
use super::page::{LINES, Page};
use weighbridge_harness::contract::{EndResources, Side};
use weighbridge_harness::params::{CaseParams, Wait};

/// A store and `FUTEX_WAKE`; a look and `FUTEX_WAIT`.
#[derive(Debug)]
pub struct Futex(Turns);

impl Signal for Futex {
    const ID: &'static str = "futex";
    const ABOUT: &'static str =
        "a word in shared memory for each direction: each post stores and wakes, each wait looks and sleeps";
    const WAITS: &'static [Wait] = &[Wait::Block];

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Page::create_two(|_| Ok(()))
    }

    fn attach(side: Side, resources: EndResources, _params: &CaseParams) -> io::Result<Futex> {
        Ok(Futex(Turns::attach(side, resources, LINES)?))
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        let turn = self.0.next_post();
        self.0.mine.store(turn, Release); // PAIR futex-turn
        futex::wake(&self.0.mine, 1).map(drop)
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        let turn = self.0.next_seen();
        loop {
            let now = self.0.theirs.load(Acquire); // PAIR futex-turn
            if now == turn {
                return Ok(());
            }
            let _ = futex::wait(&self.0.theirs, now, None)?;
        }
    }
}
