//! Subscribers.
//!
//! # Safety
//! See `handle` and `input`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use causeway::{InPlace, Message, MessageOf, Position, Received, SubscribeOptions, Subscriber, Waited};

use crate::error::{CW_DEMOTED, CW_LOST, CW_MAY_SLEEP, CW_OK, CW_OVERWRITTEN, CW_TIMED_OUT, Done, Failure};
use crate::group::{cw_group, policy};
use crate::handle::{Handle, frees, give, methods};
use crate::input::{Options, Out, SizedOut, bytes_mut, flags, offer, options, range, slice, timeout};
use crate::lent::Lent;

/// A subscriber, and the message that it reads in place.
pub type cw_sub = Handle<Lent<Subscriber, InPlace<'static>>>;

const FROM_OLDEST: u32 = 1;
const ONLY_TOPICS: u32 = 2;
const LIMITED: u32 = 4;

/// See `causeway.h`, as all structures here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cw_sub_options {
    pub policy: u32,
    pub flags: u32,
    pub policy_value: u64,
    pub timeout_ns: i64,
    pub topics: *const u32,
    pub topic_count: u64,
}

// SAFETY: numbers, and a pointer that may be null.
unsafe impl Options for cw_sub_options {}

/// A message, or what came in the place of one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cw_message {
    pub data: *const c_void,
    pub bytes: u64,
    pub position: u64,
    pub publisher: u32,
    pub sequence: u32,
    pub topic: u32,
    pub lost_before: u32,
    pub lost_messages: u64,
    pub lost_bytes: u64,
}

/// Nothing.
const NONE: cw_message = cw_message {
    data: std::ptr::null(),
    bytes: 0,
    position: 0,
    publisher: 0,
    sequence: 0,
    topic: 0,
    lost_before: 0,
    lost_messages: 0,
    lost_bytes: 0,
};

/// The state of a subscriber and of its group.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cw_health {
    pub server_is_gone: u32,
    pub demoted: u32,
    pub publishers: u32,
    /// −1 for none.
    pub unfinished_by: i32,
    pub given_up: u64,
    pub killed_publishers: u64,
}

/// The options as the library has them.
pub(crate) unsafe fn subscribe_options(
    given: *const cw_sub_options,
    bytes: usize,
) -> Result<SubscribeOptions, Failure> {
    // SAFETY: the caller's structure.
    let given = unsafe { options(given, bytes)? };
    let is_set = flags(given.flags, FROM_OLDEST | ONLY_TOPICS | LIMITED)?;
    let policy = policy(given.policy, given.policy_value)?;
    let policy = policy
        .ok_or_else(|| range("a subscriber needs a policy; set one of CW_RELIABLE to CW_LAG_AT_MOST"))?;
    let mut options = SubscribeOptions::new(policy);
    if is_set & FROM_OLDEST != 0 {
        options = options.from_oldest();
    }
    if is_set & ONLY_TOPICS != 0 {
        // SAFETY: the caller's array.
        options = options.topics(unsafe { slice(given.topics, given.topic_count as usize)? }.iter().copied());
    }
    match (is_set & LIMITED != 0, timeout(given.timeout_ns)) {
        (true, Some(limit)) => Ok(options.timeout(limit)),
        _ => Ok(options),
    }
}

methods! {
    /// [`causeway::Group::subscribe`].
    fn cw_sub_new(
        group: cw_group,
        given: *const cw_sub_options,
        options_bytes: usize,
        subscriber: *mut *mut cw_sub,
    ) {
        let subscriber = Out::new(subscriber)?;
        give(subscriber, Lent::new(group.subscribe(subscribe_options(given, options_bytes)?)?))
    }
}

/// What C gets in the place of a message, with its code.
pub(crate) fn news<M>(
    received: Received<M>,
    message: impl FnOnce(M) -> cw_message,
    out: SizedOut<cw_message>,
) -> Done {
    match received {
        Received::Message(found) => {
            out.write(message(found));
            Ok(CW_OK)
        }
        Received::Lost { messages, bytes } => {
            out.write(cw_message { lost_messages: messages, lost_bytes: bytes, ..NONE });
            Ok(CW_LOST)
        }
        Received::Demoted => Ok(CW_DEMOTED),
    }
}

#[inline(always)]
fn copied(message: Message<'_>) -> cw_message {
    let Message { bytes, position: Position(position), publisher, sequence, topic, lost_before, .. } =
        message;
    cw_message {
        data: bytes.as_ptr().cast(),
        bytes: bytes.len() as u64,
        position,
        publisher: publisher.into(),
        sequence,
        topic,
        lost_before: lost_before.unwrap_or(u32::MAX),
        ..NONE
    }
}

/// The facts of a message whose payload is elsewhere.
pub(crate) fn facts<P>(message: &MessageOf<P>, bytes: usize) -> cw_message {
    cw_message {
        bytes: bytes as u64,
        position: message.position.0,
        publisher: message.publisher.into(),
        sequence: message.sequence,
        topic: message.topic,
        lost_before: message.lost_before.unwrap_or(u32::MAX),
        ..NONE
    }
}

