//! A sender: a message to every receiver of its group, in turn, until the leading receiver has enough.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Concurrent, DONE, MESSAGES, SUM, receiver};
use crate::buffer::Buffer;
use crate::contract::Facts;
use crate::ctx::Ctx;
use crate::params::{CaseParams, Touch};
use crate::shared::Step;
use crate::shared_counters::SharedCounters;
use crate::sys;

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

    let (mut messages, mut sum) = (0u64, 0u64);
    let work = || {
        for fd in &fds {
            if is_touched {
                let byte = messages as u8;
                message.fill(byte);
                sum = sum.wrapping_add(u64::from(byte) * len as u64);
            }
            sys::write_all(fd, message)?;
            messages += 1;
        }
        counters.word(role, MESSAGES).store(messages, Relaxed);
        counters.word(role, SUM).store(sum, Relaxed);
        Ok(())
    };
    let done = || {
        // A receiver is at the end when the last sender of its group has closed.
        drop(ends);
        counters.word(role, DONE).store(1, Release); // PAIR crossed
    };
    cx.follow_intervals(work, done, || counters.word(0, receiver::COUNTED_OPS).load(Acquire))?;
    Ok(Facts::new())
}
