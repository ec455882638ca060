//! Publishers.
//!
//! # Safety
//! See `handle` and `input`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::ffi::c_void;
use std::time::Duration;

use causeway::{Loan, Position, Publisher};

use crate::error::{CW_OK, CW_TIMED_OUT, Done, Failure};
use crate::group::cw_group;
use crate::handle::{Handle, frees, give, methods};
use crate::input::{Out, offer, slice, timeout};
use crate::lent::Lent;

/// A publisher, and its loan.
pub type cw_pub = Handle<Lent<Publisher, Loan<'static>>>;

methods! {
    /// [`causeway::Group::publisher`].
    fn cw_pub_new(group: cw_group, publisher: *mut *mut cw_pub) {
        let publisher = Out::new(publisher)?;
        give(publisher, Lent::new(group.publisher()?))
    }
}

/// Space for a message, within a time.
#[inline(always)]
fn lend<'a>(publisher: &'a mut Publisher, bytes: usize, timeout_ns: i64) -> Result<Loan<'a>, Failure> {
    Ok(match timeout(timeout_ns) {
        None => publisher.loan(bytes)?,
        Some(Duration::ZERO) => publisher.try_loan(bytes)?,
        Some(timeout) => publisher.loan_timeout(bytes, timeout)?,
    })
}

// Each way is inlined whole, and apart from others it is small enough for that to be worth it.

#[inline(never)]
fn publish_now(publisher: &mut Publisher, topic: u32, data: &[u8]) -> Result<Position, Failure> {
    Ok(publisher.try_publish_with_topic(topic, data)?)
}

#[inline(never)]
fn publish_within(
    publisher: &mut Publisher,
    topic: u32,
    data: &[u8],
    timeout: Duration,
) -> Result<Position, Failure> {
    if topic == 0 {
        return Ok(publisher.publish_timeout(data, timeout)?);
    }
    let mut loan = publisher.loan_timeout(data.len(), timeout)?.with_topic(topic);
    loan.copy_from_slice(data);
    Ok(loan.commit()?)
}

methods! {
    /// [`Publisher::publish_with_topic`], [`Publisher::try_publish_with_topic`], [`Publisher::publish_timeout`], or a loan.
    fn cw_pub_publish(
        publisher: cw_pub,
        topic: u32,
        data: *const c_void,
        bytes: usize,
        timeout_ns: i64,
        position: *mut u64,
    ) {
        let (publisher, data) = (publisher.owner()?, slice(data.cast::<u8>(), bytes)?);
        let at = match timeout(timeout_ns) {
            None => publisher.publish_with_topic(topic, data)?,
            Some(Duration::ZERO) => publish_now(publisher, topic, data)?,
            Some(timeout) => publish_within(publisher, topic, data, timeout)?,
        };
        published(position, at)
    }

    /// [`Publisher::loan`], [`Publisher::try_loan`], [`Publisher::loan_timeout`].
    fn cw_pub_loan(publisher: cw_pub, bytes: usize, timeout_ns: i64, data: *mut *mut c_void) {
        let data = Out::new(data)?;
        let loan = publisher.lend(|publisher| lend(publisher, bytes, timeout_ns))?;
        data.write(loan.as_mut_ptr().cast());
        Ok(CW_OK)
    }

    /// [`Loan::commit`].
    fn cw_pub_commit(publisher: cw_pub, topic: u32, position: *mut u64) {
        published(position, publisher.take()?.with_topic(topic).commit()?)
    }

    /// Drops the loan: nothing is published.
    fn cw_pub_abandon(publisher: cw_pub) {
        drop(publisher.take()?);
        Ok(CW_OK)
    }

    /// [`Publisher::wait_for_subscribers`].
    fn cw_pub_wait_for_subscribers(publisher: cw_pub, count: u32, timeout_ns: i64) {
        have_come(publisher.owner()?, count, timeout_ns)
    }
}

/// Whether so many subscribers are there within a time.
pub(crate) fn have_come(publisher: &mut Publisher, count: u32, timeout_ns: i64) -> Done {
    let have_come = publisher.wait_for_subscribers(count, timeout(timeout_ns))?;
    Ok(if have_come { CW_OK } else { CW_TIMED_OUT })
}

methods! {
    /// [`Publisher::id`].
    fn cw_pub_id(publisher: cw_pub, id: *mut u32) {
        Out::new(id)?.write(publisher.owner()?.id().into());
        Ok(CW_OK)
    }

    /// [`Publisher::payload_bytes_max`].
    fn cw_pub_payload_bytes_max(publisher: cw_pub, bytes: *mut usize) {
        Out::new(bytes)?.write(publisher.owner()?.payload_bytes_max());
        Ok(CW_OK)
    }

    /// [`Publisher::server_is_gone`].
    fn cw_pub_server_is_gone(publisher: cw_pub, is_gone: *mut u32) {
        let is_gone = Out::new(is_gone)?;
        is_gone.write(publisher.owner()?.server_is_gone().into());
        Ok(CW_OK)
    }
}

frees! {
    /// Ends it.
    cw_pub_free: cw_pub;
}

/// The place in the log, for a caller who wants it.
#[inline(always)]
pub(crate) unsafe fn published(position: *mut u64, at: Position) -> Done {
    // SAFETY: null, or the caller's place.
    unsafe { offer(position, at.0) };
    Ok(CW_OK)
}
