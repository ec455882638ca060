//! What a pattern works with inside a peer: the starting barrier, the clock around work, and in files of their own the ways to
//! take samples. Role 0 leads: its clock counts. Each way to lead has one way to follow:
//!
//! | the leading role calls | the others call | a sample is | used by |
//! |---|---|---|---|
//! | [`Ctx::lead`], [`Ctx::lead_noting`] | [`Ctx::follow`] | a batch of operations, planned one batch ahead | `pingpong`, `fan-out` |
//! | the same | [`Ctx::stand_by`], in a role that takes no part | | `fan-out` with `uninterested` |
//! | [`Ctx::lead_batches`], [`Ctx::end_leading`] | [`Ctx::follow_batches`], [`Ctx::end_following`] | the same, with something to do after the last batch | `roundtrip` |
//! | [`Ctx::lead_each`], [`Ctx::end_leading`] | as above | a batch in which each operation is timed by itself, if it is long enough | `roundtrip` without `time=batch` |
//! | [`Ctx::lead`] without expectations | [`Ctx::follow_nothing`] | a batch of the harness itself | `noop` |
//! | [`Ctx::lead_alone`] | – | a batch, the cost of the loop taken off | `solo` |
//! | [`Ctx::drain`] (the receiver, which is role 1), [`Ctx::end_leading`] | [`Ctx::feed`] (the sender), [`Ctx::end_following`] | a window of whole chunks; windows follow each other without a gap | `stream` |
//! | [`Ctx::drain_once`], [`Ctx::end_leading`] | [`Ctx::feed_once`], [`Ctx::end_following`] | the one window of a transfer | `stream` with `transfer` |
//! | [`Ctx::lead_intervals`] | [`Ctx::follow_intervals`] | an interval of fixed length | `fan-in`, `all-to-all` |
//! | [`Ctx::concurrent`] | [`Ctx::concurrent`] | a window in which all roles do the same | `parallel`, `contend` |
//!
//! # Who reads a clock or a counter
//!
//! Everything else reads neither while samples are taken: a test compares this list with the sources. Counters of a role are read
//! before its first counted batch and after its last.
//!
//! | file | inside the timed part | why |
//! |---|---|---|
//! | `ctx.rs` | twice a batch | the clock itself, and its readings around the work of a batch (`Ctx::sample`) |
//! | `ctx/batches.rs` | – | switches and CPU time of the role before and after each batch, outside of the readings of the clock |
//! | `ctx/counted.rs` | – | counters of the role and what it reads and writes, and in the leading role those of an auxiliary process, before the first counted batch and after the last; there the leading role of an observed run starts and stops the observer's events |
//! | `ctx/each.rs` | twice an operation | the case asks for the time of each operation, or the readings are at most 0.5 % of it |
//! | `ctx/pace.rs` | once an operation, and once more where it is slept for | the case asks for a rate: an operation does not begin before it is due |
//! | `ctx/recorder.rs` | once a message or read where it arrives | the case asks for a rate: each is timed from when it was due |
//! | `ctx/windows.rs` | once a window, with the role's switches and CPU time; the sender's CPU time before and after its part of a slice | windows follow each other without a gap, so a reading cannot stand outside of them |
//! | `ctx/fixed_time.rs` | once in 64 system calls | the interval ends at the first look behind its time |
//! | `ctx/turns.rs` | twice a slice, with the role's switches | the edges of the interval or window of a slice |
//! | `ctx/concurrent.rs` | once a chunk | a window ends between two chunks; a role whose operation fills a chunk notes when it finished it |
//! | `targets/fan_out/sender.rs` | twice a burst, and once a batch the switches of the role | the sender's own share of a message is a series of its own |
//! | `targets/fan_out/uninterested.rs` | – | the switches of a receiver that sleeps through the run, before and after |
//! | `ctx/end_of_run.rs` | – | after the timed part: its clock ends a drain that stalls |
//! | `targets/shared_counters.rs` | the role's switches, for a receiver of fan-out once a burst, for a writer of fan-in once in 16 chunks | the kernel counts them for the calling thread only, and the leading role adds them up |
//! | `targets/fan_in/edges.rs` | the role's switches once an interval | they belong to the interval that ends there |
//! | `targets/op/packets.rs` | – | before and after the timed part: its clock ends the wait for packets that do not come |
//! | `targets/own/child.rs` | – | before the peers start: the time limit of the process that calls `create` of a shared object |
//! | `targets/own/leftover.rs` | – | after the peers have ended: how long what a shared object has left is looked for |
//! | `marks.rs` | four times a message, in a marked run only | marks are what such a run is for; its figure is dropped |
//! | `peer.rs` | – | opens the counter of the coordinator's wake-ups before anything is timed |
//! | `coordinator.rs` | – | another process: how long a run took, and the counters of the system around a run |
//! | `coordinator/live.rs` | – | another process, and only with `--progress`: a look at the run once a second |
//! | `coordinator/running.rs` | – | another process: how long a run took, and the counters of the system around a run |
//! | `coordinator/starting.rs` | – | as above |
//! | `rounds.rs` | – | another process: the budget |
//! | `session.rs` | – | another process: the cost of a run |
//! | `compare/mod.rs` | – | as above |
//! | `explain/mod.rs` | – | as above |
//! | `crossover.rs` | – | another process: the budget |

