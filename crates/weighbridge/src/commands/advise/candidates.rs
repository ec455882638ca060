//! Which cases answer a question: each mechanism as the demands need it, and as it would be taken without them.

use weighbridge_harness::axis::{self, Axis, Values, Wait};
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Caps, PatternInfo, Target};
use weighbridge_harness::host::Host;
use weighbridge_harness::plan;
use weighbridge_record::derive::is_of_the_mechanism;
use weighbridge_record::{CaseId, Property};
use weighbridge_report::Question;

/// The candidates that can be measured here, in the order of the catalogue. Beside those that meet all demands there are those
/// that would be chosen without one of them, or without any: what a demand costs is found by measuring both.
pub fn of(question: &Question, host: &Host) -> Vec<CaseId> {
    let all = &question.demands;
    let without = |one: &Property| -> Vec<Property> { all.iter().copied().filter(|of| of != one).collect() };
    let mut wanted: Vec<Vec<Property>> = vec![all.clone(), Vec::new()];
    wanted.extend(all.iter().map(without));
    let mut found = Vec::new();
    // Beside each that may be chosen, the same at the rate: what it takes there, and whether it holds it.
    let mut paced = Vec::new();
    let is_asked = |target: &&Target| !target.caps.has(Caps::HARNESS) && question.admits(target.id);
    for target in catalogue::all().filter(is_asked) {
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
            let at_rate = own
                .into_iter()
                .map(|id| id.clone().with("rate", &question.rate.round().max(1.0).to_string()));
            paced.extend(at_rate.filter(|id| catalogue::prepare(id, host).is_ok()));
        }
    }
    found.extend(paced);
    found
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

    fn candidates(demands: &[Property], receivers: u64) -> Vec<String> {
        crate::register();
        let host = Host::look().unwrap();
        let question = Question {
            pattern: if receivers > 1 { "fan-out" } else { "roundtrip" }.into(),
            placement: "same-cpu".into(),
            payload_bytes: 64,
            receivers,
            rate: 1000.0,
            demands: demands.to_vec(),
            cpu_budget: None,
            among: Vec::new(),
        };
        let mut found = of(&question, &host);
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

    #[test]
    fn each_candidate_has_all_receivers_and_is_measured_at_the_rate_too() {
        let found = candidates(&[], 3);
        for name in ["unix-stream", "unix-stream rate=1000"] {
            assert!(found.contains(&name.into()), "{name}: {found:?}");
        }
    }
}
