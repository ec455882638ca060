//! Operations that are due at a rate of their own (open loop), whatever became of those before them.
//!
//! One pacer serves all patterns. Who is ahead sleeps until the next operation is due, with the least timer slack that the kernel
//! grants, and who is behind goes on at once, so that the rate is held over time and nobody spins: the CPU time of a role at a rate is
//! that of its work. A sleeper wakes up late, by a microsecond to a hundred; what an operation began later than it was due is kept, and
//! the `noop` of a pattern at the same rate has nothing else.

use std::num::NonZeroU64;

use causeway_os::clock;

use super::{Ctx, Time, advance_virtual_time, now_ns};
use crate::axis::{Axis, Values};
use crate::params::CaseParams;
use crate::planner::Timing;

/// Is the loop open?
pub const RATE: Axis = Axis {
    name: "rate",
    default: "default",
    values: Values::Count,
    about: "operations a second that are due, whatever became of those before (open loop): requests; bursts to all receivers; \
            messages of all writers together. Each is timed from when it was due to its answer, or to each of its receivers. The \
            role sleeps until then. A stream at a rate is fan-in with streams=1. default: the next one follows at once",
};

/// The series of how much later than they were due the operations of each sample began, on average.
pub const LATE_NS: &str = "late_ns";

/// The lowest rate that can be measured: a run finds a size, warms up and takes samples in some hundred operations.
pub const LEAST_PER_S: f64 = 20.0;

/// So many operations of a run are due one after the other, at most, before its samples are as long as they are to be.
pub const OPERATIONS: f64 = 400.0;

/// Why a case is not measured at its rate, where a run would take minutes.
pub fn refusal(params: &CaseParams) -> Option<String> {
    let per_s = rate(params).filter(|per_s| *per_s < LEAST_PER_S)?;
    Some(format!(
        "at {per_s} a second a run would take minutes; the lowest rate that is measured is {LEAST_PER_S}"
    ))
}

/// How many operations a second are due in this case, where it has a rate.
pub fn rate(params: &CaseParams) -> Option<f64> {
    params.axes.get(RATE.name)?.parse().ok()
}

/// When each operation is due: a number that other roles can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    interval_ns: f64,
}

impl Schedule {
    /// Of a role that has one part in `parts` of the rate of the case.
    pub fn new(params: &CaseParams, parts: usize) -> Option<Schedule> {
        rate(params).map(|per_s| Schedule { interval_ns: 1e9 * parts as f64 / per_s })
    }

    /// When operation number `sequence` is due if number 0 was at `from_ns`. It wraps around: a schedule may begin with a later number.
    #[inline]
    pub fn due_ns(self, from_ns: u64, sequence: u64) -> u64 {
        from_ns.wrapping_add(self.ns(sequence))
    }

    fn ns(self, sequence: u64) -> u64 {
        (sequence as f64 * self.interval_ns) as u64
    }
}

/// Lets a role begin each operation when it is due.
#[derive(Debug)]
pub struct Pacer {
    time: Time,
    schedule: Schedule,
    /// How much later than another role's this one's first operation is due.
    offset_ns: u64,
    from_ns: Option<u64>,
    late_ns: u64,
    begun: u64,
}

impl Pacer {
    /// For part number `part` of `parts` of the rate of a case, which are due one after the other; none where it has no rate.
    pub(super) fn new(params: &CaseParams, time: Time, (part, parts): (usize, usize)) -> Option<Pacer> {
        let (schedule, all) = (Schedule::new(params, parts)?, Schedule::new(params, 1)?);
        // Without it a thread wakes up 50 µs late. Where that is refused, it does, which is seen.
        let _ = clock::set_timer_slack(NonZeroU64::MIN);
        let offset_ns = all.ns(part as u64);
        Some(Pacer { time, schedule, offset_ns, from_ns: None, late_ns: 0, begun: 0 })
    }

    /// When the operation with number 0 is or would have been due. The first one whose number is asked for is due now.
    #[inline]
    pub fn from_ns(&mut self, sequence: u64) -> u64 {
        let Pacer { time, schedule, offset_ns, .. } = *self;
        *self.from_ns.get_or_insert_with(|| (now_ns(time) + offset_ns).wrapping_sub(schedule.ns(sequence)))
    }

    /// Returns when operation number `sequence` is due, and when that was.
    #[inline]
    pub fn await_due(&mut self, sequence: u64) -> u64 {
        let from_ns = self.from_ns(sequence);
        let due_ns = self.schedule.due_ns(from_ns, sequence);
        let begins_ns = match self.time {
            Time::Raw => clock::sleep_until(due_ns),
            Time::Virtual => {
                advance_virtual_time(due_ns.saturating_sub(now_ns(self.time)));
                now_ns(self.time)
            }
        };
        self.late_ns += begins_ns - due_ns;
        self.begun += 1;
        due_ns
    }

    /// The next operation is due when it is asked for: what was late before counts no more.
    pub fn restart(&mut self) {
        self.from_ns = None;
    }