mod alone;
mod batches;
mod concurrent;
mod counted;
mod each;
mod end_of_run;
mod fixed_time;
mod pace;
mod recorder;
mod turns;
mod warm_up;
mod windows;

pub use concurrent::{Chunks, Concurrent};
pub use counted::{Auxiliary, Counted, CountedAuxiliary, Sampled, Whereabouts};
pub use each::TimedUnit;
pub use end_of_run::Balance;
pub use fixed_time::{Follower, Leader};
pub(crate) use pace::refusal;
pub use pace::{LATE_NS, OPERATIONS, Pacer, RATE, Schedule, rate};
pub use recorder::Recorder;
pub use warm_up::{Discarded, Warm};

use std::cell::Cell;
use std::io;
use std::thread;
use std::time::Duration;

use causeway_os::clock;
use weighbridge_probe::counters::{
    EventSwitch, Events, ProcessCounters, TaskSwitches, ThreadIoReader, ThreadMigrations,
};

use crate::axis::Counters;
use crate::dose::Dose;
use crate::duet::turnstile::Turnstile;
use crate::marks::{Marker, Numbered};
use crate::params::CaseParams;
use crate::planner::Timing;
use crate::shared::{Sample, Shared, Step};
use counted::Began;

/// A batch of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Sequence number of its first operation.
    pub first: u64,
    /// Number of operations.
    pub ops: u64,
}

impl Batch {
    /// The sequence numbers of its operations.
    pub fn sequences(self) -> std::ops::Range<u64> {
        self.first..self.first + self.ops
    }
}

/// What a role does in a batch.
pub trait Work: FnMut(Batch) -> io::Result<Tally> {}

impl<F: FnMut(Batch) -> io::Result<Tally>> Work for F {}

/// What a batch must have received; nothing where that is not known.
pub trait Expect: Fn(Batch) -> Option<Tally> {}

impl<F: Fn(Batch) -> Option<Tally>> Expect for F {}

/// A batch that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Its operations.
    pub batch: Batch,
    /// From its beginning to its end.
    pub elapsed_ns: u64,
    /// Whether the batch becomes a sample.
    pub is_sample: bool,
}

/// What arrived in a batch, counted where it arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sum over what was touched.
    pub sum: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// How far the mechanism came meanwhile, by its own count; see [`Endpoint::position`](crate::contract::Endpoint::position).
    pub came_on: u64,
}

/// An operation of a role that leads: a closure, or what also knows how far the mechanism has come.
pub trait Operation {
    /// Does the one with this sequence number.
    fn operate(&mut self, sequence: u64, tally: &mut Tally) -> io::Result<()>;

    /// See [`Endpoint::position`](crate::contract::Endpoint::position).
    fn position(&mut self) -> u64 {
        0
    }

    /// All of a batch.
    #[inline]
    fn repeat(&mut self, batch: Batch) -> io::Result<Tally> {
        let from = self.position();
        let mut tally = Tally::default();
        for sequence in batch.sequences() {
            self.operate(sequence, &mut tally)?;
        }
        tally.came_on = self.position() - from;
        Ok(tally)
    }
}

impl<F: FnMut(u64, &mut Tally) -> io::Result<()>> Operation for F {
    #[inline]
    fn operate(&mut self, sequence: u64, tally: &mut Tally) -> io::Result<()> {
        self(sequence, tally)
    }
}

