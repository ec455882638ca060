//! Life cycles of descriptors: made and closed again.
//!
//! # Safety
//! Calls are given numbers, paths and addresses that live across them, and arrays as large as they expect. What a call has
//! opened is closed by number in the same function, and never used again.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Op, OpContext};
use crate::sys::check;

/// Closes what was just opened.
#[inline]
fn close(fd: c_int) -> io::Result<()> {
    // SAFETY: the callers have opened it, and forget it.
    check(unsafe { libc::close(fd) }).map(drop)
}

/// An operation without settings that is this block, and returns 1.
macro_rules! cycle {
    ($(#[$doc:meta])* $name:ident, $id:literal, $about:literal, $body:block) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl Op for $name {
            const ID: &'static str = $id;
            const ABOUT: &'static str = $about;

            fn setup(_seat: &OpContext<'_>) -> io::Result<$name> {
                Ok($name)
            }

            #[inline]
            fn once(&mut self) -> io::Result<u64> {
                // SAFETY: see the module's text.
                unsafe { $body }
                Ok(1)
            }

            fn each(&self) -> Option<u64> {
                Some(1)
            }
        }
    };
}

/// Makes the same block an operation under a second name.
pub(super) use cycle;

/// Makes a pipe and closes both ends.
///
/// # Safety
/// None but what the module's text says.
#[inline]
pub(super) unsafe fn pipe_and_close() -> io::Result<()> {
    let mut ends = [0; 2];
    // SAFETY: room for two numbers.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    close(ends[0])?;
    close(ends[1])
}

/// Makes an eventfd and closes it.
///
/// # Safety
/// As [`pipe_and_close`].
#[inline]
pub(super) unsafe fn eventfd_and_close() -> io::Result<()> {
    // SAFETY: two numbers.
    close(check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?)
}

cycle!(
    /// `pipe2(2)`.
    PipeCycle, "pipe-cycle", "pipe2 and close of both ends", {
        pipe_and_close()?;
    }
);
cycle!(
    /// `socketpair(2)`.
    SocketpairCycle, "socketpair-cycle", "socketpair of Unix stream sockets and close of both", {
        let mut ends = [0; 2];
        check(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()))?;
        close(ends[0])?;
        close(ends[1])?;
    }
);
cycle!(
    /// `eventfd2(2)`.
    EventfdCycle, "eventfd-cycle", "eventfd and close", {
        eventfd_and_close()?;
    }
);
cycle!(
    /// `memfd_create(2)`.
    MemfdCycle, "memfd-cycle", "memfd_create, without a byte in it, and close", {
        close(check(libc::memfd_create(c"weighbridge".as_ptr(), libc::MFD_CLOEXEC))?)?;
    }
);
cycle!(
    /// `openat(2)`.
    OpenClose, "open-close", "open of /dev/null and close", {
        const PATH: &CStr = c"/dev/null";
        close(check(libc::open(PATH.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC))?)?;
    }
);

/// `epoll_ctl(2)`, ADD and DEL.
#[derive(Debug)]
pub struct EpollAddRemove {
    set: OwnedFd,
    watched: OwnedFd,
}

impl Op for EpollAddRemove {
    const ID: &'static str = "epoll-add-remove";
    const ABOUT: &'static str = "epoll_ctl ADD and DEL of an eventfd";

    fn setup(_seat: &OpContext<'_>) -> io::Result<EpollAddRemove> {
        Ok(EpollAddRemove {
            set: rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?,
            watched: rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?,
        })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let (set, watched) = (self.set.as_raw_fd(), self.watched.as_raw_fd());
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event is ours.
        unsafe {
            check(libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, watched, &mut event))?;
            check(libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, watched, &mut event))?;
        }
        Ok(1)
    }

    fn each(&self) -> Option<u64> {
        Some(1)
    }
}

/// `connect(2)` and `accept4(2)`.
pub struct AcceptCycle {
    listener: OwnedFd,
    address: libc::sockaddr_un,
    address_len: libc::socklen_t,
}

impl Op for AcceptCycle {
    const ID: &'static str = "accept-cycle";
    const ABOUT: &'static str =
        "socket, connect to a listening Unix stream socket of the same role, accept, close of both ends";

    fn setup(_seat: &OpContext<'_>) -> io::Result<AcceptCycle> {
        // SAFETY: the address is ours; with no more than its family given, the kernel chooses an abstract name, which is
        // gone with the socket.
        unsafe {
            let listener = check(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))?;
            let listener = OwnedFd::from_raw_fd(listener);
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as _;
            let family_len = size_of::<libc::sa_family_t>() as libc::socklen_t;
            check(libc::bind(listener.as_raw_fd(), (&raw const address).cast(), family_len))?;
            check(libc::listen(listener.as_raw_fd(), 1))?;
            let mut address = MaybeUninit::<libc::sockaddr_un>::zeroed();
            let mut address_len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
            check(libc::getsockname(listener.as_raw_fd(), address.as_mut_ptr().cast(), &mut address_len))?;
            Ok(AcceptCycle { listener, address: address.assume_init(), address_len })
        }
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let address = (&raw const self.address).cast();
        // SAFETY: the address is ours and as long as is said; the address of the other end is not asked for.
        unsafe {
            let near = check(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))?;
            check(libc::connect(near, address, self.address_len))?;
            let none = std::ptr::null_mut();
            let far = check(libc::accept4(
                self.listener.as_raw_fd(),
                none,
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            ))?;
            close(far)?;
            close(near)?;
        }
        Ok(1)
    }

    fn each(&self) -> Option<u64> {
        Some(1)
    }
}
