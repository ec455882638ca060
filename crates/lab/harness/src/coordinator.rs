//! One run: starts the peers, waits without waking, and says what came of it.
//!
//! While the peers measure, the coordinator lies in one `poll` on their process and control descriptors and on the
//! signals that end the program. Its deadline is a timer among them, which the last role that is ready sets to that of the run,
//! so nothing wakes it in a run that goes well.

mod running;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_os::process::{Child, Spawn};
use causeway_os::{sched, socket};
use weighbridge_probe::counters::{EventSwitch, SystemNoise};
use weighbridge_record as record;

use crate::allocator;
use crate::axis::{Idle, Peers};
use crate::calls::{Calls, Watch};
use crate::contract::{EndResources, Facts, Prepared};
use crate::duet::{MAX_PARTIES, turnstile};
use crate::idle::Spinners;
use crate::marks::{Marks, RoleMarks};
use crate::peer::{self, Assignment, RoleReport};
use crate::placement;
use crate::planner::Timing;
use crate::shared::{Sample, Shared};
use crate::{calls, catalogue, host::Host, interrupt::Interrupt};
use running::{Finished, Party, Peer, Running, State};

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
    /// before anything is timed; and by the turns that each role takes on one CPU.
    fn for_case(self, payload_bytes: usize, roles: usize) -> Deadlines {
        // 25 MB/s, which a machine that is not broken reaches under any load.
        const SLOWEST_NS_PER_BYTE: u64 = 40;
        let bytes = (payload_bytes as u64).saturating_mul(roles as u64);
        const TURNS: Duration = Duration::from_millis(50);
        let more = Duration::from_nanos(bytes.saturating_mul(SLOWEST_NS_PER_BYTE)) + TURNS * roles as u32;
        Deadlines { setup: self.setup + more, run: self.run + more, ..self }
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

impl SliceTiming {
    fn place(self, index: usize, parties: usize) -> turnstile::Party {
        let SliceTiming { blocks, slice_ns, seed } = self;
        turnstile::Party { index, parties, blocks, slice_ns, seed }
    }
}

/// What the peers of a case are started from, where that is not the program of the coordinator as it is.
#[derive(Clone, Debug, Default)]
pub struct PeerStart {
    /// Another build of this program, which must speak the same [`peer::PROTOCOL`].
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
    /// From the decision to start until all were ready.
    pub startup_ms: f64,
    /// All of it.
    pub elapsed_ms: f64,
}

/// Starts runs.
#[derive(Debug)]
pub struct Coordinator<'a> {
    host: &'a Host,
    interrupt: &'a Interrupt,
    program: PathBuf,
    paddings: Paddings,
    pinned_to: Vec<u32>,
    deadlines: Deadlines,
}

