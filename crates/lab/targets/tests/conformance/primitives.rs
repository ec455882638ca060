//! Signals, locks and operations keep their promises.

use libtest_mimic::Trial;
use weighbridge_harness::axis::Values;
use weighbridge_harness::contract::{Caps, Prepared, Target};
use weighbridge_harness::coordinator::Measured;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_record::CaseId;
use weighbridge_targets::{lock, op, signal};

use crate::runs::{PLACEMENTS, Promises, SHORT, prepare, prepare_or_skip};
use crate::{killed, runs};

pub fn trials(host: &'static Host) -> Vec<Trial> {
    let families: [(&'static [Target], Promises); 3] = [
        (
            signal::ALL,
            &[
                ("hands_a_token_over_wherever_it_can_and_waits_in_every_way_that_it_offers", hands_over),
                ("a_killed_peer_ends_the_wait_of_the_other", killed),
            ],
        ),
        (lock::ALL, &[("lets_one_in_at_a_time_however_many_want_to", contended)]),
        (op::ALL, &[("gives_what_it_must_alone_and_in_parallel", operated)]),
    ];
    let of_family = |(targets, promises): (&'static [Target], Promises)| {
        targets.iter().flat_map(move |target| runs::trials_of(host, target, promises))
    };
    families.into_iter().flat_map(of_family).collect()
}

/// One run in which each sample has operations.
fn measure(host: &Host, case: &Prepared) -> Measured {
    let measured = measure_for(host, case, SHORT);
    assert!(measured.samples.iter().all(|sample| sample.ops > 0), "{}", case.params.id);
    measured
}

/// A run in which every role has done what it does. It may be as long as it takes until each of them had the CPU, which on
/// a machine that does other work too is longer than the shortest run.
fn measure_all_roles(host: &Host, case: &Prepared, has_all: impl Fn(&Measured) -> bool) {
    let is_good = |longer: u64| {
        let timing = Timing { sample_ns: SHORT.sample_ns * longer, run_ns: SHORT.run_ns * longer, ..SHORT };
        let measured = measure_for(host, case, timing);
        has_all(&measured) && measured.samples.iter().all(|sample| sample.ops > 0)
    };
    assert!([1, 10, 100, 1_000].into_iter().any(is_good), "{}: not every role had the CPU", case.params.id);
}

fn measure_for(host: &Host, case: &Prepared, timing: Timing) -> Measured {
    let id = &case.params.id;
    let measured = runs::measured(host, case, timing);
    assert!(!measured.samples.is_empty(), "{id}: no samples");
    assert_eq!(measured.roles.len(), case.role_names().len(), "{id}");
    for (name, values) in measured.roles.iter().flat_map(|role| &role.counted.series) {
        assert_eq!(values.len(), measured.samples.len(), "{id}: {name} has a value for each sample");
    }
    measured
}

fn hands_over(host: &Host, target: &'static Target) {
    for (wait, placement) in target.waits.iter().flat_map(|wait| PLACEMENTS.map(|place| (wait, place))) {
        for peers in ["process", "thread"] {
            let id = CaseId::new("pingpong", target.id, 0, placement);
            let id = runs::with(id, &[("wait", wait.name()), ("peers", peers)]);
            let Some(case) = prepare_or_skip(host, &id) else { continue };
            let measured = measure(host, &case);
            assert!(measured.samples.iter().all(|sample| sample.ops % 2 == 0), "{id}: a round has two hops");
            if !target.caps.has(Caps::HARNESS) {
                let [first, second] = &measured.roles[..] else { panic!("{id}: two roles") };
                assert_eq!(first.counted.ops, second.counted.ops, "{id}: both count the same hops");
            }
        }
    }
    let why = prepare(host, &CaseId::new("pingpong", target.id, 1, "same-cpu")).unwrap_err();
    assert!(why.contains("carries no payload") || why.contains("spinning"), "{why}");
}

fn killed(host: &Host, target: &'static Target) {
    if target.caps.has(Caps::HARNESS) {
        return;
    }
    let id = CaseId::new("pingpong", target.id, 0, "two-cpus");
    if let Some(case) = prepare_or_skip(host, &id) {
        killed::killed(host, &id, &case.role_names());
    }
}

/// The peers compare the number that they have all added to with what each has added; a run that gives numbers has passed.
fn contended(host: &Host, target: &'static Target) {
    for placement in ["same-cpu", "two-cpus", "free"] {
        for (roles, peers) in [("1", "process"), ("2", "process"), ("2", "thread"), ("3", "process")] {
            let id = CaseId::new("contend", target.id, 0, placement);
            let id = runs::with(id, &[("roles", roles), ("peers", peers)]);
            let Some(case) = prepare_or_skip(host, &id) else { continue };
            let measured = measure(host, &case);
            let fairness = measured.roles[0].counted.series.get("fairness");
            assert_eq!(fairness.is_none(), roles == "1", "{id}");
            let least = 1.0 / roles.parse::<f64>().unwrap() - 1e-9;
            let is_share = |index: &f64| (least..=1.0 + 1e-9).contains(index);
            assert!(fairness.is_none_or(|values| values.iter().all(is_share)), "{id}: {fairness:?}");
        }
    }
}

/// The peers compare the sum of all results with what it must be; a run that gives numbers has passed.
fn operated(host: &Host, target: &'static Target) {
    for pattern in target.patterns {
        let payload_bytes = if target.caps.has(Caps::PAYLOAD) { 64 } else { 0 };
        let placement = if pattern.id == "solo" { "same-cpu" } else { "spread" };
        let id = CaseId::new(pattern.id, target.id, payload_bytes, placement);
        let Some(case) = prepare_or_skip(host, &id) else { continue };
        let counts = |measured: &Measured| measured.roles.iter().filter(|role| role.counted.ops > 0).count();
        let hands_over = target.patterns.len() == 1;
        let expected = if hands_over { 1 } else { case.role_names().len() };
        measure_all_roles(host, &case, |measured| counts(measured) >= expected);
        // What the operation does depends on this setting alone; others change its size.
        let rules = target.axes.iter().find(|axis| axis.name == "rule").map(|axis| axis.values);
        if let (Some(Values::OneOf(rules)), "solo") = (rules, pattern.id) {
            for rule in rules {
                let id = id.clone().with("rule", rule);
                let measured = measure(host, &prepare(host, &id).unwrap());
                assert!(measured.facts["packets_sent"].parse::<u64>().unwrap() > 0, "{id}");
            }
        }
    }
}
