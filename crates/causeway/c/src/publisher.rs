//! Publishers.
//!
//! # Safety
//! See `handle` and `input`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::ffi::{c_int, c_void};
use std::time::Duration;

use causeway::{Loan, Position, Publisher};

use crate::error::{CW_OK, CW_TIMED_OUT, Done, Failure, cw_error};
use crate::group::cw_group;
use crate::handle::{Handle, free, give, on};
use crate::input::{Out, slice, timeout};
use crate::lent::Lent;

/// A publisher, and its loan.
pub type cw_pub = Handle<Lent<Publisher, Loan<'static>>>;

/// [`causeway::Group::publisher`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_new(
    group: *mut cw_group,
    publisher: *mut *mut cw_pub,
    error: *mut *mut cw_error,
) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_new", group, error, |group| {
            let publisher = Out::new(publisher)?;
            give(publisher, Lent::new(group.publisher()?))
        })
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

/// [`Publisher::publish_with_topic`], [`Publisher::try_publish_with_topic`] (no time), or a loan within a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_publish(
    publisher: *mut cw_pub,
    topic: u32,
    data: *const c_void,
    bytes: usize,
    timeout_ns: i64,
    position: *mut u64,
    error: *mut *mut cw_error,
) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_publish", publisher, error, |publisher| {
            let (publisher, data) = (publisher.owner()?, slice(data.cast::<u8>(), bytes)?);
            let at = match timeout(timeout_ns) {
                None => publisher.publish_with_topic(topic, data)?,
                Some(Duration::ZERO) => publisher.try_publish_with_topic(topic, data)?,
                Some(_) => {
                    let mut loan = lend(publisher, bytes, timeout_ns)?.with_topic(topic);
                    loan.copy_from_slice(data);
                    loan.commit()?
                }
            };
            published(position, at)
        })
    }
}

/// [`Publisher::loan`], [`Publisher::try_loan`], [`Publisher::loan_timeout`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_loan(
    publisher: *mut cw_pub,
    bytes: usize,
    timeout_ns: i64,
    data: *mut *mut c_void,
    error: *mut *mut cw_error,
) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_loan", publisher, error, |publisher| {
            let data = Out::new(data)?;
            let loan = publisher.lend(|publisher| lend(publisher, bytes, timeout_ns))?;
            data.write(loan.as_mut_ptr().cast());
            Ok(CW_OK)
        })
    }
}

/// [`Loan::commit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_commit(
    publisher: *mut cw_pub,
    topic: u32,
    position: *mut u64,
    error: *mut *mut cw_error,
) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_commit", publisher, error, |publisher| {
            published(position, publisher.take()?.with_topic(topic).commit()?)
        })
    }
}

/// Drops the loan: nothing is published.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_abandon(publisher: *mut cw_pub, error: *mut *mut cw_error) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_abandon", publisher, error, |publisher| {
            drop(publisher.take()?);
            Ok(CW_OK)
        })
    }
}

/// [`Publisher::wait_for_subscribers`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_wait_for_subscribers(
    publisher: *mut cw_pub,
    count: u32,
    timeout_ns: i64,
    error: *mut *mut cw_error,
) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_wait_for_subscribers", publisher, error, |publisher| {
            have_come(publisher.owner()?, count, timeout_ns)
        })
    }
}

/// Whether so many subscribers are there within a time.
pub(crate) fn have_come(publisher: &mut Publisher, count: u32, timeout_ns: i64) -> Done {
    let have_come = publisher.wait_for_subscribers(count, timeout(timeout_ns))?;
    Ok(if have_come { CW_OK } else { CW_TIMED_OUT })
}

/// [`Publisher::id`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_id(publisher: *mut cw_pub, id: *mut u32, error: *mut *mut cw_error) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_id", publisher, error, |publisher| {
            Out::new(id)?.write(publisher.owner()?.id().into());
            Ok(CW_OK)
        })
    }
}

/// [`Publisher::payload_bytes_max`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_payload_bytes_max(
    publisher: *mut cw_pub,
    bytes: *mut usize,
    error: *mut *mut cw_error,
) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_payload_bytes_max", publisher, error, |publisher| {
            Out::new(bytes)?.write(publisher.owner()?.payload_bytes_max());
            Ok(CW_OK)
        })
    }
}

/// [`Publisher::server_is_gone`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_server_is_gone(
    publisher: *mut cw_pub,
    is_gone: *mut u32,
    error: *mut *mut cw_error,
) -> c_int {
    // SAFETY: see the text of this file.
    unsafe {
        on("cw_pub_server_is_gone", publisher, error, |publisher| {
            let is_gone = Out::new(is_gone)?;
            is_gone.write(publisher.owner()?.server_is_gone().into());
            Ok(CW_OK)
        })
    }
}

/// Ends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_pub_free(publisher: *mut cw_pub) {
    // SAFETY: see the text of this file.
    unsafe { free("cw_pub_free", publisher) }
}

/// The place in the log, for a caller who wants it.
#[inline(always)]
pub(crate) unsafe fn published(position: *mut u64, at: Position) -> Done {
    // SAFETY: null, or the caller's place.
    if let Some(position) = unsafe { Out::maybe(position) } {
        position.write(at.0);
    }
    Ok(CW_OK)
}
