//! What the machine did beside us: time stolen by the hypervisor and interrupts, from `/proc/stat`; waiting for CPUs and
//! throttling.

use super::pressure::{Throttling, cpu_pressure_ns};

/// Noise of all CPUs since boot; `None` where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemNoise {
    /// Time during which a CPU had work and the hypervisor ran something else, in nanoseconds, in steps of one clock
    /// tick of the kernel (10 ms).
    pub steal_ns: Option<u64>,
    /// Interrupts served.
    pub interrupts: Option<u64>,
    /// Time for which some task waited for a CPU, in nanoseconds (PSI).
    pub cpu_pressure_ns: Option<u64>,
    /// What limits of our control groups have withheld from us and from the others in them.
    pub throttling: Option<Throttling>,
}

impl SystemNoise {
    /// Reads what the kernel tells. Allocates, and takes some hundred microseconds: not for use near a measured region.
    pub fn read() -> SystemNoise {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        SystemNoise {
            cpu_pressure_ns: cpu_pressure_ns(),
            throttling: Throttling::read(),
            ..SystemNoise::parse(&text, rustix::param::clock_ticks_per_second())
        }
    }

    fn parse(stat: &str, ticks_per_second: u64) -> SystemNoise {
        let field = |name: &str, index: usize| -> Option<u64> {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.split_ascii_whitespace().nth(index)?.parse().ok()
        };
        const STEAL: usize = 7;
        SystemNoise {
            steal_ns: field("cpu", STEAL).map(|ticks| ticks * (1_000_000_000 / ticks_per_second)),
            interrupts: field("intr", 0),
            ..SystemNoise::default()
        }
    }

    /// What happened between `earlier` and this reading.
    pub fn since(&self, earlier: &SystemNoise) -> SystemNoise {
        // The kernel corrects stolen time on some hypervisors; a step back is no time at all.
        let difference = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        SystemNoise {
            steal_ns: difference(self.steal_ns, earlier.steal_ns),
            interrupts: difference(self.interrupts, earlier.interrupts),
            cpu_pressure_ns: difference(self.cpu_pressure_ns, earlier.cpu_pressure_ns),
            throttling: self.throttling.zip(earlier.throttling).map(|(now, then)| now.since(then)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number_interrupts_the_first_and_what_is_not_told_is_missing() {
        let stat = "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 12345 1 2\nctxt 7\n";
        let read = |stat| {
            let SystemNoise { steal_ns, interrupts, .. } = SystemNoise::parse(stat, 100);
            (steal_ns, interrupts)
        };
        assert_eq!(read(stat), (Some(800_000_000), Some(12345)));
        assert_eq!((read(""), read("cpu  1 2 3 4\n")), ((None, None), (None, None)));
        let throttling = Some(Throttling { periods: 1, ns: 2 });
        let known =
            SystemNoise { steal_ns: Some(5), interrupts: Some(7), cpu_pressure_ns: Some(1), throttling };
        assert_eq!(known.since(&SystemNoise::default()), SystemNoise::default());
    }
}
