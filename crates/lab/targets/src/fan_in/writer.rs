//! A writer: small messages to its streams, one after the other, as fast as they are taken.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::net::sockopt;

use super::{STREAMS, is_cyclic, part, writers};
use crate::shared_counters::{Counter, SharedCounters};
use crate::sys;
use weighbridge_harness::buffer::Buffer;
use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::{Ctx, Follower};
use weighbridge_harness::marks::{Notes, Point, Unmarked};
use weighbridge_harness::params::{CaseParams, Touch};
use weighbridge_harness::shared::Step;

/// Writes between two looks at whether the reader has enough.
const CHUNK: usize = 64;
/// Chunks between two readings of the context switches: a reading costs as much as a write.
pub(super) const SWITCHES_EVERY: u64 = 16;

/// What the first message of a stream is filled with.
pub(super) fn mark(stream: usize) -> u8 {
    (stream % 251) as u8 + 1
}

/// The whole life of this role.
pub(super) fn drive(
    role: usize,
    ends: &[OwnedFd],
    counters: SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    match cx.marker() {
        None => drive_noting(Unmarked, role, ends, counters, params, cx),
        Some(marker) => drive_noting(marker, role, ends, counters, params, cx),
    }
}

fn drive_noting<N: Notes>(
    notes: N,
    role: usize,
    ends: &[OwnedFd],
    counters: SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let mut writer = Writer {
        counters: &counters,
        role,
        chunks: 0,
        fds: ends.iter().map(AsRawFd::as_raw_fd).collect(),
        message: Buffer::new(params.payload_bytes)?,
        payload_bytes: params.payload_bytes,
        is_touched: params.touch == Touch::All,
        is_cyclic: is_cyclic(params),
        next: 0,
        random: fastrand::Rng::with_seed(role as u64),
        until_yield: ends.len(),
        writes: 0,
        sum: 0,
        interrupted: 0,
        notes,
    };
    cx.set_step(Step::Prefault);
    writer.message.prefault()?;
    cx.set_step(Step::Verify);
    writer.introduce(part(role - 1, writers(params), params.count(STREAMS)))?;
    cx.follow_intervals(&mut writer)?;
    let mut facts = Facts::new();
    if params.id.mechanism != "pipe" {
        let sndbuf = ends.iter().map(sockopt::socket_send_buffer_size).next();
        facts.insert("sndbuf_bytes".into(), sndbuf.transpose()?.unwrap_or(0).to_string());
    }
    Ok(facts)
}

struct Writer<'a, N> {
    counters: &'a SharedCounters,
    role: usize,
    chunks: u64,
    fds: Vec<RawFd>,
    message: Buffer,
    payload_bytes: usize,
    is_touched: bool,
    is_cyclic: bool,
    next: usize,
    random: fastrand::Rng,
    until_yield: usize,
    writes: u64,
    sum: u64,
    interrupted: u64,
    notes: N,
}

impl<N: Notes> Writer<'_, N> {
    /// One message to each stream, in the order in which the reader takes them.
    fn introduce(&mut self, streams: impl Iterator<Item = usize>) -> io::Result<()> {
        for (fd, stream) in self.fds.iter().zip(streams) {
            let message = &mut self.message.bytes_mut()[..self.payload_bytes];
            message.fill(mark(stream));
            sys::write_all(fd, message)?;
        }
        self.message.bytes_mut().fill(0);
        Ok(())
    }

    #[inline]
    fn chunk(&mut self) -> io::Result<()> {
        for _ in 0..CHUNK {
            let index = self.choose();
            let fd = self.fds[index];
            let message = &mut self.message.bytes_mut()[..self.payload_bytes];
            if self.is_touched {
                let byte = self.writes as u8;
                message.fill(byte);
                self.sum = self.sum.wrapping_add(u64::from(byte) * self.payload_bytes as u64);
            }
            self.notes.note(Point::WriteBegins, None);
            self.interrupted += sys::write_all(&fd, message)?;
            self.notes.note(Point::Written, None);
            self.writes += 1;
            self.until_yield -= 1;
            if self.until_yield == 0 {
                // Once as many messages are written as there are streams, as epoll_bench does it.
                self.until_yield = self.fds.len();
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    #[inline]
    fn choose(&mut self) -> usize {
        if !self.is_cyclic {
            return self.random.usize(..self.fds.len());
        }
        let index = self.next;
        self.next = if index + 1 == self.fds.len() { 0 } else { index + 1 };
        index
    }
}

impl<N: Notes> Follower for Writer<'_, N> {
    #[inline]
    fn step(&mut self) -> io::Result<()> {
        self.chunk()?;
        let (counters, role) = (self.counters, self.role);
        counters.set(role, Counter::Messages, self.writes);
        counters.set(role, Counter::Bytes, self.writes * self.payload_bytes as u64);
        counters.set(role, Counter::Sum, self.sum);
        counters.set(role, Counter::Interrupted, self.interrupted);
        if self.chunks.is_multiple_of(SWITCHES_EVERY) {
            counters.set_switches(role);
        }
        self.chunks += 1;
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.counters.set_switches(self.role);
        Ok(())
    }
}
