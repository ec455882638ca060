//! Ping-pong: two roles hand a token back and forth; one operation is one hop, from a post to the return of the wait for it.
//!
//! Measures latency one way, as half of a way there and back. The counters beside it say what the hop really was: a
//! signal that completes several rounds for one wake-up shows as fewer than one context switch per hop.

use std::hint;

use weighbridge_record::PerOp;

use super::Signal;
use crate::prelude::*;
use weighbridge_harness::ctx::Warm;
use weighbridge_harness::marks::Numbered;

pub(super) const INFO: PatternInfo = PatternInfo {
    id: "pingpong",
    about: "two roles hand a token back and forth: latency of a wake-up, one way",
    needs: Caps::NONE,
    roles: |_| vec!["first", "second"],
    axes: &[Warm::AXIS],
    unit: Unit::NanosPer("hop"),
    is_symmetric: false,
};

const HOPS_OF_A_ROUND: u64 = 2;

pub(super) fn drive_pingpong<S: Signal>(resources: EndResources, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let side = if cx.role == 0 { Side::Near } else { Side::Far };
    cx.set_step(Step::Attach);
    let mut signal = S::attach(side, resources, cx.params)?;
    cx.set_ops_each(HOPS_OF_A_ROUND);
    let marks = cx.marks(false);
    cx.set_step(Step::Verify);
    if S::CAPS.has(Caps::HARNESS) {
        match side {
            Side::Near => cx.lead(|batch| there_and_back(batch, &mut signal, S::post, S::wait), |_| None)?,
            Side::Far => cx.follow_nothing()?,
        }
        return Ok(signal.facts());
    }
    verify(&mut signal, side, cx)?;
    match (side, marks) {
        (Side::Near, None) => {
            cx.lead(|batch| there_and_back(batch, &mut signal, S::post, S::wait), |_| None)?
        }
        (Side::Far, None) => {
            cx.follow(|batch| there_and_back(batch, &mut signal, S::wait, S::post), |_| None)?
        }
        (side, Some(marks)) => {
            let mut of = Marked { signal: &mut signal, marks };
            match side {
                Side::Near => {
                    cx.lead(|batch| there_and_back(batch, &mut of, Marked::post, Marked::wait), |_| None)?
                }
                Side::Far => {
                    cx.follow(|batch| there_and_back(batch, &mut of, Marked::wait, Marked::post), |_| None)?
                }
            }
        }
    }
    Ok(signal.facts())
}

/// Each operation is one turn of this role and one of the other's.
#[inline]
fn there_and_back<T>(
    batch: Batch,
    of: &mut T,
    first: impl Fn(&mut T) -> io::Result<()>,
    then: impl Fn(&mut T) -> io::Result<()>,
) -> io::Result<Tally> {
    for _ in 0..batch.ops {
        first(of)?;
        then(of)?;
    }
    Ok(Tally::default())
}

/// A signal in a marked run.
struct Marked<'a, 'm, S> {
    signal: &'a mut S,
    marks: Numbered<'m>,
}

impl<S: Signal> Marked<'_, '_, S> {
    fn post(&mut self) -> io::Result<()> {
        self.marks.write_begins();
        self.signal.post()?;
        self.marks.written();
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        self.marks.wait_begins();
        self.signal.wait()?;
        self.marks.read();
        Ok(())
    }
}

/// Rounds before anything is timed.
const VERIFIED_ROUNDS: u64 = 64;

/// In these rounds each role counts one further before it posts, and a role that returns from a wait must find that the other
/// has counted. A signal that wakes its own sender, or that keeps a post from earlier, is found out by that.
fn verify<S: Signal>(signal: &mut S, side: Side, cx: &Ctx<'_>) -> io::Result<()> {
    for turn in 0..VERIFIED_ROUNDS * 2 {
        if (side == Side::Near) == turn.is_multiple_of(2) {
            cx.add_verified();
            signal.post()?;
        } else {
            signal.wait()?;
            expect_count(cx, turn + 1)?;
        }
    }
    Ok(())
}

fn expect_count(cx: &Ctx<'_>, wanted: u64) -> io::Result<()> {
    // With relaxed ordering the count may come a moment after the signal.
    const LOOKS: u32 = 1000;
    for _ in 0..LOOKS {
        if cx.verified() == wanted {
            return Ok(());
        }
        hint::spin_loop();
    }
    Err(io::Error::other(format!(
        "a wait returned although the other role had not posted: count {} instead of {wanted}",
        cx.verified()
    )))
}

/// A blocking signal on one CPU switches about once per hop; a spinning one never does.
pub(super) fn counter_check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let switches = per_op.voluntary_switches + per_op.involuntary_switches;
    let mut anomalies = Vec::new();
    match case.params.wait {
        Wait::Spin => anomalies.extend(counter_check::blocked(switches)),
        _ if !case.params.same_cpu() => {}
        _ if switches < 0.9 => anomalies.push(format!(
            "{switches:.2} context switches per hop on one CPU; a token cannot change hands without one"
        )),
        _ if switches > 1.5 => anomalies.push(format!(
            "{switches:.2} context switches per hop on one CPU, where one suffices: \
             a role runs without having the token"
        )),
        _ => {}
    }
    anomalies.extend(counter_check::faulted(per_op.minor_faults));
    anomalies
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_harness::axis;
    use weighbridge_harness::ctx::Time;
    use weighbridge_harness::planner::Timing;
    use weighbridge_harness::shared::Shared;
    use weighbridge_record::CaseId;

    /// A signal whose wait returns at once, as that of a pipe does whose writer reads it himself.
    struct ToItself;

    impl Signal for ToItself {
        const ID: &'static str = "to-itself";
        const ABOUT: &'static str = "";
        const WAITS: &'static [Wait] = &[Wait::Block];
        const PROPERTIES: Properties = SHARED_MEMORY;

        fn attach(_side: Side, _resources: EndResources, _params: &CaseParams) -> io::Result<ToItself> {
            Ok(ToItself)
        }

        fn post(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn wait(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_signal_that_talks_to_itself_is_noticed_by_both_roles() {
        let id = CaseId::new("pingpong", "to-itself", 0, "free");
        let params = CaseParams::new(&id, axis::COMMON, ToItself::WAITS).unwrap();
        let timing = Timing { sample_ns: 1, samples: 1, least_samples: 1, run_ns: 1 };
        for (role, side) in [(0, Side::Near), (1, Side::Far)] {
            let shared = Shared::create().unwrap();
            let cx = Ctx::new(&shared, &params, (role, 2), timing, Time::Raw, None);
            let why = verify(&mut ToItself, side, &cx).unwrap_err().to_string();
            assert!(why.contains("although the other role had not posted"), "{why}");
        }
    }
}
