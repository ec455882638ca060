//! The reader: waits, reads what is ready, and at the end accounts for every byte that was written.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;
use rustix::pipe::fcntl_getpipe_size;
use weighbridge_probe::counters::ThreadCounters;

use super::intake::Intake;
use super::wait::{self, Waiter};
use super::{MAX_EVENTS, STREAMS, StreamWait, YIELD_LIMIT, is_cyclic, writers};
use crate::shared_counters::{Counter, SharedCounters};
use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::{Balance, Ctx, Leader};
use weighbridge_harness::marks::{Notes, Point, Unmarked};
use weighbridge_harness::params::CaseParams;
use weighbridge_harness::shared::Step;

/// The whole life of this role, from its ends to its facts.
pub(super) fn drive(
    ends: &[OwnedFd],
    counters: SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let max_events = params.count(MAX_EVENTS);
    match params.choice() {
        StreamWait::EpollEdge => run(wait::Epoll::edge(ends, max_events)?, ends, counters, params, cx),
        StreamWait::EpollLevel => run(wait::Epoll::level(ends, max_events)?, ends, counters, params, cx),
        StreamWait::EpollOneshot => run(wait::Oneshot::new(ends, max_events)?, ends, counters, params, cx),
        StreamWait::Poll => run(wait::Poll::new(ends), ends, counters, params, cx),
        StreamWait::Select => run(wait::Select::new(ends)?, ends, counters, params, cx),
        StreamWait::Uring => run(wait::Uring::new(ends, max_events)?, ends, counters, params, cx),
        StreamWait::None => run(wait::Cyclic::new(ends), ends, counters, params, cx),
    }
}

fn run<W: Waiter>(
    waiter: W,
    ends: &[OwnedFd],
    counters: SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    match cx.marker() {
        None => run_noting((waiter, Unmarked), ends, counters, params, cx),
        Some(marker) => run_noting((waiter, marker), ends, counters, params, cx),
    }
}

fn run_noting<W: Waiter, N: Notes>(
    (waiter, notes): (W, N),
    ends: &[OwnedFd],
    counters: SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let mut reader = Reader {
        waiter,
        intake: Intake::new(ends, params.payload_bytes, params.touch, W::TELLS_ONCE)?,
        calls: 0,
        yield_limit: params.count(YIELD_LIMIT),
        counters,
        writers: writers(params),
        is_draining: false,
        edges: Vec::with_capacity(1024),
        notes,
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

struct Reader<W, N> {
    waiter: W,
    intake: Intake,
    calls: u64,
    yield_limit: usize,
    counters: SharedCounters,
    writers: usize,
    is_draining: bool,
    edges: Vec<Edge>,
    /// Streams have no messages that could be told apart: a mark is a read.
    notes: N,
}

/// Everything that is counted, as it stood at an edge of intervals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edge {
    /// Time of the edge.
    pub now_ns: u64,
    /// Reads that returned data, or messages.
    pub events: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Waits of the reader.
    pub calls: u64,
    /// Reads, or waits, that found nothing.
    pub empty: u64,
    /// Messages of the writers.
    pub writes: u64,
    /// Context switches of all roles because one waited.
    pub voluntary: u64,
    /// The same because one was preempted.
    pub involuntary: u64,
}

impl<W: Waiter, N: Notes> Leader for Reader<W, N> {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        let Reader { waiter, intake, notes, .. } = self;
        let reads_before = intake.reads();
        notes.note(Point::WaitBegins, None);
        let ready = waiter.wait_each(&mut |index| {
            if W::BLOCKS { intake.take_due(index) } else { intake.take_ready(index) }?;
            notes.note(Point::Read, None);
            Ok(())
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
        self.edges.push(Edge {
            now_ns,
            events: self.intake.events,
            bytes: self.intake.bytes,
            calls: self.calls,
            empty: self.intake.empty,
            writes: self.of_writers(Counter::Messages),
            voluntary: own.voluntary_switches + self.of_writers(Counter::VoluntarySwitches),
            involuntary: own.involuntary_switches + self.of_writers(Counter::InvoluntarySwitches),
        });
    }

    fn balance(&mut self) -> io::Result<Balance> {
        if !self.is_draining {
            self.intake.stop_blocking()?;
            self.is_draining = true;
        }
        self.catch_up()
    }

    fn catch_up(&mut self) -> io::Result<Balance> {
        self.intake.take_all()?;
        Ok(Balance {
            unit: "bytes",
            sent: (self.of_writers(Counter::Bytes), self.of_writers(Counter::Sum)),
            arrived: (self.intake.bytes, self.intake.sum),
        })
    }
}

impl<W: Waiter, N: Notes> Reader<W, N> {
    fn of_writers(&self, counter: Counter) -> u64 {
        self.counters.total(1..=self.writers, counter)
    }

    /// What all roles did in the whole run, warm-up and drain included.
    fn accounts(&self) -> Facts {
        let Intake { events, bytes, empty, interrupted, .. } = &self.intake;
        let interrupted = interrupted + self.of_writers(Counter::Interrupted);
        Facts::from([
            ("first_run_reads".into(), events.to_string()),
            ("first_run_writes".into(), self.of_writers(Counter::Messages).to_string()),
            ("first_run_bytes_written".into(), self.of_writers(Counter::Bytes).to_string()),
            ("first_run_bytes_read".into(), bytes.to_string()),
            ("first_run_errors".into(), format!("EAGAIN {empty}, EINTR {interrupted}")),
        ])
    }
}

/// Keeps the figures of each interval, by name.
pub fn note(edges: &[Edge], cx: &mut Ctx<'_>) {
    // A slice has edges of its own; intervals that follow each other without a gap share them.
    let step = if cx.takes_turns() { 2 } else { 1 };
    let series = |of: &dyn Fn(&Edge, &Edge) -> f64| -> Vec<f64> {
        edges.windows(2).step_by(step).map(|pair| of(&pair[0], &pair[1])).collect()
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

/// Effective settings of the streams.
fn facts(ends: &[OwnedFd], params: &CaseParams) -> io::Result<Facts> {
    let mut facts = Facts::from([
        ("streams".into(), params.count(STREAMS).to_string()),
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
    if params.id.mechanism == "tcp" {
        let delays =
            ends.iter().map(|end| Ok(!sockopt::tcp_nodelay(end)?)).collect::<io::Result<Vec<bool>>>()?;
        let nodelay = match delays.contains(&true) {
            true if delays.contains(&false) => "of some streams only",
            true => "no",
            false => "yes",
        };
        facts.insert("nodelay".into(), nodelay.into());
    }
    if params.choice::<StreamWait>() == StreamWait::Uring {
        facts.insert("uring".into(), "multishot poll for each stream, then read".into());
    }
    Ok(facts)
}
