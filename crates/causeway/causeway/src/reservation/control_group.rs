//! Memory that the control groups of this process leave available.
//!
//! A process that exceeds the memory limit of its control group is killed. So a request that cannot fit is refused before.

use std::fs::read_to_string;
use std::path::Path;

/// The least memory available in any control group of this process; `None` if none has a limit that can be read.
pub fn available_bytes() -> Option<u64> {
    let own = read_to_string("/proc/self/cgroup").ok()?;
    let swap = available_swap(&meminfo());
    least_available(Path::new("/sys/fs/cgroup"), &own, swap)
}

/// As [`available_bytes`], for what is mounted at `mounts`, the groups that `own` names, and a machine with `swap` bytes of free swap.
fn least_available(mounts: &Path, own: &str, swap: u64) -> Option<u64> {
    let available = own.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, available_in) = match controllers {
            "" => (mounts.to_owned(), version_2 as fn(&Path, &mut u64) -> Option<u64>),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (mounts.join("memory"), version_1 as _)
            }
            _ => return None,
        };
        let group = root.join(path.trim_start_matches('/'));
        let mut folders: Vec<_> = group.ancestors().take_while(|folder| folder.starts_with(&root)).collect();
        // From the root down: what a folder may swap, no folder below it may exceed.
        folders.reverse();
        let mut swap = swap;
        folders.into_iter().filter_map(|folder| available_in(folder, &mut swap)).min()
    });
    available.min()
}

/// The limit plus available swap, less what cannot be reclaimed without swap. Lowers `swap` to the limit of this group.
fn version_2(folder: &Path, swap: &mut u64) -> Option<u64> {
    let stat = stat(folder);
    if let (Some(limit), Some(used)) =
        (bytes(folder, "memory.swap.max"), bytes(folder, "memory.swap.current"))
    {
        // What is in memory and in swap at once takes no further swap.
        *swap = (*swap).min(limit.saturating_sub(used).saturating_add(sum(&stat, &["swapcached"])));
    }
    let limit = bytes(folder, "memory.max")?;
    Some(limit.saturating_add(*swap).saturating_sub(sum(&stat, &["anon", "shmem"])))
}

/// As [`version_2`], where the second limit is for memory and swap together.
fn version_1(folder: &Path, swap: &mut u64) -> Option<u64> {
    let stat = stat(folder);
    let mut limit = bytes(folder, "memory.limit_in_bytes")?.saturating_add(*swap);
    if let Some(both) = bytes(folder, "memory.memsw.limit_in_bytes") {
        limit = limit.min(both.saturating_sub(sum(&stat, &["total_swap"])));
    }
    Some(limit.saturating_sub(sum(&stat, &["total_rss", "total_shmem"])))
}