methods! {
    /// [`Subscriber::try_recv`].
    fn cw_sub_next(subscriber: cw_sub, message: *mut cw_message, message_bytes: usize) {
        let out = SizedOut::new(message, message_bytes)?;
        news(subscriber.owner()?.try_recv()?, copied, out)
    }

    /// [`Subscriber::recv`], [`Subscriber::recv_timeout`].
    fn cw_sub_recv(subscriber: cw_sub, timeout_ns: i64, message: *mut cw_message, message_bytes: usize) {
        let (out, subscriber) = (SizedOut::new(message, message_bytes)?, subscriber.owner()?);
        match timeout(timeout_ns) {
            None => news(subscriber.recv()?, copied, out),
            Some(timeout) => news(subscriber.recv_timeout(timeout)?, copied, out),
        }
    }

    /// [`Subscriber::wait`].
    fn cw_sub_wait(subscriber: cw_sub, timeout_ns: i64) {
        waited(subscriber.owner()?.wait(timeout(timeout_ns))?)
    }

    /// [`Subscriber::spin`].
    fn cw_sub_spin(subscriber: cw_sub, timeout_ns: i64) {
        waited(subscriber.owner()?.spin(timeout(timeout_ns))?)
    }
}

fn waited(waited: Waited) -> Done {
    Ok(if waited == Waited::Ready { CW_OK } else { CW_TIMED_OUT })
}

methods! {
    /// [`Subscriber::spin_at_most`].
    fn cw_sub_spin_at_most(subscriber: cw_sub, longest_ns: u64) {
        subscriber.owner()?.spin_at_most(Duration::from_nanos(longest_ns));
        Ok(CW_OK)
    }

    /// The descriptor for an event loop.
    fn cw_sub_fd(subscriber: cw_sub, fd: *mut c_int) {
        Out::new(fd)?.write(subscriber.owner()?.as_fd().as_raw_fd());
        Ok(CW_OK)
    }

    /// [`Subscriber::arm`].
    fn cw_sub_prepare(subscriber: cw_sub) { prepared(subscriber.owner()?) }
}

/// May an event loop sleep now?
pub(crate) fn prepared(subscriber: &mut Subscriber) -> Done {
    Ok(if subscriber.arm()? { CW_MAY_SLEEP } else { CW_OK })
}

methods! {
    /// [`Subscriber::disarm`].
    fn cw_sub_disarm(subscriber: cw_sub) {
        subscriber.owner()?.disarm();
        Ok(CW_OK)
    }

    /// [`Subscriber::try_recv_in_place`].
    fn cw_sub_view(subscriber: cw_sub, message: *mut cw_message, message_bytes: usize) {
        let out = SizedOut::new(message, message_bytes)?;
        let view = subscriber.lend(|subscriber| match subscriber.try_recv_in_place()? {
            Received::Message(view) => Ok(view),
            other => Err(Failure::outcome(news(other, |_| NONE, out)?)),
        })?;
        out.write(cw_message {
            bytes: view.payload_bytes() as u64,
            position: view.position().0,
            publisher: view.publisher().into(),
            sequence: view.sequence(),
            topic: view.topic(),
            lost_before: view.lost_before().unwrap_or(u32::MAX),
            ..NONE
        });
        Ok(CW_OK)
    }

    /// [`InPlace::copy_to`].
    fn cw_view_copy(subscriber: cw_sub, into: *mut c_void, bytes: usize, copied: *mut usize) {
        let length = subscriber.lent()?.copy_to(bytes_mut(into, bytes)?);
        offer(copied, length);
        Ok(CW_OK)
    }

    /// [`InPlace::finish`].
    fn cw_view_finish(subscriber: cw_sub) {
        Ok(if subscriber.take()?.finish() { CW_OK } else { CW_OVERWRITTEN })
    }

    /// [`Subscriber::health`].
    fn cw_sub_health(subscriber: cw_sub, health: *mut cw_health, health_bytes: usize) {
        let out = SizedOut::new(health, health_bytes)?;
        let health = subscriber.owner()?.health()?;
        out.write(cw_health {
            server_is_gone: health.server_is_gone.into(),
            demoted: health.demoted.into(),
            publishers: health.publishers,
            unfinished_by: health.unfinished_by.map_or(-1, i32::from),
            given_up: health.given_up,
            killed_publishers: health.killed_publishers,
        });
        Ok(CW_OK)
    }

    /// [`Subscriber::id`].
    fn cw_sub_id(subscriber: cw_sub, id: *mut u32) {
        Out::new(id)?.write(subscriber.owner()?.id());
        Ok(CW_OK)
    }

    /// [`Subscriber::lost_messages`].
    fn cw_sub_lost(subscriber: cw_sub, messages: *mut u64) {
        Out::new(messages)?.write(subscriber.owner()?.lost_messages());
        Ok(CW_OK)
    }
}

frees! {
    /// Ends it.
    cw_sub_free: cw_sub;
}
