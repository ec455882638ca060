//! Signals: primitives that wake a process and carry nothing. Each has one line in the list below and one file, which those
//! of one kind share.
//!
//! They are driven by `pingpong`: two roles that hand a token back and forth.

pub(crate) mod barrier;
mod condvar;
mod descriptor;
mod pingpong;
mod sem_posix;
pub(crate) mod sem_sysv;
mod sigqueue;
mod uring_msg;
mod words;

use crate::mechanism::sysv;
use crate::page::Page;
use crate::prelude::*;
pub(crate) use condvar::init_mutex;

/// One end of a way to wake somebody.
///
/// The two ends take turns: an end that has posted waits before it posts again. More is not asked of a signal, so each
/// may be as simple as that allows.
pub(crate) trait Signal: Sized + 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    /// [`Caps::HARNESS`], [`Caps::YIELDS`], or nothing.
    const CAPS: Caps = Caps::NONE;
    const WAITS: &'static [Wait];
    const AXES: &'static [Axis] = &[];
    /// What a choice may demand of it. It carries nothing, so that boundaries mean nothing; it loses no post.
    const PROPERTIES: Properties;
    /// Its part in the suites that compare every signal.
    const IN_SUITES: InSuites = InSuites::AtEverySize;

    /// Can this case run here? If not: one sentence with the limit's name and how to raise it.
    fn fit(_host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        Ok(())
    }

    /// In the coordinator: creates what the two ends share, near end first; a page of zeros, unless it is something else. The case is
    /// skipped where that fails.
    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Page::create_two(|_| Ok(()))
    }

    fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self>;

    fn post(&mut self) -> io::Result<()>;

    /// Returns when the other end has posted once more than it had at the last return.
    fn wait(&mut self) -> io::Result<()>;

    /// Effective settings, read back.
    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// Every signal, in the order in which people read of them.
pub const ALL: &[Target] = &[
    of::<words::Noop>(),
    of::<words::Atomic>(),
    of::<words::SpinYield>(),
    of::<barrier::Barrier>(),
    of::<words::Futex>(),
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
pub const FAMILY: Family = Family { cleanup: sysv::cleanup::<sem_sysv::Sets>, ..Family::of(ALL) };

const fn of<S: Signal>() -> Target {
    Target {
        id: S::ID,
        about: S::ABOUT,
        caps: S::CAPS,
        properties: |_| Some(S::PROPERTIES),
        waits: S::WAITS,
        axes: S::AXES,
        patterns: &[pingpong::INFO],
        fit: |host, params| {
            carries_nothing(params)?;
            S::fit(host, params)
        },
        create: |_, params| S::create(params).map(Vec::from),
        drive: |_, resources, _, cx| pingpong::drive_pingpong::<S>(resources, cx),
        counter_check: pingpong::counter_check,
        in_suites: S::IN_SUITES,
        environment: &[],
    }
}
