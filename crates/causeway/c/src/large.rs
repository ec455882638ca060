//! Large payloads.
//!
//! # Safety
//! See `handle` and `input`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use causeway::{LargeLoan, LargePayload, LargePublisher, LargeSubscriber, PoolOptions, Received};

use crate::error::{CW_E_NOT_SEALED, CW_OK, Failure};
use crate::group::cw_group;
use crate::handle::{Handle, frees, give, methods};
use crate::input::{Options, Out, SizedOut, bytes_mut, offer, options, range, timeout};
use crate::lent::Lent;
use crate::publisher::{have_come, published};
use crate::subscriber::{cw_message, cw_sub_options, facts, news, prepared, subscribe_options};

/// A publisher of large payloads, and its loan.
pub type cw_large_pub = Handle<Lent<LargePublisher, LargeLoan<'static>>>;
/// A subscriber of large payloads.
pub type cw_large_sub = Handle<LargeSubscriber>;
/// A payload that was received.
pub type cw_payload = Handle<LargePayload>;

/// See `causeway.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cw_pool_options {
    pub payload_bytes_max: u64,
    pub files: u32,
    pub kind: u32,
}

// SAFETY: numbers.
unsafe impl Options for cw_pool_options {}

methods! {
    /// [`causeway::Group::large_publisher`].
    fn cw_large_pub_new(
        group: cw_group,
        given: *const cw_pool_options,
        options_bytes: usize,
        publisher: *mut *mut cw_large_pub,
    ) {
        let (given, publisher) = (options(given, options_bytes)?, Out::new(publisher)?);
        let bytes = usize::try_from(given.payload_bytes_max).map_err(range)?;
        let mut options = PoolOptions::new(bytes);
        if given.files != 0 {
            options = options.files(given.files);
        }
        let options = match given.kind {
            0 => options,
            1 => options.reused(),
            2 => options.sealed(),
            other => {
                return Err(range(format!("{other} is not a kind of pool; use CW_REUSED or CW_SEALED")));
            }
        };
        give(publisher, Lent::new(group.large_publisher(options)?))
    }

    /// [`LargePublisher::loan`], [`LargePublisher::try_loan`], [`LargePublisher::loan_timeout`].
    fn cw_large_pub_loan(publisher: cw_large_pub, bytes: usize, timeout_ns: i64, data: *mut *mut c_void) {
        let data = Out::new(data)?;
        let loan = publisher.lend(|publisher| {
            Ok::<_, Failure>(match timeout(timeout_ns) {
                None => publisher.loan(bytes)?,
                Some(Duration::ZERO) => publisher.try_loan(bytes)?,
                Some(timeout) => publisher.loan_timeout(bytes, timeout)?,
            })
        })?;
        data.write(loan.as_mut_ptr().cast());
        Ok(CW_OK)
    }

    /// [`LargeLoan::publish_timeout`], [`LargeLoan::try_publish`], [`LargeLoan::publish`]. What is not published for want of
    /// space is still lent.
    fn cw_large_pub_commit(publisher: cw_large_pub, timeout_ns: i64, position: *mut u64) {
        let at = match timeout(timeout_ns) {
            None => publisher.take()?.publish()?,
            Some(Duration::ZERO) => publisher.lent()?.try_publish()?,
            Some(timeout) => publisher.lent()?.publish_timeout(timeout)?,
        };
        drop(publisher.take());
        published(position, at)
    }

    /// Drops the loan: nothing is published.
    fn cw_large_pub_abandon(publisher: cw_large_pub) {
        drop(publisher.take()?);
        Ok(CW_OK)
    }

    /// [`causeway::Publisher::wait_for_subscribers`].
    fn cw_large_pub_wait_for_subscribers(publisher: cw_large_pub, count: u32, timeout_ns: i64) {
        have_come(publisher.owner()?.get_mut(), count, timeout_ns)
    }
}

frees! {
    /// Ends it.
    cw_large_pub_free: cw_large_pub;
}

methods! {
    /// [`causeway::Group::large_subscribe`].
    fn cw_large_sub_new(
        group: cw_group,
        given: *const cw_sub_options,
        options_bytes: usize,
        subscriber: *mut *mut cw_large_sub,
    ) {
        let subscriber = Out::new(subscriber)?;
        give(subscriber, group.large_subscribe(subscribe_options(given, options_bytes)?)?)
    }

    /// [`LargeSubscriber::try_recv`], [`LargeSubscriber::recv`], [`LargeSubscriber::recv_timeout`].
    fn cw_large_sub_recv(
        subscriber: cw_large_sub,
        timeout_ns: i64,
        payload: *mut *mut cw_payload,
        message: *mut cw_message,
        message_bytes: usize,
    ) {
        let (payload, out) = (Out::new(payload)?, SizedOut::new(message, message_bytes)?);
        let received = match timeout(timeout_ns) {
            None => subscriber.recv()?,
            Some(Duration::ZERO) => subscriber.try_recv()?,
            Some(timeout) => subscriber.recv_timeout(timeout)?,
        };
        if let Received::Message(message) = received {
            out.write(facts(&message, message.payload.payload_bytes()));
            return give(payload, message.payload);
        }
        news(received, |message| facts(&message, 0), out)
    }

    /// The descriptor for an event loop.
    fn cw_large_sub_fd(subscriber: cw_large_sub, fd: *mut c_int) {
        Out::new(fd)?.write(subscriber.get_mut().as_fd().as_raw_fd());
        Ok(CW_OK)
    }

    /// [`causeway::Subscriber::arm`].
    fn cw_large_sub_prepare(subscriber: cw_large_sub) { prepared(subscriber.get_mut()) }
}

frees! {
    /// Ends it.
    cw_large_sub_free: cw_large_sub;
}

methods! {
    /// [`LargePayload::as_slice`]: where no process can change it.
    fn cw_payload_data(payload: cw_payload, data: *mut *const c_void, bytes: *mut usize) {
        let (data, bytes) = (Out::new(data)?, Out::new(bytes)?);
        let sealed = payload.as_slice().ok_or_else(|| {
            Failure::new(
                CW_E_NOT_SEALED,
                "the publisher can change this payload; copy it (cw_payload_copy), or publish with CW_SEALED",
            )
        })?;
        data.write(sealed.as_ptr().cast());
        bytes.write(sealed.len());
        Ok(CW_OK)
    }

    /// [`LargePayload::copy_to`].
    fn cw_payload_copy(payload: cw_payload, into: *mut c_void, bytes: usize, copied: *mut usize) {
        let length = payload.copy_to(bytes_mut(into, bytes)?)?;
        offer(copied, length);
        Ok(CW_OK)
    }
}

frees! {
    /// Gives it back.
    cw_payload_free: cw_payload;
}
