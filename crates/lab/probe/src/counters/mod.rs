//! What the kernel counts: switches, faults and time of a thread, events of the processor, noise of the machine.
//!
//! Readings are plain numbers that only grow; `since` gives the difference. [`ThreadCounters`] and [`TaskSwitches`]
//! are here, the counters of another process in [`ProcessCounters`], what `perf_event_open` counts in [`Events`], what the machine
//! does beside us in [`SystemNoise`], what limits withhold from us in [`Throttling`]. [`EventSwitch`] starts and stops events of another process.
//!
//! # Safety
//!
//! `getrusage` fills a local structure of plain numbers.
#![allow(unsafe_code)]

mod events;
mod noise;
mod pressure;
mod process;
mod switch;

pub use events::{EventCounts, Events};
pub use noise::SystemNoise;
pub use pressure::{Throttling, cpu_pressure_ns};
pub use process::ProcessCounters;
pub use switch::EventSwitch;

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use causeway_os::clock;
use causeway_os::{Context, Error, Result};

/// What the kernel has counted for one thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounters {
    /// Times it gave up the CPU because it had to wait.
    pub voluntary_switches: u64,
    /// Times it was taken off the CPU while it could have gone on.
    pub involuntary_switches: u64,
    /// Page faults served without reading from a disk.
    pub minor_faults: u64,
    /// Page faults that had to read.
    pub major_faults: u64,
    /// Processor time used, in nanoseconds.
    pub cpu_ns: u64,
    /// Processor time in user mode, in nanoseconds. Kernels that count it in ticks scale it to the time used.
    pub user_ns: u64,
    /// Processor time in the kernel, in nanoseconds, as `user_ns`.
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
        ThreadCounters {
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            minor_faults: self.minor_faults - earlier.minor_faults,
            major_faults: self.major_faults - earlier.major_faults,
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            user_ns: self.user_ns - earlier.user_ns,
            kernel_ns: self.kernel_ns - earlier.kernel_ns,
        }
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
    ///
    /// # Errors
    ///
    /// The kernel's: no such task, out of descriptors.
    pub fn open(pid: u32) -> Result<TaskSwitches> {
        // For a thread that is not the first of its process this path exists too, though /proc does not list it.
        let path = format!("/proc/{pid}/status");
        let status = File::open(&path).context("open", || path.as_str())?;
        Ok(TaskSwitches { status, pid })
    }

    /// Voluntary switches of the task since it began.
    ///
    /// # Errors
    ///
    /// `ESRCH` when the task has been reaped; `InvalidData` when the kernel does not tell.
    pub fn read(&self) -> Result<u64> {
        // The file has about 1500 bytes, and more on machines of thousands of CPUs or with users of many groups.
        let mut buf = [0u8; 16 * 1024];
        let on = || format!("/proc/{}/status", self.pid);
        let len = self.status.read_at(&mut buf, 0).context("read", on)?;
        voluntary_switches(&buf[..len]).ok_or_else(|| {
            let why = io::Error::new(io::ErrorKind::InvalidData, "it has no line voluntary_ctxt_switches");
            Error::new("find the switches in", on(), why)
        })
    }
}

