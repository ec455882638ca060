//! The reader: waits, reads what is ready, and at the end accounts for every byte that was written.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use causeway_os::counters::ThreadCounters;
use rustix::net::sockopt;
use rustix::pipe::fcntl_getpipe_size;

use super::wait::{self, Waiter};
use super::{MAX_EVENTS, READ_BYTES, STREAMS, StreamWait, YIELD_LIMIT, is_cyclic, writer, writers};
use crate::buffer::Buffer;
use crate::contract::Facts;
use crate::ctx::{Ctx, Flow};
use crate::params::{CaseParams, Touch};
use crate::shared::Step;
use crate::shared_counters::SharedCounters;
use crate::{sys, touch};

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
    let mut reader = Reader {
        waiter,
        intake: Intake::new::<W>(ends, params)?,
        calls: 0,
        yield_limit: params.count(YIELD_LIMIT),
        counters,
        writers: writers(params),
        edges: Vec::with_capacity(1024),
    };
    cx.set_step(Step::Prefault);
    reader.intake.buffer.prefault()?;
    cx.set_step(Step::Verify);
    reader.intake.verify(params.payload_bytes)?;
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

/// The ends, and what has been read from them.
struct Intake {
    fds: Vec<RawFd>,
    buffer: Buffer,
    read_bytes: usize,
    /// Reads again after a full buffer: who is told of new data only, is not told of the rest.
    until_empty: bool,
    /// Bytes that each visit takes, at least: blocking in cyclic order keeps in step with writers that do the same.
    least_bytes: usize,
    is_touched: bool,
    events: u64,
    bytes: u64,
    sum: u64,
    empty: u64,
    interrupted: u64,
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
        let ready = waiter.wait_each(&mut |index| intake.take(index))?;
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
        self.intake.fds.len() as u64
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
        if W::BLOCKS {
            for fd in &self.intake.fds {
                sys::set_nonblocking(fd)?;
            }
        }
        self.intake.until_empty = true;
        self.intake.least_bytes = 1;
        let mut since = Instant::now();
        loop {
            // Before the cleanup: what a writer has written before it said so is there to be read.
            let is_over =
                (1..=self.writers).all(|role| self.counters.word(role, writer::DONE).load(Acquire) != 0); // PAIR written
            let before = self.intake.bytes;
            for index in 0..self.intake.fds.len() {
                self.intake.take(index)?;
            }
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

impl Intake {
    fn new<W: Waiter>(ends: &[OwnedFd], params: &CaseParams) -> io::Result<Intake> {
        let read_bytes = READ_BYTES.max(params.payload_bytes);
        Ok(Intake {
            fds: ends.iter().map(AsRawFd::as_raw_fd).collect(),
            buffer: Buffer::new(read_bytes)?,
            read_bytes,
            until_empty: W::TELLS_ONCE,
            least_bytes: if W::BLOCKS { params.payload_bytes } else { 1 },
            is_touched: params.touch == Touch::All,
            events: 0,
            bytes: 0,
            sum: 0,
            empty: 0,
            interrupted: 0,
        })
    }

    /// Calls of read so far. One look at a stream may be thousands, where it is read until it is empty.
    #[inline]
    fn reads(&self) -> u64 {
        self.events + self.empty
    }

    /// Reads a stream that has data, once as a rule.
    #[inline]
    fn take(&mut self, index: usize) -> io::Result<()> {
        let buffer = &mut self.buffer.bytes_mut()[..self.read_bytes];
        let mut taken = 0;
        loop {
            match sys::read(&self.fds[index], buffer) {
                Ok(0) => {
                    let why = format!("stream {index}: its writer has closed it");
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                }
                Ok(count) => {
                    self.events += 1;
                    self.bytes += count as u64;
                    if self.is_touched {
                        self.sum = self.sum.wrapping_add(touch::byte_sum(&buffer[..count]));
                    }
                    taken += count;
                    let may_hold_more = self.until_empty && count == buffer.len();
                    if taken >= self.least_bytes && !may_hold_more {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.empty += 1;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.interrupted += 1,
                Err(error) => return Err(io::Error::new(error.kind(), format!("stream {index}: {error}"))),
            }
        }
    }

    /// One message through every stream, each byte of which says which stream it is.
    fn verify(&mut self, payload_bytes: usize) -> io::Result<()> {
        for (index, fd) in self.fds.iter().enumerate() {
            let message = &mut self.buffer.bytes_mut()[..payload_bytes];
            let mut filled = 0;
            while filled < payload_bytes {
                match sys::read(fd, &mut message[filled..])? {
                    0 => {
                        return Err(io::Error::other(format!(
                            "stream {index} ended before its first message"
                        )));
                    }
                    count => filled += count,
                }
            }
            if message.iter().any(|byte| *byte != writer::mark(index)) {
                return Err(io::Error::other(format!("stream {index} does not hold what its writer wrote")));
            }
        }
        Ok(())
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
    if params.choice::<StreamWait>() == StreamWait::Uring {
        facts.insert("uring".into(), "multishot poll for each stream, then read".into());
    }
    Ok(facts)
}
