//! Where and how the calling thread runs: CPUs, scheduling policy, nice value.
//!
//! All is about the calling thread, whose new threads and processes inherit it, but where a `pid` is given.
//!
//! # Safety
//! The calls pass local buffers with their true size.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

use crate::error::{Context, Error, Result};

/// Room for 8192 CPUs, the most that Linux can be built for. glibc's own `cpu_set_t` ends at 1024.
const MASK_WORDS: usize = 8192 / u64::BITS as usize;

/// The CPUs that the calling thread may run on, in order.
pub fn allowed_cpus() -> Result<Vec<u32>> {
    affinity(0).context("read", || "the CPUs of this thread")
}

/// As [`allowed_cpus`], of the first thread of another process; `ESRCH` where that is gone.
pub fn allowed_cpus_of(pid: u32) -> Result<Vec<u32>> {
    affinity(pid.cast_signed()).context("read", || format!("the CPUs of process {pid}"))
}

/// The CPUs of a thread, the calling one if 0.
fn affinity(thread: libc::pid_t) -> io::Result<Vec<u32>> {
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: the kernel writes at most `size_of_val(&mask)` bytes into `mask`.
    let written =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, thread, size_of_val(&mask), mask.as_mut_ptr()) };
    if written < 0 {
        return Err(io::Error::last_os_error());
    }
    let set = |cpu: &u32| mask[(cpu / u64::BITS) as usize] & (1 << (cpu % u64::BITS)) != 0;
    Ok((0..MASK_WORDS as u32 * u64::BITS).filter(set).collect())
}

/// Restricts the calling thread to `cpus`. When the call returns, it runs on one of them. Fails with `EINVAL` when none
/// of `cpus` is online and inside the thread's cpuset, or one is above 8191.
pub fn pin(cpus: &[u32]) -> Result<()> {
    set_affinity(0, cpus).context("pin", || format!("this thread to CPUs {cpus:?}"))
}

/// Restricts every thread that another process has now to `cpus`; those that it starts later inherit that. Fails as
/// [`pin`], and where the process is gone or belongs to another user.
pub fn pin_process(pid: u32, cpus: &[u32]) -> Result<()> {
    each_thread(pid, |thread| set_affinity(thread, cpus))
        .context("pin", || format!("process {pid} to CPUs {cpus:?}"))
}

fn each_thread(pid: u32, mut set: impl FnMut(libc::pid_t) -> io::Result<()>) -> io::Result<()> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Some(thread) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            set(thread)?;
        }
    }
    Ok(())
}

/// Restricts a thread, the calling one if 0.
fn set_affinity(thread: libc::pid_t, cpus: &[u32]) -> io::Result<()> {
    let mut mask = [0u64; MASK_WORDS];
    for &cpu in cpus {
        let word = mask.get_mut((cpu / u64::BITS) as usize);
        *word.ok_or(io::Error::from_raw_os_error(libc::EINVAL))? |= 1 << (cpu % u64::BITS);
    }
    // SAFETY: the kernel reads `size_of_val(&mask)` bytes of `mask`.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, thread, size_of_val(&mask), mask.as_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The CPU that the calling thread runs on now. Unless it is pinned, it may be another one a moment later.
#[inline]
pub fn current_cpu() -> u32 {
    // SAFETY: takes nothing and writes nothing. The C library reads the number from the thread's restartable sequence, where
    // the kernel keeps it, and has no cause to fail: it asks the kernel where there is none.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}

/// How the kernel chooses among runnable threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The default: fair shares, weighted by the nice value.
    Other,
    /// As `Other`, taken to be busy: preempts less on wake-up.
    Batch,
    /// Runs when nothing else wants to.
    Idle,
    /// Real time at this priority (1 to 99): until it blocks or something of higher priority comes.
    Fifo(u8),
    /// As `Fifo`, sharing the CPU by time slices with threads of the same priority.
    RoundRobin(u8),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Other => f.write_str("other"),
            Policy::Batch => f.write_str("batch"),
            Policy::Idle => f.write_str("idle"),
            Policy::Fifo(priority) => write!(f, "fifo:{priority}"),
            Policy::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

impl FromStr for Policy {
    /// A sentence that names what is possible.
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Policy, String> {
        let priority = |digits: &str| digits.parse().ok().filter(|priority| (1..=99).contains(priority));
        let policy = match text.split_once(':') {
            None => [Policy::Other, Policy::Batch, Policy::Idle]
                .into_iter()
                .find(|policy| policy.to_string() == text),
            Some(("fifo", digits)) => priority(digits).map(Policy::Fifo),
            Some(("rr", digits)) => priority(digits).map(Policy::RoundRobin),
            Some(_) => None,
        };
        policy.ok_or_else(|| {
            format!(
                "no scheduling policy: {text:?}; use other, batch, idle, fifo:1 to fifo:99, or rr:1 to rr:99"
            )
        })
    }
}

/// Sets it. Fails with `EPERM` where privilege or the `rtprio` limit is missing, `EINVAL` for a priority beyond 1 to 99.
pub fn set_policy(policy: Policy) -> Result<()> {
    let (number, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    // The kernel's structure is this one number; musl's is longer, and its function does nothing.
    let parameter = libc::c_int::from(priority);
    // SAFETY: the kernel reads one int from `parameter`.
    let done = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, number, &raw const parameter) };
    if done < 0 { Err(Error::last("set the scheduling policy to", policy.to_string())) } else { Ok(()) }
}

/// The policy of the calling thread; `Unsupported` for one that [`Policy`] does not list, such as deadline.
pub fn policy() -> Result<Policy> {
    let on = || "the scheduling policy of this thread";
    let mut parameter: libc::c_int = 0;
    // SAFETY: the first call has no pointer; the second writes one int into `parameter`.
    let (number, read) = unsafe {
        (
            libc::syscall(libc::SYS_sched_getscheduler, 0),
            libc::syscall(libc::SYS_sched_getparam, 0, &raw mut parameter),
        )
    };
    if number < 0 || read < 0 {
        return Err(Error::last("read", on()));
    }
    let priority = parameter as u8;
    match number as libc::c_int & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => Ok(Policy::Other),
        libc::SCHED_BATCH => Ok(Policy::Batch),
        libc::SCHED_IDLE => Ok(Policy::Idle),
        libc::SCHED_FIFO => Ok(Policy::Fifo(priority)),
        libc::SCHED_RR => Ok(Policy::RoundRobin(priority)),
        other => {
            let why = io::Error::new(io::ErrorKind::Unsupported, format!("it has the number {other}"));
            Err(Error::new("name", on(), why))
        }
    }
}

