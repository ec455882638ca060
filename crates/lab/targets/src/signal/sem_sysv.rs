//! A System V semaphore set of two, one semaphore for each direction.
//!
//! Each `semop` has one operation: one post is one wake-up. With wait and post in one call the kernel would complete a
//! sleeper's post on its behalf, and one wake-up would pass for several rounds.
//!
//! A set has no descriptor: it stays until somebody removes it. The coordinator holds a guard that does. Where the program
//! has an IPC namespace of its own, the set also goes with it, whatever kills it. Elsewhere its key carries our process
//! id, and the next start removes those of the dead; a mark in their mode tells them from sets that are not ours.
//!
//! # Safety
//! The calls pass numbers and a pointer to one local structure.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::process;

use super::Signal;
use crate::mechanism::stale;
use crate::sys;
use weighbridge_harness::contract::{EndResources, Side};
use weighbridge_harness::params::{CaseParams, Wait};

/// `semop(2)`.
#[derive(Debug)]
pub struct SemSysv {
    set: i32,
    mine: u16,
    theirs: u16,
}

impl Signal for SemSysv {
    const ID: &'static str = "sem-sysv";
    const ABOUT: &'static str = "System V semaphores, one for each direction, with one operation in each semop: one post is one wake-up";
    const WAITS: &'static [Wait] = &[Wait::Block];

    fn create(_params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let set = Set::make()?;
        let words = vec![set.0 as u64];
        let far = EndResources { words: words.clone(), ..EndResources::default() };
        Ok([EndResources { words, guard: Some(Box::new(set)), ..EndResources::default() }, far])
    }

    fn attach(side: Side, resources: EndResources, _params: &CaseParams) -> io::Result<SemSysv> {
        let [set] = resources.words[..] else { unreachable!("plan hands over one word") };
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

/// First byte of our keys; below it a process id, which has 22 bits at most.
const KEY_TAG: i32 = 0x58 << 24;
const KEY_TAG_MASK: i32 = 0xff << 24;
const PID_MASK: i32 = (1 << 22) - 1;
/// For its owner, to read and alter. The execute bits mean nothing to a set: that is our mark.
const MODE: i32 = 0o711;

/// A set of two, removed when dropped.
#[derive(Debug)]
struct Set(i32);

impl Set {
    fn make() -> io::Result<Set> {
        let key = KEY_TAG | process::id() as i32;
        // SAFETY: only numbers are passed.
        let made = unsafe { libc::semget(key, 2, libc::IPC_CREAT | libc::IPC_EXCL | MODE) };
        match sys::check(made) {
            Ok(made) => Ok(Set(made)),
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => Err(io::Error::other(
                "there are as many semaphores as kernel.sem allows; remove some (ipcs -s), or raise it with sysctl",
            )),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                Err(io::Error::other("this kernel has no System V semaphores (CONFIG_SYSVIPC)"))
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        remove(self.0);
    }
}

fn remove(set: i32) {
    // SAFETY: removal reads and writes no structure. A set that is gone already is no error to us.
    unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
}

/// Removes the sets of dead programs: our key, our mark, our user.
pub fn cleanup() {
    let Ok(table) = fs::read_to_string("/proc/sysvipc/sem") else { return };
    let us = rustix::process::geteuid().as_raw();
    for line in table.lines().skip(1) {
        // key semid perms nsems uid gid cuid …; perms in octal, the rest in decimal.
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[key, set, mode, _, _, _, creator, ..] = &words[..] else { continue };
        let (Ok(key), Ok(set)) = (key.parse::<i32>(), set.parse()) else { continue };
        let is_ours = key & KEY_TAG_MASK == KEY_TAG
            && i32::from_str_radix(mode, 8) == Ok(MODE)
            && creator.parse() == Ok(us);
        if is_ours && stale::is_dead(key & PID_MASK) {
            remove(set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists(set: i32) -> bool {
        let table = fs::read_to_string("/proc/sysvipc/sem").unwrap();
        table.lines().any(|line| line.split_whitespace().nth(1) == Some(&set.to_string()))
    }

    #[test]
    fn a_set_is_gone_when_its_guard_is_dropped_and_a_sweep_spares_those_of_the_living() {
        let set = match Set::make() {
            Err(error) => return eprintln!("skipped: {error}"),
            Ok(set) => set,
        };
        let number = set.0;
        cleanup();
        assert!(exists(number));
        drop(set);
        assert!(!exists(number));
    }

    #[test]
    fn a_set_of_a_dead_program_is_swept_away() {
        // The last process id that there can be; the kernel gives out small ones first.
        let key = KEY_TAG | PID_MASK;
        // SAFETY: only numbers are passed.
        let set = match sys::check(unsafe { libc::semget(key, 2, libc::IPC_CREAT | MODE) }) {
            Ok(set) => set,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        cleanup();
        assert!(!exists(set));
    }
}
