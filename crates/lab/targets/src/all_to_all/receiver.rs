//! A receiver: every message of every sender of its group. The first one has the clock.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::{Concurrent, sender};
use crate::shared_counters::{Counter, SharedCounters};
use crate::sys;
use weighbridge_harness::buffer::Buffer;
use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::{Balance, Ctx, Follower, Leader};
use weighbridge_harness::params::{CaseParams, Touch};
use weighbridge_harness::shared::Step;
use weighbridge_harness::touch;

/// The whole life of this role.
pub(super) fn drive(
    end: OwnedFd,
    counters: &SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let concurrent = Concurrent::of(params);
    let mut receiver = Receiver {
        end,
        buffer: Buffer::new(params.payload_bytes)?,
        len: params.payload_bytes,
        is_touched: params.touch == Touch::All,
        role: cx.role,
        counters,
        messages: 0,
        sum: 0,
        is_at_end: false,
    };
    cx.set_step(Step::Prefault);
    receiver.buffer.prefault()?;
    cx.set_step(Step::Verify);
    receiver.verify(concurrent.senders)?;
    if cx.role == 0 {
        return lead(receiver, concurrent, cx);
    }
    cx.follow_intervals(&mut receiver)?;
    Ok(Facts::new())
}

fn lead(receiver: Receiver<'_>, concurrent: Concurrent, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let mut leading = Leading { receiver, concurrent, in_flight: Vec::with_capacity(1024) };
    cx.lead_intervals(&mut leading)?;
    // The first edge stands before the first sample.
    cx.note_series("in_flight_messages", leading.in_flight.split_off(1));
    Ok(Facts::from([
        ("first_run_messages_received".into(), leading.received(Counter::Messages).to_string()),
        ("interval_ms".into(), (cx.interval_ns() as f64 / 1e6).to_string()),
    ]))
}

struct Receiver<'a> {
    end: OwnedFd,
    buffer: Buffer,
    len: usize,
    is_touched: bool,
    role: usize,
    counters: &'a SharedCounters,
    messages: u64,
    sum: u64,
    is_at_end: bool,
}

impl Receiver<'_> {
    /// One message, and a note of it; nothing once all senders have closed their ends.
    #[inline]
    fn take(&mut self) -> io::Result<()> {
        let message = &mut self.buffer.bytes_mut()[..self.len];
        if !fill(self.end.as_raw_fd(), message)? {
            // The senders close when they are told to stop, and this role is told the same. A role that comes here again was
            // not told: they are gone.
            return match std::mem::replace(&mut self.is_at_end, true) {
                false => Ok(()),
                true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "all senders closed their ends")),
            };
        }
        if self.is_touched {
            self.sum = self.sum.wrapping_add(touch::byte_sum(message));
        }
        self.messages += 1;
        self.counters.set(self.role, Counter::Messages, self.messages);
        Ok(())
    }

    /// Everything that is still on its way, until the last sender has closed: in pieces of any size, as only totals count now.
    fn drain(&mut self) -> io::Result<()> {
        const PIECE_BYTES: usize = 1 << 16;
        let mut piece = vec![0; PIECE_BYTES];
        let mut bytes = self.messages * self.len as u64;
        loop {
            match sys::read(&self.end, &mut piece) {
                Ok(0) => break,
                Ok(count) => {
                    bytes += count as u64;
                    if self.is_touched {
                        self.sum = self.sum.wrapping_add(touch::byte_sum(&piece[..count]));
                    }
                    self.messages = bytes / self.len as u64;
                    self.publish();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.publish();
        if bytes.is_multiple_of(self.len as u64) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the last message is cut off"))
        }
    }

    fn publish(&self) {
        self.counters.set(self.role, Counter::Messages, self.messages);
        self.counters.set(self.role, Counter::Sum, self.sum);
    }

    /// The first message of each sender, whole, each once.
    fn verify(&mut self, senders: usize) -> io::Result<()> {
        let mut marks = Vec::with_capacity(senders);
        for _ in 0..senders {
            let message = &mut self.buffer.bytes_mut()[..self.len];
            if !fill(self.end.as_raw_fd(), message)? {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the senders closed their ends"));
            }
            if message.iter().any(|byte| *byte != message[0]) {
                return Err(io::Error::other("a message holds bytes of two senders"));
            }
            marks.push(message[0]);
        }
        let mut expected: Vec<u8> = (0..senders).map(sender::mark).collect();
        marks.sort_unstable();
        expected.sort_unstable();
        if marks == expected { Ok(()) } else { Err(io::Error::other("not every sender is heard once")) }
    }
}

impl Follower for Receiver<'_> {
    #[inline]
    fn step(&mut self) -> io::Result<()> {
        self.take()
    }

    fn end(&mut self) -> io::Result<()> {
        self.drain()
    }
}

