//! Signals: primitives that wake a process and carry nothing. Each has one line in the list below and one file, which those
//! of one kind share.
//!
//! They are driven by `pingpong`: two roles that hand a token back and forth.

mod atomic;
pub(crate) mod barrier;
mod condvar;
mod descriptor;
mod futex;
mod noop;
mod pingpong;
mod sem_posix;
mod sem_sysv;
mod sigqueue;
mod spin_yield;
mod uring_msg;

pub(crate) use crate::page;
pub(crate) use condvar::init_mutex;

use std::io;

use weighbridge_harness::axis::Axis;
use weighbridge_harness::contract::{
    Caps, EndResources, Facts, Family, InSuites, Side, Target, Unsupported, carries_nothing,
};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};

/// One end of a way to wake somebody.
///
/// The two ends take turns: an end that has posted waits before it posts again. More is not asked of a signal, so each
/// may be as simple as that allows.
pub trait Signal: Sized + 'static {
    /// Its name in case ids.
    const ID: &'static str;
    /// What a reader should know, in one sentence.
    const ABOUT: &'static str;
    /// [`Caps::HARNESS`], [`Caps::YIELDS`], or nothing.
    const CAPS: Caps = Caps::NONE;
    /// Ways to wait; the first is the default.
    const WAITS: &'static [Wait];
    /// Settings of its own.
    const AXES: &'static [Axis] = &[];

    /// Its part in the suites that compare every signal.
    const IN_SUITES: InSuites = InSuites::AtEverySize;

    /// Can this case run here?
    ///
    /// # Errors
    /// It cannot: one sentence with the limit's name and how to raise it.
    fn fit(_host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        Ok(())
    }

    /// In the coordinator: creates what the two ends share, near end first.
    ///
    /// # Errors
    /// That of the kernel; the case is then skipped with it.
    fn create(params: &CaseParams) -> io::Result<[EndResources; 2]>;

    /// In the peer, after it is pinned.
    ///
    /// # Errors
    /// That of the kernel.
    fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self>;

    /// Wakes the other end.
    ///
    /// # Errors
    /// The kernel's, or the peer is gone.
    fn post(&mut self) -> io::Result<()>;

    /// Returns when the other end has posted once more than it had at the last return.
    ///
    /// # Errors
    /// The kernel's, or the peer is gone.
    fn wait(&mut self) -> io::Result<()>;

    /// Effective settings, read back.
    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// Every signal, in the order in which people read of them.
pub const ALL: &[Target] = &[
    of::<noop::Noop>(),
    of::<atomic::Atomic>(),
    of::<spin_yield::SpinYield>(),
    of::<barrier::Barrier>(),
    of::<futex::Futex>(),
    of::<sem_posix::SemPosix>(),
    of::<sem_sysv::SemSysv>(),
    of::<condvar::Condvar>(),
    of::<descriptor::Descriptor<descriptor::EventFd>>(),
    of::<descriptor::Descriptor<descriptor::PipeByte>>(),
    of::<descriptor::Descriptor<descriptor::SocketByte>>(),
    of::<sigqueue::Sigqueue>(),
    of::<uring_msg::UringMsg>(),
];

/// What the harness is handed.
pub const FAMILY: Family = Family { cleanup: sem_sysv::cleanup, ..Family::of(ALL) };

const fn of<S: Signal>() -> Target {
    Target {
        id: S::ID,
        about: S::ABOUT,
        caps: S::CAPS,
        waits: S::WAITS,
        axes: S::AXES,
        patterns: &[pingpong::INFO],
        fit: |host, params| {
            carries_nothing(params)?;
            S::fit(host, params)
        },
        create: |_, params| S::create(params).map(Vec::from),
        drive: pingpong::drive_pingpong::<S>,
        counter_check: pingpong::counter_check,
        in_suites: S::IN_SUITES,
    }
}
