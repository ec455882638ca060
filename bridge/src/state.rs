//! What a bridge has passed into a group, in a file that outlives its process: how far each host's messages are.
//!
//! The file is written in place for each message, in memory: what a process has stored is there when it is killed. It need not
//! outlive the machine, because the log of the group does not. Before a message is published, the file says which (`intent`); after
//! that, that it is (`next`). A process that was killed between the two has left both, and its successor looks for the message in
//! the log, where it has a mark.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use causeway_os::memory::{Access, Mapping};
use rustix::fs::{FallocateFlags, fallocate};

use crate::failure::{Failure, Result};
use crate::keys;
use crate::wire::host_id;

const MAGIC: u64 = u64::from_le_bytes(*b"CWBRIDG1");
const GROUP: usize = 8;
const POSITION: usize = 16;
const ENTRIES: usize = 64;
const ENTRY_BYTES: usize = 32;
/// Hosts whose messages one group takes.
pub const HOSTS_MAX: usize = 127;
const BYTES: usize = ENTRIES + HOSTS_MAX * ENTRY_BYTES;

/// How far the messages of a host are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The host.
    pub host: u64,
    /// Number of its group.
    pub group: u64,
    /// The index behind the last one that was passed.
    pub next: u64,
    /// The index behind the one that was to be passed last.
    pub intent: u64,
}

/// The file of one group.
#[derive(Debug)]
pub struct State {
    map: Mapping,
}

/// The folder of such files, and of the sockets for `stat`: of this user alone.
pub fn folder() -> PathBuf {
    let own = rustix::process::geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    match runtime {
        Some(path) => path.join("causeway-bridge"),
        None if own.is_root() => "/run/causeway-bridge".into(),
        None => std::env::temp_dir().join(format!("causeway-bridge-{}", own.as_raw())),
    }
}

/// Makes a folder for this user alone, where it is missing.
pub fn make_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| Failure::on(path, error))
}

impl State {
    /// Opens the file of a group, or makes it. What it says of another group that was at the same path is forgotten.
    pub fn open(folder: &Path, name: &str, socket: &Path, number: u64) -> Result<State> {
        let of = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
        let file = format!("{}-{:016x}.state", keys::part(name), host_id(&of.to_string_lossy()));
        let path = folder.join(file);
        let failed = |error: std::io::Error| Failure::on(&path, error);
        make_folder(folder)?;
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).clone();
        let file = options.open(&path).map_err(failed)?;
        // A page that cannot be had later would be a signal instead of an error.
        fallocate(&file, FallocateFlags::empty(), 0, BYTES as u64).map_err(|error| failed(error.into()))?;
        let map = Mapping::shared(&file, BYTES, Access::ReadWrite)?;
        let state = State { map };
        if [state.get(0), state.get(GROUP)] != [MAGIC, number] {
            (0..BYTES / 8).for_each(|word| state.set(word * 8, 0));
            state.set(GROUP, number);
            state.set(0, MAGIC);
        }
        Ok(state)
    }

    fn get(&self, offset: usize) -> u64 {
        self.map.atomic_u64(offset).load(Ordering::Acquire)
    }

    /// A store is not moved before an earlier one, so what is read after a kill was so at one moment.
    fn set(&self, offset: usize, value: u64) {
        self.map.atomic_u64(offset).store(value, Ordering::Release);
    }

    fn at(slot: usize) -> usize {
        assert!(slot < HOSTS_MAX, "a slot that slot() gave");
        ENTRIES + slot * ENTRY_BYTES
    }

    /// What is known of all hosts, each with its slot.
    pub fn all(&self) -> impl Iterator<Item = (usize, Passed)> {
        (0..HOSTS_MAX).filter_map(|slot| {
            let at = State::at(slot);
            let [host, group, next, intent] = [0, 8, 16, 24].map(|offset| self.get(at + offset));
            (host != 0).then_some((slot, Passed { host, group, next, intent }))
        })
    }

    /// The slot of a host, a new one if it has none; `None` where all are taken.
    pub fn slot(&self, host: u64) -> Option<usize> {
        let host_of = |slot: &usize| self.get(State::at(*slot));
        let slot = (0..HOSTS_MAX).find(|slot| host_of(slot) == host || host_of(slot) == 0)?;
        self.set(State::at(slot), host);
        Some(slot)
    }

    /// The host begins with this index of this group.
    pub fn begin(&self, slot: usize, group: u64, next: u64) {
        let at = State::at(slot);
        self.set(at + 24, next);
        self.set(at + 16, next);
        self.set(at + 8, group);
    }

    /// The message before `next` is going to be passed.
    pub fn intend(&self, slot: usize, next: u64) {
        self.set(State::at(slot) + 24, next);
    }

    /// It was passed, and lies there in the log; or it is passed over.
    pub fn pass(&self, slot: usize, next: u64, position: Option<u64>) {
        if let Some(position) = position {
            self.set(POSITION, position);
        }
        self.set(State::at(slot) + 16, next);
        self.set(State::at(slot) + 24, next);
    }

    /// Position of the last message that was passed.
    pub fn position(&self) -> u64 {
        self.get(POSITION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_passed_is_known_to_the_next_process_until_the_group_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let open = |number| State::open(folder.path(), "prices", Path::new("/run/prices"), number).unwrap();
        let state = open(7);
        let slot = state.slot(5).unwrap();
        assert_eq!((state.slot(6), state.slot(5)), (Some(slot + 1), Some(slot)));
        state.begin(slot, 70, 3);
        state.intend(slot, 4);
        drop(state);
        let state = open(7);
        let first = |state: &State| state.all().next();
        assert_eq!(first(&state), Some((slot, Passed { host: 5, group: 70, next: 3, intent: 4 })));
        state.pass(slot, 4, Some(640));
        drop(state);
        let state = open(7);
        assert_eq!(first(&state), Some((slot, Passed { host: 5, group: 70, next: 4, intent: 4 })));
        assert_eq!(state.position(), 640);
        drop(state);
        assert_eq!(first(&open(8)), None);
    }

    #[test]
    fn a_host_too_many_gets_no_slot() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path(), "a", Path::new("/a"), 1).unwrap();
        assert!((1..=HOSTS_MAX as u64).all(|host| state.slot(host).is_some()));
        assert_eq!(state.slot(1000), None);
    }
}
