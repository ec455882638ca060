//! A writer: small messages to its streams, one after the other, as fast as they are taken, or when they are due.

use rustix::net::sockopt;

use super::arrivals::Share;
use super::edges::Sent;
use super::{is_cyclic, limits, part, writers};
use crate::many::mark;
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};
use crate::sys;
use weighbridge_harness::marks::{Notes, Point, Unmarked};

/// Writes between two looks at whether the reader has enough.
const CHUNK: usize = 64;

pub(super) fn drive(ends: &[OwnedFd], counters: &SharedCounters, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    match cx.marker() {
        None => drive_noting(Unmarked, ends, counters, cx),
        Some(marker) => drive_noting(marker, ends, counters, cx),
    }
}

fn drive_noting<N: Notes>(
    notes: N,
    ends: &[OwnedFd],
    counters: &SharedCounters,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let params = cx.params;
    let mut writer = Writer {
        sent: Sent::new(counters, cx.role),
        fds: ends.iter().map(AsRawFd::as_raw_fd).collect(),
        message: Buffer::new(params.payload_bytes)?,
        payload_bytes: params.payload_bytes,
        is_touched: params.touch == Touch::All,
        is_cyclic: is_cyclic(params),
        next: 0,
        random: Random(0x9e37_79b9_7f4a_7c15 ^ cx.role as u64),
        until_yield: ends.len(),
        interrupted: 0,
        share: Share::new(cx, counters),
        notes,
    };
    cx.set_step(Step::Prefault);
    writer.message.prefault()?;
    cx.set_step(Step::Verify);
    writer.introduce(part(cx.role - 1, writers(params), limits::streams(params)))?;
    cx.follow_intervals(&mut writer)?;
    if params.id.mechanism == "pipe" {
        return Ok(Facts::new());
    }
    let sndbuf = ends.first().map(sockopt::socket_send_buffer_size).transpose()?;
    Ok(Facts::from([("sndbuf_bytes".into(), sndbuf.unwrap_or(0).to_string())]))
}

struct Writer<'a, N> {
    sent: Sent<'a>,
    fds: Vec<RawFd>,
    message: Buffer,
    payload_bytes: usize,
    is_touched: bool,
    is_cyclic: bool,
    next: usize,
    random: Random,
    until_yield: usize,
    interrupted: u64,
    /// At a rate.
    share: Option<Share<'a>>,
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
        // Who sleeps between two messages looks after each.
        let chunk = if self.share.is_some() { 1 } else { CHUNK };
        for _ in 0..chunk {
            if let Some(share) = &mut self.share {
                share.await_due(self.sent.messages);
            }
            let index = self.choose();
            let fd = self.fds[index];
            let message = &mut self.message.bytes_mut()[..self.payload_bytes];
            if self.is_touched {
                let byte = self.sent.messages as u8;
                message.fill(byte);
                self.sent.sum = self.sent.sum.wrapping_add(u64::from(byte) * self.payload_bytes as u64);
            }
            self.notes.note(Point::WriteBegins, None);
            self.interrupted += sys::write_all(&fd, message)?;
            self.notes.note(Point::Written, None);
            self.sent.messages += 1;
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
            return self.random.below(self.fds.len());
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
        self.sent.publish(self.payload_bytes);
        self.sent.set(Counter::Interrupted, self.interrupted);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.sent.publish_switches();
        Ok(())
    }
}

/// xorshift64* (Vigna, 2016): part of what is timed, so it stays what it is.
struct Random(u64);

impl Random {
    /// A number below `limit`, by the high half of a product (Lemire, 2019; the bias of one part in 2³² is kept).
    #[inline]
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((high * limit as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_is_chosen_about_as_often_as_any_other() {
        let (mut random, mut counts) = (Random(1), [0u32; 100]);
        (0..1_000_000).for_each(|_| counts[random.below(100)] += 1);
        // Ten thousand each; six standard deviations are 600.
        assert!(counts.iter().all(|count| (9_400..10_600).contains(count)), "{counts:?}");
    }
}
