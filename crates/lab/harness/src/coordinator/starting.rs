//! The start of a run: turnstile and spinners, then the parties, then a process for each role or for all roles of a party.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_os::process::{Child, Spawn};
use causeway_os::{sched, socket};
use weighbridge_probe::counters::{Meter, SystemNoise};

use super::running::{Party, Peer, Running, State};
use super::{Coordinator, Deadlines, PeerStart, SliceTiming};
use crate::axis::{Idle, Peers};
use crate::calls::Watch;
use crate::contract::{EndResources, Prepared};
use crate::ctx::rate;
use crate::duet::turnstile;
use crate::idle::Spinners;
use crate::marks::Marks;
use crate::params::CaseParams;
use crate::pattern::transfer;
use crate::peer::{self, Assignment};
use crate::planner::Timing;
use crate::shared::Shared;
use crate::{allocator, placement};

/// The longest variable that pads the environment of a peer.
const MOST_PADDING: usize = 4096;

struct PartyStart<'s> {
    case: &'s Prepared,
    start: &'s PeerStart,
    timing: Timing,
    /// Its place among those that take turns.
    turns: Option<(&'s OwnedFd, turnstile::Party)>,
}

pub(super) struct NotStarted {
    pub(super) party: usize,
    pub(super) error: io::Error,
}

impl From<io::Error> for NotStarted {
    /// What holds for all parties is said of the first.
    fn from(error: io::Error) -> NotStarted {
        NotStarted { party: 0, error }
    }
}

