//! Which cases answer a question: each mechanism as the demands need it, and as it would be taken without them.

use std::time::Duration;

use weighbridge_harness::axis::{self, Axis, Values, Wait};
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Caps, PatternInfo, Target};
use weighbridge_harness::host::Host;
use weighbridge_harness::plan;
use weighbridge_record::derive::is_of_the_mechanism;
use weighbridge_record::{CaseId, Property};
use weighbridge_report::Question;

/// Operations of a run at a rate: those that find a size, of the warm-up, and of the fewest samples.
const OPERATIONS_AT_RATE: f64 = 260.0;

/// Do two runs of each of so many cases at the rate leave half of the budget to those back to back?
fn fits_into(cases: usize, rate: f64, budget: Duration) -> bool {
    2.0 * cases as f64 * OPERATIONS_AT_RATE / rate <= budget.as_secs_f64() / 2.0
}

/// The candidates that can be measured here, in the order of the catalogue, and beside them at the rate those for which the budget has the time. Beside those that meet all demands there are those
/// that would be chosen without one of them, or without any: what a demand costs is found by measuring both.
pub fn of(question: &Question, host: &Host, budget: Duration) -> Vec<CaseId> {
    let all = &question.demands;
    let without = |one: &Property| -> Vec<Property> { all.iter().copied().filter(|of| of != one).collect() };
    let mut wanted: Vec<Vec<Property>> = vec![all.clone(), Vec::new()];
    wanted.extend(all.iter().map(without));
    let mut found = Vec::new();
    // Beside each that may be chosen, the same at the rate: what it takes there, and whether it holds it.
    let mut paced = Vec::new();
    for target in asked(question) {
        let Some(pattern) = target.patterns.iter().find(|pattern| pattern.id == question.pattern) else {
            continue;
        };
        let base = base(target, pattern, question);
        for demands in &wanted {
            let variants = variants(target, &base, demands.contains(&Property::Pollable));
            let first = variants.into_iter().find(|id| meets(id, demands, host));
            found.extend(first.filter(|id| !found.contains(id)));
        }
        // Who spins takes a CPU whole; what it costs to sleep instead is another candidate.
        if question.cpu_budget.is_some() {
            let sleeps =
                |id: &CaseId| id.axes.get(axis::WAIT.name).is_some_and(|wait| wait == Wait::Block.name());
            let variants = variants(target, &base, false);
            let first = variants.into_iter().find(|id| sleeps(id) && meets(id, all, host));
            found.extend(first.filter(|id| !found.contains(id)));
        }
        if has(pattern, "rate") {
            let own = found.iter().filter(|id| id.mechanism == target.id && meets(id, all, host));
            let mut own: Vec<&CaseId> = own.collect();
            if all.contains(&Property::Pollable) && own.iter().any(|id| polls(id)) {
                own.retain(|id| polls(id));
            }
            let at_rate = own.into_iter().map(|id| question.at_rate(id));
            paced.extend(at_rate.filter(|id| catalogue::prepare(id, host).is_ok()));
        }
    }
    if fits_into(paced.len(), question.rate, budget) {
        found.extend(paced);
    }
    found
}

fn asked(question: &Question) -> impl Iterator<Item = &'static Target> {
    catalogue::all().filter(|target| !target.caps.has(Caps::HARNESS) && question.admits(target.id))
}

