//! What the kernel counts for another process: read from outside, while it runs.
//!
//! # Safety
//!
//! The call fills a local `timespec`.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io;

use super::{ThreadCounters, number_after};
use causeway_os::{Context, Error, Result};

/// The clocks of a process by which the kernel counts, as `clock_gettime` takes them: the ones complement of the process id above
/// three bits that say which clock. Source: `include/linux/posix-timers_types.h` of the kernel, whose numbers the C library relies on too.
#[derive(Clone, Copy)]
enum ProcessClock {
    /// User mode and kernel, in ticks on most kernels.
    Both = 0,
    /// User mode, in ticks on most kernels.
    User = 1,
    /// Time on a CPU, in nanoseconds, as the scheduler counts it.
    Scheduled = 2,
}

/// The counters of another process, all its threads together, those that have ended included as far as they were read.
///
/// A reading is some ten microseconds and allocates: it stands outside of what is timed. It does not disturb the process.
#[derive(Debug)]
pub struct ProcessCounters {
    pid: u32,
    /// Voluntary and involuntary switches of each thread, as they were last read.
    switches: BTreeMap<u32, (u64, u64)>,
}

impl ProcessCounters {
    /// Watches the process `pid`.
    pub fn open(pid: u32) -> Result<ProcessCounters> {
        let mut watched = ProcessCounters { pid, switches: BTreeMap::new() };
        watched.read()?;
        Ok(watched)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it has counted since it began, as long as it is there. `user_ns` and `kernel_ns` are in whole ticks on most kernels, and their sum
    /// then differs from `cpu_ns`; over many ticks their ratio is right.
    pub fn read(&mut self) -> Result<ThreadCounters> {
        let tasks = format!("/proc/{}/task", self.pid);
        for entry in fs::read_dir(&tasks).context("list", || tasks.as_str())? {
            let Some(thread) = entry.ok().and_then(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            else {
                continue;
            };
            // A thread that ended since keeps its last reading.
            let Ok(status) = fs::read(format!("{tasks}/{thread}/status")) else { continue };
            let count = |name: &[u8]| number_after(&status, name);
            let switches = count(b"voluntary_ctxt_switches").zip(count(b"nonvoluntary_ctxt_switches"));
            self.switches.extend(switches.map(|switches| (thread, switches)));
        }
        let (minor_faults, major_faults) = self.faults()?;
        let user_ns = self.clock(ProcessClock::User)?;
        Ok(ThreadCounters {
            voluntary_switches: self.switches.values().map(|(voluntary, _)| voluntary).sum(),
            involuntary_switches: self.switches.values().map(|(_, involuntary)| involuntary).sum(),
            minor_faults,
            major_faults,
            cpu_ns: self.clock(ProcessClock::Scheduled)?,
            user_ns,
            kernel_ns: self.clock(ProcessClock::Both)?.saturating_sub(user_ns),
        })
    }

    /// Does every thread of the process `pid` sleep (state `S` of proc(5))? One that was woken and has not run since does not.
    pub fn all_threads_sleep(pid: u32) -> Result<bool> {
        let tasks = format!("/proc/{pid}/task");
        for entry in fs::read_dir(&tasks).context("list", || tasks.as_str())? {
            let stat = entry.map(|entry| entry.path().join("stat")).and_then(fs::read_to_string);
            // A thread that ended since has nothing left to do.
            if stat.is_ok_and(|stat| after_name(&stat).next() != Some("S")) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Minor and major page faults: fields 10 and 12 of `/proc/PID/stat`, by proc(5).
    fn faults(&self) -> Result<(u64, u64)> {
        let path = format!("/proc/{}/stat", self.pid);
        let stat = fs::read_to_string(&path).context("read", || path.as_str())?;
        let field = |number: usize| after_name(&stat).nth(number - 3)?.parse().ok();
        field(10).zip(field(12)).ok_or_else(|| {
            let why = io::Error::new(io::ErrorKind::InvalidData, "it has no number of page faults");
            Error::new("find the faults in", path, why)
        })
    }

    fn clock(&self, which: ProcessClock) -> Result<u64> {
        let id = (!(self.pid as libc::clockid_t) << 3) | which as libc::clockid_t;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is ours, and lives across the call.
        match unsafe { libc::clock_gettime(id, &mut time) } {
            0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
            _ => Err(Error::last("read", format!("the CPU time of process {}", self.pid))),
        }
    }
}

/// The fields of a `stat` of proc(5) from the third on: the second is a name that may hold anything.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_os::process::{Child, Spawn};
    use causeway_testkit::{eventually, eventually_seen};

    fn shell(script: &str) -> Child {
        Child::spawn(Spawn::new("/bin/sh").arg("-c").arg(script)).unwrap()
    }

    /// Reads until so much was counted since the first reading.
    fn until(counters: &mut ProcessCounters, enough: impl Fn(&ThreadCounters) -> bool) {
        let before = counters.read().unwrap();
        eventually_seen("it counts", || counters.read().unwrap().since(&before), enough);
    }

    #[test]
    fn the_time_of_a_busy_process_and_the_switches_of_one_that_sleeps_are_seen_from_outside() {
        let busy = shell("while :; do :; done");
        let mut counters = ProcessCounters::open(busy.pid()).unwrap();
        // The parts follow, at the latest with the next tick.
        until(&mut counters, |spent| spent.cpu_ns > 20_000_000 && spent.user_ns + spent.kernel_ns > 0);
        assert!(counters.read().unwrap().minor_faults > 0);
        let sleeper = shell("while :; do sleep 0.01; done");
        until(&mut ProcessCounters::open(sleeper.pid()).unwrap(), |spent| spent.voluntary_switches >= 5);
    }

    #[test]
    fn a_process_that_waits_is_seen_asleep_a_busy_one_is_not_and_one_that_is_gone_is_an_error() {
        let mut waits = shell("exec sleep 1000");
        let pid = waits.pid();
        eventually("sleep(1) sleeps", || ProcessCounters::all_threads_sleep(pid).unwrap());
        // The calling thread runs while it asks.
        assert!(!ProcessCounters::all_threads_sleep(std::process::id()).unwrap());
        waits.kill(libc::SIGKILL).unwrap();
        waits.wait(None).unwrap();
        assert!(ProcessCounters::all_threads_sleep(pid).is_err() && ProcessCounters::open(pid).is_err());
    }

    #[test]
    fn all_threads_count_and_those_that_ended_do_not_count_back() {
        let mut counters = ProcessCounters::open(std::process::id()).unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let pause = std::time::Duration::from_millis(1);
        let thread = std::thread::spawn(move || while ended.recv_timeout(pause).is_err() {});
        until(&mut counters, |spent| spent.voluntary_switches >= 5);
        let seen = counters.read().unwrap();
        end.send(()).unwrap();
        thread.join().unwrap();
        assert!(counters.read().unwrap().voluntary_switches >= seen.voluntary_switches);
    }
}
