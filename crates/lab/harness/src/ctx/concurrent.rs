//! Roles that all do the same at the same time, for windows that the first of them opens and closes.
//!
//! The roles work in chunks of operations, and look between two chunks whether to go on. The first role is one of them, and
//! has the clock besides: a chunk is a small part of a window, so a window's edge falls into the others' chunks and counts
//! them to within one. Where one operation fills a chunk that would be too coarse; there each role notes when it
//! finished one, which costs nothing beside it, and its rate is taken from its own notes.

use std::io;
use std::thread;
use std::time::Duration;

use causeway_os::clock;
use weighbridge_probe::counters::ThreadCounters;
use weighbridge_stats::fairness;

use super::Ctx;
use crate::planner::Timing;
use crate::shared::{Pace, Progress, Sample};

/// Chunks of a window, at least, unless one operation takes longer.
pub(super) const CHUNKS: u64 = 256;

/// What must be known of the work of roles that all do the same.
#[derive(Clone, Copy, Debug)]
pub struct Concurrent {
    /// Do the operations of a role count in the rate of all? Where one role hands over what another takes, one of the two.
    pub counts: fn(usize) -> bool,
    /// Bytes of an operation; 0 where there are none.
    pub op_bytes: u64,
    /// CPUs that the roles share.
    pub cpus: usize,
}

/// What a role does in a chunk of so many operations, and how many it has done.
pub trait Chunks: FnMut(u64) -> io::Result<u64> {}

impl<F: FnMut(u64) -> io::Result<u64>> Chunks for F {}

/// The end of a window, which is the beginning of the next.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) at_ns: u64,
    pub(super) progress: Vec<Progress>,
    counters: ThreadCounters,
}

