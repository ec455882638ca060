//! Clocks: the one all measurements use, the processor's own counter, and what reading them costs.
//!
//! [`now_ns`] reads `CLOCK_MONOTONIC_RAW`: it never steps, and unlike `CLOCK_MONOTONIC` it is not slewed while a
//! measurement runs. It counts the same in all processes of the machine.
//!
//! # Safety
//! The calls fill a local `timespec`; the instructions read a counter and touch no memory.
#![allow(unsafe_code)]

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute, set_current_timer_slack};

use crate::error::{Context, Result};

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`, counted from some moment before boot. No system call where the vDSO has it.
#[inline]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the kernel tracer's `mono` and the clock of other programs. It is slewed: not to measure.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Processor time that the calling thread has used, in nanoseconds. A system call.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of the process, user and system, in nanoseconds.
#[inline]
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Sleeps until [`now_ns`] has reached `due_ns`, and returns what it is then; at once where that has passed. How much later the
/// thread wakes up is up to the kernel, see [`set_timer_slack`].
pub fn sleep_until(due_ns: u64) -> u64 {
    loop {
        let now_ns = now_ns();
        let Some(left_ns) = due_ns.checked_sub(now_ns).filter(|left_ns| *left_ns > 0) else { return now_ns };
        // The kernel sleeps by no raw clock. The other one is slewed by 0.05 % at most, so what it wakes too early is made up for in
        // another turn.
        let wake_ns = monotonic_ns() + left_ns;
        let wake = Timespec {
            tv_sec: (wake_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (wake_ns % 1_000_000_000).cast_signed(),
        };
        // A signal that interrupts it is another turn, too.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &wake);
    }
}

/// By how much the kernel may wake the calling thread later than asked, to wake several at once: 50,000 ns unless this was called.
/// Threads of a real-time policy have none.
pub fn set_timer_slack(slack_ns: NonZeroU64) -> Result<()> {
    set_current_timer_slack(Some(slack_ns)).context("set", || "the timer slack of this thread")
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours. These clocks exist in every kernel since 2.6.28, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The counter of the processor: the time-stamp counter on x86-64, the virtual counter on aarch64, 0 elsewhere.
///
/// The processor may take the reading before earlier instructions have finished; a caller that needs an order adds a fence.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads a register.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: the instruction reads a register that Linux lets every process read.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Whether [`ticks`] runs at one rate whatever the processor's frequency and idle states: on x86-64 what CPUID says of
/// the time-stamp counter, on aarch64 always (the architecture says so), elsewhere never.
pub fn has_invariant_tsc() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        const ADVANCED_POWER: u32 = 0x8000_0007;
        #[allow(unused_unsafe, reason = "safe in newer compilers only")]
        // SAFETY: every x86-64 processor has the instruction.
        unsafe {
            __cpuid(0x8000_0000).eax >= ADVANCED_POWER && __cpuid(ADVANCED_POWER).edx & (1 << 8) != 0
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
}

/// What the clock of [`now_ns`] can show, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Smallest step seen between two readings in a row, in nanoseconds. It is the clock's grain or the time that a
    /// reading takes, whichever is more; nothing shorter can be told apart by one pair of readings.
    pub resolution_ns: f64,
    /// What one reading costs, in nanoseconds: the least mean of several batches.
    pub read_ns: f64,
    /// Rate of [`ticks`] against the clock; `None` where the counter has no constant rate.
    pub ticks_per_second: Option<f64>,
}

/// Measures the clock. Takes about 11 milliseconds, most of them asleep.
pub fn measure() -> Measured {
    Measured {
        resolution_ns: smallest_step(),
        read_ns: read_ns(),
        ticks_per_second: has_invariant_tsc().then(tick_rate),
    }
}

fn smallest_step() -> f64 {
    const READINGS: u32 = 4096;
    let (mut smallest, mut readings, mut last) = (u64::MAX, 0, now_ns());
    // A clock may be so coarse that all of them are equal: then it is waited for.
    while readings < READINGS || smallest == u64::MAX {
        let now = now_ns();
        if now > last {
            smallest = smallest.min(now - last);
        }
        (readings, last) = (readings + 1, now);
    }
    smallest as f64
}

/// What one reading of [`now_ns`]'s clock costs in nanoseconds, the least mean of several batches. Takes some 100 µs.
pub fn read_ns() -> f64 {
    const BATCHES: usize = 16;
    const READINGS: u32 = 512;
    (0..BATCHES)
        .map(|_| {
            let start = now_ns();
            for _ in 0..READINGS {
                std::hint::black_box(now_ns());
            }
            (now_ns() - start) as f64 / f64::from(READINGS + 1)
        })
        .fold(f64::INFINITY, f64::min)
}

fn tick_rate() -> f64 {
    let (start_ticks, start_ns) = together();
    std::thread::sleep(Duration::from_millis(10));
    let (end_ticks, end_ns) = together();
    (end_ticks - start_ticks) as f64 / (end_ns - start_ns) as f64 * 1e9
}

/// A reading of the counter and of the clock at the same moment: of several tries the one with the least between.
fn together() -> (u64, u64) {
    const TRIES: usize = 64;
    (0..TRIES)
        .map(|_| {
            let before = ticks();
            let ns = now_ns();
            let after = ticks();
            (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
        })
        .min_by_key(|&(width, ..)| width)
        .map(|(_, middle, ns)| (middle, ns))
        .expect("there is at least one try")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_counts_nanoseconds() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
        let start = now_ns();
        std::thread::sleep(Duration::from_millis(2));
        // A sleep is never short. NTP may slew the sleep's clock against the raw one by 0.05 %.
        assert!(now_ns() - start >= 1_990_000);
    }

    #[test]
    fn a_sleep_ends_when_the_clock_has_come_so_far_and_not_before() {
        set_timer_slack(NonZeroU64::MIN).unwrap();
        for ahead_ns in [1, 1000, 3_000_000] {
            let due_ns = now_ns() + ahead_ns;
            let woken_ns = sleep_until(due_ns);
            assert!(due_ns <= woken_ns && woken_ns <= now_ns(), "{ahead_ns}: {due_ns} {woken_ns}");
        }
        let (cpu_ns, began_ns) = (thread_cpu_ns(), now_ns());
        assert!(sleep_until(began_ns - 1_000_000) >= began_ns, "what has passed is not waited for");
        sleep_until(began_ns + 20_000_000);
        assert!(thread_cpu_ns() - cpu_ns < (now_ns() - began_ns) / 2, "who sleeps uses no CPU time");
    }

    #[test]
    fn processor_time_stands_still_in_sleep_and_passes_at_work() {
        let start = thread_cpu_ns();
        while thread_cpu_ns() - start < 1_000_000 {
            std::hint::spin_loop();
        }
        let (cpu, wall) = (thread_cpu_ns(), now_ns());
        std::thread::sleep(Duration::from_millis(20));
        assert!(thread_cpu_ns() - cpu < (now_ns() - wall) / 2);
    }

    #[test]
    fn the_measured_clock_is_plausible() {
        let measured = measure();
        assert!(measured.resolution_ns >= 1.0, "{measured:?}");
        assert!(measured.read_ns > 0.1, "{measured:?}");
        assert_eq!(measured.ticks_per_second.is_some(), has_invariant_tsc());
        if let (Some(rate), Some(again)) = (measured.ticks_per_second, measure().ticks_per_second) {
            assert!((rate / again - 1.0).abs() < 0.01, "{rate} {again}");
        }
    }
}
