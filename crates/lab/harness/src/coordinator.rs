//! One run: starts the peers, waits without waking, and says what came of it.
//!
//! While the peers measure, the coordinator lies in one `poll` on their process and control descriptors and on the
//! signals that end the program. Its deadline is a timer among them, which the last role that is ready sets to that of the run,
//! so nothing wakes it in a run that goes well. Where somebody asks to see a run while it goes on, it wakes up once a second.

mod live;
mod running;
mod starting;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weighbridge_probe::counters::{EventSwitch, Msr, SystemNoise};
use weighbridge_record as record;

use crate::axis::Peers;
use crate::calls::{self, Calls};
use crate::catalogue;
use crate::contract::{Facts, Prepared};
use crate::ctx::{OPERATIONS, rate};
use crate::duet::MAX_PARTIES;
use crate::host::Host;
use crate::idle::AllEnded;
use crate::interrupt::Interrupt;
use crate::marks::RoleMarks;
use crate::peer::RoleReport;
use crate::planner::Timing;
use crate::shared::Sample;
use live::Looks;
pub use live::{Live, Watcher};
use starting::NotStarted;

/// How long the coordinator waits before it calls a run a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the start of the peers until all of them are ready.
    pub setup: Duration,
    /// From there to the end, beyond what the samples of the run are meant to take.
    pub run: Duration,
    /// From the first failure until the cause of it is looked at: a peer that dies takes the other one with it.
    pub grace: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            setup: Duration::from_secs(10),
            run: Duration::from_secs(20),
            grace: Duration::from_millis(100),
        }
    }
}

impl Deadlines {
    /// Longer by the time that a payload takes when everything is slow, as each role touches, checks and moves all of it
    /// before anything is timed; by the turns that each role takes on one CPU; and by the time until operations are due at a rate.
    fn for_case(self, payload_bytes: usize, roles: usize, rate: Option<f64>) -> Deadlines {
        // 25 MB/s, which a machine that is not broken reaches under any load.
        const SLOWEST_NS_PER_BYTE: u64 = 40;
        let bytes = (payload_bytes as u64).saturating_mul(roles as u64);
        const TURNS: Duration = Duration::from_millis(50);
        let more = Duration::from_nanos(bytes.saturating_mul(SLOWEST_NS_PER_BYTE)) + TURNS * roles as u32;
        let due = Duration::from_secs_f64(rate.map_or(0.0, |per_s| OPERATIONS / per_s));
        Deadlines { setup: self.setup + more, run: self.run + more + due, ..self }
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// The run was measured.
    Measured(Box<Measured>),
    /// The run ended without a figure.
    Failed {
        /// The step in which it ended: the name of a [`Step`](crate::shared::Step), or `plan`.
        step: String,
        /// The reason, in one sentence.
        why: String,
    },
    /// By the user.
    Interrupted,
}

/// How a set ended.
#[derive(Debug)]
pub enum SetOutcome {
    /// With numbers of every case.
    Measured(Vec<Measured>),
    /// Without.
    Failed {
        /// Index of the case that failed.
        party: usize,
        /// Where: the name of a [`Step`](crate::shared::Step), or `plan`.
        step: String,
        /// Why.
        why: String,
    },
    /// By the user.
    Interrupted,
}

/// What came of counting system calls.
#[derive(Debug)]
pub enum Counted {
    /// The calls per operation.
    Calls(record::SystemCalls),
    /// The roles are threads of one process, whose calls are not told apart.
    Threads,
    /// The run failed, or tracing is refused.
    Failed {
        /// Where: the name of a [`Step`](crate::shared::Step), or `plan`.
        step: String,
        /// Why.
        why: String,
    },
    /// By the user.
    Interrupted,
}

/// Number, length and order of the slices of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceTiming {
    /// Slices of each case, at most.
    pub blocks: usize,
    /// Wanted length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// Seed of the order in which the cases take turns.
    pub seed: u64,
}

/// What the peers of a case are started from, where that is not the program of the coordinator as it is.
#[derive(Clone, Debug, Default)]
pub struct PeerStart {
    /// Another build of this program, which must speak the same [`PROTOCOL`](crate::peer::PROTOCOL).
    pub program: Option<PathBuf>,
    /// Variables added to the environment, or set in it.
    pub environment: Vec<(String, String)>,
    /// A library that the dynamic linker loads in front of all others.
    pub preload: Option<PathBuf>,
    /// The control group (a folder of cgroupfs) into which the peers are moved before they begin.
    pub cgroup: Option<PathBuf>,
    /// Whether a tracer counts their system calls.
    pub traced: bool,
    /// Events of an observer that count in the timed part only: the leading role starts and stops them.
    pub events: Option<EventSwitch>,
    /// Whether their roles note what they do with each message; see [`crate::marks`].
    pub marked: bool,
}

