//! The reader: waits, reads what is ready, and at the end accounts for every byte that was written.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use causeway_os::counters::ThreadCounters;
use rustix::net::sockopt;
use rustix::pipe::fcntl_getpipe_size;

use super::intake::Intake;
use super::wait::{self, Waiter};
use super::{MAX_EVENTS, STREAMS, WAIT, YIELD_LIMIT, count, is_cyclic, writer, writers};
use crate::contract::Facts;
use crate::ctx::{Ctx, Flow};
use crate::params::CaseParams;
use crate::shared::Step;
use crate::shared_counters::SharedCounters;

/// Without a byte for so long although some are missing, they are lost.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(2);
/// Word of the reader's line: operations of the timed part.
pub(super) const COUNTED_OPS: usize = 0;

/// The whole life of this role, from its ends to its facts.
pub(super) fn drive(
    ends: &[OwnedFd],
    counters: SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let max_events = count(params, MAX_EVENTS);
    match params.axis(WAIT.name) {
        "epoll-et" => run(wait::Epoll::edge(ends, max_events)?, ends, counters, params, cx),
        "epoll-lt" => run(wait::Epoll::level(ends, max_events)?, ends, counters, params, cx),
        "epoll-oneshot" => run(wait::Oneshot::new(ends, max_events)?, ends, counters, params, cx),
        "poll" => run(wait::Poll::new(ends), ends, counters, params, cx),
        "select" => run(wait::Select::new(ends)?, ends, counters, params, cx),
        "uring" => run(wait::Uring::new(ends, max_events)?, ends, counters, params, cx),
        _ => run(wait::Cyclic::new(ends), ends, counters, params, cx),
    }
}

fn run<W: Waiter>(
    waiter: W,
    ends: &[OwnedFd],
    counters: SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let mut reader = Reader {
        waiter,
        intake: Intake::new(ends, params.payload_bytes, params.touch, W::TELLS_ONCE)?,
        calls: 0,
        yield_limit: count(params, YIELD_LIMIT),
        counters,
        writers: writers(params),
        edges: Vec::with_capacity(1024),
    };
    cx.set_step(Step::Prefault);
    reader.intake.prefault()?;
    cx.set_step(Step::Verify);
    reader.intake.verify()?;
    for end in ends {
        rustix::io::ioctl_fionbio(end, !W::BLOCKS)?;
    }
    cx.lead_intervals(&mut reader)?;
    note(&reader.edges, cx);
    let mut facts = facts(ends, params)?;
    facts.insert("interval_ms".into(), (cx.interval_ns() as f64 / 1e6).to_string());
    facts.extend(reader.accounts());
    Ok(facts)
}

struct Reader<W> {
    waiter: W,
    intake: Intake,
    calls: u64,
    yield_limit: usize,
    counters: SharedCounters,
    writers: usize,
    edges: Vec<Edge>,
}

/// Everything that is counted, as it stood at an edge of intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edge {
    pub(super) now_ns: u64,
    pub(super) events: u64,
    pub(super) bytes: u64,
    pub(super) calls: u64,
    pub(super) empty: u64,
    pub(super) writes: u64,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