    /// How much later than due operations began since this was last asked, on average.
    pub fn take_late_ns(&mut self) -> f64 {
        let (late_ns, begun) = (std::mem::take(&mut self.late_ns), std::mem::take(&mut self.begun));
        late_ns as f64 / begun.max(1) as f64
    }

    /// How much later than due all operations together began since [`Pacer::take_late_ns`] was last asked.
    pub fn late_ns(&self) -> u64 {
        self.late_ns
    }
}

impl Ctx<'_> {
    /// Do operations of this run come at a rate of their own (open loop)?
    pub fn has_rate(&self) -> bool {
        rate(self.params).is_some()
    }

    /// A sample ends when its last operation does, which may be late for the first of the next: both must be rare.
    pub(super) fn timing_at_rate(&self) -> Timing {
        const LEAST_NS: u64 = 50_000_000;
        let Timing { sample_ns, least_samples, run_ns, .. } = self.timing;
        let sample_ns = sample_ns.max(LEAST_NS);
        Timing { sample_ns, run_ns: run_ns.max(sample_ns * least_samples as u64), ..self.timing }
    }

    /// Lets this role begin its operations when they are due, as part number `part` of `parts` of the rate; none where there is no rate.
    pub fn pacer(&self, part: usize, parts: usize) -> Option<Pacer> {
        Pacer::new(self.params, self.time, (part, parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;

    fn pacer(time: Time, part: (usize, usize)) -> Pacer {
        Pacer::new(&case("roundtrip/pipe/1/same-cpu/rate=1000", &[0, 0]).params, time, part).unwrap()
    }

    #[test]
    fn operations_are_due_at_equal_distances_and_those_that_are_late_are_not_put_off() {
        let mut pacer = pacer(Time::Virtual, (0, 1));
        let from_ns = pacer.await_due(7);
        assert_eq!(now_ns(Time::Virtual), from_ns);
        assert_eq!(pacer.await_due(8), from_ns + 1_000_000);
        assert_eq!((now_ns(Time::Virtual), pacer.take_late_ns()), (from_ns + 1_000_000, 0.0));
        // An operation that takes three and a half intervals.
        advance_virtual_time(3_500_000);
        assert_eq!((9..13).map(|of| pacer.await_due(of) - from_ns).sum::<u64>(), (2 + 3 + 4 + 5) * 1_000_000);
        assert_eq!(pacer.take_late_ns(), (2.5 + 1.5 + 0.5) * 1e6 / 4.0);
        assert_eq!(now_ns(Time::Virtual), from_ns + 5_000_000, "only the last one was waited for");
        advance_virtual_time(9_000_000);
        pacer.restart();
        assert_eq!(pacer.await_due(13), from_ns + 14_000_000, "a new schedule begins now");
    }

    #[test]
    fn parts_of_a_rate_are_due_one_after_the_other() {
        let now_ns = now_ns(Time::Virtual);
        let dues = |part| {
            let mut pacer = pacer(Time::Virtual, (part, 4));
            let from_ns = pacer.from_ns(0);
            [0, 1].map(|sequence| pacer.schedule.due_ns(from_ns, sequence) - now_ns)
        };
        assert_eq!([0, 1, 3].map(dues), [[0, 4_000_000], [1_000_000, 5_000_000], [3_000_000, 7_000_000]]);
    }

    #[test]
    fn who_is_ahead_sleeps_and_begins_no_operation_before_it_is_due() {
        let mut pacer = pacer(Time::Raw, (0, 1));
        let cpu_ns = clock::thread_cpu_ns();
        let from_ns = pacer.await_due(0);
        for sequence in 1..30 {
            let due_ns = pacer.await_due(sequence);
            assert_eq!(due_ns, from_ns + sequence * 1_000_000);
            assert!(clock::now_ns() >= due_ns);
        }
        assert!(clock::thread_cpu_ns() - cpu_ns < (clock::now_ns() - from_ns) / 2, "it keeps its CPU");
        assert!(pacer.take_late_ns() > 0.0, "nobody wakes up in no time");
    }

    #[test]
    fn a_rate_at_which_a_run_would_take_minutes_is_refused_with_the_lowest_one_that_is_measured() {
        let of = |id: &str| refusal(&case(id, &[0, 0]).params);
        let why = of("roundtrip/pipe/1/same-cpu/rate=19").expect("19 a second are too few");
        assert!(why.contains("19 a second") && why.contains("lowest rate that is measured is 20"), "{why}");
        assert_eq!([of("roundtrip/pipe/1/same-cpu/rate=20"), of("roundtrip/pipe/1/same-cpu")], [None, None]);
    }

    #[test]
    fn a_case_without_a_rate_has_no_pacer() {
        let params = case("roundtrip/pipe/1/same-cpu", &[0, 0]).params;
        assert!(Pacer::new(&params, Time::Raw, (0, 1)).is_none());
    }
}
