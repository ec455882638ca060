//! System calls straight through `libc`, and what their results mean.
//!
//! Timed loops call these functions. Each makes one system call, unless its text says otherwise, and is inlined, so that a
//! timed loop holds the call, the test of its result, and nothing else.
//!
//! # Safety
//! Calls take pointer and length of one slice, or of one local value, that lives across the call. Descriptors are numbers
//! that the kernel checks.
#![allow(unsafe_code)]

pub(crate) mod epoll;
pub(crate) mod uring;

use std::io;
use std::os::fd::AsRawFd;

use libc::{c_int, epoll_event, pollfd};

/// The result of a call that returns a negative number and leaves its error in `errno`.
#[inline]
pub(crate) fn check<T: PartialOrd + Default>(result: T) -> io::Result<T> {
    if result < T::default() { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// As [`check`], for calls that return how many bytes or events there were.
#[inline]
pub(crate) fn check_count(result: isize) -> io::Result<usize> {
    check(result).map(|count| count as usize)
}

/// The result of a call that returns its error, as those of pthreads do.
#[inline]
pub(crate) fn check_code(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// The result of `mmap(2)`.
#[inline]
pub(crate) fn check_mapping(base: *mut libc::c_void) -> io::Result<()> {
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Repeats a call that a signal interrupted; any other error is returned.
#[inline]
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The result of a call that waits for events: a signal that interrupted the wait means that nothing is ready. A process
/// that was stopped and goes on sees that without any handler (signal(7)).
#[inline]
pub(crate) fn ready(result: c_int) -> io::Result<usize> {
    match check(result) {
        Ok(count) => Ok(count as usize),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// `read(2)`.
#[inline]
pub(crate) fn read(fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length come from one slice.
    check_count(unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// `write(2)`.
#[inline]
pub(crate) fn write(fd: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length come from one slice.
    check_count(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
}

/// `write(2)`, again until all of `bytes` are written. Returns how many calls a signal interrupted.
#[inline]
pub(crate) fn write_all(fd: &impl AsRawFd, mut bytes: &[u8]) -> io::Result<u64> {
    let mut interrupted = 0;
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => interrupted += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(interrupted)
}

/// Fills a buffer from a byte stream with `read(2)`. Returns how much of it, which is less only at the end of the stream.
#[inline]
pub(crate) fn fill(fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match retry(|| read(fd, &mut buffer[filled..]))? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// The error where a byte stream has ended and should not have.
#[cold]
pub(crate) fn end_of_stream(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, why.into())
}

/// `send(2)`; a closed peer is an error and not SIGPIPE.
#[inline]
pub(crate) fn send(fd: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length come from one slice.
    check_count(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) })
}

/// `recv(2)`.
#[inline]
pub(crate) fn recv(fd: &impl AsRawFd, buffer: &mut [u8], flags: c_int) -> io::Result<usize> {
    // SAFETY: pointer and length come from one slice.
    check_count(unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

/// `poll(2)` without a timeout: how many entries are ready.
#[inline]
pub(crate) fn poll(entries: &mut [pollfd]) -> io::Result<usize> {
    // SAFETY: as many entries are announced as there are.
    ready(unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, -1) })
}

/// `epoll_wait(2)` without a timeout: how many entries it has filled.
#[inline]
pub(crate) fn epoll_wait(set: &impl AsRawFd, events: &mut [epoll_event]) -> io::Result<usize> {
    // SAFETY: as many entries are announced as there are.
    ready(unsafe { libc::epoll_wait(set.as_raw_fd(), events.as_mut_ptr(), events.len() as c_int, -1) })
}

/// `epoll_ctl(2)` with one of its three operations.
#[inline]
pub(crate) fn epoll_ctl(
    set: &impl AsRawFd,
    operation: c_int,
    fd: &impl AsRawFd,
    mut event: epoll_event,
) -> io::Result<()> {
    // SAFETY: the event lives across the call.
    check(unsafe { libc::epoll_ctl(set.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) }).map(drop)
}

/// Makes calls on a descriptor return instead of wait.
pub(crate) fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    let on: c_int = 1;
    // SAFETY: the request takes a pointer to an int, which lives across the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw const on) }).map(drop)
}

/// `getsockopt(2)` of an option that is an int.
pub(crate) fn socket_option(fd: &impl AsRawFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`, which has them.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &mut len) })?;
    Ok(value)
}

/// What the kernel knows of a TCP connection.
pub(crate) fn tcp_info(fd: &impl AsRawFd) -> io::Result<libc::tcp_info> {
    // SAFETY: all zeros is a valid value: numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `len` bytes into `info`, which has them.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut info).cast(), &mut len) })?;
    Ok(info)
}

/// `setsockopt(2)` of an option that is an int.
pub(crate) fn set_socket_option(
    fd: &impl AsRawFd,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the option takes an int, and is given one with its size.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) }).map(drop)
}

/// `process_vm_readv(2)` of one range of another process, which may be copied in part.
#[inline]
pub(crate) fn process_vm_read(pid: libc::pid_t, address: usize, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: buffer.len() };
    // SAFETY: one part each is passed and announced; the local one is a slice that is borrowed for writing.
    check_count(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_gives_the_error_that_it_left() {
        let error = read(&-1, &mut [0]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        assert_eq!(check_code(libc::EPERM).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn an_interrupted_call_is_repeated_and_any_other_error_returned() {
        let mut calls = 0;
        let done = retry(|| {
            calls += 1;
            if calls < 3 { Err(io::Error::from_raw_os_error(libc::EINTR)) } else { Ok(calls) }
        });
        assert_eq!(done.unwrap(), 3);
        let refused = retry(|| io::Result::<()>::Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn options_of_sockets_are_read_back_as_they_were_set() {
        let (socket, _other) = causeway_os::socket::stream_pair().unwrap();
        set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_PASSCRED, 1).unwrap();
        assert_eq!(socket_option(&socket, libc::SOL_SOCKET, libc::SO_PASSCRED).unwrap(), 1);
    }
}
