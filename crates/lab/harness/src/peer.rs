//! A peer: one fresh process of this program that plays one role, or all of them as threads.
//!
//! Its life: hello → pin → attach → prefault → verify → ready → calibrate → batches → report → exit. Each step is noted in
//! shared memory, so that the coordinator can say where a peer died. It talks to the coordinator twice: it receives an
//! `Assignment`, and it sends a `Report`.

use std::any::Any;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;

use causeway_os::{process, sched};
use serde::{Deserialize, Serialize};
use weighbridge_probe::counters::{EventSwitch, TaskSwitches};
use weighbridge_record::CaseId;

use crate::axis::{self, Axis, NICE, SCHED};
use crate::catalogue;
use crate::contract::{EndResources, Facts, Target};
use crate::control;
use crate::ctx::{Counted, Ctx};
use crate::duet::turnstile::{Party, Turnstile};
use crate::idle;
use crate::marks::Marks;
use crate::params::CaseParams;
use crate::planner::Timing;
use crate::shared::{Shared, Step};

/// The first argument that makes this program a peer.
pub const ARGUMENT: &str = "__peer";

/// The version of what coordinator and peers of one run agree on: `Assignment`, `Report`, the descriptors that go with them,
/// the memory that they share (`shared`, `turnstile`, `marks`), what the roles of a mechanism are handed.
/// A change to any of them raises it, so that peers of another build of this program are only started where they agree.
pub const PROTOCOL: u32 = 10;

/// What a process that was started as a peer is there for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// To play roles.
    Play(Box<Assignment>),
    /// To keep a CPU busy while no role runs on it; see [`idle`].
    Spin { cpu: u32 },
}

/// What a peer is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) case: CaseId,
    /// CPU of every role; empty when not pinned.
    pub(crate) cpus: Vec<u32>,
    /// Where an unpinned role may run.
    pub(crate) allowed_cpus: Vec<u32>,
    /// Process id of the coordinator, where it must not wake up in the timed part.
    pub(crate) coordinator: Option<u32>,
    /// Number of roles of the case.
    pub(crate) role_count: usize,
    /// Roles that this process plays, and what each was handed: number of descriptors, and words.
    pub(crate) roles: Vec<(usize, usize, Vec<u64>)>,
    pub(crate) timing: Timing,
    /// Its place in a set whose parties take turns.
    pub(crate) party: Option<Party>,
    /// Number of events that the leading role starts and stops, where the run is observed.
    pub(crate) events: Option<usize>,
    /// Whether the roles note what they do with each message; see [`crate::marks`].
    pub(crate) is_marked: bool,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Each role's counts.
    Done(Vec<RoleReport>),
    /// What failed, in the words of the error; as a consequence where a partner was gone: then something else failed first.
    Failed { role: usize, why: String, is_consequence: bool },
}

impl Report {
    fn failed(role: usize, error: &io::Error) -> Report {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
        let is_consequence =
            matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset | UnexpectedEof);
        Report::Failed { role, why: error.to_string(), is_consequence }
    }
}

/// What one role counted.
#[derive(Debug, Serialize, Deserialize)]
pub struct RoleReport {
    /// Which role.
    pub role: usize,
    /// Id of the process that plays it.
    pub process: u32,
    /// What the role counted.
    pub counted: Counted,
    /// Settings read back.
    pub facts: Facts,
    /// Was its process stopped for a while, and went on?
    pub was_stopped: bool,
    /// What an observer must know of it, where the run is observed.
    pub observed: Option<ObservedRole>,
}

/// What an observer must know of a role.
#[derive(Debug, Serialize, Deserialize)]
pub struct ObservedRole {
    /// Did this role start and stop the events?
    pub leads: bool,
    /// The memory map of its process, as in `/proc/PID/maps`.
    pub memory_map: String,
    /// The auxiliary process, in the role that counts it.
    pub beside: Option<ObservedAuxiliary>,
}

/// What an observer must know of an auxiliary process.
#[derive(Debug, Serialize, Deserialize)]
pub struct ObservedAuxiliary {
    /// What it is called.
    pub name: String,
    /// Its id.
    pub process: u32,
    /// Its memory map; empty where it is of another user.
    pub memory_map: String,
    /// The CPUs that it may run on.
    pub cpus: Vec<u32>,
}

/// What all peers of a run get: the memory that they share; in a marked run where they note what they do with each message; of a set
/// whose parties take turns the turnstile; in an observed run what the leading role starts and stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfRun<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) marks: Option<&'a Marks>,
    pub(crate) turnstile: Option<BorrowedFd<'a>>,
    pub(crate) events: Option<&'a EventSwitch>,
}

