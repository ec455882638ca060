//! What a turn of the loop takes, and when it has taken enough.
//!
//! A turn is the time from one return of `epoll_wait` to the next call. Its parts (clients read, the log read, clients written) end each
//! when their slice is over, and go on in the next turn where they stopped.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How long one part of a turn goes on with further steps.
const SLICE: Duration = Duration::from_millis(1);
/// The CPU clock is a system call: it is read after so much time in turns, and after a turn that may be the longest.
const CPU_EVERY: Duration = Duration::from_micros(500);

/// The time of one part of a turn. It begins when it is first asked for.
#[derive(Debug, Default)]
pub struct Slice(Option<Instant>);

impl Slice {
    /// One that began at this time.
    pub fn since(began: Instant) -> Slice {
        Slice(Some(began))
    }

    /// Is it over? Ask after a step if there are further ones.
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        now.saturating_duration_since(*self.0.get_or_insert(now)) >= SLICE
    }
}

#[derive(Debug)]
pub struct Turns {
    /// By the clock.
    pub longest: Duration,
    /// By the CPU time of the thread; at most that of other turns within half a millisecond too high.
    pub longest_cpu: Duration,
    /// CPU time of the thread when it was last read, and time in turns since then.
    cpu: Duration,
    unread: Duration,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            longest: Duration::ZERO,
            longest_cpu: Duration::ZERO,
            cpu: cpu_time(),
            unread: Duration::ZERO,
        }
    }
}

impl Turns {
    /// A turn has ended that took this time.
    pub fn count(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
        self.unread += took;
        if took > self.longest_cpu || self.unread >= CPU_EVERY {
            let cpu = cpu_time();
            self.longest_cpu = self.longest_cpu.max(took.min(cpu.saturating_sub(self.cpu)));
            (self.cpu, self.unread) = (cpu, Duration::ZERO);
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_begins_with_the_first_question_or_when_it_is_told() {
        assert!(!Slice::default().is_over());
        assert!(Slice::since(Instant::now() - SLICE).is_over());
    }

    #[test]
    fn a_turn_in_which_the_thread_did_nothing_has_no_cpu_time_to_speak_of() {
        let mut turns = Turns::default();
        // As if it had not run for an hour.
        let hour = Duration::from_secs(3600);
        turns.count(hour);
        assert_eq!(turns.longest, hour);
        assert!(turns.longest_cpu < hour / 2, "{:?}", turns.longest_cpu);
        let before = turns.longest_cpu;
        turns.count(Duration::ZERO);
        assert_eq!((turns.longest, turns.longest_cpu), (hour, before));
    }
}
