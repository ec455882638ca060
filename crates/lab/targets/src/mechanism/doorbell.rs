//! How a side waits that finds nothing to do in shared memory, and how the other side ends that.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};

use causeway_os::futex;
use causeway_os::memory::Mapping;
use rustix::event::{EventfdFlags, eventfd};

use super::fd::Reader;
use crate::prelude::*;
use crate::sys;

/// What a side does that finds nothing to do, and what the other does about it.
pub(super) trait Doorbell: Sized + 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    const WAITS: &'static [Wait];
    /// What a choice may demand of a ring with it.
    const PROPERTIES: Properties = SHARED_MEMORY;

    /// Descriptors for each end: its own doorbells for data and for room, then the other end's.
    fn create() -> io::Result<[EndResources; 2]> {
        Ok([EndResources::default(), EndResources::default()])
    }

    /// The doorbell on which this end waits, and the one that it rings at the other end.
    fn attach(mine: Option<OwnedFd>, theirs: Option<OwnedFd>, params: &CaseParams) -> io::Result<Self>;

    /// Returns when `is_ready`. Called when it was not.
    fn wait(&mut self, words: Words<'_>, is_ready: impl Fn() -> bool) -> io::Result<()>;

    /// The other side may be waiting for what has just been stored.
    fn notify(&mut self, words: Words<'_>) -> io::Result<()>;
}

/// The words through which the two sides agree on who sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    armed: &'a AtomicU32,
    value: &'a AtomicU32,
}

impl<'a> Words<'a> {
    /// Two words of a mapping: whether somebody sleeps, and what it sleeps on.
    #[inline]
    pub(super) fn at(map: &'a Mapping, armed: usize, value: usize) -> Words<'a> {
        Words { armed: map.atomic_u32(armed), value: map.atomic_u32(value) }
    }

    /// Announces sleep; false when there is no need any more. The announcement comes before the second look, and the
    /// fence keeps it there: the other side stores first and then looks whether somebody sleeps.
    fn arm(&self, is_ready: &impl Fn() -> bool) -> bool {
        self.armed.store(1, Relaxed);
        fence(SeqCst); // PAIR ring-arm: the fence in `is_armed`
        if is_ready() {
            self.armed.store(0, Relaxed);
            return false;
        }
        true
    }

    /// Does the other side sleep, or is it about to? Takes its announcement back.
    fn is_armed(&self) -> bool {
        fence(SeqCst); // PAIR ring-arm
        if self.armed.load(Relaxed) == 0 {
            return false;
        }
        self.armed.store(0, Relaxed);
        true
    }
}

/// How often a waiter looks before it sleeps, with `wait=spin-block`: some ten microseconds.
const LOOKS_BEFORE_SLEEP: u32 = 2000;

/// Looks a while; true when ready. On one CPU nothing can become ready while this side looks.
fn looks(count: u32, is_ready: &impl Fn() -> bool) -> bool {
    (0..count).any(|_| {
        std::hint::spin_loop();
        is_ready()
    })
}

fn looks_before_sleep(params: &CaseParams) -> u32 {
    if params.wait == Wait::SpinBlock && !params.same_cpu() { LOOKS_BEFORE_SLEEP } else { 0 }
}

/// A doorbell for ends that spin: nothing sleeps, so nothing is woken.
pub(super) struct Spin;

impl Doorbell for Spin {
    const ID: &'static str = "ring-spin";
    const ABOUT: &'static str = "a ring in shared memory; both ends spin and never enter the kernel";
    const WAITS: &'static [Wait] = &[Wait::Spin];

    fn attach(_mine: Option<OwnedFd>, _theirs: Option<OwnedFd>, _params: &CaseParams) -> io::Result<Spin> {
        Ok(Spin)
    }

    #[inline]
    fn wait(&mut self, _words: Words<'_>, is_ready: impl Fn() -> bool) -> io::Result<()> {
        while !is_ready() {
            std::hint::spin_loop();
        }
        Ok(())
    }

    #[inline]
    fn notify(&mut self, _words: Words<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Sleeps on a word of the shared memory.
pub(super) struct Futex {
    looks: u32,
}

impl Doorbell for Futex {
    const ID: &'static str = "ring-futex";
    const ABOUT: &'static str = "a ring in shared memory; an end that finds it empty or full sleeps on a futex, and only then is it woken";
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::SpinBlock];

    fn attach(_mine: Option<OwnedFd>, _theirs: Option<OwnedFd>, params: &CaseParams) -> io::Result<Futex> {
        Ok(Futex { looks: looks_before_sleep(params) })
    }

    fn wait(&mut self, words: Words<'_>, is_ready: impl Fn() -> bool) -> io::Result<()> {
        if looks(self.looks, &is_ready) {
            return Ok(());
        }
        loop {
            // Read before arming: a notification after that changes the word, and the sleep ends at once.
            let seen = words.value.load(Acquire);
            if !words.arm(&is_ready) {
                return Ok(());
            }
            let _ = futex::wait(words.value, seen, None)?;
            if is_ready() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn notify(&mut self, words: Words<'_>) -> io::Result<()> {
        if words.is_armed() {
            words.value.fetch_add(1, Release);
            futex::wake(words.value, 1)?;
        }
        Ok(())
    }
}

/// Sleeps in a read of an eventfd, or in poll or epoll before it.
pub(super) struct EventFd {
    mine: Reader,
    theirs: OwnedFd,
    looks: u32,
}

impl Doorbell for EventFd {
    const ID: &'static str = "ring-eventfd";
    const ABOUT: &'static str = "a ring in shared memory; an end that finds it empty or full sleeps on an eventfd, which an event loop can wait for";
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::Poll, Wait::Epoll, Wait::SpinBlock];
    const PROPERTIES: Properties = SHARED_MEMORY.with(Property::Pollable, true);

    fn create() -> io::Result<[EndResources; 2]> {
        let bell = || eventfd(0, EventfdFlags::CLOEXEC);
        let (near, far) = ([bell()?, bell()?], [bell()?, bell()?]);
        let copies =
            |bells: &[OwnedFd; 2]| bells.iter().map(OwnedFd::try_clone).collect::<io::Result<Vec<_>>>();
        let (of_near, of_far) = (copies(&near)?, copies(&far)?);
        Ok([
            EndResources::of(near.into_iter().chain(of_far)),
            EndResources::of(far.into_iter().chain(of_near)),
        ])
    }

    fn attach(mine: Option<OwnedFd>, theirs: Option<OwnedFd>, params: &CaseParams) -> io::Result<EventFd> {
        let (mine, theirs) = mine.zip(theirs).expect("an eventfd ring is planned with eventfds");
        Ok(EventFd { mine: Reader::new(mine, params.wait)?, theirs, looks: looks_before_sleep(params) })
    }

    fn wait(&mut self, words: Words<'_>, is_ready: impl Fn() -> bool) -> io::Result<()> {
        if looks(self.looks, &is_ready) {
            return Ok(());
        }
        while words.arm(&is_ready) {
            let mut count = [0; 8];
            self.mine.read(&mut count)?;
            if is_ready() {
                return Ok(());
            }
        }
        Ok(())
    }

    #[inline]
    fn notify(&mut self, words: Words<'_>) -> io::Result<()> {
        if words.is_armed() {
            sys::write(&self.theirs, &1u64.to_ne_bytes())?;
        }
        Ok(())
    }
}