/// Why there is none: of the reasons the one that most mechanisms have.
pub fn why_none(question: &Question, host: &Host) -> String {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for target in asked(question) {
        let pattern = target.patterns.iter().find(|pattern| pattern.id == question.pattern);
        let why = match pattern {
            // Where one mechanism of many has no such pattern, that is not why there is none.
            None if question.among.is_empty() => continue,
            None => {
                let others: Vec<&str> = target.patterns.iter().map(|pattern| pattern.id).collect();
                format!("{} has no {}, only {}", target.id, question.pattern, others.join(", "))
            }
            Some(pattern) => match catalogue::prepare(&base(target, pattern, question), host) {
                Ok(_) => continue,
                Err(refusal) => refusal.to_string(),
            },
        };
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    // The first of those that are equally frequent.
    let most = reasons.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map_or("there is no such mechanism".into(), |(why, _)| why)
}

fn has(pattern: &PatternInfo, name: &str) -> bool {
    pattern.axes.iter().any(|axis| axis.name == name)
}

fn base(target: &Target, pattern: &PatternInfo, question: &Question) -> CaseId {
    let id = CaseId::new(pattern.id, target.id, question.payload_bytes, &question.placement);
    match has(pattern, "receivers") {
        true => id.with("receivers", &question.receivers.to_string()),
        false => id,
    }
}

/// A mechanism as it can be used: as it is by default, then with one of its own axes at another value, each with every way to wait. A
/// program that polls a descriptor pays for that: where it is demanded, the ways that do come first, and otherwise they are none.
fn variants(target: &Target, base: &CaseId, polls_first: bool) -> Vec<CaseId> {
    let polls = |wait: &&Wait| matches!(wait, Wait::Epoll | Wait::Poll);
    let with = |wait: &Wait| base.clone().with(axis::WAIT.name, wait.name());
    let mut waits: Vec<CaseId> = Vec::new();
    if polls_first {
        waits.extend(target.waits.iter().filter(polls).map(with));
        waits.sort_by_key(|id| id.axes[axis::WAIT.name] != Wait::Epoll.name());
    }
    waits.push(base.clone());
    waits.extend(target.waits.iter().filter(|wait| !polls(wait)).map(with));
    let own: Vec<(&str, &str)> =
        target.axes.iter().filter(|axis| is_of_the_mechanism(axis.name)).flat_map(words).collect();
    let changed =
        waits.iter().flat_map(|id| own.iter().map(move |(name, value)| id.clone().with(name, value)));
    waits.iter().cloned().chain(changed).map(plan::without_defaults).collect()
}

/// The values of an axis of words that are not its default.
fn words(axis: &'static Axis) -> Vec<(&'static str, &'static str)> {
    match axis.values {
        Values::OneOf(words) => {
            words.iter().filter(|word| **word != axis.default).map(|word| (axis.name, *word)).collect()
        }
        _ => Vec::new(),
    }
}

fn polls(id: &CaseId) -> bool {
    catalogue::resolve(id).is_ok_and(|(_, _, params)| matches!(params.wait, Wait::Epoll | Wait::Poll))
}

/// Can it be measured here, and has it all that is demanded?
fn meets(id: &CaseId, demands: &[Property], host: &Host) -> bool {
    catalogue::prepare(id, host).is_ok_and(|case| {
        let own = case.target.properties_of(&case.params);
        demands.iter().all(|demand| own.is_some_and(|own| own.has(*demand)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(demands: &[Property], receivers: u64) -> Question {
        crate::register();
        Question {
            pattern: if receivers > 1 { "fan-out" } else { "roundtrip" }.into(),
            placement: "same-cpu".into(),
            payload_bytes: 64,
            receivers,
            rate: 1000.0,
            demands: demands.to_vec(),
            cpu_budget: None,
            among: Vec::new(),
        }
    }

    fn candidates(demands: &[Property], receivers: u64) -> Vec<String> {
        let question = question(demands, receivers);
        let host = Host::look().unwrap();
        let mut found = of(&question, &host, Duration::from_secs(150));
        for id in &mut found {
            let expected = (receivers > 1).then(|| receivers.to_string());
            assert_eq!(id.axes.remove("receivers"), expected, "{id}");
        }
        found.iter().map(CaseId::variant).collect()
    }

    #[test]
    fn without_demands_each_mechanism_is_a_candidate_as_it_is() {
        let found = candidates(&[], 1);
        assert!(found.contains(&"pipe".into()) && found.contains(&"ring-futex".into()), "{found:?}");
        assert!(!found.iter().any(|name| name.starts_with("mock") || name.starts_with("noop")), "{found:?}");
        assert!(!found.iter().any(|name| name.starts_with("ring-spin")), "one CPU: {found:?}");
    }

    #[test]
    fn each_demand_brings_the_variant_that_meets_it_beside_the_one_without_it() {
        let found = candidates(&[Property::OtherUsers], 1);
        for name in ["causeway-sw trust=strangers", "causeway-sw", "ring-futex", "pipe"] {
            assert!(found.contains(&name.into()), "{name}: {found:?}");
        }
        let found = candidates(&[Property::Pollable, Property::OtherUsers], 1);
        for name in
            ["causeway-sw trust=strangers wait=epoll", "causeway-sw wait=epoll", "pipe wait=epoll", "pipe"]
        {
            assert!(found.contains(&name.into()), "{name}: {found:?}");
        }
    }

    /// At a low rate a run takes as long as its operations are apart, and would leave no time for the others.
    #[test]
    fn a_rate_for_which_the_budget_has_no_time_is_computed_and_not_measured() {
        let host = Host::look().unwrap();
        let at_rate = |rate: f64, budget_s: u64| {
            let asked = Question { rate, among: vec!["pipe".into(), "fifo".into()], ..question(&[], 1) };
            let found = of(&asked, &host, Duration::from_secs(budget_s));
            let (paced, others): (Vec<_>, Vec<_>) = found.iter().partition(|id| id.axes.contains_key("rate"));
            assert_eq!(others.len(), 2, "{found:?}");
            paced.len()
        };
        assert_eq!([at_rate(1000.0, 150), at_rate(20.0, 150), at_rate(1000.0, 3)], [2, 2, 2]);
        assert_eq!([at_rate(1.0, 3600), at_rate(20.0, 20), at_rate(1000.0, 1)], [0, 0, 0]);
    }

    #[test]
    fn where_there_is_no_candidate_it_is_said_why() {
        let host = Host::look().unwrap();
        let pipes = Question { among: vec!["pipe".into()], ..question(&[], 8) };
        assert_eq!(of(&pipes, &host, Duration::from_secs(9)), []);
        let why = why_none(&pipes, &host);
        assert!(why.starts_with("pipe has no fan-out, only ") && why.contains("roundtrip"), "{why}");
        let one_cpu = Host { measured_cpus: vec![host.allowed_cpus[0]], ..host };
        let apart = Question { placement: "two-cpus".into(), ..question(&[], 1) };
        let why = why_none(&apart, &one_cpu);
        assert!(why.contains("two") && why.contains("CPU"), "{why}");
    }

    #[test]
    fn each_candidate_has_all_receivers_and_is_measured_at_the_rate_too() {
        let found = candidates(&[], 3);
        for name in ["unix-stream", "unix-stream rate=1000"] {
            assert!(found.contains(&name.into()), "{name}: {found:?}");
        }
    }
}
