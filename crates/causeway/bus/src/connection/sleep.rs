//! Sleeping until something comes, on a futex or on a descriptor.

use std::convert::Infallible;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_os::Context;
use causeway_os::{clock, futex};
use causeway_waiting::polling::{self, Pollable, Polling};

use super::Connection;
use crate::control::{self, Packet};
use crate::error::{Error, Result, name};
use crate::shared::order::Statistic;
use crate::shared::ring::{self, Sleep, group_bit};

/// How far this connection was when it announced its last sleep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asleep {
    cursor: u64,
    delivered: u64,
}

impl Connection {
    /// Makes the descriptor that becomes readable when something comes.
    ///
    /// # Errors
    /// This process or the bus lacks descriptors, the authority is gone, or the connection has ended.
    pub fn use_descriptor(&mut self) -> Result<()> {
        if self.doorbell.is_some() {
            return Ok(());
        }
        let doorbell = control::new_doorbell()?;
        match self.link.ask(&Packet::new(control::Kind::SetDoorbell, [0; 4]), &[doorbell.as_fd()])? {
            (Packet { kind: control::Kind::None, .. }, _) => {}
            (Packet { text, .. }, _) => return Err(Error::method(name::LIMITS_EXCEEDED, text)),
        }
        let _ = self.watched.doorbell.set(doorbell.try_clone().context("copy", || "a doorbell")?);
        self.doorbell = Some(doorbell);
        Ok(())
    }

    /// To be called before the program waits for the descriptor; false if there is something to take already. To be
    /// followed by
    /// [`Connection::next_now`] until that returns nothing.
    ///
    /// # Panics
    /// [`use_descriptor`](Connection::use_descriptor) was not called before.
    pub fn prepare_to_wait(&mut self) -> bool {
        let Some(doorbell) = &self.doorbell else { panic!("use_descriptor() makes the descriptor") };
        // A sender that has rung may be stopped before it marks the sleep as ended, so the mark tells nothing.
        if rustix::io::read(doorbell, &mut [0; 8]).is_ok() {
            self.note_woken();
        }
        self.disarm();
        if !self.inbox.is_empty() {
            return false;
        }
        self.arm(Sleep::Doorbell);
        if self.is_ready() || self.has_ended() && !self.has_told_end {
            self.disarm();
            return false;
        }
        true
    }

    /// Announces a sleep, now that everything was taken.
    fn arm(&mut self, how: Sleep) {
        if std::mem::take(&mut self.was_woken) && self.asleep.delivered == self.delivered {
            self.port.count_idle_wake(self.asleep.cursor);
        }
        self.port.publish_cursor();
        self.asleep = Asleep { cursor: self.port.cursor(), delivered: self.delivered };
        self.is_armed = how == Sleep::Doorbell;
        ring::arm(self.port.order().armed(self.port.slot()), how);
    }

    /// Ends a sleep that was announced for the descriptor.
    pub(super) fn disarm(&mut self) {
        if std::mem::take(&mut self.is_armed) {
            ring::disarm(self.port.order().armed(self.port.slot()));
        }
    }

    fn note_woken(&mut self) {
        self.was_woken = true;
        self.port.order().count(self.port.slot(), Statistic::Wakes, 1);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.port.is_ready() || self.has_ended() && !self.has_noticed_end
    }

    pub(super) fn has_ended(&self) -> bool {
        self.watched.has_ended.load(Ordering::Acquire)
    }

    /// Sleeps until something may have come; false when `end_ns`, of `CLOCK_MONOTONIC`, has passed and nothing has
    /// come.
    pub(super) fn sleep_until(&mut self, end_ns: Option<u64>) -> Result<bool> {
        if self.has_ended() && !self.has_noticed_end {
            self.has_noticed_end = true;
            return Ok(true);
        }
        let start_ns = self.polling.is_on().then(clock::monotonic_ns);
        if let Some(start_ns) = start_ns {
            let Ok(is_ready) =
                polling::poll(self, (start_ns, end_ns.unwrap_or(u64::MAX)), clock::monotonic_ns);
            if is_ready {
                return Ok(!has_passed(end_ns));
            }
        }
        let before = ring::before_sleep(self.port.order().group(self.port.slot()));
        self.arm(Sleep::Futex);
        let (order, slot) = (self.port.order(), self.port.slot());
        let sleep = || futex::wait_until(order.group(slot), before, end_ns, group_bit(slot));
        let outcome = if self.is_ready() { None } else { Some(sleep()) };
        ring::disarm(order.armed(slot));
        if let Some(start_ns) = start_ns {
            self.polling.slept(clock::monotonic_ns().saturating_sub(start_ns));
        }
        let Some(outcome) = outcome else { return Ok(!has_passed(end_ns)) };
        match outcome.context("sleep", || "on the bus")? {
            futex::Outcome::Woken => self.note_woken(),
            // What has come in the same moment is taken.
            futex::Outcome::TimedOut => return Ok(self.is_ready()),
            futex::Outcome::Changed | futex::Outcome::Interrupted => {}
        }
        Ok(true)
    }
}

impl Pollable for Connection {
    type Error = Infallible;

    fn polling(&mut self) -> &mut Polling {
        &mut self.polling
    }

    #[inline]
    fn is_over(&mut self) -> std::result::Result<bool, Infallible> {
        Ok(self.is_ready())
    }
}

/// The moment after this time from `start_ns` on; none if it is beyond all clocks.
pub(super) fn end_after(start_ns: u64, timeout: Duration) -> Option<u64> {
    let timeout = u64::try_from(timeout.as_nanos()).ok()?;
    start_ns.checked_add(timeout).filter(|end| *end <= i64::MAX as u64)
}

/// Has this moment of `CLOCK_MONOTONIC` passed?
pub(super) fn has_passed(end_ns: Option<u64>) -> bool {
    end_ns.is_some_and(|end| clock::monotonic_ns() >= end)
}