fn voluntary_switches(status: &[u8]) -> Option<u64> {
    number_after(status, b"voluntary_ctxt_switches")
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
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
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
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    const LONG: Duration = Duration::from_secs(20);

    /// Sleeps until `enough` returns true. One sleep need not be a switch: on a busy machine its time may be over before the
    /// thread has gone to sleep.
    fn sleep_until(mut enough: impl FnMut() -> bool) {
        let start = Instant::now();
        while !enough() {
            assert!(start.elapsed() < LONG, "sleeping is not counted");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Two CPUs, a step to each, and the count must have gone up.
    #[test]
    fn a_thread_that_is_moved_has_migrated() {
        let Ok(migrations) = ThreadMigrations::open() else {
            eprintln!("skipped: this kernel has no /proc/self/task/*/sched");
            return;
        };
        let cpus = causeway_os::sched::allowed_cpus().unwrap();
        let (Some(before), [a, b, ..]) = (migrations.read(), &cpus[..]) else {
            eprintln!("skipped: it takes two CPUs, and a kernel that counts migrations");
            return;
        };
        for cpu in [a, b, a] {
            causeway_os::sched::pin(&[*cpu]).unwrap();
        }
        let after = migrations.read().unwrap();
        causeway_os::sched::pin(&cpus).unwrap();
        assert!(after >= before + 2, "{before} before, {after} after two moves");
    }

    #[test]
    fn sleeping_counts_as_voluntary_switches_and_working_as_time() {
        let before = ThreadCounters::read();
        let counted = || ThreadCounters::read().since(&before);
        sleep_until(|| counted().voluntary_switches >= 5);
        let start = counted().cpu_ns;
        while counted().cpu_ns < start + 1_000_000 {
            std::hint::spin_loop();
        }
        // The parts follow, at the latest with the next tick.
        while counted().user_ns + counted().kernel_ns < 1_000_000 {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn faults_count_pages_touched_first() {
        let memory = causeway_os::memory::Mapping::anonymous(64 * causeway_os::memory::page_bytes()).unwrap();
        let _ = memory.advise_huge(false);
        let before = ThreadCounters::read();
        for page in 0..64 {
            memory.atomic_u32(page * causeway_os::memory::page_bytes()).store(1, Ordering::Relaxed);
        }
        let counted = ThreadCounters::read().since(&before);
        assert!(counted.minor_faults >= 64, "{counted:?}");
    }

    #[test]
    fn counters_are_those_of_one_thread_only() {
        let before = ThreadCounters::read();
        let other = std::thread::spawn(|| {
            let before = ThreadCounters::read();
            sleep_until(|| ThreadCounters::read().since(&before).voluntary_switches >= 200);
        });
        other.join().unwrap();
        let ours = ThreadCounters::read().since(&before).voluntary_switches;
        assert!(ours < 100, "{ours}");
    }

    #[test]
    fn a_thread_that_counts_its_process_counts_other_threads_too() {
        std::thread::spawn(|| {
            count_whole_process();
            let before = ThreadCounters::read();
            let other = std::thread::spawn(|| {
                let before = ThreadCounters::read();
                sleep_until(|| ThreadCounters::read().since(&before).voluntary_switches >= 200);
            });
            other.join().unwrap();
            let counted = ThreadCounters::read().since(&before);
            assert!(counted.voluntary_switches >= 200 && counted.cpu_ns > 0, "{counted:?}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_switches_of_another_thread_are_seen_from_outside() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let stop = &stop;
            scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                sleep_until(|| stop.load(Ordering::Relaxed));
            });
            let switches = TaskSwitches::open(told.recv().unwrap()).unwrap();
            let before = switches.read().unwrap();
            sleep_until(|| switches.read().unwrap() >= before + 10);
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn the_switches_of_a_reaped_process_are_an_error() {
        let mut child = Child::spawn(Spawn::new("/bin/sh").arg("-c").arg("exit 0")).unwrap();
        let switches = TaskSwitches::open(child.pid()).unwrap();
        assert_eq!(child.wait(None).unwrap(), Some(Exit::Code(0)));
        assert_eq!(switches.read().unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn the_line_is_found_whole_or_not_at_all() {
        let status = b"Name:\tx\nvoluntary_ctxt_switches:\t123\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(voluntary_switches(status), Some(123));
        assert_eq!(voluntary_switches(&status[..status.len() - 5]), Some(123));
        assert_eq!(voluntary_switches(b"voluntary_ctxt_switches:\t12"), None);
        assert_eq!(voluntary_switches(b"nonvoluntary_ctxt_switches:\t9\n"), None);
    }
}
