//! The files of payloads that are published by reference. The server makes them, so that it accepts none, and hands each to the
//! subscribers that ask for it.
//!
//! A file that is used again is handed out as it is: its publisher has sealed it against writing by others, and each subscriber checks
//! the seals. A file that is sealed once published is opened anew for each subscriber. Then the kernel can tell whether any process still has it
//! ([`is_open_elsewhere`]), and the memory that subscribers keep is bounded whatever they say about it.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

use causeway_os::memory::{self, Seals, is_open_elsewhere};
use rustix::fs::{Mode, OFlags};

use crate::error::Refusal;
use crate::wire::FILES_MAX;

/// The most pools that are kept for subscribers although their publishers have left.
const ENDED_POOLS_MAX: usize = 64;

#[derive(Debug, Default)]
pub struct PayloadFiles {
    pools: BTreeMap<u32, Pool>,
    last_number: u32,
}

#[derive(Debug)]
struct Pool {
    is_sealed: bool,
    files_max: u32,
    files: BTreeMap<u32, File>,
    last_index: u32,
    /// The publisher has left: the files are kept until all subscribers have received what lies before this position.
    kept_until: Option<u64>,
}

#[derive(Debug)]
struct File {
    /// As it was made, or opened for reading if it will be sealed.
    fd: OwnedFd,
    /// The subscribers that were given a sealed file which some process still has.
    readers: Vec<Reader>,
    /// No subscriber needs it: it is gone as soon as no process has it.
    is_forgotten: bool,
}

/// A subscriber that asks for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    pub token: u64,
    /// Publishers do not wait for it, or it belongs to another user.
    pub is_bounded: bool,
}

impl PayloadFiles {
    /// Opens a pool. Returns its number, from 1.
    pub fn open_pool(&mut self, is_sealed: bool, files_max: u32) -> Result<u32, Refusal> {
        if !(1..=FILES_MAX).contains(&files_max) {
            return Err(Refusal::NotUnderstood);
        }
        self.last_number = self.last_number.checked_add(1).ok_or(Refusal::Exhausted)?;
        let pool = Pool { is_sealed, files_max, files: BTreeMap::new(), last_index: 0, kept_until: None };
        self.pools.insert(self.last_number, pool);
        Ok(self.last_number)
    }

    /// Makes a file without memory. Returns its index, and the descriptor for the publisher.
    pub fn allocate(&mut self, number: u32, bytes: u64) -> Result<(u32, OwnedFd), Refusal> {
        let pool = self.pools.get_mut(&number).ok_or(Refusal::NotUnderstood)?;
        if pool.files.len() as u32 >= pool.files_max {
            pool.drop_released();
        }
        if pool.files.len() as u32 >= pool.files_max {
            return Err(Refusal::PayloadsHeld);
        }
        let made = memory::memfd("causeway-payload", bytes).map_err(|_| Refusal::Exhausted)?;
        memory::add_seals(&made, Seals::SHRINK | Seals::GROW).map_err(|_| Refusal::Exhausted)?;
        let kept = if pool.is_sealed { open_for_reading(&made) } else { made.try_clone().ok() };
        let kept = kept.ok_or(Refusal::Exhausted)?;
        pool.last_index = pool.last_index.checked_add(1).ok_or(Refusal::Exhausted)?;
        pool.files.insert(pool.last_index, File { fd: kept, readers: Vec::new(), is_forgotten: false });
        Ok((pool.last_index, made))
    }

    pub fn forget(&mut self, number: u32, index: u32) {
        let Some(pool) = self.pools.get_mut(&number) else { return };
        match pool.files.get_mut(&index) {
            Some(file) if pool.is_sealed => file.is_forgotten = true,
            // One that its publisher could not use.
            _ => drop(pool.files.remove(&index)),
        }
    }

    /// The descriptor of a file, for a subscriber.
    pub fn fetch(&mut self, number: u32, index: u32, reader: Reader) -> Result<OwnedFd, Refusal> {
        let pool = self.pools.get_mut(&number).ok_or(Refusal::PayloadGone)?;
        let file = pool.files.get(&index).filter(|file| !file.is_forgotten).ok_or(Refusal::PayloadGone)?;
        // A file that can still be mapped for writing is in nobody's hands but its publisher's.
        let against_writing = if pool.is_sealed { Seals::WRITE } else { Seals::FUTURE_WRITE };
        if !memory::seals(&file.fd).is_ok_and(|seals| seals.contains(against_writing | Seals::SEAL)) {
            return Err(Refusal::PayloadGone);
        }
        if pool.is_sealed && !pool.has_share(reader) {
            pool.drop_released();
            if !pool.has_share(reader) {
                return Err(Refusal::PayloadsHeld);
            }
        }
        let file = pool.files.get_mut(&index).ok_or(Refusal::PayloadGone)?;
        if !pool.is_sealed {
            return file.fd.try_clone().map_err(|_| Refusal::Exhausted);
        }
        let fd = open_for_reading(&file.fd).ok_or(Refusal::Exhausted)?;
        if !file.readers.contains(&reader) {
            file.readers.push(reader);
        }
        Ok(fd)
    }

    /// The publisher of a pool has left. What it published before `position` can still be received.
    pub fn end_pool(&mut self, number: u32, position: u64) {
        if let Some(pool) = self.pools.get_mut(&number) {
            pool.kept_until = Some(position);
        }
    }