impl<W: Waiter> Flow for Reader<W> {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        let Reader { waiter, intake, .. } = self;
        let reads_before = intake.reads();
        let ready = waiter.wait_each(&mut |index| match W::BLOCKS {
            true => intake.take_due(index),
            false => intake.take_ready(index),
        })?;
        let reads = intake.reads() - reads_before;
        self.calls += 1;
        if ready < self.yield_limit && !W::BLOCKS {
            std::thread::yield_now();
        }
        Ok(1 + reads)
    }

    fn count(&self) -> (u64, u64) {
        (self.intake.events, self.intake.bytes)
    }

    fn warm_ops(&self) -> u64 {
        self.intake.streams() as u64
    }

    fn edge(&mut self, now_ns: u64) {
        let own = ThreadCounters::read();
        let of_writers = |word| self.of_writers(word);
        self.edges.push(Edge {
            now_ns,
            events: self.intake.events,
            bytes: self.intake.bytes,
            calls: self.calls,
            empty: self.intake.empty,
            writes: of_writers(writer::WRITES),
            voluntary: own.voluntary_switches + of_writers(writer::VOLUNTARY),
            involuntary: own.involuntary_switches + of_writers(writer::INVOLUNTARY),
        });
    }

    fn drain(&mut self, counted_ops: u64) -> io::Result<()> {
        self.counters.word(0, COUNTED_OPS).store(counted_ops, Relaxed);
        self.intake.stop_blocking()?;
        let mut since = Instant::now();
        loop {
            // Before the cleanup: what a writer has written before it said so is there to be read.
            let is_over =
                (1..=self.writers).all(|role| self.counters.word(role, writer::DONE).load(Acquire) != 0); // PAIR written
            let before = self.intake.bytes;
            self.intake.take_all()?;
            let is_complete = is_over && self.intake.bytes >= self.of_writers(writer::BYTES);
            if is_complete {
                return self.check();
            }
            if self.intake.bytes > before {
                since = Instant::now();
            } else if is_over && since.elapsed() > LOST_AFTER {
                return self.check();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl<W: Waiter> Reader<W> {
    fn of_writers(&self, word: usize) -> u64 {
        writer::sum(&self.counters, self.writers, word)
    }

    /// Nothing may be lost, nothing added, nothing changed.
    fn check(&self) -> io::Result<()> {
        let (bytes, sum) = (self.of_writers(writer::BYTES), self.of_writers(writer::SUM));
        if (bytes, sum) == (self.intake.bytes, self.intake.sum) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{} bytes with sum {:#x} were read, but {bytes} with sum {sum:#x} written",
            self.intake.bytes, self.intake.sum
        )))
    }

    /// What all roles did in the whole run, warm-up and drain included.
    fn accounts(&self) -> Facts {
        let Intake { events, bytes, empty, interrupted, .. } = &self.intake;
        let interrupted = interrupted + self.of_writers(writer::INTERRUPTED);
        Facts::from([
            ("first_run_reads".into(), events.to_string()),
            ("first_run_writes".into(), self.of_writers(writer::WRITES).to_string()),
            ("first_run_bytes_written".into(), self.of_writers(writer::BYTES).to_string()),
            ("first_run_bytes_read".into(), bytes.to_string()),
            ("first_run_errors".into(), format!("EAGAIN {empty}, EINTR {interrupted}")),
        ])
    }
}

/// The figures of each interval, by name.
pub(super) fn note(edges: &[Edge], cx: &mut Ctx<'_>) {
    let series = |of: &dyn Fn(&Edge, &Edge) -> f64| -> Vec<f64> {
        edges.windows(2).map(|pair| rounded(of(&pair[0], &pair[1]))).collect()
    };
    let per_second = |of: fn(&Edge) -> u64| {
        series(&|a, b| (of(b) - of(a)) as f64 * 1e9 / (b.now_ns - a.now_ns).max(1) as f64)
    };
    let per_call = |a: &Edge, b: &Edge| (b.events - a.events) as f64 / (b.calls - a.calls).max(1) as f64;
    cx.note_series("events_per_call", series(&per_call));
    cx.note_series("bytes_per_s", per_second(|edge| edge.bytes));
    cx.note_series("writes_per_s", per_second(|edge| edge.writes));
    cx.note_series("empty_reads_per_s", per_second(|edge| edge.empty));
    cx.note_series("voluntary_switches_per_s", per_second(|edge| edge.voluntary));
    cx.note_series("involuntary_switches_per_s", per_second(|edge| edge.involuntary));
}

/// A figure with as many digits as it deserves: a thousand intervals must fit into a report.
fn rounded(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}

/// Effective settings of the streams.
fn facts(ends: &[OwnedFd], params: &CaseParams) -> io::Result<Facts> {
    let mut facts = Facts::from([
        ("streams".into(), count(params, STREAMS).to_string()),
        ("order".into(), if is_cyclic(params) { "cyclic" } else { "random" }.into()),
    ]);
    let mut extremes = |name: &str, of: &dyn Fn(&OwnedFd) -> io::Result<usize>| -> io::Result<()> {
        let sizes = ends.iter().map(of).collect::<io::Result<Vec<usize>>>()?;
        let of_all = [("smallest", sizes.iter().min()), ("largest", sizes.iter().max())];
        for (which, size) in of_all {
            facts.insert(format!("{name}_{which}"), size.map_or(0, |size| *size).to_string());
        }
        Ok(())
    };
    match params.id.mechanism.as_str() {
        "pipe" => extremes("pipe_bytes", &|end| Ok(fcntl_getpipe_size(end)?)),
        _ => extremes("rcvbuf_bytes", &|end| Ok(sockopt::socket_recv_buffer_size(end)?)),
    }?;
    if params.axis(WAIT.name) == "uring" {
        facts.insert("uring".into(), "multishot poll for each stream, then read".into());
    }
    Ok(facts)
}
