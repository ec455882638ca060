//! How fast a CPU ran: the mean over a run where the processor's own counters can be read, else what the kernel says at its end.
//!
//! APERF counts at the frequency at which the CPU runs, MPERF at that of the time-stamp counter, and neither while the CPU is halted (Intel
//! SDM vol. 3, §15.2; AMD has them too). The kernel gives them as events of whole CPUs. Such an event costs nothing at context switches:
//! the kernel looks for events there only while some event belongs to a task or a control group (`account_event`).

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use super::events::{self, EXCLUDE_NOTHING};

/// The frequency of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// Which.
    pub cpu: u32,
    /// In kilohertz.
    pub khz: u64,
    /// Is it the mean over the time in which the CPU was not halted? Otherwise it is the one at the end.
    pub is_mean: bool,
}

/// The events that the kernel has for APERF, MPERF and the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msr {
    kind: u32,
    /// Of APERF, MPERF, and the time-stamp counter.
    configs: [u64; 3],
}

const NAMES: [&str; 3] = ["aperf", "mperf", "tsc"];

impl Msr {
    /// What the kernel has.
    ///
    /// # Errors
    /// One sentence, where it has not all of them or this process may not count on a CPU.
    pub fn find() -> Result<Msr, String> {
        let msr = Msr::in_folder(Path::new("/sys/bus/event_source/devices/msr"))?;
        let opened = events::open_on(msr.kind, msr.configs[0], EXCLUDE_NOTHING, 0);
        opened.map(|_| msr).map_err(|error| events::why(&error))
    }

    fn in_folder(folder: &Path) -> Result<Msr, String> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let kind = read("type").and_then(|text| text.trim().parse().ok());
        let kind = kind.ok_or("the kernel has no events of this kind (`msr`)")?;
        let mut configs = [0; 3];
        for (config, name) in configs.iter_mut().zip(NAMES) {
            let event = read(&format!("events/{name}")).and_then(|text| config_of(&text));
            *config = event.ok_or_else(|| format!("this machine does not show {name}"))?;
        }
        Ok(Msr { kind, configs })
    }
}

/// Of an event as sysfs describes it: `event=0x01`.
fn config_of(text: &str) -> Option<u64> {
    let digits = text.trim().strip_prefix("event=0x")?;
    u64::from_str_radix(digits, 16).ok()
}

/// Counting on some CPUs, from its beginning to [`Meter::end`].
#[derive(Debug)]
pub struct Meter {
    cpus: Vec<(u32, Option<[OwnedFd; 3]>)>,
    began: Instant,
}

impl Meter {
    /// Begins to count, where there are `msr` events.
    pub fn begin(cpus: &BTreeSet<u32>, msr: Option<Msr>) -> Meter {
        let began = Instant::now();
        let open = |cpu: u32| -> Option<[OwnedFd; 3]> {
            let Msr { kind, configs } = msr?;
            let [aperf, mperf, tsc] =
                configs.map(|config| events::open_on(kind, config, EXCLUDE_NOTHING, cpu).ok());
            Some([aperf?, mperf?, tsc?])
        };
        Meter { cpus: cpus.iter().map(|cpu| (*cpu, open(*cpu))).collect(), began }
    }

    /// What is known of each CPU.
    pub fn end(&self) -> Vec<Frequency> {
        let of = |(cpu, counters): &(u32, Option<[OwnedFd; 3]>)| {
            let elapsed_ns = self.began.elapsed().as_nanos() as u64;
            let mean = counters.as_ref().and_then(|counters| {
                let [aperf, mperf, tsc] = counters.each_ref().map(events::count);
                mean_khz(aperf?, mperf?, tsc?, elapsed_ns)
            });
            let now = || current_khz(Path::new("/sys/devices/system/cpu"), *cpu);
            let khz = mean.or_else(now)?;
            Some(Frequency { cpu: *cpu, khz, is_mean: mean.is_some() })
        };
        self.cpus.iter().filter_map(of).collect()
    }
}

/// The frequency of the time-stamp counter times APERF over MPERF; nothing of a CPU that was halted all the time.
fn mean_khz(aperf: u64, mperf: u64, tsc: u64, elapsed_ns: u64) -> Option<u64> {
    if mperf == 0 || elapsed_ns == 0 {
        return None;
    }
    Some((tsc as f64 * 1e6 / elapsed_ns as f64 * aperf as f64 / mperf as f64) as u64)
}

/// The frequency of a CPU now, as its driver of frequency scaling tells it; nothing where there is none.
fn current_khz(cpus: &Path, cpu: u32) -> Option<u64> {
    let path = cpus.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq"));
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};

    use super::*;

    #[test]
    fn a_cpu_at_twice_the_nominal_frequency_is_told_so_and_a_halted_one_is_not() {
        // 10 ms of which the CPU ran 4 ms: the time-stamp counter at 2 GHz, the CPU at 4.
        assert_eq!(mean_khz(16_000_000, 8_000_000, 20_000_000, 10_000_000), Some(4_000_000));
        assert_eq!(mean_khz(0, 0, 20_000_000, 10_000_000), None);
    }

    #[test]
    fn events_and_files_of_a_machine_are_read_and_what_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(Msr::in_folder(root).unwrap_err().contains("no events of this kind"));
        fs::create_dir_all(root.join("events")).unwrap();
        fs::write(root.join("type"), "10\n").unwrap();
        fs::write(root.join("events/tsc"), "event=0x00\n").unwrap();
        fs::write(root.join("events/aperf"), "event=0x01\n").unwrap();
        assert_eq!(Msr::in_folder(root).unwrap_err(), "this machine does not show mperf");
        fs::write(root.join("events/mperf"), "event=0x1f\n").unwrap();
        assert_eq!(Msr::in_folder(root), Ok(Msr { kind: 10, configs: [1, 0x1f, 0] }));
        fs::create_dir_all(root.join("cpu3/cpufreq")).unwrap();
        fs::write(root.join("cpu3/cpufreq/scaling_cur_freq"), "2400000\n").unwrap();
        assert_eq!((current_khz(root, 3), current_khz(root, 2)), (Some(2_400_000), None));
    }

    /// What there is of it on this machine.
    #[test]
    fn a_meter_tells_of_each_cpu_at_most_once_and_counts_where_the_events_are() {
        let msr = Msr::find();
        let found = Meter::begin(&BTreeSet::from([0]), msr.clone().ok()).end();
        assert!(found.len() <= 1 && found.iter().all(|of| of.cpu == 0 && of.khz > 0), "{found:?}");
        match msr {
            Ok(_) => assert!(found[0].is_mean, "{found:?}"),
            Err(why) => skipped(Cause::Hardware("APERF"), why),
        }
    }
}
