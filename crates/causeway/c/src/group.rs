//! Groups.
//!
//! # Safety
//! See `handle` and `input`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int};
use std::time::Duration;

use causeway::{Access, Group, GroupOptions, Policy, Trust};
use std::os::fd::IntoRawFd;

use crate::error::{CW_NOT_FOUND, CW_OK, Done, Failure};
use crate::handle::{Handle, frees, give, makers, methods};
use crate::input::{self, Options, Out, SizedOut, descriptor, flags, options, own, path, range, text};

/// A group.
pub type cw_group = Handle<Group>;

const SEVERAL_PUBLISHERS: u32 = 1;
const LATE_PUBLISHERS: u32 = 2;
const LARGE_PAYLOADS: u32 = 4;
const ANY_PUBLISHER: u32 = 8;
const ANY_SUBSCRIBER: u32 = 16;

/// See `causeway.h`, as all structures here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cw_group_options {
    pub capacity_bytes: u64,
    pub flags: u32,
    pub remote_publishers: u32,
    pub publisher_rate_max: u64,
    pub trust: u32,
    pub most_patient: u32,
    pub most_patient_value: u64,
    pub most_patient_for_others: u32,
    pub format: u32,
    pub most_patient_for_others_value: u64,
    pub publishers: *const u32,
    pub publisher_count: u64,
    pub subscribers: *const u32,
    pub subscriber_count: u64,
}

// SAFETY: numbers, and pointers that may be null.
unsafe impl Options for cw_group_options {}

/// A process, as the kernel reports it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cw_peer {
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
}

/// A policy of its number and its value, nanoseconds or bytes; 0 is none.
pub(crate) fn policy(number: u32, value: u64) -> Result<Option<Policy>, Failure> {
    let time = Duration::from_nanos(value);
    Ok(Some(match number {
        0 => return Ok(None),
        1 => Policy::Reliable,
        2 => Policy::DemoteAfter(time),
        3 => Policy::DisconnectAfter(time),
        4 => Policy::Lossy,
        5 => Policy::LagAtMost(value),
        other => {
            return Err(range(format!("{other} is not a policy; use one of CW_RELIABLE to CW_LAG_AT_MOST")));
        }
    }))
}

/// Who may join: any user, these, or the same user.
pub(crate) unsafe fn access(any: bool, users: *const u32, count: u64) -> Result<Access, Failure> {
    // SAFETY: the caller's array.
    let users = unsafe { input::slice(users, count as usize)? };
    Ok(match (any, users) {
        (true, _) => Access::AnyUser,
        (false, []) => Access::SameUser,
        (false, users) => Access::Users(users.iter().copied().collect::<BTreeSet<_>>()),
    })
}

unsafe fn group_options(given: cw_group_options) -> Result<GroupOptions, Failure> {
    let most = SEVERAL_PUBLISHERS | LATE_PUBLISHERS | LARGE_PAYLOADS | ANY_PUBLISHER | ANY_SUBSCRIBER;
    let is_set = flags(given.flags, most)?;
    let is_set = |flag| is_set & flag != 0;
    let mut options = GroupOptions::new();
    if given.capacity_bytes != 0 {
        options = options.capacity_bytes(given.capacity_bytes);
    }
    if is_set(SEVERAL_PUBLISHERS) {
        options = options.several_publishers();
    }
    if is_set(LATE_PUBLISHERS) {
        options = options.late_publishers();
    }
    if is_set(LARGE_PAYLOADS) {
        options = options.large_payloads();
    }
    if given.remote_publishers != 0 {
        options = options.remote_publishers(given.remote_publishers);
    }
    if given.publisher_rate_max != 0 {
        options = options.publisher_rate_max(given.publisher_rate_max);
    }
    if given.format != 0 {
        options = options.format(given.format);
    }
    match given.trust {
        0 => {}
        1 => options = options.trust(Trust::SameUser),
        2 => options = options.trust(Trust::Strangers),
        other => return Err(range(format!("{other} is not a trust; use CW_SAME_USER or CW_STRANGERS"))),
    }
    if let Some(policy) = policy(given.most_patient, given.most_patient_value)? {
        options = options.most_patient(policy);
    }
    if let Some(policy) = policy(given.most_patient_for_others, given.most_patient_for_others_value)? {
        options = options.most_patient_for_others(policy);
    }
    // SAFETY: the caller's arrays.
    unsafe {
        let publishers = access(is_set(ANY_PUBLISHER), given.publishers, given.publisher_count)?;
        let subscribers = access(is_set(ANY_SUBSCRIBER), given.subscribers, given.subscriber_count)?;
        Ok(options.publishers(publishers).subscribers(subscribers))
    }
}

