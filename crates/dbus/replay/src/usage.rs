//! What a process used of the machine.

use serde::Serialize;
use weighbridge_probe::counters::ProcessCounters;

/// CPU time of a process since it began, and switches of the threads that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Time on a CPU, user mode and kernel together, in ns.
    pub cpu_ns: u64,
    /// Context switches, voluntary and not.
    pub switches: u64,
    /// Of these, those that are not voluntary: another process took the CPU.
    pub preemptions: u64,
}

impl Usage {
    /// Reads the counters of a process; nothing where there is no such process or the kernel does not tell.
    #[must_use]
    pub fn of(pid: u32) -> Option<Usage> {
        let counted = ProcessCounters::open(pid).and_then(|mut process| process.read()).ok()?;
        let preemptions = counted.involuntary_switches;
        Some(Usage {
            cpu_ns: counted.cpu_ns,
            switches: counted.voluntary_switches + preemptions,
            preemptions,
        })
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