impl Ctx<'_> {
    /// Does `work` in chunks until there are enough windows. `work` is given a number of operations and says how many it
    /// has done, which may be fewer where it depends on another role; it never waits for one that may have stopped.
    ///
    /// Returns the operations that each role has done in all, warm-up included, once all have stopped; to the other roles,
    /// nothing.
    pub fn concurrent(&mut self, common: Concurrent, mut work: impl Chunks) -> io::Result<Vec<u64>> {
        match (self.role, self.takes_turns()) {
            (0, false) => self.lead_concurrent(common, work),
            (0, true) => self.lead_concurrent_slices(common, &mut work),
            (_, in_turn) => {
                self.do_not_watch();
                self.barrier()?;
                if in_turn {
                    self.join_concurrent_slices(&mut work)?;
                } else {
                    self.join_concurrent(&mut work)?;
                }
                self.shared.leave();
                self.end_following()?;
                Ok(Vec::new())
            }
        }
    }

    fn join_concurrent(&mut self, work: &mut impl Chunks) -> io::Result<()> {
        let mut progress = Progress::default();
        while let Pace::Go { ops, counted } = self.shared.pace() {
            if counted {
                self.begin_counting()?;
            }
            let done = self.chunk(ops, &mut progress, work)?;
            if counted {
                self.count(done, 0);
            }
        }
        self.end_counting()
    }

    /// One chunk, and a note of it.
    #[inline]
    pub(super) fn chunk(&self, ops: u64, progress: &mut Progress, work: &mut impl Chunks) -> io::Result<u64> {
        let done = work(ops)?;
        progress.chunks += 1;
        progress.ops += done;
        progress.at_ns = if ops == 1 { clock::now_ns() } else { 0 };
        self.shared.set_progress(self.role, *progress);
        if done < ops {
            // Nothing to do: another role must do something first, perhaps on this CPU.
            thread::yield_now();
        }
        Ok(done)
    }

    fn lead_concurrent(&mut self, common: Concurrent, mut work: impl Chunks) -> io::Result<Vec<u64>> {
        self.barrier()?;
        let timing = self.concurrent_timing(common.cpus);
        let mut own = Progress::default();
        // Room for every edge is there before the first: nothing is allocated between two chunks.
        let mut edges = vec![self.edge(); timing.samples + 2];
        let ops = self.calibrate_chunk(timing.sample_ns / CHUNKS, &mut own, &mut work)?;
        self.look(&mut edges[0]);
        self.window(timing.sample_ns, ops, &mut own, &mut work, &mut edges[..2])?;

        self.warm_up(|cx| {
            let before = own.ops;
            cx.look(&mut edges[0]);
            cx.window(timing.sample_ns, ops, &mut own, &mut work, &mut edges[..2])?;
            Ok((edges[1].at_ns - edges[0].at_ns, own.ops - before))
        })?;

        self.shared.set_pace(Pace::Go { ops, counted: true });
        self.begin_counting()?;
        self.look(&mut edges[1]);
        let (mut last, counted_from) = (1, own.ops);
        while last + 1 < edges.len() {
            self.window(timing.sample_ns, ops, &mut own, &mut work, &mut edges[last..last + 2])?;
            last += 1;
            let elapsed_ns = edges[last].at_ns - edges[1].at_ns;
            if elapsed_ns > timing.run_ns && last > timing.least_samples {
                break;
            }
        }
        self.shared.set_pace(Pace::Stop);
        self.count(own.ops - counted_from, 0);
        self.end_counting()?;

        let windows = edges[1..=last].windows(2);
        let rates: Vec<_> = windows.map(|edges| self.push_window(common, &edges[0], &edges[1])).collect();
        self.note_rates(common, &rates);
        self.end_concurrent()
    }

    pub(super) fn end_concurrent(&self) -> io::Result<Vec<u64>> {
        while (self.shared.left() as usize) < self.roles - 1 {
            thread::sleep(Duration::from_micros(50));
        }
        self.shared.finish()?;
        Ok((0..self.roles).map(|role| self.shared.progress(role).ops).collect())
    }

    /// Where roles share a CPU they take turns of some milliseconds, and a window must hold many turns.
    fn concurrent_timing(&self, cpus: usize) -> Timing {
        if self.roles <= cpus { self.timing } else { self.timing_of_turns() }
    }

    pub(super) fn calibrate_chunk(
        &self,
        chunk_ns: u64,
        own: &mut Progress,
        work: &mut impl Chunks,
    ) -> io::Result<u64> {
        let (mut ops, mut was_long) = (1, false);
        loop {
            self.shared.set_pace(Pace::Go { ops, counted: false });
            let began_ns = clock::now_ns();
            // Twice, because a single one may have been the first of all.
            self.chunk(ops, own, work)?;
            self.chunk(ops, own, work)?;
            let elapsed_ns = clock::now_ns() - began_ns;
            let is_long = elapsed_ns / 2 >= chunk_ns || ops > u64::MAX / 64;
            match (is_long, was_long) {
                (true, true) => return Ok(ops),
                // Once may be an accident: a role that is preempted makes any chunk a long one.
                (true, false) => {}
                (false, _) => ops *= 2,
            }
            was_long = is_long;
        }
    }

    /// Works until the window is over, from the first of two edges to the second. It is not over before every role has
    /// finished a chunk in it, unless one starves.
    pub(super) fn window(
        &self,
        window_ns: u64,
        ops: u64,
        own: &mut Progress,
        work: &mut impl Chunks,
        edges: &mut [Edge],
    ) -> io::Result<()> {
        const STARVED: u64 = 8;
        let [first, last] = edges else { unreachable!("a window has two edges") };
        loop {
            self.chunk(ops, own, work)?;
            let elapsed_ns = clock::now_ns() - first.at_ns;
            let has_moved = |role: usize| self.shared.progress(role).chunks > first.progress[role].chunks + 1;
            if elapsed_ns >= window_ns * STARVED
                || (elapsed_ns >= window_ns && (0..self.roles).all(has_moved))
            {
                self.look(last);
                return Ok(());
            }
        }
    }

    pub(super) fn edge(&self) -> Edge {
        Edge {
            at_ns: 0,
            progress: vec![Progress::default(); self.roles],
            counters: ThreadCounters::default(),
        }
    }

    pub(super) fn look(&self, edge: &mut Edge) {
        for (role, progress) in edge.progress.iter_mut().enumerate() {
            *progress = self.shared.progress(role);
        }
        edge.at_ns = clock::now_ns();
        edge.counters = ThreadCounters::read();
    }

    /// Makes a sample of a window, and returns the rate of each role that counts, in operations a second.
    pub(super) fn push_window(&self, common: Concurrent, then: &Edge, now: &Edge) -> Vec<f64> {
        let window_ns = now.at_ns - then.at_ns;
        let done = |role: usize| (now.progress[role].ops - then.progress[role].ops) * self.ops_each;
        let rate = |role: &usize| {
            let (from_ns, to_ns) = (then.progress[*role].at_ns, now.progress[*role].at_ns);
            let elapsed_ns = if from_ns > 0 && to_ns > from_ns { to_ns - from_ns } else { window_ns };
            done(*role) as f64 * 1e9 / elapsed_ns.max(1) as f64
        };
        let counting_roles: Vec<usize> = (0..self.roles).filter(|role| (common.counts)(*role)).collect();
        let rates: Vec<f64> = counting_roles.iter().map(rate).collect();
        let ops: u64 = counting_roles.iter().map(|role| done(*role)).sum();
        // The time in which all roles together do that number at the sum of their rates: each role starts and ends by itself.
        let elapsed_ns = match rates.iter().sum::<f64>() {
            total if total > 0.0 => (ops as f64 * 1e9 / total).round() as u64,
            _ => window_ns,
        };
        // A role that notes its own times began when it finished the chunk before.
        let noted = counting_roles.iter().map(|role| then.progress[*role].at_ns).filter(|at_ns| *at_ns > 0);
        let start_ns = noted.fold(then.at_ns, u64::min);
        let preemptions = now.counters.since(&then.counters).involuntary_switches;
        let bytes = ops / self.ops_each * common.op_bytes;
        self.shared.push_sample(Sample { start_ns, elapsed_ns, ops, bytes, preemptions, extra: 0 });
        rates
    }

    pub(super) fn note_rates(&mut self, common: Concurrent, rates: &[Vec<f64>]) {
        if rates.first().is_none_or(|rates| rates.len() < 2) {
            return;
        }
        self.note_series("fairness", rates.iter().map(|rates| fairness::jain(rates)).collect());
        let counting: Vec<usize> = (0..self.roles).filter(|role| (common.counts)(*role)).collect();
        for (index, role) in counting.into_iter().enumerate() {
            let values = rates.iter().map(|rates| rates[index]).collect();
            self.note_series(&format!("ops_per_s.role-{role}"), values);
        }
    }
}
