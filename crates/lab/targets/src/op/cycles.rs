//! Life cycles: descriptors, threads and children that are made and are gone again.
//!
//! Those whose ids begin with `proxy` show the kernel's own allocators, as far as they can be seen from outside: system calls
//! that make and give back one object of the kernel and do little else. What they show is a difference between two kernels, not
//! the cost of `kmalloc`.
//!
//! # Safety
//! Calls are given numbers, paths and addresses that live across them, and arrays as large as they expect. What a call has
//! opened is closed by number in the same function, and never used again. The thread touches nothing and is joined before
//! anything that it was given ends. The forked child calls `_exit` and nothing else.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::ptr;

use causeway_os::socket;
use rustix::event::{EventfdFlags, epoll, eventfd};

use super::{Op, OpContext, op};
use crate::mechanism::msg_sysv::{self, Queues, TYPE};
use crate::mechanism::sysv::Object;
use crate::prelude::*;
use crate::sys::{self, check, check_code};
use weighbridge_harness::counter_check::Quiet;

/// Closes what was just opened: the callers forget it.
#[inline]
fn close(fd: c_int) -> io::Result<u64> {
    // SAFETY: see the module's text.
    check(unsafe { libc::close(fd) }).map(|_| 1)
}

/// Closes both ends of what a call opens, unless it failed.
#[inline]
fn close_both(open: impl FnOnce(&mut [c_int; 2]) -> c_int) -> io::Result<u64> {
    let mut ends = [0; 2];
    check(open(&mut ends))?;
    close(ends[0])?;
    close(ends[1])
}

#[inline]
fn pipe_and_close() -> io::Result<u64> {
    // SAFETY: room for two numbers.
    close_both(|ends| unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })
}

#[inline]
fn eventfd_and_close() -> io::Result<u64> {
    // SAFETY: two numbers.
    close(check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?)
}

op!(PipeCycle, "pipe-cycle", "pipe2 and close of both ends", {}, |_op| pipe_and_close(), each 1);
op!(PipeClose, "proxy-pipe-close", "pipe2 and close: a proxy for kmalloc of a kilobyte, two files and an inode", {},
    |_op| pipe_and_close(), each 1);
op!(SocketpairCycle, "socketpair-cycle", "socketpair of Unix stream sockets and close of both", {},
    |_op| close_both(|ends| libc::socketpair(libc::AF_UNIX, STREAM, 0, ends.as_mut_ptr())), each 1);
op!(EventfdCycle, "eventfd-cycle", "eventfd and close", {}, |_op| eventfd_and_close(), each 1);
op!(EventfdClose, "proxy-eventfd-close", "eventfd and close: a proxy for kmalloc of a small object, a file and an inode", {},
    |_op| eventfd_and_close(), each 1);
op!(MemfdCycle, "memfd-cycle", "memfd_create, without a byte in it, and close", {},
    |_op| close(check(libc::memfd_create(c"weighbridge".as_ptr(), libc::MFD_CLOEXEC))?), each 1);
op!(OpenClose, "open-close", "open of /dev/null and close", {},
    |_op| close(check(libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC))?), each 1);
op!(EpollAddRemove, "epoll-add-remove", "epoll_ctl ADD and DEL of an eventfd",
    { set: OwnedFd = epoll::create(epoll::CreateFlags::CLOEXEC)?, watched: OwnedFd = eventfd(0, EventfdFlags::CLOEXEC)? },
    |op| {
        let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        sys::epoll_ctl(&op.set, libc::EPOLL_CTL_ADD, &op.watched, event)?;
        sys::epoll_ctl(&op.set, libc::EPOLL_CTL_DEL, &op.watched, event).map(|()| 1)
    }, each 1);
op!(DgramByte, "proxy-dgram-byte",
    "one byte through a pair of Unix datagram sockets in one role: a proxy for a socket buffer, allocated and freed",
    { ends: (OwnedFd, OwnedFd) = socket::datagram_pair()? },
    |op| {
        let (sent, mut received) = ([7u8], [0u8]);
        sys::write(&op.ends.0, &sent)?;
        sys::read(&op.ends.1, &mut received)?;
        Ok(received[0].into())
    }, each 7);

/// What the numbers of operations that wait for another task look like is not known beforehand.
pub(super) const WAITS: Quiet = Quiet { switches: false, faults: false };

