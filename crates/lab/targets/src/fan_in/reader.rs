//! The reader: waits, reads what is ready, and at the end accounts for every byte that was written.

use rustix::net::sockopt;
use rustix::pipe::fcntl_getpipe_size;

use super::arrivals::Arrivals;
use super::edges::{Edges, Reads};
use super::intake::Intake;
use super::wait::{self, Waiter};
use super::{MAX_EVENTS, StreamWait, YIELD_LIMIT, is_cyclic, limits};
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};
use weighbridge_harness::marks::{Notes, Point, Unmarked};

pub(super) struct Role<'a, 'cx> {
    pub(super) ends: &'a [OwnedFd],
    pub(super) counters: &'a SharedCounters,
    pub(super) cx: &'a mut Ctx<'cx>,
}

impl Role<'_, '_> {
    pub(super) fn drive(self) -> io::Result<Facts> {
        let (ends, most) = (self.ends, self.cx.params.count(MAX_EVENTS));
        match self.cx.params.choice() {
            StreamWait::EpollEdge => self.wait_by(wait::Epoll::<true>::new(ends, most)?),
            StreamWait::EpollLevel => self.wait_by(wait::Epoll::<false>::new(ends, most)?),
            StreamWait::EpollOneshot => self.wait_by(wait::Oneshot::new(ends, most)?),
            StreamWait::Poll => self.wait_by(wait::Poll::new(ends)),
            StreamWait::Select => self.wait_by(wait::Select::new(ends)?),
            StreamWait::Uring => self.wait_by(wait::Uring::new(ends, most)?),
            StreamWait::None => self.wait_by(wait::Cyclic::new(ends)),
        }
    }

    fn wait_by<W: Waiter>(self, waiter: W) -> io::Result<Facts> {
        match self.cx.marker() {
            None => self.read(waiter, Unmarked),
            Some(marker) => self.read(waiter, marker),
        }
    }

    fn read<W: Waiter, N: Notes>(self, waiter: W, notes: N) -> io::Result<Facts> {
        let Role { ends, counters, cx } = self;
        let params = cx.params;
        let mut reader = Reader {
            waiter,
            intake: Intake::new(ends, params.payload_bytes, params.touch, W::TELLS_ONCE)?,
            calls: 0,
            yield_limit: params.count(YIELD_LIMIT),
            is_draining: false,
            edges: Edges::new(counters, params).with_machine(cx.interval_ns()),
            notes,
        };
        reader.intake.arrivals = Arrivals::new(cx, counters, ends.len())?;
        cx.set_step(Step::Prefault);
        reader.intake.prefault()?;
        cx.set_step(Step::Verify);
        reader.intake.verify()?;
        for end in ends {
            rustix::io::ioctl_fionbio(end, !W::BLOCKS)?;
        }
        cx.lead_intervals(&mut reader)?;
        reader.edges.tell(cx);
        if let Some(arrivals) = &reader.intake.arrivals {
            arrivals.tell(cx);
        }
        let Intake { events, bytes, empty, interrupted, .. } = reader.intake;
        let interrupted = interrupted + reader.edges.of_writers(Counter::Interrupted);
        let mut facts = settings(ends, params)?;
        facts.extend(reader.edges.facts(events, bytes, cx));
        facts.insert("first_run_errors".into(), format!("EAGAIN {empty}, EINTR {interrupted}"));
        Ok(facts)
    }
}

struct Reader<'a, W, N> {
    waiter: W,
    intake: Intake<'a>,
    calls: u64,
    yield_limit: usize,
    is_draining: bool,
    edges: Edges<'a>,
    /// Streams have no messages that could be told apart: a mark is a read.
    notes: N,
}

impl<W: Waiter, N: Notes> Leader for Reader<'_, W, N> {
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
        if let Some(arrivals) = self.intake.arrivals.as_mut().filter(|_| self.edges.is_empty()) {
            arrivals.begin();
        }
        let Intake { events, bytes, empty, .. } = self.intake;
        self.edges.push(now_ns, Reads { events, bytes, calls: self.calls, empty });
    }

    fn balance(&mut self) -> io::Result<Balance> {
        if !self.is_draining {
            self.intake.stop_blocking()?;
            self.intake.arrivals.iter_mut().for_each(Arrivals::end);
            self.is_draining = true;
        }
        self.catch_up()
    }

    fn catch_up(&mut self) -> io::Result<Balance> {
        self.intake.take_all()?;
        Ok(self.edges.balance("bytes", Counter::Bytes, (self.intake.bytes, self.intake.sum)))
    }
}

fn settings(ends: &[OwnedFd], params: &CaseParams) -> io::Result<Facts> {
    let (name, of): (_, fn(&OwnedFd) -> io::Result<usize>) = match params.id.mechanism.as_str() {
        "pipe" => ("pipe_bytes", |end| Ok(fcntl_getpipe_size(end)?)),
        _ => ("rcvbuf_bytes", |end| Ok(sockopt::socket_recv_buffer_size(end)?)),
    };
    let sizes = ends.iter().map(of).collect::<io::Result<Vec<usize>>>()?;
    let mut facts = Facts::from([
        ("streams".into(), limits::streams(params).to_string()),
        ("order".into(), if is_cyclic(params) { "cyclic" } else { "random" }.into()),
        (format!("{name}_smallest"), sizes.iter().min().unwrap_or(&0).to_string()),
        (format!("{name}_largest"), sizes.iter().max().unwrap_or(&0).to_string()),
    ]);
    if params.id.mechanism == "tcp" {
        let is_off = |end| Ok(sockopt::tcp_nodelay(end)?);
        let off = ends.iter().map(is_off).collect::<io::Result<Vec<bool>>>()?;
        let nodelay = match (off.contains(&true), off.contains(&false)) {
            (true, true) => "of some streams only",
            (false, true) => "no",
            _ => "yes",
        };
        facts.insert("nodelay".into(), nodelay.into());
    }
    if params.choice::<StreamWait>() == StreamWait::Uring {
        facts.insert("uring".into(), "multishot poll for each stream, then read".into());
    }
    Ok(facts)
}
