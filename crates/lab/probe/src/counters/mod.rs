//! What the kernel counts: switches, faults and time of a thread, events of the processor, noise of the machine.
//!
//! Readings are plain numbers that only grow; `since` gives the difference.
//!
//! # Safety
//!
//! `getrusage` fills a local structure of plain numbers.
#![allow(unsafe_code)]

mod events;
mod frequency;
mod noise;
mod pressure;
mod process;
mod switch;
mod thread_io;

pub use events::{EventCounts, Events};
pub use frequency::{Frequency, Meter, Msr};
pub use noise::SystemNoise;
pub use pressure::{Throttling, cpu_pressure_ns};
pub use process::ProcessCounters;
pub use switch::EventSwitch;
pub use thread_io::{ThreadIo, ThreadIoReader};

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::AddAssign;
use std::os::unix::fs::FileExt;

use causeway_os::clock;
use causeway_os::{Context, Error, Result};
use serde::{Deserialize, Serialize};

/// What the kernel has counted for one thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCounters {
    /// Times it gave up the CPU because it had to wait.
    pub voluntary_switches: u64,
    /// Times it was taken off the CPU while it could have gone on.
    pub involuntary_switches: u64,
    /// Page faults served without reading from a disk.
    pub minor_faults: u64,
    /// Page faults that had to read.
    pub major_faults: u64,
    /// CPU time, user and system.
    pub cpu_ns: u64,
    /// CPU time in user mode. Kernels that count it in ticks scale it to the time used.
    pub user_ns: u64,
    /// CPU time in the kernel, as `user_ns`.
    pub kernel_ns: u64,
}

thread_local! {
    static COUNTS_PROCESS: Cell<bool> = const { Cell::new(false) };
}

/// From now on what the calling thread reads of itself ([`ThreadCounters::read`]) is that of all threads of its process: for a thread
/// whose work is partly done by threads of a library.
pub fn count_whole_process() {
    COUNTS_PROCESS.set(true);
}

impl ThreadCounters {
    /// The counters of the calling thread, or of its process after [`count_whole_process`]. Two system calls, no allocation.
    pub fn read() -> ThreadCounters {
        let (whose, cpu_ns): (_, fn() -> u64) = if COUNTS_PROCESS.get() {
            (libc::RUSAGE_SELF, clock::process_cpu_ns)
        } else {
            (libc::RUSAGE_THREAD, clock::thread_cpu_ns)
        };
        // SAFETY: all bits zero is a valid `rusage`, and the call fills it; for RUSAGE_THREAD and RUSAGE_SELF it cannot fail.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(whose, &mut usage);
            usage
        };
        ThreadCounters {
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            cpu_ns: cpu_ns(),
            user_ns: nanos(usage.ru_utime),
            kernel_ns: nanos(usage.ru_stime),
        }
    }

    /// What was counted between `earlier` and this reading of the same thread.
    pub fn since(&self, earlier: &ThreadCounters) -> ThreadCounters {
        self.with(earlier, |now, then| now - then)
    }

    fn with(&self, other: &ThreadCounters, of: impl Fn(u64, u64) -> u64) -> ThreadCounters {
        ThreadCounters {
            voluntary_switches: of(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: of(self.involuntary_switches, other.involuntary_switches),
            minor_faults: of(self.minor_faults, other.minor_faults),
            major_faults: of(self.major_faults, other.major_faults),
            cpu_ns: of(self.cpu_ns, other.cpu_ns),
            user_ns: of(self.user_ns, other.user_ns),
            kernel_ns: of(self.kernel_ns, other.kernel_ns),
        }
    }
}

impl AddAssign for ThreadCounters {
    fn add_assign(&mut self, more: ThreadCounters) {
        *self = self.with(&more, |sum, more| sum + more);
    }
}

fn nanos(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}

/// The voluntary switches of another task, read without an allocation, as often as wanted.
#[derive(Debug)]
pub struct TaskSwitches {
    status: File,
    pid: u32,
}

impl TaskSwitches {
    /// Watches the task `pid`: a process (then its first thread) or a thread.
    pub fn open(pid: u32) -> Result<TaskSwitches> {
        // For a thread that is not the first of its process this path exists too, though /proc does not list it.
        let path = format!("/proc/{pid}/status");
        let status = File::open(&path).context("open", || path.as_str())?;
        Ok(TaskSwitches { status, pid })
    }

    /// Voluntary switches of the task since it began; `ESRCH` when it has been reaped.
    pub fn read(&self) -> Result<u64> {
        // The file has about 1500 bytes, and more on machines of thousands of CPUs or with users of many groups.
        let mut buf = [0u8; 16 * 1024];
        let on = || format!("/proc/{}/status", self.pid);
        let len = self.status.read_at(&mut buf, 0).context("read", on)?;
        number_after(&buf[..len], b"voluntary_ctxt_switches").ok_or_else(|| {
            let why = io::Error::new(io::ErrorKind::InvalidData, "it has no line voluntary_ctxt_switches");
            Error::new("find the switches in", on(), why)
        })
    }
}

