//! A queued real-time signal, waited for synchronously.
//!
//! # Safety
//! Signal sets are initialized by `sigemptyset`, information about signals is plain numbers in local structures, and the
//! threads and processes that are named have told their numbers themselves.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::process;

use super::Signal;
use crate::page::Page;
use crate::prelude::*;
use crate::sys;

pub(super) struct Sigqueue {
    whom: Whom,
    number: libc::c_int,
    set: libc::sigset_t,
}

/// What waits at the other end: a process or a thread.
#[derive(Clone, Copy, Debug)]
enum Whom {
    Process(libc::pid_t),
    /// A thread of this process: `sigqueue` would leave it to the kernel which one gets the signal.
    Thread(libc::pid_t),
}

impl Signal for Sigqueue {
    const ID: &'static str = "signal";
    const ABOUT: &'static str = "a queued real-time signal: sigqueue (to a thread of the same process: rt_tgsigqueueinfo) and sigwaitinfo";
    const WAITS: &'static [Wait] = &[Wait::Block];
    const PROPERTIES: Properties =
        // Only processes of one user may signal each other, by their numbers.
        Properties::of(&[Property::WithoutSharedMemory], Across::OneNamespace);

    fn attach(side: Side, mut resources: EndResources, _params: &CaseParams) -> io::Result<Sigqueue> {
        let number = libc::SIGRTMIN();
        // SAFETY: sigemptyset initializes the set; the mask belongs to this thread.
        let set = unsafe {
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), number);
            let set = set.assume_init();
            sys::check_code(libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()))?;
            set
        };
        // Only once the signal is blocked may the other end know whom to send it to.
        let own = [u64::from(process::id()), rustix::thread::gettid().as_raw_nonzero().get() as u64];
        let [pid, tid] = Page::attach(&mut resources)?.exchange(side, own)?;
        let whom = if pid == own[0] { Whom::Thread(tid as _) } else { Whom::Process(pid as _) };
        Ok(Sigqueue { whom, number, set })
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        let done = match self.whom {
            Whom::Process(pid) => {
                let value = libc::sigval { sival_ptr: std::ptr::null_mut() };
                // SAFETY: the other end waits for this signal; no pointer is dereferenced.
                unsafe { libc::sigqueue(pid, self.number, value) }
            }
            Whom::Thread(tid) => to_thread(tid, self.number),
        };
        sys::check(done).map(drop)
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: the set is initialized, and the call fills `info`. The set holds one signal, so no other is returned.
        sys::retry(|| sys::check(unsafe { libc::sigwaitinfo(&self.set, info.as_mut_ptr()) })).map(drop)
    }

    fn facts(&self) -> Facts {
        Facts::from([("signal".into(), format!("SIGRTMIN ({})", self.number))])
    }
}

fn to_thread(tid: libc::pid_t, number: libc::c_int) -> libc::c_int {
    // SAFETY: all bits zero is a valid siginfo_t, and the kernel only reads it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        info.si_signo = number;
        info.si_code = libc::SI_QUEUE;
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), tid, number, &raw const info) as _
    }
}
