//! The machine as the laboratory needs it: CPUs it may use, limits that decide whether a case can run.

use std::fs;

use causeway_os::sched;
use weighbridge_probe::namespace;
use weighbridge_probe::topology::Topology;

use crate::params::CaseParams;

/// What is known about this machine.
#[derive(Debug)]
pub struct Host {
    /// Every online CPU with its place.
    pub topology: Topology,
    /// CPUs that this process may use, lowest first.
    pub allowed_cpus: Vec<u32>,
    /// CPUs that peers may run on, in order of preference: those allowed, or those of them that the user chose.
    pub measured_cpus: Vec<u32>,
    /// Why a thread cannot be pinned here, where it cannot.
    pub pin_refused: Option<String>,
    /// Why io_uring cannot be used here, where it cannot.
    pub uring_refused: Option<String>,
    /// The nice value of this program, which its peers inherit.
    pub nice: i32,
    /// Its scheduling policy, as the kernel names it, which they inherit too.
    pub policy: String,
    /// Has this process an IPC namespace of its own? Then message queues cannot outlive it.
    pub has_private_ipc: bool,
}

impl Host {
    /// Looks at the machine. Pins the calling thread to where it already may run, to learn whether that is allowed, and gives it an IPC
    /// namespace of its own where it may have one, so that no queue outlives this program, whatever kills it. Call it before other threads are
    /// started: a namespace belongs to a thread and those that it starts.
    pub fn look() -> causeway_os::Result<Host> {
        let allowed_cpus = sched::allowed_cpus()?;
        let pin_refused = sched::pin(&allowed_cpus).err().map(|error| error.to_string());
        let uring_refused = io_uring::IoUring::new(2).err().map(|error| {
            let setting = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
            match setting.trim() {
                "" | "0" => format!("io_uring is not available: {error}"),
                setting => format!(
                    "io_uring is not available: {error}; kernel.io_uring_disabled is {setting}, \
                     allow it with sysctl kernel.io_uring_disabled=0"
                ),
            }
        });
        Ok(Host {
            topology: Topology::read()?,
            measured_cpus: allowed_cpus.clone(),
            allowed_cpus,
            pin_refused,
            uring_refused,
            nice: sched::nice()?,
            policy: sched::policy().map_or_else(|_| "of another kind".into(), |policy| policy.to_string()),
            has_private_ipc: namespace::private_ipc().is_ok(),
        })
    }

    /// The CPUs that roles of a case run on.
    pub fn cpus_of<'a>(&'a self, params: &'a CaseParams) -> impl Iterator<Item = u32> + 'a {
        let cpus = if params.cpus.is_empty() { &self.measured_cpus } else { &params.cpus };
        cpus.iter().copied()
    }

    /// A number under `/proc/sys`, by its path there.
    pub fn sysctl_number(&self, path: &str) -> Option<u64> {
        fs::read_to_string(format!("/proc/sys/{path}")).ok()?.split_whitespace().next()?.parse().ok()
    }
}

/// Bytes of memory of the machine (`MemTotal`).
pub fn memory_bytes() -> Option<u64> {
    meminfo_bytes("MemTotal")
}

/// Bytes of memory that programs may still take, as the kernel estimates it (`MemAvailable`).
pub fn available_bytes() -> Option<u64> {
    meminfo_bytes("MemAvailable")
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo_bytes(name: &str) -> Option<u64> {
    bytes_of(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn bytes_of(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_meminfo_is_found_by_its_whole_name() {
        let text = "MemTotalX:  1 kB\nMemTotal:   8140072 kB\nHugePages_Total:  3\n";
        assert_eq!(bytes_of(text, "MemTotal"), Some(8_140_072 << 10));
        assert_eq!(bytes_of(text, "HugePages_Total"), None, "a count is not a number of bytes");
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
    }
}
