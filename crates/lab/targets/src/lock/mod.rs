//! Locks: each has one line in the list below. They are driven by `contend`: roles that all want the same one.

mod contend;
mod mutex;
mod words;

use crate::page::Page;
use crate::prelude::*;

/// A lock in a page that all roles share. It begins at the page's beginning and may take a few lines.
pub(crate) trait Lock: Sized + 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    const CAPS: Caps = Caps::NONE;
    /// How a role waits that finds it taken.
    const WAIT: &'static [Wait];
    /// Its part in the suites that compare every lock.
    const IN_SUITES: InSuites = InSuites::AtEverySize;

    /// In the coordinator: arranges the page, which is all zeros.
    fn init(_page: &Page) -> io::Result<()> {
        Ok(())
    }

    fn attach(page: &Page) -> Self;

    fn lock(&mut self) -> io::Result<()>;

    /// Releases the lock. Only the role that holds it calls this.
    fn unlock(&mut self) -> io::Result<()>;
}

/// Every lock, in the order in which people read of them.
pub const ALL: &[Target] = &[
    of::<words::Noop>(),
    of::<mutex::Mutex>(),
    of::<words::FutexMutex>(),
    of::<words::SpinLock>(),
    of::<words::TicketLock>(),
];

const fn of<L: Lock>() -> Target {
    Target {
        id: L::ID,
        about: L::ABOUT,
        caps: L::CAPS,
        properties: |_| None,
        waits: L::WAIT,
        axes: &[],
        patterns: &[contend::INFO],
        fit,
        create: |_, params| Page::create((contend::INFO.roles)(params).len(), L::init),
        drive: |_, resources, _, cx| contend::drive_contend::<L>(resources, cx),
        counter_check: contend::counter_check,
        in_suites: L::IN_SUITES,
        environment: &[],
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
