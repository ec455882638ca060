//! System V objects, which have no descriptors: an object is a number, and stays until somebody removes it.
//!
//! The coordinator holds a guard that does so when the run is over. Where the program has an IPC namespace of its own (see
//! [`Host::look`](weighbridge_harness::host::Host::look)), objects also go with it, whatever kills it. Elsewhere their keys carry our process id, and the next start
//! removes those of the dead; a mark in their mode tells them from objects that are not ours.

use std::fs;
use std::io;
use std::marker::PhantomData;

use super::stale;
use crate::sys;

pub(crate) trait Kind: Send + 'static {
    const WHAT: &'static str;
    /// First byte of our keys.
    const TAG: i32;
    /// Where the kernel lists them, and in which column the user who made one.
    const TABLE: &'static str;
    const CREATOR: usize;
    /// What to say where there are as many as the kernel allows.
    const FULL: &'static str;
    /// Makes or finds the one with a key: its id, or a negative number and `errno`.
    fn get(key: i32, flags: i32) -> i32;
    /// Removes one; it may be gone already.
    fn remove(id: i32);
}

/// Below the first byte of a key two bits of a count, and a process id, which has 22 bits at most.
const PID_BITS: u32 = 22;
/// For its owner, to read and write. The execute bits mean nothing to an object: that is our mark.
const MODE: i32 = 0o711;

fn key<K: Kind>(count: i32, pid: i32) -> i32 {
    K::TAG << 24 | count << PID_BITS | pid
}

/// An object, removed when dropped.
pub(crate) struct Object<K: Kind> {
    pub(crate) id: i32,
    kind: PhantomData<K>,
}

impl<K: Kind> Object<K> {
    pub(crate) fn make() -> io::Result<Object<K>> {
        for count in 0..4 {
            let made =
                K::get(key::<K>(count, std::process::id() as i32), libc::IPC_CREAT | libc::IPC_EXCL | MODE);
            let error = match sys::check(made) {
                Ok(id) => return Ok(Object { id, kind: PhantomData }),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EEXIST) => {}
                Some(libc::ENOSPC) => return Err(io::Error::other(K::FULL)),
                Some(libc::ENOSYS) => {
                    let why = format!("this kernel has no System V {} (CONFIG_SYSVIPC)", K::WHAT);
                    return Err(io::Error::other(why));
                }
                _ => return Err(error),
            }
        }
        Err(io::Error::other(format!("all four keys of this process are taken by {} of other runs", K::WHAT)))
    }
}

impl<K: Kind> Drop for Object<K> {
    fn drop(&mut self) {
        K::remove(self.id);
    }
}

/// Removes the objects of dead programs: our key, our mark, our user.
pub(crate) fn cleanup<K: Kind>() {
    let us = rustix::process::geteuid().as_raw().to_string();
    for line in fs::read_to_string(K::TABLE).unwrap_or_default().lines().skip(1) {
        // Key, id and mode come first; the mode is in octal, all else in decimal.
        let words: Vec<&str> = line.split_whitespace().collect();
        let ([key, id, mode, ..], Some(creator)) = (&words[..], words.get(K::CREATOR)) else { continue };
        let (Ok(key), Ok(id)) = (key.parse::<i32>(), id.parse()) else { continue };
        let is_ours = key >> 24 == K::TAG && i32::from_str_radix(mode, 8) == Ok(MODE) && **creator == us;
        if is_ours && stale::is_dead(key & ((1 << PID_BITS) - 1)) {
            K::remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};

    use super::*;
    use crate::mechanism::msg_sysv::Queues;
    use crate::signal::sem_sysv::Sets;

    fn exists<K: Kind>(id: i32) -> bool {
        let table = fs::read_to_string(K::TABLE).unwrap();
        table.lines().any(|line| line.split_whitespace().nth(1) == Some(&id.to_string()))
    }

    fn leaves_nothing<K: Kind>() {
        let ours = match Object::<K>::make() {
            Err(error) => return skipped(Cause::Kernel("CONFIG_SYSVIPC"), error),
            Ok(ours) => ours,
        };
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        let make = |count, mode| {
            let flags = libc::IPC_CREAT | libc::IPC_EXCL | mode;
            sys::check(K::get(key::<K>(count, child.id() as i32), flags)).unwrap()
        };
        let (of_dead, unmarked) = (make(0, MODE), make(1, 0o600));
        cleanup::<K>();
        let left = [of_dead, unmarked, ours.id].map(exists::<K>);
        K::remove(unmarked);
        assert_eq!(left, [false, true, true], "{}", K::WHAT);
        let id = ours.id;
        drop(ours);
        assert!(!exists::<K>(id), "{}", K::WHAT);
    }

    #[test]
    fn objects_go_with_their_guard_and_those_of_the_dead_are_removed_and_no_others() {
        leaves_nothing::<Queues>();
        leaves_nothing::<Sets>();
    }
}
