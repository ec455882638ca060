//! Signals as something to poll for.
//!
//! # Safety
//! The structure read from a signalfd is plain numbers, and only used when all of it was read. A signal gets its default action, and no handler.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::error::{Context, Error, Result};

/// Blocks `signals` for the calling thread, and threads that it starts from now on; returns a descriptor that is
/// readable when one of them waits, for [`read_signal`]. Non-blocking, closed on exec.
///
/// A signal sent to the process is still taken by any other thread that has not blocked it: call this before there are
/// others. A signal that is ignored never waits. Fails with `EINVAL` for an invalid signal number.
pub fn block_signals(signals: &[i32]) -> Result<OwnedFd> {
    let on = || format!("signals {signals:?}");
    let set: nix::Result<SigSet> = signals.iter().map(|signal| Signal::try_from(*signal)).collect();
    let set = set.context("block", on)?;
    set.thread_block().context("block", on)?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(SignalFd::with_flags(&set, flags).context("open a descriptor of", on)?.into())
}

/// Has the kernel keep the status of children that end until they are waited for, also where SIGCHLD was ignored by the program that has started
/// this one.
pub fn reset_child_signal() -> Result<()> {
    // SAFETY: no handler is set.
    unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) }
        .map(drop)
        .context("reset", || "the action of SIGCHLD")
}

/// Runs `start` with every signal blocked that is not a fault of the thread itself: a thread that is started there runs no
/// signal handler of the program. Afterwards this thread's signals are as before.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut set = SigSet::all();
    for fault in
        [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP, Signal::SIGSYS]
    {
        set.remove(fault);
    }
    let before =
        set.thread_swap_mask(SigmaskHow::SIG_BLOCK).expect("it fails only for another way to change a mask");
    let started = start();
    before.thread_set_mask().expect("as above");
    started
}

/// Whether a signal that is blocked waits for this thread or its process: for who cannot look at the descriptor, or must not take it.
pub fn is_pending(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let masks =
        status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    masks
        .filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .any(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The next pending signal, if any. Fails with `UnexpectedEof` for a descriptor that did not come from [`block_signals`].
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
                assert!(!is_pending(libc::SIGUSR2));
                // SAFETY: pthread_self is this thread, which blocks the signal.
                assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) }, 0);
                assert_eq!(super::super::poll(&[fd.as_fd()], None).unwrap(), [true]);
                assert!(is_pending(libc::SIGUSR2) && !is_pending(libc::SIGUSR1));
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
