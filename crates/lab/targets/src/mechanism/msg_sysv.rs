//! System V message queues, one for each direction.
//!
//! # Safety
//! The calls take pointer and length from one slice that begins with the type of the message, or a local structure.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::copying::{Copying, Transport};
use super::sysv::{self, Object};
use super::{fd, fits_sysctl};
use crate::prelude::*;
use crate::sys;

pub(crate) struct Queues;

impl sysv::Kind for Queues {
    const WHAT: &'static str = "message queues";
    const TAG: i32 = 0x57;
    const TABLE: &'static str = "/proc/sysvipc/msg";
    const CREATOR: usize = 9;
    const FULL: &'static str =
        "there are kernel.msgmni message queues already; remove some (ipcs -q), or raise it with sysctl";

    fn get(key: i32, flags: i32) -> i32 {
        // SAFETY: only numbers are passed.
        unsafe { libc::msgget(key, flags) }
    }

    fn remove(id: i32) {
        // SAFETY: removal reads and writes no structure. A queue that is gone already is not an error to us.
        unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

pub(super) struct MsgSysv;

impl Mechanism for MsgSysv {
    const ID: &'static str = "msg-sysv";
    const ABOUT: &'static str = "System V message queues, one for each direction, all messages of one type";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::Spin];
    const IN_SUITES: InSuites = InSuites::AtSmallSizes("kernel.msgmax is 8 KiB by default");
    type End = Copying<Pair>;

    fn properties(_params: &CaseParams) -> Properties {
        // It has a number and no descriptor; containers have an IPC namespace each.
        Properties::of(&[Property::OtherUsers, Property::WithoutSharedMemory], Across::OneNamespace)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fits(host, params)
    }

    fn create(host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (request, reply) = (Object::<Queues>::make()?, Object::<Queues>::make()?);
        let private = u64::from(host.has_private_ipc);
        let ids = [request.id as u64, reply.id as u64];
        let near = EndResources {
            words: vec![ids[1], ids[0], private],
            guard: Some(Box::new([request, reply])),
            ..EndResources::default()
        };
        Ok([near, EndResources { words: vec![ids[0], ids[1], private], ..EndResources::default() }])
    }

    fn attach(_side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        let [incoming, outgoing, private] = resources.words[..] else {
            unreachable!("`create` hands over three words")
        };
        let flags = if params.wait == Wait::Spin { libc::IPC_NOWAIT } else { 0 };
        let ends =
            Pair { incoming: incoming as i32, outgoing: outgoing as i32, flags, is_private: private != 0 };
        Copying::new(ends, params.payload_bytes)
    }
}

/// Does a queue hold a message of this size?
pub(crate) fn fits(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let size = params.payload_bytes as u64;
    for path in ["kernel/msgmax", "kernel/msgmnb"] {
        if host.sysctl_number(path).is_none() {
            return Err(Unsupported("this kernel has no System V message queues (CONFIG_SYSVIPC)".into()));
        }
        fits_sysctl(host, path, size, &format!("a message of {size} bytes"))?;
    }
    Ok(())
}

pub(super) struct Pair {
    incoming: i32,
    outgoing: i32,
    flags: i32,
    is_private: bool,
}

/// Repeats a call while there is nothing, or no room, and for a signal. Only with IPC_NOWAIT is that so in a good run.
#[inline]
fn until_done(call: impl Fn() -> isize) -> io::Result<usize> {
    loop {
        match sys::check_count(call()) {
            Ok(count) => return Ok(count),
            Err(error) if fd::is_transient(&error) || error.raw_os_error() == Some(libc::ENOMSG) => {
                std::hint::spin_loop();
            }
            Err(error) => return Err(error),
        }
    }
}

/// The type of a message, a `long` above 0, in front of its bytes.
pub(crate) const TYPE: &[u8] = &(1 as libc::c_long).to_ne_bytes();

impl Transport for Pair {
    const PREFIX: &'static [u8] = TYPE;

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let (pointer, len) = (message.as_ptr().cast(), message.len() - Self::PREFIX.len());
        // SAFETY: pointer and length come from one slice, which begins with the type, and that is not counted.
        until_done(|| unsafe { libc::msgsnd(self.outgoing, pointer, len, self.flags) } as isize)?;
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (pointer, len) = (buffer.as_mut_ptr().cast(), buffer.len() - Self::PREFIX.len());
        // SAFETY: pointer and length come from one slice, which begins with the type, and that is not counted.
        until_done(|| unsafe { libc::msgrcv(self.incoming, pointer, len, 0, self.flags) })
    }

    fn facts(&self) -> io::Result<Facts> {
        let mut state = MaybeUninit::<libc::msqid_ds>::zeroed();
        // SAFETY: the kernel writes the structure that is passed.
        sys::check(unsafe { libc::msgctl(self.outgoing, libc::IPC_STAT, state.as_mut_ptr()) })?;
        // SAFETY: zeroed, then written by the kernel; any numbers are a valid value.
        let queue_bytes = unsafe { state.assume_init() }.msg_qbytes;
        Ok(Facts::from([
            ("ipc_namespace".into(), if self.is_private { "private" } else { "shared" }.into()),
            ("queue_bytes".into(), queue_bytes.to_string()),
        ]))
    }
}
