//! A word in shared memory for each direction: spun on, given up the CPU for, or slept on. And no signal at all.

use std::hint;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::thread;

use causeway_os::futex;

use super::Signal;
use crate::page::{LINES, Page, Word};
use crate::prelude::*;

/// The word that an end writes, the word that it reads, and how far each has come.
struct Turns {
    mine: Word<AtomicU32>,
    theirs: Word<AtomicU32>,
    posted: u32,
    seen: u32,
}

impl Turns {
    /// Words that are `apart` bytes apart.
    fn attach(side: Side, mut resources: EndResources, apart: usize) -> io::Result<Turns> {
        let page = Page::attach(&mut resources)?;
        let (mine, theirs) = if side == Side::Near { (0, apart) } else { (apart, 0) };
        Ok(Turns { mine: page.word(mine), theirs: page.word(theirs), posted: 0, seen: 0 })
    }

    /// The value that the next post stores.
    #[inline]
    fn next_post(&mut self) -> u32 {
        self.posted = self.posted.wrapping_add(1);
        self.posted
    }

    /// The value that the next wait waits for.
    #[inline]
    fn next_seen(&mut self) -> u32 {
        self.seen = self.seen.wrapping_add(1);
        self.seen
    }
}

choice! {
    enum Order { SeqCst = "seqcst", AcqRel = "acqrel", Relaxed = "relaxed" }
    axis "order", default SeqCst: "memory order of stores and loads"
}

choice! {
    enum Layout { TwoLines = "two-lines", OneLine = "one-line" }
    axis "layout", default TwoLines: "the two words stand on cache lines of their own, or share one"
}

/// What a wake-up costs without the kernel.
pub(super) struct Atomic {
    words: Turns,
    order: Order,
}

impl Signal for Atomic {
    const ID: &'static str = "atomic";
    const ABOUT: &'static str =
        "a word in shared memory for each direction, stored by one and spun on by the other";
    const WAITS: &'static [Wait] = &[Wait::Spin];
    const PROPERTIES: Properties = SHARED_MEMORY;
    const AXES: &'static [Axis] = &[Layout::AXIS, Order::AXIS];

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

/// As [`Atomic`], with `sched_yield`.
pub(super) struct SpinYield(Turns);

impl Signal for SpinYield {
    const ID: &'static str = "spin-yield";
    const ABOUT: &'static str =
        "a word in shared memory for each direction, and sched_yield between two looks at it";
    const CAPS: Caps = Caps::YIELDS;
    const WAITS: &'static [Wait] = &[Wait::Yield];
    const PROPERTIES: Properties = SHARED_MEMORY;

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

/// A store and `FUTEX_WAKE`; a look and `FUTEX_WAIT`.
pub(super) struct Futex(Turns);

impl Signal for Futex {
    const ID: &'static str = "futex";
    const ABOUT: &'static str =
        "a word in shared memory for each direction: each post stores and wakes, each wait looks and sleeps";
    const WAITS: &'static [Wait] = &[Wait::Block];
    const PROPERTIES: Properties = SHARED_MEMORY;

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

pub(super) struct Noop {
    count: u64,
}

impl Signal for Noop {
    const ID: &'static str = "noop";
    const ABOUT: &'static str = "the harness itself: the loop without any signal";
    const CAPS: Caps = Caps::HARNESS;
    const IN_SUITES: InSuites = InSuites::Never("the harness itself, which is compared with nothing");
    const WAITS: &'static [Wait] = &[Wait::Block];
    const PROPERTIES: Properties = SHARED_MEMORY;

    fn attach(_side: Side, _resources: EndResources, _params: &CaseParams) -> io::Result<Noop> {
        Ok(Noop { count: 0 })
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        // Otherwise the compiler sees that nothing happens, and the loop is not a loop.
        self.count = hint::black_box(self.count + 1);
        Ok(())
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        self.count = hint::black_box(self.count + 1);
        Ok(())
    }
}