impl Tally {
    /// One message more.
    #[inline]
    pub fn add(&mut self, bytes: usize, sum: u64) {
        self.sum = self.sum.wrapping_add(sum);
        self.bytes += bytes as u64;
    }

    /// Has arrived what was sent?
    pub(crate) fn is_of(self, sent: Tally) -> bool {
        (self.sum, self.bytes) == (sent.sum, sent.bytes)
    }
}

/// One role of one run.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The case.
    pub params: &'a CaseParams,
    /// Index of this role.
    pub role: usize,
    /// Number of roles.
    pub roles: usize,
    shared: &'a Shared,
    timing: Timing,
    time: Time,
    turnstile: Option<Turnstile>,
    coordinator: Option<TaskSwitches>,
    auxiliary: Option<Auxiliary>,
    observed: Option<EventSwitch>,
    marker: Option<Marker<'a>>,
    events: Events,
    migrations: Option<ThreadMigrations>,
    io: Option<ThreadIoReader>,
    began: Option<Began>,
    paced_from_ns: Option<u64>,
    counted: Counted,
    ops_each: u64,
    loop_ns: f64,
}

/// From the moment at which the last role is ready to the beginning: longer than a wake-up of an idle virtual CPU.
const LEAD_IN_NS: u64 = 300_000;

