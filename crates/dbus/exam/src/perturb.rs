//! Makes interleavings likely that an idle machine rarely shows: the bus is stopped while queues fill, everything runs on one CPU,
//! or senders yield at every message.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::property::Bus;

/// How an experiment is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Not at all.
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

    /// Words for evidence.
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

/// The process of a private bus, disturbed until this is dropped.
#[derive(Debug)]
pub struct Disturbed {
    pid: Pid,
    cpus: Option<CpuSet>,
}

impl Disturbed {
    /// Begins. Nothing where the mode does not concern the process.
    pub fn begin(bus: &Bus<'_>, mode: Mode) -> Option<Disturbed> {
        let pid = Pid::from_raw(bus.private_pid?.cast_signed())?;
        match mode {
            Mode::Free | Mode::Yielding => None,
            Mode::Stopping => Some(Disturbed { pid, cpus: None }),
            Mode::OneCpu => {
                let before = sched_getaffinity(Some(pid)).ok()?;
                let here = one_cpu()?;
                sched_setaffinity(Some(pid), &here).ok()?;
                Some(Disturbed { pid, cpus: Some(before) })
            }
        }
    }

    /// Stops the bus and lets it continue, several times.
    pub fn stop_and_continue(&self) {
        if self.cpus.is_some() {
            return;
        }
        for _ in 0..5 {
            // The process is a child of the caller that has not been reaped, so the number is still its own.
            let _ = kill_process(self.pid, Signal::STOP);
            std::thread::sleep(Duration::from_millis(8));
            let _ = kill_process(self.pid, Signal::CONT);
            std::thread::sleep(Duration::from_millis(4));
        }
    }
}

impl Drop for Disturbed {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::CONT);
        if let Some(cpus) = &self.cpus {
            let _ = sched_setaffinity(Some(self.pid), cpus);
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