makers! {
    /// [`Group::create`].
    fn cw_group_create(
        name: *const c_char,
        given: *const cw_group_options,
        options_bytes: usize,
        group: *mut *mut cw_group,
    ) {
        let (name, group) = (text(name, "the name")?, Out::new(group)?);
        let options = group_options(options(given, options_bytes)?)?;
        give(group, Group::create(name, options)?)
    }

    /// [`Group::join`].
    fn cw_group_join(at: *const c_char, group: *mut *mut cw_group) {
        let (at, group) = (path(at)?, Out::new(group)?);
        give(group, Group::join(at)?)
    }

    /// [`Group::join_socket`]. The socket is the library's after a success.
    fn cw_group_join_socket(socket: c_int, group: *mut *mut cw_group) {
        let group = Out::new(group)?;
        // A copy, so that what fails has taken nothing.
        let copy = descriptor(socket)?.try_clone_to_owned().map_err(|error| {
            range(format!("{socket} is no open descriptor ({error}); pass the socket of cw_group_invite"))
        })?;
        let done = give(group, Group::join_socket(copy)?)?;
        drop(own(socket));
        Ok(done)
    }
}

methods! {
    /// [`Group::serve_at`].
    fn cw_group_serve_at(group: cw_group, at: *const c_char) {
        group.serve_at(path(at)?)?;
        Ok(CW_OK)
    }

    /// [`Group::invite`].
    fn cw_group_invite(group: cw_group, socket: *mut c_int) {
        let socket = Out::new(socket)?;
        socket.write(group.invite()?.into_raw_fd());
        Ok(CW_OK)
    }

    /// [`Group::resize`].
    fn cw_group_resize(group: cw_group, capacity_bytes: u64) {
        group.resize(capacity_bytes)?;
        Ok(CW_OK)
    }

    /// [`Group::upgrade`].
    fn cw_group_upgrade(group: cw_group, format: *mut u32) {
        let format = Out::new(format)?;
        format.write(group.upgrade()?);
        Ok(CW_OK)
    }

    /// [`Group::disconnect`].
    fn cw_group_disconnect(group: cw_group, subscriber: u32) { found(group.disconnect(subscriber)?) }

    /// [`Group::disconnect_publisher`].
    fn cw_group_disconnect_publisher(group: cw_group, publisher: u32) {
        found(group.disconnect_publisher(slot(publisher)?)?)
    }

    /// [`Group::evict`].
    fn cw_group_evict(group: cw_group, publisher: u32) { found(group.evict(slot(publisher)?)?) }

    /// [`Group::server`].
    fn cw_group_server(group: cw_group, server: *mut cw_peer, server_bytes: usize) {
        let out = SizedOut::new(server, server_bytes)?;
        let server = group.server()?;
        out.write(cw_peer { pid: server.pid, uid: server.uid, gid: server.gid });
        Ok(CW_OK)
    }
}

frees! {
    /// Ends it.
    cw_group_free: cw_group;
}

fn found(found: bool) -> Done {
    Ok(if found { CW_OK } else { CW_NOT_FOUND })
}

fn slot(publisher: u32) -> Result<u8, Failure> {
    u8::try_from(publisher)
        .map_err(|_| range(format!("{publisher} is not the number of a publisher; see cw_pub_id")))
}
