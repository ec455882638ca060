//! Makes interleavings likely that an idle machine rarely shows: the bus is stopped while queues fill, everything runs on one CPU,
//! or senders yield at every message.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::property::Bus;

/// How an experiment is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Free,
    /// Senders yield after each message.
    Yielding,
    /// The bus is stopped for moments while senders send.
    Stopping,
    /// The bus runs where its clients run, on one CPU.
    OneCpu,
}

impl Mode {
    /// Those that this bus allows.
    pub fn of(bus: &Bus<'_>) -> &'static [Mode] {
        const ALL: [Mode; 4] = [Mode::Free, Mode::Yielding, Mode::Stopping, Mode::OneCpu];
        match bus.private_pid {
            Some(_) => &ALL,
            None => &ALL[..2],
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Mode::Free => "undisturbed",
            Mode::Yielding => "senders yielding",
            Mode::Stopping => "the bus stopped for moments",
            Mode::OneCpu => "all on one CPU",
        }
    }

    /// Between two messages of a sender.
    pub fn pause(self) {
        if self == Mode::Yielding {
            std::thread::yield_now();
        }
    }
}

/// The process of a private bus, disturbed until this is dropped where the mode concerns it.
#[derive(Debug)]
pub struct Disturbed {
    pid: Option<Pid>,
    /// Those that it may run on otherwise.
    cpus: Option<CpuSet>,
}

impl Disturbed {
    pub fn begin(bus: &Bus<'_>, mode: Mode) -> Disturbed {
        let pid = bus.private_pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let cpus = pid.filter(|_| mode == Mode::OneCpu).and_then(|pid| {
            let before = sched_getaffinity(Some(pid)).ok()?;
            sched_setaffinity(Some(pid), &one_cpu()?).ok()?;
            Some(before)
        });
        Disturbed { pid: pid.filter(|_| mode == Mode::Stopping || cpus.is_some()), cpus }
    }

    /// Stops the bus and lets it continue, several times, where that is how it is disturbed.
    pub fn stop_and_continue(&self) {
        let Some(pid) = self.pid.filter(|_| self.cpus.is_none()) else { return };
        for _ in 0..5 {
            // The process is a child of the caller that has not been reaped, so the number is still its own.
            let _ = kill_process(pid, Signal::STOP);
            std::thread::sleep(Duration::from_millis(8));
            let _ = kill_process(pid, Signal::CONT);
            std::thread::sleep(Duration::from_millis(4));
        }
    }
}

impl Drop for Disturbed {
    fn drop(&mut self) {
        if let Some(cpus) = &self.cpus {
            let _ = sched_setaffinity(self.pid, cpus);
        }
    }
}

/// The CPU that a thread of an experiment with [`Mode::OneCpu`] runs on: the first allowed one.
fn one_cpu() -> Option<CpuSet> {
    let allowed = sched_getaffinity(None).ok()?;
    let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu))?;
    let mut set = CpuSet::new();
    set.set(first);
    Some(set)
}

/// Moves the calling thread, which is one of an experiment and ends with it.
pub fn join_cpu(mode: Mode) {
    if mode == Mode::OneCpu
        && let Some(set) = one_cpu()
    {
        let _ = sched_setaffinity(None, &set);
    }
}
