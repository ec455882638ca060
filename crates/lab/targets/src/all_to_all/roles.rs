//! A sender: a message to every receiver of its group, in turn, until the leading receiver has enough. A receiver: every message of
//! every sender of its group. The first receiver has the clock.

use super::Concurrent;
use crate::many::mark;
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};
use crate::sys;

pub(super) fn send(ends: Vec<OwnedFd>, counters: &SharedCounters, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    let len = params.payload_bytes;
    let mut buffer = Buffer::new(len)?;
    cx.set_step(Step::Prefault);
    buffer.prefault()?;
    cx.set_step(Step::Verify);
    let message = &mut buffer.bytes_mut()[..len];
    message.fill(mark(Concurrent::of(params).sender_in_group(cx.role)));
    let fds: Vec<RawFd> = ends.iter().map(AsRawFd::as_raw_fd).collect();
    fds.iter().try_for_each(|fd| sys::write_all(fd, message).map(|_| ()))?;
    message.fill(0);

    let (role, is_touched) = (cx.role, params.touch == Touch::All);
    cx.follow_intervals(&mut Sender {
        ends,
        fds,
        buffer,
        len,
        is_touched,
        counters,
        role,
        messages: 0,
        sum: 0,
    })?;
    Ok(Facts::new())
}

struct Sender<'a> {
    ends: Vec<OwnedFd>,
    fds: Vec<RawFd>,
    buffer: Buffer,
    len: usize,
    is_touched: bool,
    counters: &'a SharedCounters,
    role: usize,
    messages: u64,
    sum: u64,
}

impl Follower for Sender<'_> {
    #[inline]
    fn step(&mut self) -> io::Result<()> {
        let message = &mut self.buffer.bytes_mut()[..self.len];
        for fd in &self.fds {
            if self.is_touched {
                let byte = self.messages as u8;
                message.fill(byte);
                self.sum = self.sum.wrapping_add(u64::from(byte) * self.len as u64);
            }
            sys::write_all(fd, message)?;
            self.messages += 1;
        }
        self.counters.set(self.role, Counter::Messages, self.messages);
        self.counters.set(self.role, Counter::Sum, self.sum);
        Ok(())
    }

    /// A receiver is at the end when the last sender of its group has closed.
    fn end(&mut self) -> io::Result<()> {
        self.ends.clear();
        Ok(())
    }
}

pub(super) fn receive(end: OwnedFd, counters: &SharedCounters, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    let concurrent = Concurrent::of(params);
    let is_touched = params.touch == Touch::All;
    let mut receiver = Receiver::new(end, counters, cx.role, params.payload_bytes, is_touched)?;
    cx.set_step(Step::Prefault);
    receiver.buffer.prefault()?;
    cx.set_step(Step::Verify);
    receiver.verify(concurrent.senders)?;
    if cx.role > 0 {
        cx.follow_intervals(&mut receiver)?;
        return Ok(Facts::new());
    }
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

impl<'a> Receiver<'a> {
    fn new(
        end: OwnedFd,
        counters: &'a SharedCounters,
        role: usize,
        len: usize,
        is_touched: bool,
    ) -> io::Result<Receiver<'a>> {
        let buffer = Buffer::new(len)?;
        Ok(Receiver { end, buffer, len, is_touched, role, counters, messages: 0, sum: 0, is_at_end: false })
    }

    /// One message into the buffer; `false` at the end of the stream.
    #[inline]
    fn fill(&mut self) -> io::Result<bool> {
        match sys::fill(&self.end, &mut self.buffer.bytes_mut()[..self.len])? {
            0 => Ok(false),
            count if count < self.len => Err(cut_off()),
            _ => Ok(true),
        }
    }

    /// One message, and a note of it; nothing once all senders have closed their ends.
    #[inline]
    fn take(&mut self) -> io::Result<()> {
        if !self.fill()? {
            // The senders close when they are told to stop, and this role is told the same. A role that comes here again was
            // not told: they are gone.
            if std::mem::replace(&mut self.is_at_end, true) {
                return Err(sys::end_of_stream("all senders closed their ends"));
            }
            return Ok(());
        }
        if self.is_touched {
            self.sum = self.sum.wrapping_add(touch::byte_sum(&self.buffer.bytes()[..self.len]));
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
            self.messages = bytes / self.len as u64;
            self.counters.set(self.role, Counter::Messages, self.messages);
            self.counters.set(self.role, Counter::Sum, self.sum);
            let count = sys::retry(|| sys::read(&self.end, &mut piece))?;
            if count == 0 {
                return if bytes.is_multiple_of(self.len as u64) { Ok(()) } else { Err(cut_off()) };
            }
            bytes += count as u64;
            if self.is_touched {
                self.sum = self.sum.wrapping_add(touch::byte_sum(&piece[..count]));
            }
        }
    }

    /// The first message of each sender, whole, each once.
    fn verify(&mut self, senders: usize) -> io::Result<()> {
        let mut marks = Vec::with_capacity(senders);
        for _ in 0..senders {
            if !self.fill()? {
                return Err(sys::end_of_stream("the senders closed their ends"));
            }
            let message = &self.buffer.bytes()[..self.len];
            if message.iter().any(|byte| *byte != message[0]) {
                return Err(io::Error::other("a message holds bytes of two senders"));
            }
            marks.push(message[0]);
        }
        let mut expected: Vec<u8> = (0..senders).map(mark).collect();
        marks.sort_unstable();
        expected.sort_unstable();
        if marks == expected { Ok(()) } else { Err(io::Error::other("not every sender is heard once")) }
    }
}

#[cold]
fn cut_off() -> io::Error {
    sys::end_of_stream("the last message is cut off")
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
        Ok(Balance {
            unit: "messages",
            sent: (self.sent(Counter::Messages), self.sent(Counter::Sum)),
            arrived: (self.received(Counter::Messages), self.received(Counter::Sum)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    /// A receiver of messages of two bytes, to which these were sent.
    fn receiver<'a>(counters: &'a SharedCounters, bytes: &[u8]) -> Receiver<'a> {
        let (read, write) = pipe().unwrap();
        rustix::io::write(&write, bytes).unwrap();
        Receiver::new(read, counters, 0, 2, true).unwrap()
    }

    #[test]
    fn a_message_of_two_senders_and_a_sender_that_is_heard_twice_are_found() {
        let counters = SharedCounters::open(SharedCounters::create(1).unwrap(), 1).unwrap();
        for (bytes, why) in [([mark(0), mark(1)], "two senders"), ([mark(1), mark(1)], "heard once")] {
            let error = receiver(&counters, &[bytes, bytes].concat()).verify(2).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn what_was_sent_before_the_end_is_counted_and_a_cut_message_is_an_error() {
        let counters = SharedCounters::open(SharedCounters::create(1).unwrap(), 1).unwrap();
        let mut all = receiver(&counters, &[1, 2, 3, 4]);
        all.drain().unwrap();
        assert_eq!((counters.get(0, Counter::Messages), counters.get(0, Counter::Sum)), (2, 10));
        all.take().unwrap();
        assert!(all.take().is_err(), "the senders have ended without being told to stop");
        assert!(receiver(&counters, &[1, 2, 3]).drain().unwrap_err().to_string().contains("cut off"));
    }
}