/// The samples of a run whose system calls are counted: some hundred operations of what takes a tracer 0.1 ms each.
const TRACED: Timing = Timing { sample_ns: 2_000_000, samples: 8, least_samples: 2, run_ns: 16_000_000 };

/// The samples of a marked run: some hundred operations of 0.2 ms, more than the marks that are kept of shorter ones.
const MARKED: Timing = Timing { sample_ns: 5_000_000, samples: 12, least_samples: 2, run_ns: 60_000_000 };

/// Everything a run gave.
#[derive(Debug)]
pub struct Measured {
    /// The timed batches.
    pub samples: Vec<Sample>,
    /// Counts of each role, in the order of roles.
    pub roles: Vec<RoleReport>,
    /// Settings read back, of all roles.
    pub facts: Facts,
    /// System calls of each role, where they were counted; the times are then those of the tracer.
    pub system_calls: BTreeMap<usize, Calls>,
    /// What each role noted, where the run was a marked one; the times of the samples are then those with the marks.
    pub marks: Vec<RoleMarks>,
    /// Stolen time and interrupts of the whole machine meanwhile.
    pub noise: SystemNoise,
    /// Frequency of each measured CPU, where the kernel tells it.
    pub frequencies: Vec<record::CpuFrequency>,
    /// From the decision to start until all were ready.
    pub startup_ms: f64,
    /// All of it.
    pub elapsed_ms: f64,
}

impl Measured {
    /// Name of the auxiliary process, such as a broker, and its CPU time per operation as the kernel counts it.
    pub fn beside_ns(&self) -> Option<(&str, f64)> {
        let counted = self.roles.iter().map(|report| &report.counted).filter(|counted| counted.ops > 0);
        let of = counted.filter_map(|counted| Some((counted.beside.as_ref()?, counted.ops))).next();
        of.map(|((name, beside), ops)| (name.as_str(), beside.cpu_ns as f64 / ops as f64))
    }
}

/// Starts runs.
#[derive(Debug)]
pub struct Coordinator<'a> {
    host: &'a Host,
    interrupt: &'a Interrupt,
    program: PathBuf,
    /// Lengths of an environment variable, see `starting`.
    paddings: fastrand::Rng,
    pinned_to: Vec<u32>,
    /// Counters of frequencies, where there are any.
    msr: Option<Msr>,
    /// What was started for `idle=busy` is gone when this is.
    _all_ended: AllEnded,
    deadlines: Deadlines,
    /// Who is shown a run while it goes on.
    watcher: Option<Watcher>,
}

