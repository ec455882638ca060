//! What the control groups of this process leave room for.
//!
//! Where a control group limits memory, the kernel does not fail: it kills. What cannot fit is to be refused before.

use std::path::{Path, PathBuf};

/// The least room in any control group that this process is in; `None` where none has a limit that can be read.
pub fn room() -> Option<u64> {
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
}
