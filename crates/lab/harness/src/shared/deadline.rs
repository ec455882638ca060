//! The time until which the coordinator waits: a timer in the set that it polls, which peers can set, too. A time-out of the call
//! would be the coordinator's alone, and would wake it in the middle of a long run.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

#[derive(Debug)]
pub(crate) struct Deadline(pub(super) OwnedFd);

impl Deadline {
    pub(crate) fn create() -> io::Result<Deadline> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Deadline(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// From now on the deadline is so far away, whatever it was; one that has passed unseen is forgotten. Zero is the next
    /// nanosecond.
    pub(crate) fn set(&self, length: Duration) -> io::Result<()> {
        let length = length.max(Duration::from_nanos(1));
        let it_value = Timespec::try_from(length).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Has the time come? Says so once.
    pub(crate) fn take(&self) -> io::Result<bool> {
        match rustix::io::read(&self.0, &mut [0; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
