//! What a role counts beside its samples: switches, faults, CPU time, events. Read outside the timed interval, before the
//! first counted batch and after the last.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use causeway_os::sched;
use serde::{Deserialize, Serialize};
use weighbridge_probe::counters::{
    EventCounts, ProcessCounters, TaskSwitches, ThreadCounters, ThreadIo, ThreadIoReader, ThreadMigrations,
};
use weighbridge_record::{CameOn, Latencies, Paced};

use super::{Ctx, Discarded, Tally};
use crate::shared::Step;

/// Where a role runs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// CPUs that it may run on.
    pub allowed: Vec<u32>,
    /// The CPU that it runs on.
    pub cpu: u32,
}

impl Whereabouts {
    /// Of the calling thread.
    pub fn now() -> io::Result<Whereabouts> {
        Ok(Whereabouts { allowed: sched::allowed_cpus()?, cpu: sched::current_cpu() })
    }
}

/// What a role counted between the beginning of its first counted batch and the end of its last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Number of operations that were counted.
    pub ops: u64,
    /// Bytes that arrived here.
    pub received_bytes: u64,
    /// How far the mechanism came meanwhile in what arrived here, by its own count; absent where it does not count.
    #[serde(default)]
    pub position: Option<CameOn>,
    /// What the kernel counted for it.
    #[serde(flatten)]
    pub task: ThreadCounters,
    /// Moves to another CPU, where they can be counted.
    pub migrations: Option<u64>,
    /// CPU cycles, from a PMU.
    pub cycles: Option<u64>,
    /// Instructions, from a PMU.
    pub instructions: Option<u64>,
    /// What it read and wrote meanwhile, where the kernel counts it.
    #[serde(default)]
    pub io: Option<ThreadIo>,
    /// Voluntary switches of the coordinator meanwhile, as this role saw them.
    pub coordinator_switches: Option<u64>,
    /// What the batches that became samples took, where the role does them one by one; else zero.
    pub sampled: Sampled,
    /// What was discarded before the first sample, where the run warmed up by time.
    pub warm_up: Option<Discarded>,
    /// Rate of a plain memory copy of the payload's size in this role, right after the timed part.
    pub copy_bytes_per_s: Option<f64>,
    /// Further figures, by name with unit, one for each sample.
    pub series: BTreeMap<String, Vec<f64>>,
    /// What single operations took, where each was timed.
    pub latencies: Option<Latencies>,
    /// In the leading role, in an open loop: the operations of the samples, and the time from the first to the last.
    #[serde(default)]
    pub paced: Option<Paced>,
    /// Where the role ran when counting first began, and when it ended.
    pub whereabouts: Vec<Whereabouts>,
    /// In the leading role: what an auxiliary process did meanwhile, with its name.
    #[serde(default)]
    pub beside: Option<(String, CountedAuxiliary)>,
}

/// What an auxiliary process did between the same two readings, all its threads together; see [`ThreadCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedAuxiliary {
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because one was preempted.
    pub involuntary_switches: u64,
    /// Page faults without input or output.
    pub minor_faults: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// CPU time, user and system.
    pub cpu_ns: u64,
    /// Ticks that found it in user mode, as time.
    pub user_ticks_ns: u64,
    /// Ticks that found it in the kernel, as time.
    pub kernel_ticks_ns: u64,
}

impl CountedAuxiliary {
    fn add(&mut self, more: &ThreadCounters) {
        self.voluntary_switches += more.voluntary_switches;
        self.involuntary_switches += more.involuntary_switches;
        self.minor_faults += more.minor_faults;
        self.major_faults += more.major_faults;
        self.cpu_ns += more.cpu_ns;
        self.user_ticks_ns += more.user_ns;
        self.kernel_ticks_ns += more.kernel_ns;
    }

    /// The parts of `cpu_ns` in user mode and in the kernel, in the proportion of the ticks. Where no tick found it, all is user mode,
    /// as the kernel has it for a thread.
    pub fn parts_ns(&self) -> (f64, f64) {
        let cpu_ns = self.cpu_ns as f64;
        let user_ns = match self.kernel_ticks_ns {
            0 => cpu_ns,
            kernel => cpu_ns * self.user_ticks_ns as f64 / (self.user_ticks_ns + kernel) as f64,
        };
        (user_ns, cpu_ns - user_ns)
    }
}

/// An auxiliary process that is counted.
pub struct Auxiliary {
    pub(super) name: &'static str,
    pub(super) counters: ProcessCounters,
    /// Waits before each reading until the process has done what it was sent.
    pub(super) settle: Option<Settle>,
}

/// See [`Ctx::settle_auxiliary`].
pub(super) type Settle = Box<dyn FnMut() -> io::Result<()>>;

impl fmt::Debug for Auxiliary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auxiliary").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The batches that became samples, as one role has counted them by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Operations in them.
    pub ops: u64,
    /// CPU time of the role in them.
    pub cpu_ns: u64,
    /// In the leading role: time before the beginning of each that the other roles may already spend on it.
    pub gaps_ns: u64,
}

/// Readings at the beginning of the counted part.
#[derive(Debug)]
pub(super) struct Began {
    thread: ThreadCounters,
    events: EventCounts,
    migrations: Option<u64>,
    coordinator: Option<u64>,
    auxiliary: Option<ThreadCounters>,
    io: Option<ThreadIo>,
}

