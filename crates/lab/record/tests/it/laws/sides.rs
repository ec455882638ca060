//! Defects of comparisons, checks and observations.

use weighbridge_record::laws;
use weighbridge_record::{Check, ComparedSet, EventCount, Line, Observation, Reading, SystemCalls, Turn};

use super::sound::compared;
use super::{broken, changed};

#[test]
fn each_defect_of_a_comparison_makes_its_verdict_void() {
    let sets = |change: fn(&mut ComparedSet)| {
        move |line: &mut Line| {
            if let Line::ComparedSet(set) = line {
                change(set);
            }
        }
    };
    let inverted = sets(|set| set.log_ratio = -set.log_ratio);
    // Without slices the direction of the figures is what is left.
    let apart = sets(|set| {
        set.log_ratio = -set.log_ratio;
        (set.a.slices, set.b.slices, set.slice_ms) = (None, None, None);
    });
    let absent = sets(|set| (set.control, set.control_log_ratio) = (None, None));
    let zeros = sets(|set| {
        set.control_log_ratio = Some(0.0);
        let mut control = set.a.clone();
        control.slices.as_mut().unwrap().start_ns.iter_mut().for_each(|ns| *ns += 60_000_000);
        set.control = Some(control);
    });
    let verdict = |line: &mut Line| {
        if let Line::Verdict(verdict) = line {
            verdict.ratio = verdict.ratio.map(|ratio| 1.0 / ratio);
        }
    };
    for (name, law, change) in [
        ("the ratio of a set inverted", "side-ratio", &inverted as &dyn Fn(&mut Line)),
        ("the ratio of sides that ran apart inverted", "side-ratio", &apart),
        ("no control", "control", &absent),
        ("a control that is all zeros", "control", &zeros),
        ("the ratio of the verdict inverted", "verdict", &verdict),
    ] {
        let lines = changed(compared(), change);
        let found = broken(&lines);
        assert!(found.iter().any(|(broken, _)| broken == law), "{name}: {found:?}");
        let mut reading = Reading { lines, problems: Vec::new() };
        laws::audit(&mut reading);
        let verdict = reading.lines.iter().find_map(|line| match line {
            Line::Verdict(verdict) => Some(verdict),
            _ => None,
        });
        assert!(verdict.is_some_and(|of| of.is_void()), "{name}: {verdict:?}");
    }
}

#[test]
fn a_check_follows_from_its_turns_and_a_tracer_sees_no_more_than_the_kernel() {
    let turns = [(2.0, 3.0), (4.0, 5.0), (8.0, 9.0)].map(|(theirs, ours)| Turn { theirs, ours }).to_vec();
    let check = |ratio| Check {
        theirs: Some(4.0),
        ours: Some(5.0),
        ratio: Some(ratio),
        turns: turns.clone(),
        ..Check::default()
    };
    let of_check = |ratio| broken(&[Line::Check(Box::new(check(ratio)))]);
    assert_eq!(of_check(1.25), []);
    assert_eq!(of_check(0.8)[0].0, "check");
    let observed = |traced: f64| Observation {
        counts: vec![EventCount {
            event: "raw_syscalls:sys_enter".into(),
            means: "tracepoints".into(),
            per_op: 28.6,
            range: [28.0, 29.0],
        }],
        system_calls: Some(SystemCalls { per_op: traced, roles: Vec::new() }),
        ..Observation::default()
    };
    let of_observation = |traced| broken(&[Line::Observation(Box::new(observed(traced)))]);
    assert_eq!(of_observation(28.6), []);
    assert_eq!(of_observation(41.0)[0].0, "two-counts");
}
