//! Words in shared memory, spun on: what a wake-up costs without the kernel.

use std::hint;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::Signal;
use super::page::{LINES, Page, Word};
use weighbridge_harness::axis::{Axis, Choice, choice};
use weighbridge_harness::contract::{EndResources, Side};
use weighbridge_harness::params::{CaseParams, Wait};

/// One word for each direction.
#[derive(Debug)]
pub struct Atomic {
    words: Turns,
    order: Order,
}

choice! {
    /// Memory order of the stores and loads.
    enum Order { SeqCst = "seqcst", AcqRel = "acqrel", Relaxed = "relaxed" }
    axis "order", default SeqCst: "memory order of stores and loads"
}

choice! {
    /// Where the two words lie.
    enum Layout { TwoLines = "two-lines", OneLine = "one-line" }
    axis "layout", default TwoLines: "the two words stand on cache lines of their own, or share one"
}

/// The word that an end writes, the word that it reads, and how far each has come.
#[derive(Debug)]
pub(super) struct Turns {
    pub mine: Word<AtomicU32>,
    pub theirs: Word<AtomicU32>,
    pub posted: u32,
    pub seen: u32,
}

impl Turns {
    /// Words that are `apart` bytes apart.
    pub fn attach(side: Side, mut resources: EndResources, apart: usize) -> io::Result<Turns> {
        let page = Page::attach(&mut resources)?;
        let (mine, theirs) = match side {
            Side::Near => (0, apart),
            Side::Far => (apart, 0),
        };
        Ok(Turns { mine: page.word(mine), theirs: page.word(theirs), posted: 0, seen: 0 })
    }

    /// The value that the next post stores.
    #[inline]
    pub fn next_post(&mut self) -> u32 {
        self.posted = self.posted.wrapping_add(1);
        self.posted
    }

    /// The value that the next wait waits for.
    #[inline]
    pub fn next_seen(&mut self) -> u32 {
        self.seen = self.seen.wrapping_add(1);
        self.seen
    }
}

impl Signal for Atomic {
    const ID: &'static str = "atomic";
    const ABOUT: &'static str =
        "a word in shared memory for each direction, stored by one and spun on by the other";
    const WAITS: &'static [Wait] = &[Wait::Spin];
    const AXES: &'static [Axis] = &[Layout::AXIS, Order::AXIS];

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Page::create_two(|_| Ok(()))
    }

    fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Atomic> {
        let apart = match params.choice() {
            Layout::TwoLines => LINES,
            Layout::OneLine => size_of::<AtomicU32>(),
        };
        Ok(Atomic { words: Turns::attach(side, resources, apart)?, order: params.choice() })
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        let turn = self.words.next_post();
        let word = &self.words.mine;
        // PAIR atomic-turn: the load in `wait`. One order for both sides, chosen by the case.
        match self.order {
            Order::SeqCst => word.store(turn, SeqCst),
            Order::AcqRel => word.store(turn, Release),
            Order::Relaxed => word.store(turn, Relaxed),
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        let turn = self.words.next_seen();
        let word = &self.words.theirs;
        let order = match self.order {
            Order::SeqCst => SeqCst,
            Order::AcqRel => Acquire,
            Order::Relaxed => Relaxed,
        };
        while word.load(order) != turn {
            // PAIR atomic-turn
            hint::spin_loop();
        }
        Ok(())
    }
}
