//! Events of the kernel and the processor, counted for CPUs as a whole.

use std::io;
use std::os::fd::AsFd;

use perf_event_open::config::{Cpu, Opts, Proc};
use perf_event_open::count::Counter;
use perf_event_open::event::hw::Hardware;
use perf_event_open::event::sw::Software;
use perf_event_open::event::tp::Tracepoint;
use weighbridge_probe::counters::EventSwitch;
use weighbridge_probe::tracefs::Tracefs;

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// By the kernel, without a tracepoint.
    Software(Software),
    /// By the processor.
    Hardware(Hardware),
    /// Passages of a tracepoint, by its name in tracefs: `group/event`.
    Tracepoint(&'static str),
}

/// An event with its name in records, and how many of it make one.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub name: &'static str,
    pub kind: Kind,
    /// The count is divided by this.
    pub each: u32,
}

const fn software(name: &'static str, event: Software) -> Counted {
    Counted { name, kind: Kind::Software(event), each: 1 }
}

const fn hardware(name: &'static str, event: Hardware) -> Counted {
    Counted { name, kind: Kind::Hardware(event), each: 1 }
}

const fn tracepoint(name: &'static str, path: &'static str) -> Counted {
    Counted { name, kind: Kind::Tracepoint(path), each: 1 }
}

pub const SOFTWARE: &[Counted] = &[
    software("context-switches", Software::CtxSwitch),
    software("cpu-migrations", Software::CpuMigration),
    software("minor-faults", Software::MinorPageFault),
    software("major-faults", Software::MajorPageFault),
];

/// Tracepoints of the scheduler and of system calls. A wake-up has `sched_waking` where it is asked for, and `sched_wakeup` where the task
/// becomes runnable.
pub const TRACEPOINTS: &[Counted] = &[
    tracepoint("sched:sched_switch", "sched/sched_switch"),
    tracepoint("sched:sched_waking", "sched/sched_waking"),
    tracepoint("sched:sched_wakeup", "sched/sched_wakeup"),
    tracepoint("raw_syscalls:sys_enter", "raw_syscalls/sys_enter"),
];

/// Interrupts between CPUs, as they are sent and as they arrive, and those of timers and devices. The names differ by architecture; what
/// the kernel does not have is left out.
pub const INTERRUPTS: &[Counted] = &[
    tracepoint("ipi:ipi_send_cpu", "ipi/ipi_send_cpu"),
    tracepoint("ipi:ipi_send_cpumask", "ipi/ipi_send_cpumask"),
    tracepoint("ipi:ipi_raise", "ipi/ipi_raise"),
    tracepoint("irq_vectors:reschedule_entry", "irq_vectors/reschedule_entry"),
    tracepoint("irq_vectors:call_function_entry", "irq_vectors/call_function_entry"),
    tracepoint("irq_vectors:call_function_single_entry", "irq_vectors/call_function_single_entry"),
    tracepoint("irq_vectors:local_timer_entry", "irq_vectors/local_timer_entry"),
    tracepoint("irq:irq_handler_entry", "irq/irq_handler_entry"),
];

/// Times that a CPU had nothing to run; the tracepoint is passed on the way in and on the way out.
pub const HALTS: &[Counted] =
    &[Counted { name: "idle periods", kind: Kind::Tracepoint("power/cpu_idle"), each: 2 }];

pub const HARDWARE: &[Counted] = &[
    hardware("cycles", Hardware::CpuCycle),
    hardware("instructions", Hardware::Instr),
    hardware("cache-misses", Hardware::CacheMiss),
    hardware("branch-misses", Hardware::BranchMiss),
];

/// Open counters. They count nothing until they are switched on, and end with this value.
pub struct Counters {
    open: Vec<(&'static str, u32, Counter)>,
}

impl Counters {
    /// Opens `events` on `cpus`. An event that the kernel does not know is left out.
    pub fn open(events: &'static [Counted], cpus: &[u32], tracefs: Option<&Tracefs>) -> io::Result<Counters> {
        let mut open = Vec::new();
        let mut unknown = None;
        for event in events {
            match open_on(event, cpus, tracefs) {
                Ok(counters) => {
                    open.extend(counters.into_iter().map(|counter| (event.name, event.each, counter)));
                }
                Err(error) if is_unknown(&error) => unknown = Some(error),
                Err(error) => return Err(error),
            }
        }
        match unknown {
            Some(error) if open.is_empty() => Err(error),
            _ => Ok(Counters { open }),
        }
    }

    /// What starts and stops them.
    pub fn switch(&self) -> io::Result<EventSwitch> {
        let fds = self.open.iter().map(|(_, _, counter)| counter.file().as_fd().try_clone_to_owned());
        Ok(EventSwitch::new(fds.collect::<io::Result<_>>()?))
    }

    /// The counts of all CPUs together, by name. A counter that shared the processor's with others is scaled up to the whole time.
    pub fn read(&self) -> io::Result<Vec<(&'static str, f64)>> {
        let mut counts: Vec<(&'static str, f64)> = Vec::new();
        for (name, each, counter) in &self.open {
            let stat = counter.stat()?;
            let share = share(stat.time_enabled, stat.time_running);
            let count = stat.count as f64 * share / f64::from(*each);
            match counts.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += count,
                None => counts.push((name, count)),
            }
        }
        Ok(counts)
    }
}

/// How many times the running time of a counter the enabled time is.
fn share(enabled: Option<u64>, running: Option<u64>) -> f64 {
    match (enabled, running) {
        (Some(enabled), Some(running)) if running > 0 => enabled as f64 / running as f64,
        _ => 1.0,
    }
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP))
}

/// With the kernel's number, by which an event that does not exist is told from one that is refused.
fn numbered(error: causeway_os::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

fn open_on(event: &Counted, cpus: &[u32], tracefs: Option<&Tracefs>) -> io::Result<Vec<Counter>> {
    let mut opts = Opts::default();
    opts.stat_format.time_enabled = true;
    opts.stat_format.time_running = true;
    opts.exclude.hv = matches!(event.kind, Kind::Hardware(_));
    let id = match (&event.kind, tracefs) {
        (Kind::Tracepoint(path), Some(tracefs)) => tracefs.event(path).map_err(numbered)?.id.into(),
        (Kind::Tracepoint(_), None) => return Err(io::Error::from_raw_os_error(libc::EACCES)),
        _ => 0,
    };
    let open = |cpu: &u32| {
        let whole_cpu = (Proc::ALL, Cpu(*cpu));
        match &event.kind {
            Kind::Software(event) => Counter::new(*event, whole_cpu, &opts),
            Kind::Hardware(event) => Counter::new(event.clone(), whole_cpu, &opts),
            Kind::Tracepoint(_) => Counter::new(Tracepoint { id }, whole_cpu, &opts),
        }
    };
    cpus.iter().map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_ran_half_of_the_time_is_scaled_to_the_whole() {
        // One that never ran has a count of zero, whatever it is scaled by.
        for (enabled, running, times) in
            [(Some(10), Some(5), 2.0), (Some(10), Some(10), 1.0), (Some(10), Some(0), 1.0), (None, None, 1.0)]
        {
            assert!((share(enabled, running) - times).abs() < 1e-12, "{running:?} of {enabled:?}");
        }
    }

    #[test]
    fn names_of_events_are_unique() {
        let all = [SOFTWARE, TRACEPOINTS, INTERRUPTS, HALTS, HARDWARE].concat();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|event| event.name).collect();
        assert_eq!(names.len(), all.len());
    }
}
