//! A System V semaphore set of two, one semaphore for each direction.
//!
//! Each `semop` has one operation: one post is one wake-up. With wait and post in one call the kernel would complete a
//! sleeper's post on its behalf, and one wake-up would pass for several rounds.
//!
//! # Safety
//! The calls pass numbers and a pointer to one local structure.
#![allow(unsafe_code)]

use super::Signal;
use crate::mechanism::sysv::{self, Object};
use crate::prelude::*;
use crate::sys;

pub(crate) struct Sets;

impl sysv::Kind for Sets {
    const WHAT: &'static str = "semaphores";
    const TAG: i32 = 0x58;
    const TABLE: &'static str = "/proc/sysvipc/sem";
    const CREATOR: usize = 6;
    const FULL: &'static str =
        "there are as many semaphores as kernel.sem allows; remove some (ipcs -s), or raise it with sysctl";

    fn get(key: i32, flags: i32) -> i32 {
        // SAFETY: only numbers are passed.
        unsafe { libc::semget(key, 2, flags) }
    }

    fn remove(id: i32) {
        // SAFETY: removal reads and writes no structure. A set that is gone already is not an error to us.
        unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
    }
}

pub(super) struct SemSysv {
    set: i32,
    mine: u16,
    theirs: u16,
}

impl Signal for SemSysv {
    const ID: &'static str = "sem-sysv";
    const ABOUT: &'static str = "System V semaphores, one for each direction, with one operation in each semop: one post is one wake-up";
    const WAITS: &'static [Wait] = &[Wait::Block];
    const PROPERTIES: Properties =
        Properties::of(&[Property::OtherUsers, Property::WithoutSharedMemory], Across::OneNamespace);

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let set = Object::<Sets>::make()?;
        let words = vec![set.id as u64];
        let far = EndResources { words: words.clone(), ..EndResources::default() };
        Ok([EndResources { words, guard: Some(Box::new(set)), ..EndResources::default() }, far])
    }

    fn attach(side: Side, resources: EndResources, _params: &CaseParams) -> io::Result<SemSysv> {
        let [set] = resources.words[..] else { unreachable!("`create` hands over one word") };
        let (mine, theirs) = if side == Side::Near { (0, 1) } else { (1, 0) };
        Ok(SemSysv { set: set as i32, mine, theirs })
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        operate(self.set, self.mine, 1)
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        operate(self.set, self.theirs, -1)
    }
}

#[inline]
fn operate(set: i32, number: u16, change: i16) -> io::Result<()> {
    let mut operation = libc::sembuf { sem_num: number, sem_op: change, sem_flg: 0 };
    // SAFETY: one operation is passed and one is announced.
    sys::retry(|| sys::check(unsafe { libc::semop(set, &mut operation, 1) })).map(drop)
}