impl<'a> Ctx<'a> {
    /// For the role `role` of `roles`. `coordinator` is the process whose wake-ups the leading role watches.
    pub fn new(
        shared: &'a Shared,
        params: &'a CaseParams,
        (role, roles): (usize, usize),
        timing: Timing,
        time: Time,
        coordinator: Option<TaskSwitches>,
    ) -> Ctx<'a> {
        // An attached event makes every context switch of the thread more expensive, by a microsecond where we looked; see
        // docs/decisions. So the case must ask for it.
        let (events, io) = match params.choice() {
            Counters::Events => (Events::open(), None),
            Counters::Usage => (Events::default(), ThreadIoReader::open().filter(|_| time == Time::Raw)),
        };
        Ctx {
            params,
            role,
            roles,
            shared,
            timing,
            time,
            turnstile: None,
            coordinator,
            auxiliary: None,
            observed: None,
            marker: None,
            events,
            migrations: ThreadMigrations::open().ok(),
            io,
            began: None,
            paced_from_ns: None,
            counted: Counted::default(),
            ops_each: 1,
            loop_ns: 0.0,
        }
    }

    /// The role belongs to a party of a set, whose parties take turns.
    pub(crate) fn in_turn(self, turnstile: Turnstile) -> Ctx<'a> {
        Ctx { turnstile: Some(turnstile), ..self }
    }

    /// The run is observed: the leading role starts these events when counting begins, and stops them when it ends.
    pub(crate) fn observed(self, events: EventSwitch) -> Ctx<'a> {
        Ctx { observed: Some(events), ..self }
    }

    pub(crate) fn leads_observation(&self) -> bool {
        self.observed.is_some()
    }

    /// Name and id of the auxiliary process, in the role that counts it.
    pub(crate) fn auxiliary(&self) -> Option<(&'static str, u32)> {
        self.auxiliary.as_ref().map(|auxiliary| (auxiliary.name, auxiliary.counters.pid()))
    }

    /// The run is a marked one: the role notes what it does with each message.
    pub(crate) fn marked(self, marker: Marker<'a>) -> Ctx<'a> {
        Ctx { marker: Some(marker), ..self }
    }

    /// What this role notes its messages with, in a marked run. `is_lossy` where the other end cannot number messages by counting them.
    pub fn marks(&self, is_lossy: bool) -> Option<Numbered<'a>> {
        self.marker.map(|marker| Numbered::new(marker, is_lossy))
    }

    /// The marker of this role, in a marked run, for a role that does not number its messages by counting them.
    pub fn marker(&self) -> Option<Marker<'a>> {
        self.marker
    }

    /// An auxiliary process takes part in every operation (a broker): the leading role counts what it does too, under this name. Called by
    /// every role before it drives a pattern. Fails where the process is gone.
    pub fn count_auxiliary(&mut self, name: &'static str, pid: u32) -> io::Result<()> {
        self.marker.inspect(|marker| marker.set_auxiliary(pid));
        self.auxiliary = Some(Auxiliary { name, counters: ProcessCounters::open(pid)?, settle: None });
        Ok(())
    }

    /// Where an operation does not wait for the auxiliary process: `settle` waits, before each reading of its counters, until
    /// it has done what it was sent, so that its work for the counted operations is counted, all of it and nothing else. Only in the
    /// leading role, after [`Ctx::count_auxiliary`]; `settle` is not timed.
    pub fn settle_auxiliary(&mut self, settle: impl FnMut() -> io::Result<()> + 'static) {
        if let Some(auxiliary) = &mut self.auxiliary {
            auxiliary.settle = Some(Box::new(settle));
        }
    }

    /// Voluntary and involuntary switches of the auxiliary process for each operation, once counting has ended; zero where there is none.
    pub fn auxiliary_switches_per_op(&self) -> (f64, f64) {
        let ops = self.counted.ops.max(1) as f64;
        let switches = |of: &(String, CountedAuxiliary)| {
            (of.1.voluntary_switches as f64 / ops, of.1.involuntary_switches as f64 / ops)
        };
        self.counted.beside.as_ref().map_or((0.0, 0.0), switches)
    }

    pub(crate) fn into_counted(self) -> Counted {
        self.counted
    }

    /// What the case puts into each operation of this role. Before anything is timed.
    pub(crate) fn dose(&self) -> io::Result<Option<Dose<'a>>> {
        let is_virtual = self.time == Time::Virtual;
        Dose::new(self.params, self.shared, self.role, is_virtual)
    }

    /// Notes a step of this role's life.
    pub fn set_step(&self, step: Step) {
        self.shared.set_step(self.role, step);
    }

    /// From now on each planned operation counts as `ops` operations: a round of two hops as two.
    pub fn set_ops_each(&mut self, ops: u64) {
        self.ops_each = ops;
    }

    /// Keeps a further figure of each sample, under a name with its unit. After the timed part.
    pub fn note_series(&mut self, name: &str, values: Vec<f64>) {
        self.counted.series.insert(name.into(), values);
    }

    /// The samples of this run, for figures that follow from them. After the timed part.
    pub fn samples(&self) -> Vec<Sample> {
        self.shared.samples()
    }

    /// How many messages have been verified; see [`Ctx::await_verified`].
    pub fn verified(&self) -> u64 {
        self.shared.verified()
    }

    /// Waits until `count` messages have been verified by the receiving role. Only before anything is timed: it naps.
    pub fn await_verified(&self, count: u64) {
        while self.shared.verified() < count {
            thread::sleep(Duration::from_micros(20));
        }
    }

    /// One more message was right.
    pub fn add_verified(&self) {
        self.shared.add_verified();
    }

    fn barrier(&mut self) -> io::Result<()> {
        self.set_step(Step::Ready);
        let begin_ns = self.shared.barrier(self.roles, || clock::now_ns() + LEAD_IN_NS)?;
        // Roles that share a CPU must not spin on it; there the first batch, which is dropped, takes up the difference.
        if !self.params.same_cpu() {
            while clock::now_ns() < begin_ns {
                std::hint::spin_loop();
            }
        }
        self.set_step(Step::Calibrate);
        Ok(())
    }

    /// Work between two readings of the clock, and the nanoseconds between them.
    #[inline]
    fn sample<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, u64)> {
        let began_ns = self.now_ns();
        let result = work()?;
        Ok((result, self.now_ns() - began_ns))
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        now_ns(self.time)
    }
}

/// Which clock a run is timed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// `CLOCK_MONOTONIC_RAW`.
    Raw,
    /// Advanced by the mechanism itself, with [`advance_virtual_time`].
    Virtual,
}

thread_local! {
    static VIRTUAL_NS: Cell<u64> = const { Cell::new(0) };
}

#[inline]
fn now_ns(time: Time) -> u64 {
    match time {
        Time::Raw => clock::now_ns(),
        Time::Virtual => VIRTUAL_NS.with(Cell::get),
    }
}

/// For mechanisms with [`Caps::VIRTUAL_TIME`](crate::contract::Caps::VIRTUAL_TIME).
pub fn advance_virtual_time(ns: u64) {
    VIRTUAL_NS.with(|now| now.set(now.get() + ns));
}