/// Fills `message`. `false` at the end of the stream.
#[inline]
fn fill(fd: RawFd, message: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < message.len() {
        match sys::read(&fd, &mut message[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the last message is cut off")),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The receiver with the clock. It counts what all receivers say that they have.
struct Leading<'a> {
    receiver: Receiver<'a>,
    concurrent: Concurrent,
    /// Sent and not yet received, at each edge: how full the buffers are.
    in_flight: Vec<f64>,
}

impl Leading<'_> {
    fn received(&self, counter: Counter) -> u64 {
        self.receiver.counters.total(self.concurrent.receiver_roles(), counter)
    }

    fn sent(&self, counter: Counter) -> u64 {
        self.receiver.counters.total(self.concurrent.sender_roles(), counter)
    }
}

impl Leader for Leading<'_> {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        self.receiver.take()?;
        Ok(1)
    }

    fn count(&self) -> (u64, u64) {
        let messages = self.received(Counter::Messages);
        (messages, messages * self.receiver.len as u64)
    }

    fn warm_ops(&self) -> u64 {
        (self.concurrent.groups * self.concurrent.senders * self.concurrent.receivers) as u64
    }

    fn edge(&mut self, _now_ns: u64) {
        // A sender notes what it has sent when it has been to every receiver, so it may be behind.
        let in_flight = self.sent(Counter::Messages).saturating_sub(self.received(Counter::Messages));
        self.in_flight.push(in_flight as f64);
    }

    fn balance(&mut self) -> io::Result<Balance> {
        self.receiver.drain()?;
        let both = |of: &dyn Fn(Counter) -> u64| (of(Counter::Messages), of(Counter::Sum));
        Ok(Balance {
            unit: "messages",
            sent: both(&|counter| self.sent(counter)),
            arrived: both(&|counter| self.received(counter)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all_to_all::sender::mark;
    use rustix::pipe::pipe;

    fn receiver(counters: &SharedCounters, end: OwnedFd) -> Receiver<'_> {
        let buffer = Buffer::new(2).unwrap();
        Receiver {
            end,
            buffer,
            len: 2,
            is_touched: true,
            role: 0,
            counters,
            messages: 0,
            sum: 0,
            is_at_end: false,
        }
    }

    fn counters() -> SharedCounters {
        SharedCounters::open(SharedCounters::create(1).unwrap(), 1).unwrap()
    }

    #[test]
    fn a_message_of_two_senders_and_a_sender_that_is_heard_twice_are_found() {
        let counters = counters();
        for (bytes, why) in [([mark(0), mark(1)], "two senders"), ([mark(1), mark(1)], "heard once")] {
            let (read, write) = pipe().unwrap();
            rustix::io::write(&write, &bytes).unwrap();
            rustix::io::write(&write, &bytes).unwrap();
            let error = receiver(&counters, read).verify(2).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn what_was_sent_before_the_end_is_counted_and_a_cut_message_is_an_error() {
        let counters = counters();
        let (read, write) = pipe().unwrap();
        rustix::io::write(&write, &[1, 2, 3, 4]).unwrap();
        drop(write);
        let mut all = receiver(&counters, read);
        all.drain().unwrap();
        assert_eq!((counters.get(0, Counter::Messages), counters.get(0, Counter::Sum)), (2, 10));
        all.take().unwrap();
        assert!(all.take().is_err(), "the senders have ended without being told to stop");

        let (read, write) = pipe().unwrap();
        rustix::io::write(&write, &[1, 2, 3]).unwrap();
        drop(write);
        assert!(receiver(&counters, read).drain().unwrap_err().to_string().contains("cut off"));
    }
}
