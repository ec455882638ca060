//! What a pattern works with inside a peer: the meeting point, the timed batch, the counters.
//!
//! Only `Ctx::sample` and, for windows without a gap, [`Ctx::drain`] read a clock around work. Counters are read outside
//! the timed interval, before the first counted batch and after the last.

mod alone;
mod crowd;
mod each;
mod interval;

pub use crowd::Crowd;
pub use each::{RATE, TIME};

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::Duration;

use causeway_os::clock;
use causeway_os::counters::{EventCounts, Events, TaskSwitches, ThreadCounters, ThreadMigrations};
use serde::{Deserialize, Serialize};
use weighbridge_record::Latencies;

use crate::axis::COUNTERS;
use crate::buffer::Buffer;
use crate::link::Link;
use crate::planner::{Planner, Timing};
use crate::shared::{Phase, Planned, Sample, Shared, Step};

pub use interval::Flow;

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

/// A batch that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Its operations.
    pub batch: Batch,
    /// From its beginning to its end.
    pub elapsed_ns: u64,
    /// Does it become a sample?
    pub is_sample: bool,
}

/// What arrived in a batch, counted where it arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sum over what was touched.
    pub sum: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl Tally {
    /// One message more.
    #[inline]
    pub fn add(&mut self, bytes: usize, sum: u64) {
        self.sum = self.sum.wrapping_add(sum);
        self.bytes += bytes as u64;
    }
}

/// What a role counted between the beginning of its first counted batch and the end of its last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Operations.
    pub ops: u64,
    /// Bytes that arrived here.
    pub received_bytes: u64,
    /// Context switches because this role waited.
    pub voluntary_switches: u64,
    /// Context switches because it was preempted.
    pub involuntary_switches: u64,
    /// Page faults without input or output.
    pub minor_faults: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Moves to another CPU, where they can be counted.
    pub migrations: Option<u64>,
    /// CPU cycles, from a PMU.
    pub cycles: Option<u64>,
    /// Instructions, from a PMU.
    pub instructions: Option<u64>,
    /// Voluntary switches of the coordinator meanwhile, as this role saw them.
    pub coordinator_switches: Option<u64>,
    /// Rate of a plain memory copy of the payload's size in this role, right after the timed part.
    pub copy_bytes_per_s: Option<f64>,
    /// Further figures, by name with unit, one for each sample.
    pub series: BTreeMap<String, Vec<f64>>,
    /// What single operations took, where each was timed.
    pub latencies: Option<Latencies>,
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

/// One role of one run.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The case.
    pub link: &'a Link,
    /// Index of this role.
    pub role: usize,
    /// Number of roles.
    pub roles: usize,
    shared: &'a Shared,
    timing: Timing,
    time: Time,
    coordinator: Option<TaskSwitches>,
    events: Events,
    migrations: Option<ThreadMigrations>,
    began: Option<Began>,
    counted: Counted,
    ops_each: u64,
    loop_ns: f64,
}

/// Readings at the beginning of the counted part.
#[derive(Debug)]
struct Began {
    thread: ThreadCounters,
    events: EventCounts,
    migrations: Option<u64>,
    coordinator: Option<u64>,
}

/// From the moment at which the last role is ready to the beginning: longer than a wake-up of an idle virtual CPU.
const LEAD_IN_NS: u64 = 300_000;

