//! Signals as something to poll for.
//!
//! # Safety
//! Signal sets are initialised by `sigemptyset` before use; the structure read from a signalfd is plain numbers, and
//! only used when all of it was read.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::error::{Error, Result};

/// Blocks `signals` for the calling thread, and threads that it starts from now on; returns a descriptor that is
/// readable when one of them waits, for [`read_signal`]. Non-blocking, closed on exec.
///
/// A signal sent to the process is still taken by any other thread that has not blocked it: call this before there are
/// others. A signal that is ignored never waits. Fails with `EINVAL` for a number that is no signal.
pub fn block_signals(signals: &[i32]) -> Result<OwnedFd> {
    let on = || format!("signals {signals:?}");
    let set = signal_set(signals).map_err(|error| Error::new("block", on(), error))?;
    // SAFETY: `set` is initialised and outlives the calls; a null pointer asks for no old set.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
    if blocked != 0 {
        return Err(Error::new("block", on(), io::Error::from_raw_os_error(blocked)));
    }
    // SAFETY: as above.
    let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(Error::last("open a descriptor of", on()));
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs `start` with every signal blocked that is not a fault of the thread itself: a thread that is started there runs no
/// signal handler of the program. Afterwards this thread's signals are as before.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the whole set; the numbers are those of signals; both sets outlive the calls, which fail
    // only for a first argument that is none of the three.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS] {
            libc::sigdelset(set.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: the call above has written the set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started
}

/// The next waiting signal, if one waits. Fails with `UnexpectedEof` for what is no descriptor of [`block_signals`].
pub fn read_signal(fd: impl AsFd) -> Result<Option<i32>> {
    Ok(read_signal_and_origin(fd)?.map(|(signal, _)| signal))
}

/// Who has sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kernel: a key of the terminal, for instance, which reaches all processes in the foreground.
    Kernel,
    /// A process.
    Process,
}

/// As [`read_signal`], with the origin of the signal.
pub fn read_signal_and_origin(fd: impl AsFd) -> Result<Option<(i32, Origin)>> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
    let size = size_of_val(&info);
    // SAFETY: the kernel writes at most `size` bytes into `info`.
    let len = unsafe { libc::read(fd.as_fd().as_raw_fd(), info.as_mut_ptr().cast(), size) };
    match usize::try_from(len) {
        Ok(len) if len == size => {
            // SAFETY: all of it was written, and any bits are valid in its numbers.
            let info = unsafe { info.assume_init() };
            let origin = if info.ssi_code > 0 { Origin::Kernel } else { Origin::Process };
            Ok(Some((info.ssi_signo as i32, origin)))
        }
        Ok(_) => Err(Error::new("read", "a signal", io::ErrorKind::UnexpectedEof)),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(Error::new("read", "a signal", error)),
        },
    }
}

fn signal_set(signals: &[i32]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the whole set, and never fails for a valid pointer.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for &signal in signals {
        // SAFETY: `set` is initialised; a number that is no signal is refused.
        if unsafe { libc::sigaddset(&mut set, signal) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_waits_until_it_is_read() {
        // A thread of its own: the mask goes with it.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let fd = block_signals(&[libc::SIGUSR1, libc::SIGUSR2]).unwrap();
                assert_eq!(read_signal(&fd).unwrap(), None);
                // SAFETY: pthread_self is this thread, which blocks the signal.
                assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) }, 0);
                assert_eq!(super::super::poll(&[fd.as_fd()], None).unwrap(), [true]);
                let sent = (libc::SIGUSR2, Origin::Process);
                assert_eq!(read_signal_and_origin(&fd).unwrap(), Some(sent));
                assert_eq!(read_signal(&fd).unwrap(), None);
            });
        });
    }

    #[test]
    fn a_number_that_is_no_signal_is_refused() {
        assert_eq!(block_signals(&[1000]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn what_is_no_signal_descriptor_is_an_error() {
        let (near, far) = crate::socket::stream_pair().unwrap();
        drop(far);
        assert!(read_signal(&near).is_err());
    }
}
