//! Memory that is there: reserved when a log is made, or refused then.
//!
//! A page of a memory file that does not exist yet is made when somebody first touches it. If there is no memory then, the
//! kernel can only send SIGBUS, to a receiver too. So every page is asked for at the start, in a call that can fail.
//!
//! A thread that finds no mappings left for its stack, its signal stack and its heap ends the whole program; whether there are
//! some is tried before one is started.
//!
//! Where a control group limits memory, the kernel does not even fail: it kills. What cannot fit is refused before.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use causeway_os::memory::{self, Access, Mapping};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// A memory file of `bytes` bytes, every page of which exists.
pub fn memory_file(name: &str, bytes: u64) -> causeway_os::Result<OwnedFd> {
    let fd = memory::memfd(name, bytes)?;
    let failed = |error| causeway_os::Error::new("reserve", format!("{bytes} bytes of memory"), error);
    rustix::io::retry_on_intr(|| fallocate(&fd, FallocateFlags::empty(), 0, bytes)).map_err(failed)?;
    Ok(fd)
}

/// Fails if the control groups of this process cannot hold `bytes` more, whatever else is given up.
pub fn check(bytes: u64) -> causeway_os::Result<()> {
    match control_group_room() {
        Some(room) if room < bytes => Err(causeway_os::Error::new(
            "reserve",
            format!("{bytes} bytes of memory, where the control group has room for {room}"),
            Errno::NOMEM,
        )),
        _ => Ok(()),
    }
}

/// Mappings that a new thread may need before it runs: two each for stack, signal stack and heap, and some for others who map
/// at the same time.
const MAPPINGS: usize = 16;

/// Starts a thread, unless this process is so short of mappings that the thread's start would end it.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let bare = |error: causeway_os::Error| {
        error.raw_os_error().map_or(ErrorKind::Other.into(), io::Error::from_raw_os_error)
    };
    let page = memory::memfd("causeway-room", memory::page_bytes() as u64).map_err(bare)?;
    let mapped: causeway_os::Result<Vec<Mapping>> = (0..MAPPINGS)
        .map(|_| Mapping::shared(&page, memory::page_bytes(), Access::ReadOnly)) // one page again and again: they do not merge
        .collect();
    drop(mapped.map_err(bare)?);
    std::thread::Builder::new().name(name.into()).spawn(work)
}

/// The least room in any control group that this process is in; `None` where none has a limit that can be read.
fn control_group_room() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let swap = swap_bytes(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let rooms = own.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, files) = match controllers {
            "" => (Path::new("/sys/fs/cgroup"), &VERSION_2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (Path::new("/sys/fs/cgroup/memory"), &VERSION_1)
            }
            _ => return None,
        };
        let group: PathBuf = root.join(path.trim_start_matches('/'));
        let up_to_root = group.ancestors().take_while(|folder| folder.starts_with(root));
        up_to_root.filter_map(|folder| files.room(folder, swap)).min()
    });
    rooms.min()
}

/// How a version of control groups names what is asked here.
struct Files {
    limit: &'static str,
    /// What of `memory.stat` cannot be given up but to swap.
    held: [&'static str; 2],
}

const VERSION_2: Files = Files { limit: "memory.max", held: ["anon", "shmem"] };
const VERSION_1: Files = Files { limit: "memory.limit_in_bytes", held: ["total_rss", "total_shmem"] };

impl Files {
    fn room(&self, folder: &Path, swap: u64) -> Option<u64> {
        let limit = std::fs::read_to_string(folder.join(self.limit)).ok()?;
        let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        self.room_of(&limit, &stat, swap)
    }

    /// The word `max` is no limit.
    fn room_of(&self, limit: &str, stat: &str, swap: u64) -> Option<u64> {
        let limit: u64 = limit.trim().parse().ok()?;
        let value = |line: &str| -> Option<u64> {
            let (key, value) = line.split_once(' ')?;
            value.trim().parse().ok().filter(|_| self.held.contains(&key))
        };
        let held: u64 = stat.lines().filter_map(value).sum();
        Some(limit.saturating_add(swap).saturating_sub(held))
    }
}

fn swap_bytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("SwapTotal:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_the_limit_and_swap_less_what_cannot_be_given_up() {
        let stat = "anon 1000\nfile 500000\nshmem 24\nanon_thp 7\n";
        assert_eq!(VERSION_2.room_of("4096\n", stat, 0), Some(4096 - 1024));
        assert_eq!(VERSION_2.room_of("4096\n", stat, 2048), Some(4096 + 1024));
        assert_eq!(VERSION_2.room_of("512\n", stat, 0), Some(0));
        assert_eq!(VERSION_2.room_of("max\n", stat, 0), None);
        let stat = "rss 1\nshmem 2\ntotal_rss 1000\ntotal_shmem 24\n";
        assert_eq!(VERSION_1.room_of("4096\n", stat, 0), Some(4096 - 1024));
    }

    #[test]
    fn swap_is_read_in_bytes() {
        assert_eq!(swap_bytes("MemTotal: 9 kB\nSwapTotal:        1024 kB\n"), 1 << 20);
        assert_eq!(swap_bytes("MemTotal: 9 kB\n"), 0);
    }

    #[test]
    fn reserved_memory_is_there_before_anybody_touches_it() {
        let fd = memory_file("reserved", 64 << 10).unwrap();
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_blocks * 512, 64 << 10);
    }
}