impl<'a> Ctx<'a> {
    /// For the role `role` of `roles`. `coordinator` is the process whose wake-ups the leading role watches.
    pub fn new(
        shared: &'a Shared,
        link: &'a Link,
        (role, roles): (usize, usize),
        timing: Timing,
        time: Time,
        coordinator: Option<TaskSwitches>,
    ) -> Ctx<'a> {
        // An attached event makes every context switch of the thread dearer, by a microsecond where we looked; see
        // docs/decisions. So the case must ask for it.
        let events = if link.axis(COUNTERS.name) == "events" { Events::open() } else { Events::none() };
        Ctx {
            link,
            role,
            roles,
            shared,
            timing,
            time,
            coordinator,
            events,
            migrations: ThreadMigrations::open().ok(),
            began: None,
            counted: Counted::default(),
            ops_each: 1,
            loop_ns: 0.0,
        }
    }

    /// What was counted.
    pub fn into_counted(self) -> Counted {
        self.counted
    }

    /// Notes a step of this role's life.
    pub fn set_step(&self, step: Step) {
        self.shared.set_step(self.role, step);
    }

    /// From now on each operation that is planned counts as so many: a round of two hops as two.
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

    /// Times batches of `work` until there are enough samples, and publishes each batch to the followers before the
    /// batch in front of it begins. `expect` foretells what each batch must have received.
    ///
    /// # Errors
    /// That of `work`, or a sentence if something else arrived than was sent.
    pub fn lead(
        &mut self,
        work: impl FnMut(Batch) -> io::Result<Tally>,
        expect: impl Fn(Batch) -> Option<Tally>,
    ) -> io::Result<()> {
        self.lead_noting(work, expect, |noted| Ok(noted.elapsed_ns))
    }

    /// As [`Ctx::lead`], and after each batch calls `note`, outside of what is timed, for the time that counts: in most cases
    /// that which has elapsed. The batches that became samples are the last ones.
    ///
    /// # Errors
    /// As [`Ctx::lead`].
    pub fn lead_noting(
        &mut self,
        mut work: impl FnMut(Batch) -> io::Result<Tally>,
        expect: impl Fn(Batch) -> Option<Tally>,
        mut note: impl FnMut(Noted) -> io::Result<u64>,
    ) -> io::Result<()> {
        let mut planner = Planner::new(self.timing);
        let mut current = planner.decide();
        self.shared.plan(0, current);
        self.meet()?;
        let (mut index, mut first, mut is_first_counted) = (0, 0, true);
        while let Planned::Batch { ops, counted } = current {
            index += 1;
            let next = if index + 1 < Shared::max_batches() { planner.decide() } else { Planned::End };
            self.shared.plan(index, next);
            if counted {
                self.begin_counting()?;
            }
            let batch = Batch { first, ops };
            let before = ThreadCounters::read();
            let (tally, elapsed_ns) = self.sample(|| work(batch))?;
            let preemptions = ThreadCounters::read().since(&before).involuntary_switches;
            planner.learn(ops, elapsed_ns);
            check(batch, tally, expect(batch))?;
            let is_sample = counted && !is_first_counted;
            let counted_ns = note(Noted { batch, elapsed_ns, is_sample })?;
            if counted {
                self.count(ops, tally.bytes);
                if is_sample {
                    let sample = Sample {
                        elapsed_ns: self.without_loop(ops, counted_ns),
                        ops: ops * self.ops_each,
                        bytes: tally.bytes,
                        preemptions,
                        extra: counted_ns,
                    };
                    self.shared.push_sample(sample);
                }
                is_first_counted = false;
            }
            first += ops;
            current = next;
        }
        self.end_counting()?;
        self.shared.finish()
    }

    /// Does the batches that the leading role plans, untimed.
    ///
    /// # Errors
    /// As [`Ctx::lead`].
    pub fn follow(
        &mut self,
        mut work: impl FnMut(Batch) -> io::Result<Tally>,
        expect: impl Fn(Batch) -> Option<Tally>,
    ) -> io::Result<()> {
        self.do_not_watch();
        self.meet()?;
        let mut first = 0;
        for index in 0.. {
            let planned = loop {
                if let Some(planned) = self.shared.planned(index) {
                    break planned;
                }
                thread::yield_now();
            };
            let Planned::Batch { ops, counted } = planned else { break };
            if counted {
                self.begin_counting()?;
            }
            let batch = Batch { first, ops };
            let tally = work(batch)?;
            check(batch, tally, expect(batch))?;
            if counted {
                self.count(ops, tally.bytes);
            }
            first += ops;
        }
        self.end_counting()?;
        self.await_leader()
    }

    /// For roles that have nothing to do because the mechanism exchanges nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub fn follow_nothing(&mut self) -> io::Result<()> {
        self.meet()?;
        self.set_step(Step::Report);
        self.shared.set_feed_end(0);
        self.await_leader()
    }

    /// Receives an endless stream in chunks of `chunk_ops` messages, in windows of whole chunks that follow each other
    /// without a gap; the first window is dropped. Then drains what the sender still sends, unless the mechanism is
    /// `lossy`: there the sender goes on until this role is done, and nobody knows what is still to come.
    ///
    /// # Errors
    /// As [`Ctx::lead`].
    pub fn drain(
        &mut self,
        chunk_ops: u64,
        lossy: bool,
        mut work: impl FnMut(Batch) -> io::Result<Tally>,
        expect: impl Fn(Batch) -> Option<Tally>,
    ) -> io::Result<()> {
        self.meet()?;
        let mut chunks = 0;
        let mut receive = |count: u64| -> io::Result<(Batch, Tally)> {
            let batch = Batch { first: chunks * chunk_ops, ops: count * chunk_ops };
            chunks += count;
            work(batch).map(|tally| (batch, tally))
        };
        let timing = self.window_timing();
        let window_chunks = self.calibrate_window(timing.sample_ns, &mut receive)?;
        let mut windows = Vec::with_capacity(timing.samples + 1);
        self.shared.set_phase(Phase::Timed);
        self.begin_counting()?;
        windows.push((receive(window_chunks)?, 0, 0));
        let mut began_ns = self.now_ns();
        let end_ns = began_ns + timing.run_ns;
        let mut counters = ThreadCounters::read();
        while windows.len() <= timing.samples {
            let received = receive(window_chunks)?;
            let now_ns = self.now_ns();
            // One reading a window: windows follow each other without a gap, so it cannot stand outside of them.
            let now_counters = ThreadCounters::read();
            let preemptions = now_counters.since(&counters).involuntary_switches;
            counters = now_counters;
            windows.push((received, now_ns - began_ns, preemptions));
            if now_ns > end_ns && windows.len() > timing.least_samples {
                break;
            }
            began_ns = now_ns;
        }
        self.shared.set_phase(Phase::Over);
        for (index, ((batch, tally), elapsed_ns, preemptions)) in windows.into_iter().enumerate() {
            check(batch, tally, expect(batch))?;
            self.count(batch.ops, tally.bytes);
            if index > 0 {
                let sample = Sample { elapsed_ns, ops: batch.ops, bytes: tally.bytes, preemptions, extra: 0 };
                self.shared.push_sample(sample);
            }
        }
        self.end_counting()?;
        self.shared.finish()?;
        while !lossy && self.shared.feed_end() != Some(chunks) {
            let batch = Batch { first: chunks * chunk_ops, ops: chunk_ops };
            let tally = work(batch)?;
            check(batch, tally, expect(batch))?;
            chunks += 1;
        }
        // Where the sender cannot know that its last messages arrive, there is somebody to send them to.
        while lossy && self.shared.feed_end().is_none() {
            thread::yield_now();
        }
        Ok(())
    }

    /// Sends chunks of `chunk_ops` messages until the receiver has enough.
    ///
    /// Once it sees that, it publishes that exactly one more chunk comes, and sends that: so a receiver that has seen
    /// nothing published may safely wait for one more chunk.
    ///
    /// # Errors
    /// That of `work`.
    pub fn feed(
        &mut self,
        chunk_ops: u64,
        lossy: bool,
        mut work: impl FnMut(Batch) -> io::Result<()>,
    ) -> io::Result<()> {
        self.do_not_watch();
        self.meet()?;
        let mut chunks = 0;
        loop {
            let phase = self.shared.phase();
            if phase >= Phase::Timed {
                self.begin_counting()?;
            }
            if phase == Phase::Over {
                break;
            }
            work(Batch { first: chunks * chunk_ops, ops: chunk_ops })?;
            chunks += 1;
            if phase == Phase::Timed {
                self.count(chunk_ops, 0);
            }
        }
        self.end_counting()?;
        if lossy {
            self.shared.set_feed_end(chunks);
        } else {
            self.shared.set_feed_end(chunks + 1);
            work(Batch { first: chunks * chunk_ops, ops: chunk_ops })?;
        }
        self.await_leader()
    }

    /// Ends that share a CPU take turns of some milliseconds each, so a window must hold many turns.
    fn window_timing(&self) -> Timing {
        if self.link.same_cpu() { self.timing_of_turns() } else { self.timing }
    }

    fn timing_of_turns(&self) -> Timing {
        const TURNS: u64 = 12;
        Timing {
            sample_ns: self.timing.sample_ns * TURNS,
            samples: self.timing.least_samples,
            run_ns: self.timing.run_ns * TURNS,
            ..self.timing
        }
    }

    /// How fast this role copies memory from one buffer to another, message by message: no mechanism that copies can be
    /// faster. Measured here and now, because on a shared machine the next minute has another speed.
    ///
    /// # Errors
    /// No memory.
    pub fn measure_copy_rate(&mut self) -> io::Result<()> {
        const ENOUGH_NS: u64 = 1_000_000;
        let len = self.link.payload_bytes.max(1);
        let (mut from, mut to) = (Buffer::new(len)?, Buffer::new(len)?);
        from.prefault()?;
        to.prefault()?;
        let mut best = 0.0f64;
        let mut copies = (1 << 16) / len as u64 + 1;
        loop {
            let ((), elapsed_ns) = self.sample(|| {
                for _ in 0..copies {
                    to.bytes_mut()[..len].copy_from_slice(std::hint::black_box(&from.bytes()[..len]));
                    std::hint::black_box(to.bytes_mut());
                }
                Ok(())
            })?;
            best = best.max(copies as f64 * len as f64 * 1e9 / elapsed_ns.max(1) as f64);
            if elapsed_ns >= ENOUGH_NS {
                break;
            }
            copies *= 4;
        }
        self.counted.copy_bytes_per_s = Some(best);
        Ok(())
    }

    /// How many chunks fill a window, from the rate over the whole warm-up: on one CPU the receiver empties at one rate
    /// what the sender has filled at another, and a window must hold both.
    fn calibrate_window(
        &mut self,
        window_ns: u64,
        receive: &mut impl FnMut(u64) -> io::Result<(Batch, Tally)>,
    ) -> io::Result<u64> {
        let began_ns = self.now_ns();
        let (mut chunks, mut total) = (1, 0);
        loop {
            // A sum that nobody looks at would not be taken, and the warm-up would be one of unread messages.
            std::hint::black_box(receive(chunks)?);
            total += chunks;
            let elapsed_ns = (self.now_ns() - began_ns).max(1);
            let window = (total as f64 * window_ns as f64 / elapsed_ns as f64).ceil() as u64;
            if elapsed_ns >= window_ns / 2 {
                return Ok(window.max(1));
            }
            chunks = (window / 4).clamp(1, chunks * 16);
        }
    }

    /// Only the leading role watches the coordinator: by the time that others look, it may have woken for a report.
    fn do_not_watch(&mut self) {
        self.coordinator = None;
    }

    /// Waits until the leading role has read its counters: a role that reported before would wake the coordinator, and
    /// the leader would see that as a wake-up in its timed part.
    fn await_leader(&self) -> io::Result<()> {
        self.shared.await_finish()
    }

    /// Waits for the other roles and for the common beginning.
    fn meet(&mut self) -> io::Result<()> {
        self.set_step(Step::Ready);
        let begin_ns = self.shared.meet(self.roles, || clock::now_ns() + LEAD_IN_NS)?;
        // Who shares a CPU must not spin on it; there the first batch, which is dropped, takes up the difference.
        if !self.link.same_cpu() {
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

    /// Reads the counters, the first time it is called.
    fn begin_counting(&mut self) -> io::Result<()> {
        if self.began.is_none() {
            self.set_step(Step::Batches);
            let coordinator = self.coordinator.as_ref().map(TaskSwitches::read).transpose()?;
            self.began = Some(Began {
                migrations: self.migrations.as_ref().and_then(ThreadMigrations::read),
                events: self.events.read(),
                thread: ThreadCounters::read(),
                coordinator,
            });
        }
        Ok(())
    }

    fn count(&mut self, ops: u64, bytes: u64) {
        self.counted.ops += ops * self.ops_each;
        self.counted.received_bytes += bytes;
    }

    fn end_counting(&mut self) -> io::Result<()> {
        if let Some(Began { thread, events, migrations, coordinator }) = self.began.take() {
            let thread = ThreadCounters::read().since(&thread);
            let events = self.events.read().since(&events);
            let now = self.coordinator.as_ref().map(TaskSwitches::read).transpose()?;
            let moves = self.migrations.as_ref().and_then(ThreadMigrations::read);
            self.counted = Counted {
                ops: self.counted.ops,
                received_bytes: self.counted.received_bytes,
                voluntary_switches: thread.voluntary_switches,
                involuntary_switches: thread.involuntary_switches,
                minor_faults: thread.minor_faults,
                major_faults: thread.major_faults,
                cpu_ns: thread.cpu_ns,
                migrations: moves.zip(migrations).map(|(now, then)| now - then).or(events.migrations),
                cycles: events.cycles,
                instructions: events.instructions,
                coordinator_switches: now.zip(coordinator).map(|(now, then)| now - then),
                copy_bytes_per_s: None,
                series: BTreeMap::new(),
                latencies: None,
            };
        }
        self.set_step(Step::Report);
        Ok(())
    }
}

fn check(batch: Batch, tally: Tally, expected: Option<Tally>) -> io::Result<()> {
    match expected {
        Some(expected) if expected != tally => Err(io::Error::other(format!(
            "messages {}…{} arrived damaged: {} bytes with sum {:#x}, sent were {} bytes with sum {:#x}",
            batch.first,
            batch.first + batch.ops,
            tally.bytes,
            tally.sum,
            expected.bytes,
            expected.sum
        ))),
        _ => Ok(()),
    }
}
