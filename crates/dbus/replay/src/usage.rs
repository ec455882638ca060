//! What a process used of the machine, from `/proc`.

use std::fs;

use serde::Serialize;

/// CPU time and switches of all threads of a process since it began. Of threads that have ended nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Time on a CPU, user mode and kernel together, in ns (`schedstat`).
    pub cpu_ns: u64,
    /// Context switches, voluntary and not (`status`).
    pub switches: u64,
    /// Of these, those that are not voluntary: another process took the CPU.
    pub preemptions: u64,
}

impl Usage {
    /// Reads the counters of a process; nothing where there is no such process or the kernel does not tell.
    #[must_use]
    pub fn of(pid: u32) -> Option<Usage> {
        let mut all = Usage::default();
        for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
            let task = task.ok()?.path();
            let schedstat = fs::read_to_string(task.join("schedstat")).ok()?;
            all.cpu_ns += schedstat.split_whitespace().next()?.parse::<u64>().ok()?;
            let status = fs::read_to_string(task.join("status")).ok()?;
            for line in status.lines() {
                if let Some((key, number)) = line.split_once(':')
                    && key.ends_with("voluntary_ctxt_switches")
                {
                    let switches = number.trim().parse::<u64>().ok()?;
                    all.switches += switches;
                    all.preemptions += if key.starts_with("non") { switches } else { 0 };
                }
            }
        }
        Some(all)
    }

    /// What was used since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            switches: self.switches.saturating_sub(earlier.switches),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something_and_no_process_nothing() {
        let before = Usage::of(std::process::id()).unwrap();
        assert!(before.cpu_ns > 0);
        assert_eq!(Usage::of(u32::MAX), None);
    }
}