/// A file of one number; the word `max` is not a limit.
fn bytes(folder: &Path, file: &str) -> Option<u64> {
    read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

fn stat(folder: &Path) -> String {
    read_to_string(folder.join("memory.stat")).unwrap_or_default()
}

/// The sum of these lines of `memory.stat`, in bytes.
fn sum(stat: &str, keys: &[&str]) -> u64 {
    let value = |line: &str| -> Option<u64> {
        let (key, value) = line.split_once(' ')?;
        value.trim().parse().ok().filter(|_| keys.contains(&key))
    };
    stat.lines().filter_map(value).sum()
}

/// What the kernel says of the memory of the machine.
pub fn meminfo() -> String {
    read_to_string("/proc/meminfo").unwrap_or_default()
}

/// A line of [`meminfo`], in bytes.
pub fn line_of(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes that can go to swap: free swap, and swap that holds a copy of what is in memory too.
fn available_swap(meminfo: &str) -> u64 {
    ["SwapFree:", "SwapCached:"].iter().filter_map(|key| line_of(meminfo, key)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is available in a tree of control groups: path of each file, and what is in it.
    fn available(files: &[(&str, &str)], own: &str, swap: u64) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        least_available(dir.path(), own, swap)
    }

    const STAT_2: &str = "anon 1000\nfile 500000\nshmem 24\nanon_thp 7\n";
    const STAT_1: &str = "rss 1\nshmem 2\nswap 3\ntotal_rss 1000\ntotal_shmem 24\ntotal_swap 100\n";

    #[test]
    fn what_is_available_is_the_limit_and_swap_less_what_cannot_be_reclaimed() {
        for (limit, swap, expected) in [
            ("4096\n", 0, Some(4096 - 1024)),
            ("4096\n", 2048, Some(4096 + 1024)),
            ("512\n", 0, Some(0)),
            ("max\n", 0, None),
        ] {
            let files = [("a/memory.max", limit), ("a/memory.stat", STAT_2)];
            assert_eq!(available(&files, "0::/a\n", swap), expected, "{limit}");
        }
        let version_1 = [("memory/a/memory.limit_in_bytes", "4096\n"), ("memory/a/memory.stat", STAT_1)];
        let own = "3:cpu:/b\n2:hugetlb,memory:/a\n0::/\n";
        assert_eq!(available(&version_1, own, 0), Some(4096 - 1024));
        assert_eq!(available(&version_1, "3:cpu:/a\n0::/\n", 0), None);
    }

    #[test]
    fn swap_counts_only_as_far_as_the_group_may_use_it() {
        for (limit, used, cached, expected) in [
            ("0\n", "0\n", "", 4096 - 1024),
            ("500\n", "300\n", "", 4096 - 1024 + 200),
            ("500\n", "300\n", "swapcached 50\n", 4096 - 1024 + 250),
            ("500\n", "600\n", "", 4096 - 1024),
            ("9000\n", "0\n", "", 4096 + 1024),
            ("max\n", "300\n", "", 4096 + 1024),
        ] {
            let files = [
                ("a/memory.max", "4096\n"),
                ("a/memory.swap.max", limit),
                ("a/memory.swap.current", used),
                ("a/memory.stat", &format!("{STAT_2}{cached}")),
            ];
            assert_eq!(available(&files, "0::/a\n", 2048), Some(expected), "{limit} {used} {cached}");
        }
    }

    #[test]
    fn a_limit_of_swap_holds_in_the_groups_below_and_not_above() {
        for (limited, own, expected) in [
            ("a", "0::/a/b\n", 3000),
            ("b", "0::/a/b\n", 3000),
            ("b", "0::/a\n", 4500),
            ("", "0::/a/b\n", 3500),
        ] {
            let limit = |group| if limited == group { "0\n" } else { "max\n" };
            let files = [
                ("a/memory.max", "4000\n"),
                ("a/memory.swap.max", limit("a")),
                ("a/memory.swap.current", "0\n"),
                ("a/b/memory.max", "3000\n"),
                ("a/b/memory.swap.max", limit("b")),
                ("a/b/memory.swap.current", "0\n"),
            ];
            assert_eq!(
                available(&files, own, 500),
                Some(expected),
                "{limited:?} is limited, we are in {own}"
            );
        }
    }

    #[test]
    fn in_version_1_the_limit_of_memory_and_swap_together_counts_what_is_swapped() {
        for (both, expected) in
            [("4096\n", 4096 - 100 - 1024), ("5000\n", 5000 - 100 - 1024), ("90000\n", 4096 + 1024)]
        {
            let files = [
                ("memory/a/memory.limit_in_bytes", "4096\n"),
                ("memory/a/memory.memsw.limit_in_bytes", both),
                ("memory/a/memory.stat", STAT_1),
            ];
            assert_eq!(available(&files, "2:memory:/a\n", 2048), Some(expected), "{both}");
        }
    }

    #[test]
    fn swap_is_read_in_bytes() {
        let meminfo =
            "MemTotal: 9 kB\nSwapCached: 24 kB\nSwapTotal:        4096 kB\nSwapFree:        1000 kB\n";
        assert_eq!([meminfo, "MemTotal: 9 kB\n"].map(available_swap), [1 << 20, 0]);
    }
}