/// The number behind `name` and a colon, at the start of a line.
fn number_after(text: &[u8], name: &[u8]) -> Option<u64> {
    let line = text.split_inclusive(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    // A line without its end was cut, and its number may be too.
    let number = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    number.trim_start().strip_prefix(':')?.trim().parse().ok()
}

/// How often the calling thread was moved to another CPU, as the scheduler itself counts it: unlike a perf event, this
/// costs nothing between two readings. Kernels built without scheduler debugging do not tell.
#[derive(Debug)]
pub struct ThreadMigrations {
    sched: File,
}

impl ThreadMigrations {
    /// Watches the calling thread.
    pub fn open() -> Result<ThreadMigrations> {
        let path = format!("/proc/self/task/{}/sched", rustix::thread::gettid().as_raw_nonzero());
        let sched = File::open(&path).context("open", || path.as_str())?;
        Ok(ThreadMigrations { sched })
    }

    /// Moves of that thread since it began; `None` where the kernel does not tell.
    pub fn read(&self) -> Option<u64> {
        let mut buf = [0u8; 8 * 1024];
        let len = self.sched.read_at(&mut buf, 0).ok()?;
        number_after(&buf[..len], b"se.nr_migrations")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_os::process::{Child, Exit, Spawn};
    use causeway_testkit::{Cause, eventually, skipped};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    /// Sleeps until there were so many switches of this thread. One sleep need not be one: on a busy machine its time may be over before
    /// the thread has gone to sleep.
    fn sleep_until(switches: u64) {
        let before = ThreadCounters::read();
        eventually("sleeping is counted", || {
            ThreadCounters::read().since(&before).voluntary_switches >= switches
        });
    }

    #[test]
    fn moves_of_a_thread_are_counted_in_either_way_and_its_work_by_the_processor() {
        let [first, second, ..] = causeway_os::sched::allowed_cpus().unwrap()[..] else {
            return skipped(Cause::Hardware("two CPUs"), "");
        };
        let counting = move || {
            let pin = |cpu: u32| causeway_os::sched::pin(&[cpu]).unwrap();
            pin(first);
            let (events, own) = (Events::open(), ThreadMigrations::open().ok());
            let own = || own.as_ref().and_then(ThreadMigrations::read);
            let (before, own_before) = (events.read(), own());
            for _ in 0..5 {
                pin(second);
                pin(first);
            }
            for number in 0..100_000 {
                std::hint::black_box(number);
            }
            let counted = events.read().since(&before);
            assert_eq!(own(), own_before.map(|before| before + 10));
            (counted, events.missing().to_vec())
        };
        let (counted, missing) = std::thread::spawn(counting).join().unwrap();
        match counted.migrations {
            Some(moves) => assert_eq!(moves, 10),
            None => skipped(Cause::Rights("perf"), missing.join("; ")),
        }
        match counted.instructions {
            Some(instructions) => assert!(instructions > 100_000, "{instructions}"),
            None => skipped(Cause::Hardware("PMU"), missing.join("; ")),
        }
    }

    #[test]
    fn counters_are_those_of_one_thread_unless_it_counts_its_process() {
        for whole_process in [false, true] {
            let counting = std::thread::spawn(move || {
                if whole_process {
                    count_whole_process();
                }
                let before = ThreadCounters::read();
                std::thread::spawn(|| sleep_until(200)).join().unwrap();
                ThreadCounters::read().since(&before)
            });
            let counted = counting.join().unwrap();
            let is_seen = counted.voluntary_switches >= 200 && counted.cpu_ns > 0;
            let is_unseen = counted.voluntary_switches < 100;
            assert!(if whole_process { is_seen } else { is_unseen }, "{whole_process}: {counted:?}");
        }
    }

    #[test]
    fn the_switches_of_another_thread_are_seen_from_outside_and_those_of_a_reaped_process_are_an_error() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let stop = &stop;
            scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                eventually("it is stopped", || stop.load(Ordering::Relaxed));
            });
            let switches = TaskSwitches::open(told.recv().unwrap()).unwrap();
            let before = switches.read().unwrap();
            eventually("it switches", || switches.read().unwrap() >= before + 10);
            stop.store(true, Ordering::Relaxed);
        });
        let mut child = Child::spawn(Spawn::new("/bin/sh").arg("-c").arg("exit 0")).unwrap();
        let switches = TaskSwitches::open(child.pid()).unwrap();
        assert_eq!(child.wait(None).unwrap(), Some(Exit::Code(0)));
        assert_eq!(switches.read().unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn the_line_is_found_whole_or_not_at_all() {
        let status = b"Name:\tx\nvoluntary_ctxt_switches:\t123\nnonvoluntary_ctxt_switches:\t9\n";
        for (text, found) in [
            (&status[..], Some(123)),
            (&status[..status.len() - 5], Some(123)),
            (b"voluntary_ctxt_switches:\t12", None),
            (b"nonvoluntary_ctxt_switches:\t9\n", None),
        ] {
            assert_eq!(number_after(text, b"voluntary_ctxt_switches"), found, "{}", text.escape_ascii());
        }
    }
}
