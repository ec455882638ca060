//! Locks: one file each, and one line in the list below. They are driven by `contend`: roles that all want the same one.

pub(crate) mod contend;
mod futex_mutex;
mod mutex;
mod noop;
mod spin_lock;
mod ticket_lock;

use std::io;

use crate::signal::page::Page;
use weighbridge_harness::contract::{Caps, InSuites, Target, Unsupported, carries_nothing};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};

/// A lock in a page that all roles share. It begins at the page's beginning and may take a few lines.
pub trait Lock: Sized + 'static {
    /// Its name in case ids.
    const ID: &'static str;
    /// What a reader should know, in one sentence.
    const ABOUT: &'static str;
    /// [`Caps::HARNESS`], or nothing.
    const CAPS: Caps = Caps::NONE;
    /// How a role waits that finds it taken.
    const WAIT: &'static [Wait];
    /// Its part in the suites that compare every lock.
    const IN_SUITES: InSuites = InSuites::AtEverySize;

    /// In the coordinator: arranges the page, which is all zeros.
    ///
    /// # Errors
    /// That of the C library.
    fn init(_page: &Page) -> io::Result<()> {
        Ok(())
    }

    /// In a role.
    fn attach(page: &Page) -> Self;

    /// Returns when this role holds it.
    ///
    /// # Errors
    /// The error of the system call that failed.
    fn lock(&mut self) -> io::Result<()>;

    /// Releases the lock. Only the role that holds it calls this.
    ///
    /// # Errors
    /// The error of the system call that failed.
    fn unlock(&mut self) -> io::Result<()>;
}

/// Every lock, in the order in which people read of them.
pub const ALL: &[Target] = &[
    of::<noop::Noop>(),
    of::<mutex::Mutex>(),
    of::<futex_mutex::FutexMutex>(),
    of::<spin_lock::SpinLock>(),
    of::<ticket_lock::TicketLock>(),
];

const fn of<L: Lock>() -> Target {
    Target {
        id: L::ID,
        about: L::ABOUT,
        caps: L::CAPS,
        waits: L::WAIT,
        axes: &[],
        patterns: &[contend::INFO],
        fit,
        create: |_, params| Page::create((contend::INFO.roles)(params).len(), L::init),
        drive: contend::drive_contend::<L>,
        counter_check: contend::counter_check,
        in_suites: L::IN_SUITES,
    }
}

/// A spinning role keeps its CPU while the role that holds the lock may need that CPU, so each needs one of its own.
fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let roles = (contend::INFO.roles)(params).len();
    let cpus = params.cpu_count(host.allowed_cpus.len());
    carries_nothing(params)?;
    if params.wait == Wait::Spin && roles > cpus {
        return Err(Unsupported(format!(
            "{roles} roles that spin on {cpus} CPUs wait for the end of a time slice whenever the holder has lost its CPU; \
             use at most roles={cpus}, or another placement or lock"
        )));
    }
    Ok(())
}
