//! Operations that were due at a rate: no more are done in a time than were due, and CPU time is used in time that passed.

use weighbridge_record::{Line, Paced, Run};

use super::sound::sound;
use super::{UNIX, broken, changed, runs, summary};

/// A sound record whose case was asked for as often as it was done, in twice the time that its operations took.
fn paced(change: &dyn Fn(&mut Run)) -> Vec<Line> {
    let mut asked_per_s = None;
    let mut lines = changed(
        sound(),
        &runs(UNIX, |run| {
            let total = run.sampled_total.unwrap();
            run.paced = Some(Paced { operations: total.ops, wall_ns: 2 * total.elapsed_ns });
        }),
    );
    for line in &mut lines {
        if let Line::Run(Run { paced: Some(paced), .. }) = line {
            let per_s = paced.operations as f64 * 1e9 / paced.wall_ns as f64;
            asked_per_s = asked_per_s.max(Some(per_s as u64 + 1));
        }
    }
    let asked_per_s = asked_per_s.expect("the case has runs").to_string();
    for line in &mut lines {
        match line {
            Line::Case(case) if case.case.to_string() == UNIX => {
                case.axes.insert("rate".into(), asked_per_s.clone());
            }
            Line::Run(run) if run.paced.is_some() => change(run),
            _ => {}
        }
    }
    lines
}

fn found(change: &dyn Fn(&mut Run)) -> Vec<String> {
    broken(&paced(change)).into_iter().map(|(law, case)| format!("{law} of {case}")).collect()
}

#[test]
fn a_run_at_a_rate_that_was_held_breaks_no_law() {
    assert_eq!(found(&|_| ()), Vec::<String>::new());
    let behind = |run: &mut Run| run.paced.as_mut().unwrap().operations /= 2;
    assert_eq!(found(&behind), Vec::<String>::new(), "not to hold a rate is not a defect");
    assert_eq!(found(&|run| run.paced = None), Vec::<String>::new(), "nobody told, so nothing is known");
}

#[test]
fn more_operations_than_were_due_are_a_defect() {
    let early = |run: &mut Run| run.paced.as_mut().unwrap().operations *= 2;
    assert_eq!(found(&early), [format!("due of {UNIX}")]);
}

#[test]
fn cpu_time_at_a_rate_is_used_in_the_time_that_passed() {
    let too_short = |run: &mut Run| {
        let paced = run.paced.as_mut().unwrap();
        *paced = Paced { operations: paced.operations / 8, wall_ns: paced.wall_ns / 8 };
    };
    assert_eq!(found(&too_short), [format!("cpu-time of {UNIX}")]);
}

#[test]
fn who_leads_at_a_rate_may_sleep_and_nobody_else_in_the_harness() {
    const NOOP: &str = "solo/noop/0/same-cpu";
    for (rate, laws) in [(Some("2000"), &[][..]), (None, &["harness-calls"])] {
        let sleeps = summary(NOOP, |of| {
            of.system_calls.as_mut().unwrap().roles[0].calls.insert("clock_nanosleep".into(), 1.0);
        });
        let mut lines = changed(sound(), &sleeps);
        for line in &mut lines {
            if let (Line::Case(case), Some(rate)) = (line, rate)
                && case.case.to_string() == NOOP
            {
                case.axes.insert("rate".into(), rate.into());
            }
        }
        let found: Vec<String> = broken(&lines).into_iter().map(|(law, _)| law).collect();
        assert_eq!(found, laws, "{rate:?}");
    }
}