impl Ctx<'_> {
    /// Only the leading role watches the coordinator: by the time that others look, it may have woken for a report. One role is enough
    /// to count the auxiliary process.
    pub(super) fn do_not_watch(&mut self) {
        self.coordinator = None;
        self.auxiliary = None;
        self.observed = None;
    }

    /// Reads the counters, unless it has done so since counting began or was paused.
    pub(super) fn begin_counting(&mut self) -> io::Result<()> {
        if self.began.is_none() {
            self.set_step(Step::Batches);
            self.marker.inspect(|marker| marker.set_open(true));
            if self.counted.whereabouts.is_empty() {
                self.counted.whereabouts.push(Whereabouts::now()?);
            }
            let coordinator = self.coordinator.as_ref().map(TaskSwitches::read).transpose()?;
            let auxiliary = self.read_auxiliary()?;
            self.began = Some(Began {
                migrations: self.migrations.as_ref().and_then(ThreadMigrations::read),
                events: self.events.read(),
                // What is read after it and before it is read again is the role's own.
                io: self.io.as_mut().and_then(ThreadIoReader::read),
                thread: ThreadCounters::read(),
                coordinator,
                auxiliary,
            });
            if let Some(events) = &self.observed {
                events.on()?;
            }
        }
        Ok(())
    }

    pub(super) fn count_sample(&mut self, ops: u64, cpu_ns: u64, gap_ns: u64) {
        let sampled = &mut self.counted.sampled;
        sampled.ops += ops * self.ops_each;
        sampled.cpu_ns += cpu_ns;
        sampled.gaps_ns += gap_ns;
    }

    /// In an open loop: operations of a sample, as many as were due for them, and when it began and ended. Samples follow each other.
    pub(super) fn count_paced(&mut self, operations: u64, (start_ns, end_ns): (u64, u64)) {
        if self.has_rate() {
            let from_ns = *self.paced_from_ns.get_or_insert(start_ns);
            let before = self.counted.paced.map_or(0, |paced| paced.operations);
            let operations = before + operations;
            self.counted.paced = Some(Paced { operations, wall_ns: end_ns - from_ns });
        }
    }

    pub(super) fn count(&mut self, ops: u64, bytes: u64) {
        self.counted.ops += ops * self.ops_each;
        self.counted.received_bytes += bytes;
    }

    /// The same of a batch, and what the mechanism counted of it.
    pub(super) fn count_batch(&mut self, ops: u64, tally: Tally) {
        self.count(ops, tally.bytes);
        if let Some(position) = &mut self.counted.position {
            position.by += tally.came_on;
        }
    }

    /// Messages that were checked before anything is timed have brought the mechanism's own count so far: what one operation does to
    /// it. Nothing is counted where it has not moved.
    pub fn note_step(&mut self, came_on: u64, messages: u64) {
        self.counted.position = (came_on > 0).then(|| CameOn { by: 0, each: came_on / messages.max(1) });
    }

    /// Adds what was counted since counting began, and stops counting until it begins again.
    pub(super) fn pause_counting(&mut self) -> io::Result<()> {
        let Some(Began { thread, events, migrations, coordinator, auxiliary, io }) = self.began.take() else {
            return Ok(());
        };
        if let Some(events) = &self.observed {
            events.off()?;
        }
        self.marker.inspect(|marker| marker.set_open(false));
        let thread = ThreadCounters::read().since(&thread);
        let io = self.io.as_mut().and_then(ThreadIoReader::read).zip(io).map(|(now, then)| now.since(&then));
        let events = self.events.read().since(&events);
        let now = self.coordinator.as_ref().map(TaskSwitches::read).transpose()?;
        let moves = self.migrations.as_ref().and_then(ThreadMigrations::read);
        let auxiliary = self.read_auxiliary()?.zip(auxiliary).map(|(now, then)| now.since(&then));
        let add = |total: &mut Option<u64>, more: Option<u64>| {
            *total = more.map(|more| total.unwrap_or(0) + more);
        };
        let counted = &mut self.counted;
        counted.task += thread;
        counted.io = io.map(|io| counted.io.unwrap_or_default().plus(&io));
        let moved = moves.zip(migrations).map(|(now, then)| now - then).or(events.migrations);
        add(&mut counted.migrations, moved);
        add(&mut counted.cycles, events.cycles);
        add(&mut counted.instructions, events.instructions);
        if let (Some(more), Some(of)) = (auxiliary, &self.auxiliary) {
            counted.beside.get_or_insert((of.name.into(), CountedAuxiliary::default())).1.add(&more);
        }
        add(&mut counted.coordinator_switches, now.zip(coordinator).map(|(now, then)| now - then));
        Ok(())
    }

    /// What the auxiliary process has counted. The role's own counters are not running here: waiting is in neither.
    fn read_auxiliary(&mut self) -> io::Result<Option<ThreadCounters>> {
        if let Some(settle) = self.auxiliary.as_mut().and_then(|auxiliary| auxiliary.settle.as_mut()) {
            settle()?;
        }
        let gone = |error: causeway_os::Error| {
            let why = "the process that takes part in each operation is gone";
            io::Error::new(io::ErrorKind::BrokenPipe, format!("{why}: {error}"))
        };
        self.auxiliary.as_mut().map(|auxiliary| auxiliary.counters.read()).transpose().map_err(gone)
    }

    pub(super) fn end_counting(&mut self) -> io::Result<()> {
        self.pause_counting()?;
        self.counted.whereabouts.push(Whereabouts::now()?);
        self.set_step(Step::Report);
        Ok(())
    }
}