/// Sets the nice value of the calling thread: -20 (most) to 19 (least). The kernel takes what lies beyond as the end.
/// Fails with `EACCES` or `EPERM` where the privilege or the `nice` limit is missing.
pub fn set_nice(nice: i32) -> Result<()> {
    setpriority_process(Some(gettid()), nice).context("set the nice value to", || nice.to_string())
}

/// Sets the nice value of every thread that another process has now; those that it starts later inherit that. Fails as
/// [`set_nice`], and where the process is gone or belongs to another user.
pub fn set_process_nice(pid: u32, nice: i32) -> Result<()> {
    let set = |thread| Ok(setpriority_process(rustix::process::Pid::from_raw(thread), nice)?);
    each_thread(pid, set).context("set the nice value to", || format!("{nice} in process {pid}"))
}

/// The nice value of the calling thread.
pub fn nice() -> Result<i32> {
    getpriority_process(Some(gettid())).context("read", || "the nice value of this thread")
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};

    use super::*;

    /// On a thread of its own, so that other tests keep their CPUs and policy.
    fn alone<T: Send>(f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(f).join().unwrap())
    }

    #[test]
    fn a_pinned_thread_runs_where_it_was_told() {
        alone(|| {
            let before = allowed_cpus().unwrap();
            assert!(before.contains(&current_cpu()));
            for cpu in before {
                pin(&[cpu]).unwrap();
                assert_eq!(current_cpu(), cpu);
                assert_eq!(allowed_cpus().unwrap(), [cpu]);
            }
        });
    }

    #[test]
    fn pinning_to_nothing_or_beyond_every_machine_is_an_error() {
        for cpus in [&[][..], &[8191], &[8192], &[u32::MAX]] {
            let error = alone(|| pin(cpus)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}");
        }
    }

    #[test]
    fn policies_are_written_and_read_alike() {
        let all = [Policy::Other, Policy::Batch, Policy::Idle, Policy::Fifo(10), Policy::RoundRobin(99)];
        for policy in all {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("fifo:10".parse(), Ok(Policy::Fifo(10)));
        for wrong in ["", "fifo", "fifo:", "fifo:0", "rr:100", "rr:-1", "other:1", "Other", "deadline"] {
            assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_policy_is_read_back_as_set() {
        let refused = alone(|| {
            let mut refused = None;
            assert_eq!(policy().unwrap(), Policy::Other);
            for wanted in [Policy::Batch, Policy::Fifo(2), Policy::RoundRobin(3), Policy::Other, Policy::Idle]
            {
                match set_policy(wanted) {
                    Ok(()) => assert_eq!(policy().unwrap(), wanted),
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
                        refused = Some(error);
                    }
                }
            }
            assert_eq!(set_policy(Policy::Fifo(100)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
            refused
        });
        if let Some(error) = refused {
            skipped(Cause::Rights("realtime"), error);
        }
    }

    #[test]
    fn another_process_is_pinned_and_its_nice_value_set() {
        use crate::process::{Child, Spawn};
        let sleeper = Child::spawn(Spawn::new("/bin/sh").arg("-c").arg("while :; do :; done")).unwrap();
        let cpu = allowed_cpus().unwrap()[0];
        pin_process(sleeper.pid(), &[cpu]).unwrap();
        let lower = (nice().unwrap() + 3).min(19);
        set_process_nice(sleeper.pid(), lower).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", sleeper.pid())).unwrap();
        assert!(status.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{status}");
        let pid = rustix::process::Pid::from_raw(sleeper.pid() as i32);
        assert_eq!(getpriority_process(pid).unwrap(), lower);
        assert!(pin_process(sleeper.pid(), &[]).is_err());
    }

    #[test]
    fn a_nice_value_belongs_to_its_thread() {
        let before = nice().unwrap();
        let lower = (before + 3).min(19);
        alone(|| {
            set_nice(lower).unwrap();
            assert_eq!(nice().unwrap(), lower);
        });
        assert_eq!(nice().unwrap(), before);
    }
}
