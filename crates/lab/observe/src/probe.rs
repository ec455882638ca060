//! What the kernel lets us look with here: each probe is tried, and where it is refused the right or setting that would allow it is named.

use std::io;
use std::path::Path;
use std::thread;

use causeway_os::process::{Child, Spawn, Tracer};
use causeway_os::socket;
use weighbridge_harness::axis::words;
use weighbridge_harness::peer;
use weighbridge_probe::tracefs::Tracefs;
use weighbridge_record::RefusedMeans;

use crate::counters::{Counted, Counters, HALTS, HARDWARE, INTERRUPTS, SOFTWARE, TRACEPOINTS};
use crate::rights::{Asked, Rights};
use crate::sampling::Sampling;
use crate::symbols;

words! {
    /// A way to look. The names are those in records.
    pub enum Probe {
        /// What the kernel counts anyway: switches, migrations, faults.
        Software = "software",
        /// Tracepoints of the scheduler and of system calls, counted.
        Tracepoints = "tracepoints",
        /// Tracepoints of interrupts, counted.
        Interrupts = "interrupts",
        /// Idle periods, counted.
        Halts = "halts",
        /// Counters of the processor.
        Hardware = "hardware",
        /// Samples of a CPU, in user mode and in the kernel.
        Sampling = "sampling",
        /// System calls, by a tracer.
        SystemCalls = "system-calls",
    }
}

impl Probe {
    /// All, the cheapest first.
    pub const ALL: [Probe; 7] = [
        Probe::Software,
        Probe::Tracepoints,
        Probe::Interrupts,
        Probe::Halts,
        Probe::Hardware,
        Probe::Sampling,
        Probe::SystemCalls,
    ];

    /// What it tells.
    pub fn about(self) -> &'static str {
        match self {
            Probe::Software => "context switches, migrations and page faults of a CPU",
            Probe::Tracepoints => "switches, wake-ups and system calls of a CPU",
            Probe::Interrupts => "interrupts that a CPU sends and receives",
            Probe::Halts => "how often a CPU had nothing to run",
            Probe::Sampling => "where the time of a CPU goes, by function, in user mode and in the kernel",
            Probe::Hardware => "cycles, instructions and misses of a CPU",
            Probe::SystemCalls => "which system calls each role makes",
        }
    }

    /// What it counts, where it counts.
    pub(crate) fn counted(self) -> Option<&'static [Counted]> {
        match self {
            Probe::Software => Some(SOFTWARE),
            Probe::Tracepoints => Some(TRACEPOINTS),
            Probe::Interrupts => Some(INTERRUPTS),
            Probe::Halts => Some(HALTS),
            Probe::Hardware => Some(HARDWARE),
            Probe::Sampling | Probe::SystemCalls => None,
        }
    }
}

/// What came of trying a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It works.
    Usable,
    /// It works, and this is missing.
    Limited(String),
    /// It does not: why, and what would allow it.
    Refused(String),
}

/// A probe and what came of trying it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The probe.
    pub probe: Probe,
    /// What came of it.
    pub status: Status,
}

/// What can be used here.
#[derive(Debug)]
pub struct Probes {
    /// Every probe.
    pub all: Vec<Tried>,
    /// Where tracepoints are named, if they may be used.
    pub(crate) tracefs: Option<Tracefs>,
}

impl Probes {
    /// Tries every probe on `cpu`. `program` hands over to [`peer::main`]; a tracer is tried on it.
    pub fn of(cpu: u32, program: &Path) -> Probes {
        let rights = Rights::read();
        let tracefs = Tracefs::open();
        let found = tracefs.as_ref().map_err(ToString::to_string);
        let tried = |probe| Tried { probe, status: status(probe, cpu, program, found.clone(), &rights) };
        Probes { all: Probe::ALL.map(tried).into(), tracefs: tracefs.ok() }
    }

    /// Can it be used?
    pub fn has(&self, probe: Probe) -> bool {
        self.all.iter().any(|tried| tried.probe == probe && !matches!(tried.status, Status::Refused(_)))
    }

    /// What cannot be used, for a record.
    pub fn refused(&self) -> Vec<RefusedMeans> {
        let refused = |tried: &Tried| match &tried.status {
            Status::Refused(why) => Some(RefusedMeans { means: tried.probe.name().into(), why: why.clone() }),
            _ => None,
        };
        self.all.iter().filter_map(refused).collect()
    }
}

fn status(
    probe: Probe,
    cpu: u32,
    program: &Path,
    tracefs: Result<&Tracefs, String>,
    rights: &Rights,
) -> Status {
    let open = |events, asked, tracefs| {
        Counters::open(events, &[cpu], tracefs).map(drop).map_err(|error| rights.why(asked, &error))
    };
    let tried = match (probe, probe.counted()) {
        (Probe::Tracepoints | Probe::Interrupts | Probe::Halts, Some(events)) => {
            tracefs.and_then(|tracefs| open(events, Asked::Tracepoint, Some(tracefs)))
        }
        (Probe::Hardware, Some(events)) => open(events, Asked::Hardware, None),
        (_, Some(events)) => open(events, Asked::CpuWide, None),
        (Probe::SystemCalls, None) => trace_a_child(program),
        (_, None) => Sampling::open(&[cpu]).map(drop).map_err(|error| rights.why(Asked::CpuWide, &error)),
    };
    let hidden = || symbols::kernel_symbols_hidden().filter(|_| probe == Probe::Sampling);
    match tried {
        Err(why) => Status::Refused(why),
        Ok(()) => hidden().map_or(Status::Usable, |why| {
            Status::Limited(format!("functions of the kernel have no names: {why}"))
        }),
    }
}

/// Begins to trace a process of this program that waits for orders, and lets it end.
fn trace_a_child(program: &Path) -> Result<(), String> {
    let trace = || -> io::Result<()> {
        let (_control, theirs) = socket::seqpacket_pair()?;
        let parent = std::process::id().to_string();
        let child = Child::spawn(Spawn::new(program).arg(peer::ARGUMENT).arg(parent).fd(theirs))?;
        Ok(Tracer::seize(child.pid()).map(drop)?)
    };
    // The kernel binds a tracer to its thread, and kills what it traces when the thread ends.
    let tried =
        thread::scope(|scope| scope.spawn(trace).join()).map_err(|_| "the tracer panicked".to_owned())?;
    tried.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{error}; it needs kernel.yama.ptrace_scope below 2 or CAP_SYS_PTRACE, and in a container a filter that allows ptrace"
        ),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_goes_into_the_record_with_its_reason() {
        let tried = |probe, status| Tried { probe, status };
        let probes = Probes {
            all: vec![
                tried(Probe::Software, Status::Usable),
                tried(Probe::Sampling, Status::Limited("no names".into())),
                tried(Probe::Hardware, Status::Refused("no PMU".into())),
            ],
            tracefs: None,
        };
        assert!(probes.has(Probe::Software) && probes.has(Probe::Sampling));
        assert!(!probes.has(Probe::Hardware) && !probes.has(Probe::Halts), "what was not tried is not there");
        let refused = probes.refused();
        assert_eq!(refused, [RefusedMeans { means: "hardware".into(), why: "no PMU".into() }]);
    }
}