impl Coordinator<'_> {
    /// Starts the peers of all parties, which take turns where there are `slices`.
    pub(super) fn start(
        &mut self,
        cases: &[(&Prepared, &PeerStart)],
        timing: Timing,
        slices: Option<SliceTiming>,
    ) -> Result<Running, NotStarted> {
        let cpus: Vec<u32> = cases.iter().flat_map(|(case, _)| &case.params.cpus).copied().collect();
        self.stay_off(&cpus)?;
        let spinners = Spinners::start(&self.program, &self.cpus_to_keep_busy(cases))?;
        let noise = SystemNoise::read();
        let turnstile = slices.map(|slices| turnstile::create(slices.blocks)).transpose()?;
        let bytes = |params: &CaseParams| {
            transfer::bytes(params)
                .map_or(params.payload_bytes, |bytes| bytes.max(params.payload_bytes as u64) as usize)
        };
        let largest = cases.iter().map(|(case, _)| bytes(&case.params)).max().unwrap_or(0);
        let roles = cases.iter().map(|(case, _)| case.role_names().len()).sum();
        let slowest = cases.iter().filter_map(|(case, _)| rate(&case.params)).reduce(f64::min);
        let deadlines = self.deadlines.for_case(largest, roles, slowest);
        let grace = deadlines.grace;
        let meter = Meter::begin(&cpus.into_iter().collect(), self.msr);
        let mut running = Running { peers: Vec::new(), parties: Vec::new(), spinners, noise, meter, grace };
        for (index, (case, start)) in cases.iter().enumerate() {
            let place = |SliceTiming { blocks, slice_ns, seed }| turnstile::Party {
                index,
                parties: cases.len(),
                blocks,
                slice_ns,
                seed,
            };
            let turns = turnstile.as_ref().zip(slices.map(place));
            self.start_party(&PartyStart { case, start, timing, turns }, deadlines, &mut running)
                .map_err(|error| NotStarted { party: index, error })?;
        }
        Ok(running)
    }

    fn start_party(
        &mut self,
        of: &PartyStart<'_>,
        deadlines: Deadlines,
        running: &mut Running,
    ) -> io::Result<()> {
        let shared = Arc::new(Shared::create()?);
        shared.set_run_deadline(deadlines.run + Duration::from_nanos(of.timing.run_ns * 4));
        shared.deadline().set(deadlines.setup)?;
        let mut resources_by_role = (of.case.target.create)(self.host, &of.case.params)?;
        let guards = resources_by_role.iter_mut().filter_map(|resources| resources.guard.take()).collect();
        let role_names = of.case.role_names();
        if resources_by_role.is_empty() {
            resources_by_role.resize_with(role_names.len(), EndResources::default);
        }
        let (created, wanted) = (resources_by_role.len(), role_names.len());
        assert_eq!(created, wanted, "a target creates something for every role, or for none");
        let roles = resources_by_role.into_iter().enumerate();
        let processes: Vec<Vec<(usize, EndResources)>> = match of.case.params.choice() {
            Peers::Thread => vec![roles.collect()],
            Peers::Process => roles.map(|role| vec![role]).collect(),
        };
        let marks = of.start.marked.then(|| Marks::create(role_names.len())).transpose()?;
        let index = running.parties.len();
        // The guards are held from here on, whatever fails.
        running.parties.push(Party { shared, marks, role_names, guards });
        for roles in processes {
            let peer = self.start_peer(of, &running.parties[index], roles)?;
            running.peers.push(Peer { party: index, ..peer });
        }
        Ok(())
    }

    fn start_peer(
        &mut self,
        of: &PartyStart<'_>,
        party: &Party,
        roles: Vec<(usize, EndResources)>,
    ) -> io::Result<Peer> {
        let (control, theirs) = socket::seqpacket_pair()?;
        let child = self.spawn(of, &roles, theirs)?;
        if let Some(cgroup) = &of.start.cgroup {
            move_to(cgroup, &child)?;
        }
        // Before it knows what it is to do, so that no call is missed.
        let watch =
            of.start.traced.then(|| Watch::begin(child.pid(), roles[0].0, &party.shared)).transpose()?;
        let events = of.start.events.as_ref();
        let sizes =
            |(role, resources): &(usize, EndResources)| (*role, resources.fds.len(), resources.words.clone());
        let assignment = Assignment {
            case: of.case.params.id.clone(),
            cpus: of.case.params.cpus.clone(),
            allowed_cpus: self.host.measured_cpus.clone(),
            coordinator: self.watcher.is_none().then(std::process::id),
            role_count: party.role_names.len(),
            roles: roles.iter().map(sizes).collect(),
            timing: of.timing,
            party: of.turns.map(|(_, party)| party),
            events: events.map(|events| events.fds().len()),
            is_marked: party.marks.is_some(),
        };
        let (indices, resources_by_role): (Vec<usize>, Vec<EndResources>) = roles.into_iter().unzip();
        let turnstile = of.turns.map(|(turnstile, _)| turnstile.as_fd());
        let of_run = peer::OfRun { shared: &party.shared, marks: party.marks.as_ref(), turnstile, events };
        peer::send_assignment(control.as_fd(), assignment, of_run, &resources_by_role)?;
        // From here on only the peer holds its ends, so that its death is seen at the other end.
        drop(resources_by_role);
        Ok(Peer { child, control, party: 0, roles: indices, state: State::Working, watch })
    }

    /// A fresh process. Its environment is padded by a random length: the layout of a process becomes variance instead of bias (Mytkowicz
    /// et al., "Producing Wrong Data Without Doing Anything Obviously Wrong!", 2009).
    fn spawn(
        &mut self,
        of: &PartyStart<'_>,
        roles: &[(usize, EndResources)],
        control: OwnedFd,
    ) -> io::Result<Child> {
        let mut spawn = Spawn::new(of.start.program.as_ref().unwrap_or(&self.program))
            .arg(peer::ARGUMENT)
            .arg(std::process::id().to_string())
            .env("WEIGHBRIDGE_PADDING", "x".repeat(self.paddings.usize(..MOST_PADDING)))
            .fd(control);
        for (name, value) in of.case.target.environment {
            spawn = spawn.env(name, value);
        }
        for (name, value) in roles.iter().flat_map(|(_, resources)| &resources.environment) {
            spawn = spawn.env(name, value);
        }
        for (name, value) in &of.start.environment {
            spawn = spawn.env(name, value);
        }
        // The linker takes a list.
        let preloaded = of.start.preload.iter().cloned().chain(allocator::library(&of.case.params));
        let preloaded: Vec<OsString> = preloaded.map(OsString::from).collect();
        if !preloaded.is_empty() {
            spawn = spawn.env(allocator::PRELOAD, preloaded.join(OsStr::new(":")));
        }
        Ok(Child::spawn(spawn)?)
    }

    /// The CPUs that run a spinner while no role runs on them.
    fn cpus_to_keep_busy(&self, cases: &[(&Prepared, &PeerStart)]) -> BTreeSet<u32> {
        let is_busy = |case: &&Prepared| case.params.choice_if_declared() == Some(Idle::Busy);
        let busy = cases.iter().map(|(case, _)| *case).filter(is_busy);
        busy.flat_map(|case| self.host.cpus_of(&case.params)).collect()
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

fn move_to(cgroup: &Path, child: &Child) -> io::Result<()> {
    let processes = cgroup.join("cgroup.procs");
    std::fs::write(&processes, child.pid().to_string()).map_err(|error| {
        let why = format!("no process can be moved to {}: {error}", processes.display());
        io::Error::new(error.kind(), why)
    })
}