/// Sends an assignment and the descriptors that go with it.
pub(crate) fn send_assignment(
    control: BorrowedFd<'_>,
    assignment: Assignment,
    of_run: OfRun<'_>,
    resources_by_role: &[EndResources],
) -> io::Result<()> {
    let OfRun { shared, marks, turnstile, events } = of_run;
    let of_roles = resources_by_role.iter().flat_map(|resources| &resources.fds).map(AsFd::as_fd);
    let events = events.into_iter().flat_map(EventSwitch::fds);
    let fds = shared.fds().into_iter().chain(marks.map(Marks::fd)).chain(turnstile).chain(events);
    let fds: Vec<_> = fds.chain(of_roles).collect();
    control::send(control, &Order::Play(Box::new(assignment)), &fds)
}

/// The whole program when it is started as a peer. `parent` is the coordinator's process id, `control` its socket.
pub fn main(parent: u32, control: OwnedFd) -> ExitCode {
    let report = match process::die_with(parent) {
        Ok(()) => obey(control.as_fd()),
        Err(error) => Report::failed(0, &error.into()),
    };
    match control::send(control.as_fd(), &report, &[]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn obey(control: BorrowedFd<'_>) -> Report {
    let gone = || io::Error::other("the coordinator is gone");
    let done = match control::receive(control).and_then(|order| order.ok_or_else(gone)) {
        Ok(Order::Play(assignment)) => play(control, *assignment),
        Ok(Order::Spin { cpu }) => idle::spin(cpu, control).map(|never| match never {}),
        Err(error) => Err(error),
    };
    done.unwrap_or_else(|error| Report::failed(0, &error))
}

fn play(control: BorrowedFd<'_>, assignment: Assignment) -> io::Result<Report> {
    // Blocked, the signal that ends a stop waits until somebody looks, and no call returns because of it.
    let continued = process::block_signals(&[libc::SIGCONT])?;
    let (memory, resources_by_role) = receive_memory(control, &assignment)?;
    // The coordinator has checked the case, but may be another build of this program.
    let (target, _, mut params) = catalogue::resolve(&assignment.case).map_err(|why| {
        io::Error::other(format!("this build of the program has no case {}: {why}", assignment.case))
    })?;
    params.cpus.clone_from(&assignment.cpus);
    let roles: Vec<_> = assignment.roles.iter().map(|(role, ..)| *role).zip(resources_by_role).collect();
    let play = move |(role, resources): (usize, EndResources)| {
        play_role(role, resources, target, &params, &assignment, &memory)
            .map_err(|error| Report::failed(role, &error))
    };
    let mut reports = match play_all(roles, play) {
        Ok(reports) => reports,
        Err(failed) => return Ok(failed),
    };
    let was_stopped = process::read_signal(&continued)?.is_some();
    reports.iter_mut().for_each(|report| report.was_stopped = was_stopped);
    Ok(Report::Done(reports))
}

/// Plays the roles, in threads where there are several. The first failure is told at once: the other roles may wait for
/// the one that failed, and end with this process.
fn play_all(
    mut roles: Vec<(usize, EndResources)>,
    play: impl Fn((usize, EndResources)) -> Result<RoleReport, Report> + Send + Sync + 'static,
) -> Result<Vec<RoleReport>, Report> {
    let play = move |role: (usize, EndResources)| {
        let index = role.0;
        panic::catch_unwind(AssertUnwindSafe(|| play(role)))
            .unwrap_or_else(|panic| Err(Report::failed(index, &io::Error::other(words_of(&*panic)))))
    };
    if roles.len() == 1 {
        return play(roles.remove(0)).map(|report| vec![report]);
    }
    let play = Arc::new(play);
    let (sender, results) = mpsc::channel();
    for role in roles {
        let (play, sender) = (Arc::clone(&play), sender.clone());
        thread::spawn(move || {
            // The coordinator reads no further messages once another role has failed.
            let _ = sender.send(play(role));
        });
    }
    drop(sender);
    results.into_iter().collect()
}

/// What a panic says: a defect of this program, which the user can report.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("a defect of this program: it panicked: {said}")
}

/// What the roles of a process have together; see [`OfRun`].
struct Memory {
    shared: Shared,
    marks: Option<Marks>,
    turnstile: Option<OwnedFd>,
    events: Option<EventSwitch>,
}

/// The memory, and what each role of this process was handed.
fn receive_memory(
    control: BorrowedFd<'_>,
    assignment: &Assignment,
) -> io::Result<(Memory, Vec<EndResources>)> {
    let of_roles: usize = assignment.roles.iter().map(|(_, fds, _)| fds).sum();
    let of_set = usize::from(assignment.party.is_some());
    let of_marks = usize::from(assignment.is_marked);
    let of_events = assignment.events.unwrap_or(0);
    let count = Shared::FDS + of_marks + of_set + of_events + of_roles;
    let mut fds = control::receive_fds(control, count)?.into_iter();
    let shared = Shared::join(&mut fds)?;
    let marks = fds.by_ref().take(of_marks).next();
    let marks = marks.map(|fd| Marks::open(fd, assignment.role_count)).transpose()?;
    let turnstile = assignment.party.and_then(|_| fds.next());
    let events = assignment.events.map(|count| EventSwitch::new(fds.by_ref().take(count).collect()));
    let of_role = |(_, count, words): &(usize, usize, Vec<u64>)| EndResources {
        fds: fds.by_ref().take(*count).collect(),
        words: words.clone(),
        ..EndResources::default()
    };
    let resources_by_role = assignment.roles.iter().map(of_role).collect();
    Ok((Memory { shared, marks, turnstile, events }, resources_by_role))
}

fn play_role(
    role: usize,
    resources: EndResources,
    target: &Target,
    params: &CaseParams,
    assignment: &Assignment,
    memory: &Memory,
) -> io::Result<RoleReport> {
    let Memory { shared, marks, turnstile, events } = memory;
    shared.set_step(role, Step::Pin);
    match assignment.cpus.get(role) {
        Some(cpu) => sched::pin(&[*cpu])?,
        None => sched::pin(&assignment.allowed_cpus)?,
    }
    set_policy_and_nice(role, params)?;
    let coordinator = assignment.coordinator.and_then(|coordinator| TaskSwitches::open(coordinator).ok());
    shared.prefault()?;
    let of_roles = (role, assignment.role_count);
    let mut cx = Ctx::new(shared, params, of_roles, assignment.timing, target.time(), coordinator);
    if let Some(marks) = marks {
        cx = cx.marked(marks.marker(role));
    }
    if let (Some(party), Some(turnstile)) = (assignment.party, turnstile) {
        cx = cx.in_turn(Turnstile::open(turnstile.as_fd(), party)?);
    }
    if let Some(events) = events {
        cx = cx.observed(events.clone());
    }
    let mut facts = (target.drive)(&params.id.pattern, resources, params, &mut cx)?;
    facts.insert("policy".into(), sched::policy()?.to_string());
    facts.insert("nice".into(), sched::nice()?.to_string());
    let observed = events.is_some().then(|| observed_role(&cx)).transpose()?;
    let (process, counted) = (std::process::id(), cx.into_counted());
    Ok(RoleReport { role, process, counted, facts, was_stopped: false, observed })
}

fn observed_role(cx: &Ctx<'_>) -> io::Result<ObservedRole> {
    let beside = cx.auxiliary().map(|(name, process)| -> io::Result<ObservedAuxiliary> {
        // A process of another user shows no map; its addresses stay without names.
        let memory_map = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let cpus = sched::allowed_cpus_of(process)?;
        Ok(ObservedAuxiliary { name: name.into(), process, memory_map, cpus })
    });
    let memory_map = fs::read_to_string("/proc/self/maps")?;
    Ok(ObservedRole { leads: cx.leads_observation(), memory_map, beside: beside.transpose()? })
}

fn set_policy_and_nice(role: usize, params: &CaseParams) -> io::Result<()> {
    const CHECKED: &str = "the axis was checked";
    let nice = |value: &str| sched::set_nice(value.parse().expect(CHECKED));
    let policy = |value: &str| sched::set_policy(axis::parse_policy(value).expect(CHECKED));
    set(&NICE, nice, role, params)?;
    set(&SCHED, policy, role, params)
}

fn set(
    axis: &Axis,
    set: impl Fn(&str) -> causeway_os::Result<()>,
    role: usize,
    params: &CaseParams,
) -> io::Result<()> {
    let value = axis::of_role(params.axis(axis.name), role);
    if value == axis.default {
        return Ok(());
    }
    set(value).map_err(|error| {
        let why = "it needs root, CAP_SYS_NICE or a higher ulimit";
        io::Error::new(error.os().kind(), format!("{}={value} is refused: {error}; {why}", axis.name))
    })
}
