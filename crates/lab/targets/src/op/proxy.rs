//! The kernel's own allocators, as far as they can be seen from outside: system calls that make and give back one object
//! of the kernel and do little else. They are proxies, and their names say so: what they show is a difference between two
//! kernels, not the cost of `kmalloc`.
//!
//! # Safety
//! Messages are arrays of the length that is announced, and live across the call.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;

use super::descriptors::{cycle, eventfd_and_close, pipe_and_close};
use super::{Op, OpContext};
use crate::mechanism::msg_sysv::Queue;
use crate::sys;
use weighbridge_harness::contract::{Caps, Facts, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;

cycle!(
    /// A small object and a file.
    EventfdClose, "proxy-eventfd-close",
    "eventfd and close: a proxy for kmalloc of a small object, a file and an inode", {
        eventfd_and_close()?;
    }
);
cycle!(
    /// An array of buffers and two files.
    PipeClose, "proxy-pipe-close",
    "pipe2 and close: a proxy for kmalloc of a kilobyte, two files and an inode", {
        pipe_and_close()?;
    }
);

/// A socket buffer.
#[derive(Debug)]
pub struct DgramByte {
    near: OwnedFd,
    far: OwnedFd,
}

impl Op for DgramByte {
    const ID: &'static str = "proxy-dgram-byte";
    const ABOUT: &'static str = "one byte through a pair of Unix datagram sockets in one role: a proxy for a socket buffer, allocated and freed";

    fn setup(_seat: &OpContext<'_>) -> io::Result<DgramByte> {
        let (near, far) = causeway_os::socket::datagram_pair()?;
        Ok(DgramByte { near, far })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let (sent, mut received) = ([7u8], [0u8]);
        sys::write(&self.near, &sent)?;
        sys::read(&self.far, &mut received)?;
        Ok(received[0].into())
    }

    fn each(&self) -> Option<u64> {
        Some(7)
    }
}

/// `kmalloc` of a chosen size, filled and read.
#[derive(Debug)]
pub struct SysvMessage {
    queue: Queue,
    message: Vec<u8>,
    received: Vec<u8>,
}

/// Type of a message, in front of its bytes.
const TYPE: [u8; size_of::<libc::c_long>()] = (1 as libc::c_long).to_ne_bytes();

impl Op for SysvMessage {
    const ID: &'static str = "proxy-sysv-message";
    const ABOUT: &'static str = "a System V message sent and received in one role: a proxy for kmalloc of its size (and 48 bytes), with two copies";
    const CAPS: Caps = Caps::PAYLOAD;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        let most = ["kernel/msgmax", "kernel/msgmnb"].map(|path| host.sysctl_number(path));
        match most {
            [Some(max), Some(mnb)] if params.payload_bytes as u64 > max.min(mnb) => {
                Err(Unsupported(format!(
                    "a message of {} bytes exceeds kernel.msgmax = {max} or kernel.msgmnb = {mnb}; raise both with sysctl",
                    params.payload_bytes
                )))
            }
            [Some(_), Some(_)] => Ok(()),
            _ => Err(Unsupported("this kernel has no System V message queues (CONFIG_SYSVIPC)".into())),
        }
    }

    fn setup(context: &OpContext<'_>) -> io::Result<SysvMessage> {
        let mut message = TYPE.to_vec();
        message.resize(TYPE.len() + context.params.payload_bytes, 7);
        Ok(SysvMessage { queue: Queue::make()?, received: vec![0; message.len()], message })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let len = self.message.len() - TYPE.len();
        // SAFETY: both arrays hold a type and `len` bytes.
        unsafe {
            sys::check(libc::msgsnd(self.queue.0, self.message.as_ptr().cast(), len, 0))?;
            sys::check(libc::msgrcv(self.queue.0, self.received.as_mut_ptr().cast(), len, 0, 0))
                .map(|count| count as u64)
        }
    }

    fn each(&self) -> Option<u64> {
        Some((self.message.len() - TYPE.len()) as u64)
    }

    fn op_bytes(params: &CaseParams) -> u64 {
        params.payload_bytes as u64
    }

    fn finish(&mut self) -> io::Result<Facts> {
        if self.received == self.message {
            Ok(Facts::new())
        } else {
            Err(io::Error::other("the message that came is not the one that was sent"))
        }
    }
}