impl<'a> Coordinator<'a> {
    /// `program` is what peers are started from; it must hand over to [`peer::main`]. `seed` draws the paddings. Takes
    /// away what programs that were killed have left behind.
    pub fn new(host: &'a Host, interrupt: &'a Interrupt, program: PathBuf, seed: u64) -> Coordinator<'a> {
        catalogue::cleanup();
        Coordinator {
            host,
            interrupt,
            program,
            paddings: Paddings(seed | 1),
            pinned_to: Vec::new(),
            deadlines: Deadlines::default(),
        }
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
        self.run_alone(case, start, timing)
    }

    /// What each role calls for an operation, counted by a tracer in a short run whose figure means nothing.
    pub fn count_calls(&mut self, case: &Prepared, start: &PeerStart) -> Counted {
        if case.params.choice::<Peers>() == Peers::Thread {
            return Counted::Threads;
        }
        match self.run_alone(case, &PeerStart { traced: true, ..start.clone() }, TRACED) {
            Outcome::Measured(measured) => {
                Counted::Calls(calls::per_op(case, &measured.roles, &measured.system_calls))
            }
            Outcome::Failed { step, why } => Counted::Failed { step, why },
            Outcome::Interrupted => Counted::Interrupted,
        }
    }

    /// A short run whose roles note what they do with each message; its figure means nothing.
    pub fn run_marked(&mut self, case: &Prepared, start: &PeerStart) -> Outcome {
        self.run_alone(case, &PeerStart { marked: true, ..start.clone() }, MARKED)
    }

    /// The same run without marks, for what the marks cost.
    pub fn run_unmarked(&mut self, case: &Prepared, start: &PeerStart) -> Outcome {
        self.run_alone(case, start, MARKED)
    }

    fn run_alone(&mut self, case: &Prepared, start: &PeerStart, timing: Timing) -> Outcome {
        match self.run_parties(&[(case, start)], timing, None) {
            Finished::Measured(mut measured) => Outcome::Measured(Box::new(measured.remove(0))),
            Finished::Failed { step, why, .. } => Outcome::Failed { step, why },
            Finished::Interrupted => Outcome::Interrupted,
        }
    }

    /// Measures several cases that take turns in slices, once, with fresh peers; see [`crate::duet`]. The result has one
    /// entry for each case, in their order.
    ///
    /// # Panics
    /// If there are fewer than two cases, or more than [`MAX_PARTIES`].
    pub fn run_set(&mut self, cases: &[&Prepared], timing: Timing, slices: SliceTiming) -> SetOutcome {
        let as_it_is = PeerStart::default();
        let cases: Vec<_> = cases.iter().map(|case| (*case, &as_it_is)).collect();
        self.run_set_from(&cases, timing, slices)
    }

    /// [`run_set`](Coordinator::run_set) with peers that are started otherwise, those of each case in its own way.
    ///
    /// # Panics
    /// As [`run_set`](Coordinator::run_set).
    pub fn run_set_from(
        &mut self,
        cases: &[(&Prepared, &PeerStart)],
        timing: Timing,
        slices: SliceTiming,
    ) -> SetOutcome {
        assert!((2..=MAX_PARTIES).contains(&cases.len()), "a set of {} parties", cases.len());
        match self.run_parties(cases, timing, Some(slices)) {
            Finished::Measured(measured) => SetOutcome::Measured(measured),
            Finished::Failed { party, step, why } => SetOutcome::Failed { party, step, why },
            Finished::Interrupted => SetOutcome::Interrupted,
        }
    }

    fn run_parties(
        &mut self,
        cases: &[(&Prepared, &PeerStart)],
        timing: Timing,
        slices: Option<SliceTiming>,
    ) -> Finished {
        let began = Instant::now();
        match self.start(cases, timing, slices) {
            Ok(running) => running.finish(self.interrupt, began),
            Err((party, error)) => Finished::Failed { party, step: "plan".into(), why: error.to_string() },
        }
    }

    fn start(
        &mut self,
        cases: &[(&Prepared, &PeerStart)],
        timing: Timing,
        slices: Option<SliceTiming>,
    ) -> Result<Running, (usize, io::Error)> {
        let of_all = |error: io::Error| (0, error);
        let cpus: Vec<u32> = cases.iter().flat_map(|(case, _)| &case.params.cpus).copied().collect();
        self.stay_off(&cpus).map_err(of_all)?;
        let spinners = Spinners::start(&self.program, &self.cpus_to_keep_busy(cases)).map_err(of_all)?;
        let noise = SystemNoise::read();
        let turnstile = match slices {
            Some(slices) => Some((turnstile::create(slices.blocks).map_err(of_all)?, slices)),
            None => None,
        };
        let largest = cases.iter().map(|(case, _)| case.params.payload_bytes).max().unwrap_or(0);
        let roles = cases.iter().map(|(case, _)| case.role_names().len()).sum();
        let deadlines = self.deadlines.for_case(largest, roles);
        let mut running =
            Running { peers: Vec::new(), parties: Vec::new(), spinners, noise, grace: deadlines.grace };
        for (party, case) in cases.iter().enumerate() {
            let place = turnstile.as_ref().map(|(fd, slices)| (fd, slices.place(party, cases.len())));
            self.start_party(*case, timing, deadlines, place, &mut running)
                .map_err(|error| (party, error))?;
        }
        Ok(running)
    }

    fn start_party(
        &mut self,
        (case, start): (&Prepared, &PeerStart),
        timing: Timing,
        deadlines: Deadlines,
        place: Option<(&OwnedFd, turnstile::Party)>,
        running: &mut Running,
    ) -> io::Result<()> {
        let shared = Arc::new(Shared::create()?);
        shared.set_run_deadline(deadlines.run + Duration::from_nanos(timing.run_ns * 4));
        shared.deadline().set(deadlines.setup)?;
        let mut resources_by_role = (case.target.create)(self.host, &case.params)?;
        let guards = resources_by_role.iter_mut().filter_map(|resources| resources.guard.take()).collect();
        let role_names = case.role_names();
        if resources_by_role.is_empty() {
            resources_by_role.resize_with(role_names.len(), EndResources::default);
        }
        assert_eq!(
            resources_by_role.len(),
            role_names.len(),
            "a target creates something for every role, or for none"
        );
        let processes: Vec<Vec<(usize, EndResources)>> = match case.params.choice() {
            Peers::Thread => vec![resources_by_role.into_iter().enumerate().collect()],
            Peers::Process => resources_by_role.into_iter().enumerate().map(|role| vec![role]).collect(),
        };
        let (party, role_count) = (running.parties.len(), role_names.len());
        // The guards are held from here on, whatever fails.
        let marks = start.marked.then(|| Marks::create(role_count)).transpose()?;
        running.parties.push(Party { shared, marks, role_names, guards });
        for roles in processes {
            let memory = (&running.parties[party].shared, running.parties[party].marks.as_ref());
            let peer = self.start_peer((case, start), timing, place, memory, roles, role_count)?;
            running.peers.push(Peer { party, ..peer });
        }
        Ok(())
    }

    fn start_peer(
        &mut self,
        (case, start): (&Prepared, &PeerStart),
        timing: Timing,
        place: Option<(&OwnedFd, turnstile::Party)>,
        (shared, marks): (&Arc<Shared>, Option<&Marks>),
        roles: Vec<(usize, EndResources)>,
        role_count: usize,
    ) -> io::Result<Peer> {
        let (control, theirs) = socket::seqpacket_pair()?;
        let parent = std::process::id();
        let spawn = Spawn::new(start.program.as_ref().unwrap_or(&self.program))
            .arg(peer::ARGUMENT)
            .arg(parent.to_string())
            .env("WEIGHBRIDGE_PADDING", self.paddings.next())
            .fd(theirs);
        let spawn = start.environment.iter().fold(spawn, |spawn, (name, value)| spawn.env(name, value));
        // The linker takes a list.
        let preloaded: Vec<OsString> = start
            .preload
            .iter()
            .map(|library| library.clone().into())
            .chain(allocator::library(&case.params).map(OsString::from))
            .collect();
        let spawn = match preloaded.is_empty() {
            true => spawn,
            false => spawn.env(allocator::PRELOAD, preloaded.join(OsStr::new(":"))),
        };
        let child = Child::spawn(spawn)?;
        if let Some(cgroup) = &start.cgroup {
            let processes = cgroup.join("cgroup.procs");
            std::fs::write(&processes, child.pid().to_string()).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("no process can be moved to {}: {error}", processes.display()),
                )
            })?;
        }
        // Before it knows what it is to do, so that no call is missed.
        let watch = start.traced.then(|| Watch::begin(child.pid(), roles[0].0, shared)).transpose()?;
        let assignment = Assignment {
            case: case.params.id.clone(),
            cpus: case.params.cpus.clone(),
            allowed_cpus: self.host.measured_cpus.clone(),
            coordinator: parent,
            role_count,
            roles: roles
                .iter()
                .map(|(role, resources)| (*role, resources.fds.len(), resources.words.clone()))
                .collect(),
            timing,
            party: place.map(|(_, party)| party),
            events: start.events.as_ref().map(|events| events.fds().len()),
            is_marked: marks.is_some(),
        };
        let (indices, resources_by_role): (Vec<usize>, Vec<EndResources>) = roles.into_iter().unzip();
        let turnstile = place.map(|(fd, _)| fd.as_fd());
        let of_run = peer::OfRun { shared, marks, turnstile, events: start.events.as_ref() };
        peer::send_assignment(control.as_fd(), assignment, of_run, &resources_by_role)?;
        // From here on only the peer holds its ends, so that its death is seen at the other end.
        drop(resources_by_role);
        Ok(Peer { child, control, party: 0, roles: indices, state: State::Working, watch })
    }

    /// The CPUs that run a spinner while no role runs on them.
    fn cpus_to_keep_busy(&self, cases: &[(&Prepared, &PeerStart)]) -> Vec<u32> {
        let is_busy = |case: &Prepared| case.params.choice_if_declared() == Some(Idle::Busy);
        let of_case = |case: &Prepared| match &case.params.cpus[..] {
            [] => self.host.measured_cpus.clone(),
            cpus => cpus.to_vec(),
        };
        let busy = cases.iter().filter(|(case, _)| is_busy(case));
        let mut cpus: Vec<u32> = busy.flat_map(|(case, _)| of_case(case)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Moves this process off the measured CPUs, where there are others.
    fn stay_off(&mut self, measured: &[u32]) -> io::Result<()> {
        let cpus = placement::coordinator_cpus(self.host, measured);
        if cpus != self.pinned_to && self.host.pin_refused.is_none() {
            sched::pin(&cpus)?;
            self.pinned_to = cpus;
        }
        Ok(())
    }
}

/// Random lengths of an environment variable: the layout of a process becomes variance instead of bias (Mytkowicz et
/// al., "Producing Wrong Data Without Doing Anything Obviously Wrong!", 2009).
#[derive(Debug)]
struct Paddings(u64);

impl Paddings {
    fn next(&mut self) -> String {
        // xorshift64 (Marsaglia, 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        "x".repeat((self.0 % 4096) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_payload_and_many_roles_have_more_time_and_a_small_payload_has_not() {
        let usual = Deadlines::default();
        assert!(usual.for_case(4096, 2).setup < usual.setup + Duration::from_millis(101));
        let large = usual.for_case(1 << 30, 2);
        assert!(large.setup > usual.setup + Duration::from_secs(60), "{large:?}");
        assert!(large.run > usual.run + Duration::from_secs(60), "{large:?}");
        assert!(usual.for_case(1, 512).run > usual.run + Duration::from_secs(20));
        assert_eq!(large.grace, usual.grace, "a peer that is dead is dead");
        let _ = usual.for_case(usize::MAX, 2);
    }
}
