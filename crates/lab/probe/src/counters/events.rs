//! What `perf_event_open` counts for one thread: migrations, cycles, instructions.
//!
//! A virtual machine often has no counters of the processor, and an unprivileged user may not count what the kernel
//! does. So every event may be missing, with its reason, and the program goes on without it.
//!
//! # Safety
//!
//! `perf_event_open` is given our copy of its structure, with its size inside, and returns a descriptor that is ours.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The first form of the kernel's `perf_event_attr`, which all kernels take. No field is a pointer.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attr>() == 64, "PERF_ATTR_SIZE_VER0");

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CPU_CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const CPU_MIGRATIONS: u64 = 4;

/// The kernel's bit fields begin at the low end on little-endian machines and at the high end on others.
const fn flag(bit: u32) -> u64 {
    if cfg!(target_endian = "little") { 1 << bit } else { 1 << (63 - bit) }
}
/// Always counting, never sharing a counter in turns: a reading is either the true number or none.
const PINNED: u64 = flag(2);
/// An event that is not a counter of the processor knows no modes to leave out.
pub(super) const EXCLUDE_NOTHING: u64 = 0;
const EXCLUDE_KERNEL: u64 = flag(5);
const EXCLUDE_HYPERVISOR: u64 = flag(6);

/// Counters of the thread that opened them, from then on, until dropped; by default none. A thread with any event attached pays for it at
/// every context switch: the kernel saves and restores its events.
#[derive(Debug, Default)]
pub struct Events {
    migrations: Option<OwnedFd>,
    cycles: Option<OwnedFd>,
    instructions: Option<OwnedFd>,
    missing: Vec<String>,
}

/// One reading of [`Events`]; `None` where there is no such counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Moves to another CPU.
    pub migrations: Option<u64>,
    /// Cycles of the processor.
    pub cycles: Option<u64>,
    /// Instructions that the processor finished.
    pub instructions: Option<u64>,
}

impl Events {
    /// Opens what there is for the calling thread. What cannot be opened is in [`Events::missing`].
    pub fn open() -> Events {
        let mut missing = Vec::new();
        // A migration happens inside the kernel: without the kernel there is nothing to count.
        let migrations =
            there("migrations", open(SOFTWARE, CPU_MIGRATIONS, EXCLUDE_HYPERVISOR), &mut missing);
        let hardware = Events::hardware();
        missing.extend(hardware.missing);
        Events { migrations, missing, ..hardware }
    }

    /// Opens what the processor counts. Where it has no counters, nothing is opened: for a second after the last event of the machine
    /// was closed, the kernel goes on looking for events at every context switch of every thread.
    pub fn hardware() -> Events {
        let mut missing = Vec::new();
        let everything = open(HARDWARE, CPU_CYCLES, PINNED | EXCLUDE_HYPERVISOR);
        let refused = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        let kernel_included = !everything.as_ref().is_err_and(refused);
        let flags = PINNED | EXCLUDE_HYPERVISOR | if kernel_included { 0 } else { EXCLUDE_KERNEL };
        let cycles = if kernel_included { everything } else { open(HARDWARE, CPU_CYCLES, flags) };
        let cycles = there("cycles", cycles, &mut missing);
        let instructions = there("instructions", open(HARDWARE, INSTRUCTIONS, flags), &mut missing);
        Events { migrations: None, cycles, instructions, missing }
    }

    /// Reads all counters. No allocation; one system call for each counter that is there.
    pub fn read(&self) -> EventCounts {
        let count = |fd: &Option<OwnedFd>| count(fd.as_ref()?);
        EventCounts {
            migrations: count(&self.migrations),
            cycles: count(&self.cycles),
            instructions: count(&self.instructions),
        }
    }

    /// Whether cycles or instructions can be counted, that is, whether the machine shows us its counters.
    pub fn has_pmu(&self) -> bool {
        self.cycles.is_some() || self.instructions.is_some()
    }

    /// What cannot be counted, and why not: one line each.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }
}

impl EventCounts {
    /// What was counted between `earlier` and this reading; `None` where either is missing.
    pub fn since(&self, earlier: &EventCounts) -> EventCounts {
        let difference = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        EventCounts {
            migrations: difference(self.migrations, earlier.migrations),
            cycles: difference(self.cycles, earlier.cycles),
            instructions: difference(self.instructions, earlier.instructions),
        }
    }
}

/// What was opened, or a line on why it was not.
fn there(name: &str, opened: io::Result<OwnedFd>, missing: &mut Vec<String>) -> Option<OwnedFd> {
    opened.inspect_err(|error| missing.push(format!("{name}: {}", why(error)))).ok()
}

/// What was counted; `None` where nothing could be.
pub(super) fn count(fd: &OwnedFd) -> Option<u64> {
    let mut value = [0; 8];
    // A pinned counter that found no room on the processor reads as the end of the file.
    let len = rustix::io::read(fd, &mut value).ok()?;
    (len == value.len()).then_some(u64::from_ne_bytes(value))
}

/// For the calling thread.
fn open(kind: u32, config: u64, flags: u64) -> io::Result<OwnedFd> {
    const THIS_THREAD: libc::pid_t = 0;
    const ANY_CPU: libc::c_int = -1;
    open_for(kind, config, flags, (THIS_THREAD, ANY_CPU))
}

/// For whatever runs on a CPU.
pub(super) fn open_on(kind: u32, config: u64, flags: u64, cpu: u32) -> io::Result<OwnedFd> {
    const ANY_PROCESS: libc::pid_t = -1;
    open_for(kind, config, flags, (ANY_PROCESS, cpu as libc::c_int))
}

fn open_for(
    kind: u32,
    config: u64,
    flags: u64,
    (process, cpu): (libc::pid_t, libc::c_int),
) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    const NO_GROUP: libc::c_int = -1;
    let attr = Attr { kind, size: size_of::<Attr>() as u32, config, flags, ..Attr::default() };
    // SAFETY: the kernel reads `attr.size` bytes of `attr`.
    let fd = unsafe {
        let call = libc::SYS_perf_event_open;
        libc::syscall(call, &raw const attr, process, cpu, NO_GROUP, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

pub(super) fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            format!("this machine has no such counter ({error})")
        }
        Some(libc::EACCES | libc::EPERM) => {
            format!("not permitted; lower kernel.perf_event_paranoid or grant CAP_PERFMON ({error})")
        }
        Some(libc::ENOSYS) => format!("the kernel has no perf events ({error})"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_there_or_missing_with_a_reason() {
        let events = Events::open();
        let there = [events.migrations.is_some(), events.cycles.is_some(), events.instructions.is_some()];
        let named = ["migrations", "cycles", "instructions"]
            .map(|name| events.missing().iter().any(|line| line.starts_with(name)));
        assert_eq!(there.map(|there| !there), named, "{:?}", events.missing());
        let hardware = Events::hardware();
        assert!(
            hardware.migrations.is_none(),
            "it is there on every machine, and opened where it is asked for"
        );
        assert_eq!(hardware.has_pmu(), events.has_pmu());
        assert!(events.missing().ends_with(hardware.missing()), "{:?}", hardware.missing());
    }

    #[test]
    fn a_difference_needs_both_readings() {
        let earlier = EventCounts { migrations: Some(2), cycles: None, instructions: Some(5) };
        let later = EventCounts { migrations: Some(5), cycles: Some(9), instructions: None };
        let expected = EventCounts { migrations: Some(3), cycles: None, instructions: None };
        assert_eq!(later.since(&earlier), expected);
    }
}
