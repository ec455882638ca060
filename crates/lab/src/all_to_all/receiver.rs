//! A receiver: every message of every sender of its group. The first one has the clock.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

use super::{Concurrent, DONE, MESSAGES, SUM, sender};
use crate::buffer::Buffer;
use crate::contract::Facts;
use crate::ctx::{Ctx, Flow};
use crate::params::{CaseParams, Touch};
use crate::shared::Step;
use crate::shared_counters::SharedCounters;
use crate::{sys, touch};

/// Word of the leading receiver's line: messages of the timed part.
pub(super) const COUNTED_OPS: usize = 3;
/// Without a message or an end of any role for so long although some are not at their end, they never will be.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// The whole life of this role.
pub(super) fn drive(
    end: OwnedFd,
    counters: &SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let crowd = Concurrent::of(params);
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
    receiver.verify(crowd.senders)?;
    if cx.role == 0 { lead(receiver, crowd, cx) } else { follow(receiver, cx) }
}

fn lead(receiver: Receiver<'_>, crowd: Concurrent, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let mut leader = Leader { receiver, crowd, in_flight: Vec::with_capacity(1024) };
    cx.lead_intervals(&mut leader)?;
    // The first edge stands before the first sample.
    cx.note_series("in_flight_messages", leader.in_flight.split_off(1));
    let received = leader.receiver.board_sum(leader.crowd.receiver_roles(), MESSAGES);
    Ok(Facts::from([
        ("first_run_messages_received".into(), received.to_string()),
        ("interval_ms".into(), (cx.interval_ns() as f64 / 1e6).to_string()),
    ]))
}

fn follow(receiver: Receiver<'_>, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let counters = receiver.counters;
    let receiver = RefCell::new(receiver);
    let mut drained = Ok(());
    let done = || drained = receiver.borrow_mut().drain();
    cx.follow_intervals(
        || receiver.borrow_mut().take(),
        done,
        || counters.word(0, COUNTED_OPS).load(Acquire),
    )?;
    drained.map(|()| Facts::new())
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
            // The senders close when they are told to stop, and this role is told the same. Whoever comes here again was
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
        self.counters.word(self.role, MESSAGES).store(self.messages, Relaxed);
        Ok(())
    }

    /// What is still on its way, and the word that this is all.
    fn drain(&mut self) -> io::Result<()> {
        while !self.is_at_end {
            self.take()?;
        }
        self.counters.word(self.role, SUM).store(self.sum, Relaxed);
        self.counters.word(self.role, DONE).store(1, Release); // PAIR crossed
        Ok(())
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

    fn board_sum(&self, roles: Range<usize>, word: usize) -> u64 {
        roles.map(|role| self.counters.word(role, word).load(Relaxed)).fold(0, u64::wrapping_add)
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
struct Leader<'a> {
    receiver: Receiver<'a>,
    crowd: Concurrent,
    /// Sent and not yet received, at each edge: how full the buffers are.
    in_flight: Vec<f64>,
}

impl Flow for Leader<'_> {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        self.receiver.take()?;
        Ok(1)
    }

    fn count(&self) -> (u64, u64) {
        let messages = self.receiver.board_sum(self.crowd.receiver_roles(), MESSAGES);
        (messages, messages * self.receiver.len as u64)
    }

    fn warm_ops(&self) -> u64 {
        (self.crowd.groups * self.crowd.senders * self.crowd.receivers) as u64
    }

    fn edge(&mut self, _now_ns: u64) {
        let received = self.count().0;
        let sent = self.receiver.board_sum(self.crowd.sender_roles(), MESSAGES);
        // A sender notes what it has sent when it has been to every receiver, so it may be behind.
        self.in_flight.push(sent.saturating_sub(received) as f64);
    }

    /// Nothing may be lost, nothing added, nothing changed.
    fn drain(&mut self, counted_ops: u64) -> io::Result<()> {
        let Leader { receiver, crowd, .. } = self;
        receiver.counters.word(0, COUNTED_OPS).store(counted_ops, Relaxed);
        receiver.drain()?;
        let mut patience = Patience::new(Instant::now());
        while is_one_behind(receiver.counters, *crowd) {
            let all = 0..crowd.roles();
            let counts = (receiver.board_sum(all.clone(), MESSAGES), receiver.board_sum(all, DONE));
            if patience.is_over(counts, Instant::now()) {
                return Err(io::Error::other("not every role has come to its end"));
            }
            thread::yield_now();
        }
        let of = |roles: Range<usize>| {
            (receiver.board_sum(roles.clone(), MESSAGES), receiver.board_sum(roles, SUM))
        };
        let (received, sent) = (of(crowd.receiver_roles()), of(crowd.sender_roles()));
        if received == sent {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{} messages with sum {:#x} were received, but {} with sum {:#x} sent",
            received.0, received.1, sent.0, sent.1
        )))
    }
}

/// How long to wait for the others. A full pipe holds 65,536 messages of one byte, and roles that share a CPU take turns:
/// what is left may take any time, so only a time in which nothing moves is held against them.
struct Patience {
    counts: (u64, u64),
    since: Instant,
}

impl Patience {
    fn new(now: Instant) -> Patience {
        Patience { counts: (0, 0), since: now }
    }

    /// Has nothing moved for too long? `counts` is what all roles have done so far.
    fn is_over(&mut self, counts: (u64, u64), now: Instant) -> bool {
        if counts != self.counts {
            *self = Patience { counts, since: now };
        }
        now.duration_since(self.since) > LOST_AFTER
    }
}

fn is_one_behind(counters: &SharedCounters, crowd: Concurrent) -> bool {
    (0..crowd.roles()).any(|role| counters.word(role, DONE).load(Acquire) == 0) // PAIR crossed
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
    fn roles_that_still_move_are_waited_for_and_those_that_do_not_are_given_up() {
        let mut now = Instant::now();
        let mut patience = Patience::new(now);
        let mut after = |counts, time| {
            now += time;
            patience.is_over(counts, now)
        };
        // Longer in all than nothing may move, by messages first and then by roles that come to their end.
        for counts in [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2)] {
            assert!(!after(counts, LOST_AFTER), "{counts:?}");
        }
        assert!(!after((3, 2), LOST_AFTER));
        assert!(after((3, 2), Duration::from_nanos(1)));
    }

    #[test]
    fn what_was_sent_before_the_end_is_counted_and_a_cut_message_is_an_error() {
        let counters = counters();
        let (read, write) = pipe().unwrap();
        rustix::io::write(&write, &[1, 2, 3, 4]).unwrap();
        drop(write);
        let mut all = receiver(&counters, read);
        all.drain().unwrap();
        let word = |word| counters.word(0, word).load(Relaxed);
        assert_eq!((word(MESSAGES), word(SUM), word(DONE)), (2, 10, 1));
        assert!(all.take().is_err(), "the senders are gone, and nobody said that they may");

        let (read, write) = pipe().unwrap();
        rustix::io::write(&write, &[1, 2, 3]).unwrap();
        drop(write);
        assert!(receiver(&counters, read).drain().unwrap_err().to_string().contains("cut off"));
    }
}
