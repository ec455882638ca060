//! A sender: a message to every receiver of its group, in turn, until the leading receiver has enough.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::Concurrent;
use crate::shared_counters::{Counter, SharedCounters};
use crate::sys;
use weighbridge_harness::buffer::Buffer;
use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::{Ctx, Follower};
use weighbridge_harness::params::{CaseParams, Touch};
use weighbridge_harness::shared::Step;

/// What the first message of a sender is filled with.
pub(super) fn mark(sender_in_group: usize) -> u8 {
    (sender_in_group % 251) as u8 + 1
}

/// The whole life of this role.
pub(super) fn drive(
    ends: Vec<OwnedFd>,
    counters: &SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let (role, len) = (cx.role, params.payload_bytes);
    let is_touched = params.touch == Touch::All;
    let mut buffer = Buffer::new(len)?;
    cx.set_step(Step::Prefault);
    buffer.prefault()?;
    cx.set_step(Step::Verify);
    let message = &mut buffer.bytes_mut()[..len];
    message.fill(mark(Concurrent::of(params).sender_in_group(role)));
    let fds: Vec<RawFd> = ends.iter().map(AsRawFd::as_raw_fd).collect();
    fds.iter().try_for_each(|fd| sys::write_all(fd, message).map(|_| ()))?;
    message.fill(0);

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
    /// A message to each receiver.
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