impl<'a> Coordinator<'a> {
    /// `program` is what peers are started from; it must hand over to [`peer::main`](crate::peer::main). `seed` draws the paddings. Takes
    /// away what programs that were killed have left behind.
    pub fn new(host: &'a Host, interrupt: &'a Interrupt, program: PathBuf, seed: u64) -> Coordinator<'a> {
        catalogue::cleanup();
        Coordinator {
            host,
            interrupt,
            program,
            paddings: fastrand::Rng::with_seed(seed),
            pinned_to: Vec::new(),
            msr: Msr::find().ok(),
            _all_ended: AllEnded,
            deadlines: Deadlines::default(),
            watcher: None,
        }
    }

    /// Shows each run while it goes on, once a second, which wakes this process while something is timed.
    pub fn watched(self, watcher: Watcher) -> Coordinator<'a> {
        Coordinator { watcher: Some(watcher), ..self }
    }

    /// The machine that it measures on.
    pub fn host(&self) -> &'a Host {
        self.host
    }

    /// With other deadlines than the default ones.
    pub fn with_deadlines(self, deadlines: Deadlines) -> Coordinator<'a> {
        Coordinator { deadlines, ..self }
    }

    /// Measures a case once, with fresh peers. Nothing of the run is left when this returns.
    pub fn run(&mut self, case: &Prepared, timing: Timing) -> Outcome {
        self.run_from(case, &PeerStart::default(), timing)
    }

    /// [`run`](Coordinator::run) with peers that are started otherwise.
    pub fn run_from(&mut self, case: &Prepared, start: &PeerStart, timing: Timing) -> Outcome {
        match self.run_parties(&[(case, start)], timing, None) {
            SetOutcome::Measured(mut measured) => Outcome::Measured(Box::new(measured.remove(0))),
            SetOutcome::Failed { step, why, .. } => Outcome::Failed { step, why },
            SetOutcome::Interrupted => Outcome::Interrupted,
        }
    }

    /// What each role calls for an operation, counted by a tracer in a short run whose figure means nothing.
    pub fn count_calls(&mut self, case: &Prepared, start: &PeerStart) -> Counted {
        if case.params.choice::<Peers>() == Peers::Thread {
            return Counted::Threads;
        }
        match self.run_from(case, &PeerStart { traced: true, ..start.clone() }, TRACED) {
            Outcome::Measured(measured) => {
                Counted::Calls(calls::per_op(case, &measured.roles, &measured.system_calls))
            }
            Outcome::Failed { step, why } => Counted::Failed { step, why },
            Outcome::Interrupted => Counted::Interrupted,
        }
    }

    /// A short run whose roles note what they do with each message; its figure means nothing.
    pub fn run_marked(&mut self, case: &Prepared, start: &PeerStart) -> Outcome {
        self.run_from(case, &PeerStart { marked: true, ..start.clone() }, MARKED)
    }

    /// The same run without marks, for what the marks cost.
    pub fn run_unmarked(&mut self, case: &Prepared, start: &PeerStart) -> Outcome {
        self.run_from(case, start, MARKED)
    }

    /// Measures several cases that take turns in slices, once, with fresh peers; see [`crate::duet`]. The result has one
    /// entry for each case, in their order.
    pub fn run_set(&mut self, cases: &[&Prepared], timing: Timing, slices: SliceTiming) -> SetOutcome {
        let as_it_is = PeerStart::default();
        let cases: Vec<_> = cases.iter().map(|case| (*case, &as_it_is)).collect();
        self.run_set_from(&cases, timing, slices)
    }

    /// [`run_set`](Coordinator::run_set) with peers that are started otherwise, those of each case in its own way.
    pub fn run_set_from(
        &mut self,
        cases: &[(&Prepared, &PeerStart)],
        timing: Timing,
        slices: SliceTiming,
    ) -> SetOutcome {
        assert!((2..=MAX_PARTIES).contains(&cases.len()), "a set of {} parties", cases.len());
        self.run_parties(cases, timing, Some(slices))
    }

    fn run_parties(
        &mut self,
        cases: &[(&Prepared, &PeerStart)],
        timing: Timing,
        slices: Option<SliceTiming>,
    ) -> SetOutcome {
        let began = Instant::now();
        match self.start(cases, timing, slices) {
            Ok(running) => {
                let params = &cases[0].0.params;
                let looks = |watcher| Looks::new(watcher, params.id.clone(), began, rate(params).is_some());
                running.finish(self.interrupt, began, self.watcher.map(looks))
            }
            Err(NotStarted { party, error }) => {
                SetOutcome::Failed { party, step: "plan".into(), why: error.to_string() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations that are due seldom are slow, and no sign that nothing goes on.
    #[test]
    fn a_low_rate_has_the_time_until_its_operations_are_due() {
        let usual = Deadlines::default();
        let more = |rate: f64| {
            (usual.for_case(64, 2, Some(rate)).run - usual.for_case(64, 2, None).run).as_secs_f64()
        };
        assert!((more(20.0) - 20.0).abs() < 1e-9 && more(100_000.0) < 0.1, "{} {}", more(20.0), more(1e5));
    }

    #[test]
    fn a_large_payload_and_many_roles_have_more_time_and_a_small_payload_has_not() {
        let usual = Deadlines::default();
        for (bytes, roles, least, most) in [(4096, 2, 0, 1), (1 << 30, 2, 60, 100), (1, 512, 20, 30)] {
            let of = usual.for_case(bytes, roles, None);
            for more in [of.setup - usual.setup, of.run - usual.run] {
                assert!((least..most).contains(&more.as_secs()), "{bytes} bytes, {roles} roles: {of:?}");
            }
            assert_eq!(of.grace, usual.grace, "a peer that is dead is dead");
        }
        let _ = usual.for_case(usize::MAX, 2, None);
    }
}