extern "C" fn nothing(argument: *mut c_void) -> *mut c_void {
    argument
}

op!(ThreadCycle, "thread-cycle", "pthread_create of a thread that ends at once, and pthread_join", {},
    const QUIET: Quiet = WAITS,
    |_op| {
        let (mut thread, mut result) = (MaybeUninit::uninit(), ptr::null_mut());
        let argument = ptr::without_provenance_mut(7);
        check_code(libc::pthread_create(thread.as_mut_ptr(), ptr::null(), nothing, argument))?;
        check_code(libc::pthread_join(thread.assume_init(), &mut result))?;
        Ok(result.addr() as u64)
    }, each 7);
op!(ForkCycle, "fork-cycle", "fork of a child that calls _exit at once, and waitpid", {},
    const QUIET: Quiet = WAITS,
    |_op| {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(7)
        }
        reap(check(pid)?)
    }, each 7);

/// Waits for a child, and returns its exit code.
#[inline]
pub(super) fn reap(pid: libc::pid_t) -> io::Result<u64> {
    let mut status: c_int = 0;
    // SAFETY: a child of ours that no other code waits for; `status` is ours.
    sys::retry(|| check(unsafe { libc::waitpid(pid, &mut status, 0) }))?;
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status) as u64)
    } else {
        Err(io::Error::other(format!("a child ended with status {status:#x}")))
    }
}

const STREAM: c_int = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;

pub(super) struct AcceptCycle {
    listener: OwnedFd,
    address: libc::sockaddr_un,
    address_len: libc::socklen_t,
}

impl Op for AcceptCycle {
    const ID: &'static str = "accept-cycle";
    const ABOUT: &'static str =
        "socket, connect to a listening Unix stream socket of the same role, accept, close of both ends";

    fn setup(_context: &OpContext<'_>) -> io::Result<AcceptCycle> {
        // SAFETY: the address is ours; with no more than its family given, the kernel chooses an abstract name, which is
        // gone with the socket.
        unsafe {
            let listener = OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, STREAM, 0))?);
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as _;
            let family_len = size_of::<libc::sa_family_t>() as libc::socklen_t;
            check(libc::bind(listener.as_raw_fd(), (&raw const address).cast(), family_len))?;
            check(libc::listen(listener.as_raw_fd(), 1))?;
            let mut address_len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
            check(libc::getsockname(listener.as_raw_fd(), (&raw mut address).cast(), &mut address_len))?;
            Ok(AcceptCycle { listener, address, address_len })
        }
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let address = (&raw const self.address).cast();
        let (listener, none) = (self.listener.as_raw_fd(), ptr::null_mut());
        // SAFETY: the address is ours and as long as is said; the address of the other end is not asked for.
        unsafe {
            let near = check(libc::socket(libc::AF_UNIX, STREAM, 0))?;
            check(libc::connect(near, address, self.address_len))?;
            let far = check(libc::accept4(listener, none, ptr::null_mut(), libc::SOCK_CLOEXEC))?;
            close(far)?;
            close(near)
        }
    }
}

pub(super) struct SysvMessage {
    queue: Object<Queues>,
    message: Vec<u8>,
    received: Vec<u8>,
}

impl Op for SysvMessage {
    const ID: &'static str = "proxy-sysv-message";
    const ABOUT: &'static str = "a System V message sent and received in one role: a proxy for kmalloc of its size (and 48 bytes), with two copies";
    const CAPS: Caps = Caps::PAYLOAD;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        msg_sysv::fits(host, params)
    }

    fn setup(context: &OpContext<'_>) -> io::Result<SysvMessage> {
        let mut message = TYPE.to_vec();
        message.resize(TYPE.len() + context.params.payload_bytes, 7);
        Ok(SysvMessage { queue: Object::make()?, received: vec![0; message.len()], message })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let len = self.message.len() - TYPE.len();
        // SAFETY: both arrays hold a type and `len` bytes, and live across the call.
        unsafe {
            check(libc::msgsnd(self.queue.id, self.message.as_ptr().cast(), len, 0))?;
            check(libc::msgrcv(self.queue.id, self.received.as_mut_ptr().cast(), len, 0, 0))
                .map(|count| count as u64)
        }
    }

    fn each(&self) -> u64 {
        (self.message.len() - TYPE.len()) as u64
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