    /// Drops the pools of publishers that have left, as far as all subscribers that are waited for have received `lowest`.
    pub fn drop_ended(&mut self, lowest: u64) {
        self.pools.retain(|_, pool| pool.kept_until.is_none_or(|until| lowest < until));
        let ended =
            self.pools.iter().filter(|(_, pool)| pool.kept_until.is_some()).map(|(number, _)| *number);
        let ended: Vec<u32> = ended.collect();
        for number in &ended[..ended.len().saturating_sub(ENDED_POOLS_MAX)] {
            self.pools.remove(number);
        }
    }
}

impl Pool {
    /// Whether this subscriber may have one file more: a quarter of them for each that is bounded, half for all of these.
    fn has_share(&self, reader: Reader) -> bool {
        if !reader.is_bounded {
            return true;
        }
        let had_by = |is_it: &dyn Fn(&Reader) -> bool| {
            self.files.values().filter(|file| file.readers.iter().any(is_it)).count() as u32
        };
        let own = had_by(&|other| other.token == reader.token);
        let bounded = had_by(&|other| other.is_bounded);
        own < (self.files_max / 4).max(1) && bounded < (self.files_max / 2).max(1)
    }

    /// Notes which files no process has any more, and drops those that no subscriber needs.
    fn drop_released(&mut self) {
        if !self.is_sealed {
            return;
        }
        self.files.retain(|_, file| {
            // Without an answer of the kernel, a file counts as used.
            let is_free = matches!(is_open_elsewhere(&file.fd), Ok(false));
            if is_free {
                file.readers.clear();
            }
            !(is_free && file.is_forgotten)
        });
    }
}

/// Opens a memory file once more, for reading.
fn open_for_reading(fd: &OwnedFd) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    // Without waiting, whatever lease another process has.
    rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(token: u64, is_bounded: bool) -> Reader {
        Reader { token, is_bounded }
    }

    fn seal(made: OwnedFd, against_writing: Seals) {
        memory::add_seals(made, against_writing | Seals::SEAL).unwrap();
    }

    #[test]
    fn a_file_that_others_could_map_for_writing_is_not_handed_out() {
        for (is_sealed, enough) in [(false, Seals::FUTURE_WRITE), (true, Seals::WRITE)] {
            let mut files = PayloadFiles::default();
            let pool = files.open_pool(is_sealed, 8).unwrap();
            let (index, made) = files.allocate(pool, 4096).unwrap();
            assert_eq!(files.fetch(pool, index, reader(1, false)).unwrap_err(), Refusal::PayloadGone);
            memory::add_seals(&made, enough).unwrap();
            assert_eq!(files.fetch(pool, index, reader(1, false)).unwrap_err(), Refusal::PayloadGone);
            memory::add_seals(&made, Seals::SEAL).unwrap();
            assert!(files.fetch(pool, index, reader(1, false)).is_ok());
        }
    }

    #[test]
    fn subscribers_that_keep_sealed_files_leave_the_pool_half_of_them() {
        let mut files = PayloadFiles::default();
        let pool = files.open_pool(true, 8).unwrap();
        let (mut kept, mut held) = (Vec::new(), 0);
        for round in 0..40 {
            let (index, made) = files.allocate(pool, 4096).unwrap_or_else(|_| panic!("round {round}"));
            seal(made, Seals::WRITE);
            for hoarder in 0..5 {
                match files.fetch(pool, index, reader(hoarder, true)) {
                    Ok(fd) => kept.push(fd),
                    Err(refusal) => {
                        assert_eq!(refusal, Refusal::PayloadsHeld);
                        held += 1;
                    }
                }
            }
            drop(files.fetch(pool, index, reader(9, false)).expect("one that keeps nothing gets all"));
            files.forget(pool, index);
        }
        assert!(held > 0 && !kept.is_empty());
        kept.clear();
        let (index, made) = files.allocate(pool, 4096).unwrap();
        seal(made, Seals::WRITE);
        files.fetch(pool, index, reader(0, true)).expect("what was released counts no more");
    }

    #[test]
    fn a_pool_whose_publisher_has_left_is_kept_until_its_payloads_were_received() {
        let mut files = PayloadFiles::default();
        let pool = files.open_pool(false, 8).unwrap();
        let (index, made) = files.allocate(pool, 4096).unwrap();
        seal(made, Seals::FUTURE_WRITE);
        files.end_pool(pool, 640);
        files.drop_ended(639);
        assert!(files.fetch(pool, index, reader(1, false)).is_ok());
        files.drop_ended(640);
        assert_eq!(files.fetch(pool, index, reader(1, false)).unwrap_err(), Refusal::PayloadGone);
    }

    #[test]
    fn a_pool_makes_no_more_files_than_it_was_opened_for() {
        let mut files = PayloadFiles::default();
        assert!(files.open_pool(false, 0).is_err() && files.open_pool(false, FILES_MAX + 1).is_err());
        let pool = files.open_pool(false, 2).unwrap();
        files.allocate(pool, 4096).unwrap();
        files.allocate(pool, 4096).unwrap();
        assert_eq!(files.allocate(pool, 4096).unwrap_err(), Refusal::PayloadsHeld);
        assert_eq!(files.allocate(7, 4096).unwrap_err(), Refusal::NotUnderstood);
    }
}
