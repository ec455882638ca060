//! What is put into the cases of an explanation, and how much of it; and whether the counts show it.
//!
//! A dose tries the price of a part in the case itself ([`crate::dose`]). It is planned after the first round, when it is known which parts a
//! case has and roughly what they cost, so that the larger dose makes the case half as slow again.

use std::collections::BTreeMap;

use weighbridge_analysis::explain::{Costs, Count, Direct, Dosed, Fitted, Formula, Subject, names};
use weighbridge_record::{CaseId, PerOp, SystemCalls};

use super::model::{Counts, LEAST, WORK, cache_line, futex_wake, switch};
use crate::axis::{DOSE, DoseKind, MOST_LINES, MOST_OF_DOSE};
use crate::catalogue;
use crate::contract::{Caps, Prepared};
use crate::dose::VIRTUAL_NS;
use crate::host::Host;

/// Why nothing of these parts can be put into a case.
const CANNOT_BE_PUT_IN: [(&str, &str); 6] = [
    (
        names::OWN_WORK,
        "cannot be put in: it is the mechanism itself, and stands in the cost as it was measured",
    ),
    (names::SWITCHES, "cannot be put in alone: a switch needs a role that waits"),
    (names::COLD_CACHES, "cannot be put in alone: it is a surcharge on other parts"),
    (names::PAGE_FAULTS, "cannot be put in: which page faults is the mechanism's choice"),
    (names::BYTES_BETWEEN_CPUS, "cannot be put in: they are those of the payload"),
    (names::HALTS, "cannot be put in: it is the difference of two measured cases"),
];

/// A further system call of a kind may be missing in so many.
const UNCOUNTED: f64 = 0.02;
/// The system calls of a mechanism differ by so many from run to run.
const CALLS_VARY_BY: f64 = 0.25;

/// The parts whose prices a dose tries.
fn parts(kind: DoseKind) -> &'static [&'static str] {
    match kind {
        DoseKind::Calls => &[names::SYSTEM_CALLS, names::FURTHER_CALLS],
        DoseKind::Copies => &[names::COPIES],
        DoseKind::Wakes => &[names::FUTEX_CALLS],
        DoseKind::Lines => &[names::CACHE_LINES],
        DoseKind::Handoffs => &[names::BLOCK_AND_WAKE, names::SWITCHES],
    }
}

fn about(kind: DoseKind) -> &'static str {
    match kind {
        DoseKind::Calls => "a trivial system call (getppid)",
        DoseKind::Copies => "a copy of the payload between two buffers of the role",
        DoseKind::Wakes => "a wake-up of a futex on which no thread sleeps",
        DoseKind::Lines => "a write to a cache line that the other role wrote last",
        DoseKind::Handoffs => "both roles wake each other by a futex, and sleep until they are woken",
    }
}

/// The most important first: what is fitted has no other proof.
const KINDS: [DoseKind; 5] =
    [DoseKind::Handoffs, DoseKind::Calls, DoseKind::Copies, DoseKind::Lines, DoseKind::Wakes];

/// A dose of a case, and a larger one.
#[derive(Clone, Debug)]
pub(super) struct Dosing {
    /// The case that is explained.
    pub(super) explained: CaseId,
    /// The case that the dose is put into: that, or the same whose CPUs do not halt.
    pub(super) case: CaseId,
    kind: DoseKind,
    /// How often each role does it, and the case in which it does.
    steps: Vec<(u64, CaseId)>,
    /// Roles that do it by themselves.
    roles: f64,
}

/// What is planned for a case, or why a dose of it is not.
pub(super) struct Wanted {
    pub(super) dosing: Dosing,
    /// The case itself, and with each dose.
    pub(super) undosed: Prepared,
    pub(super) dosed: Vec<Prepared>,
}

/// The doses of a case, by what is known of it.
pub(super) fn wanted(subject: &Subject, case: &CaseId, costs: &Costs, host: &Host) -> Vec<Wanted> {
    let Ok(undosed) = catalogue::prepare(case, host) else { return Vec::new() };
    if case.axes.contains_key(DOSE.name) {
        return Vec::new();
    }
    let caps = undosed.target.caps;
    let roles = if caps.has(Caps::HARNESS) { 1.0 } else { 2.0 };
    let has = |name: &&str| {
        subject.direct.iter().any(|part| part.name == *name)
            || subject.fitted.iter().any(|part| part.name == *name)
    };
    // Virtual time has no parts that could be put in, but what a dose takes of it is known.
    let is_virtual = caps.has(Caps::VIRTUAL_TIME);
    let is_wanted = |kind: &DoseKind| match kind {
        DoseKind::Calls if is_virtual => true,
        DoseKind::Handoffs => has(&names::BLOCK_AND_WAKE),
        kind => parts(*kind).iter().any(&has),
    };
    let of_kind = |kind: DoseKind| {
        let each = how_many(kind, subject, *costs.get(case)?, costs, roles);
        let steps = [each, 2 * each].map(|each| (each, dosed(case, kind, each)));
        let prepared = steps.iter().map(|(_, case)| catalogue::prepare(case, host).ok());
        let prepared: Vec<Prepared> = prepared.collect::<Option<_>>()?;
        let dosing =
            Dosing { explained: subject.id().clone(), case: case.clone(), kind, steps: steps.into(), roles };
        Some(Wanted { dosing, undosed: undosed.clone(), dosed: prepared })
    };
    KINDS.into_iter().filter(is_wanted).filter_map(of_kind).collect()
}

fn dosed(case: &CaseId, kind: DoseKind, each: u64) -> CaseId {
    case.clone().with(DOSE.name, &format!("{}-{each}", kind.name()))
}

/// How often each role does it in the smaller dose: a quarter of the cost.
fn how_many(kind: DoseKind, subject: &Subject, cost_ns: f64, costs: &Costs, roles: f64) -> u64 {
    let most = if kind == DoseKind::Lines { MOST_LINES } else { MOST_OF_DOSE } / 2;
    let priced = subject.direct.iter().find(|part| parts(kind).contains(&part.name));
    let price_ns = match kind {
        DoseKind::Handoffs => return 1,
        _ => priced.and_then(|part| part.price.ns(costs)).unwrap_or(VIRTUAL_NS as f64),
    };
    let wanted = cost_ns / (4.0 * roles * price_ns);
    if wanted.is_finite() { (wanted.round().max(1.0) as u64).clamp(1, most) } else { 1 }
}

impl Dosing {
    /// Are its system calls counted, and with them whether it was done?
    pub(super) fn counted(&self) -> Option<&CaseId> {
        self.calls().and(self.steps.first()).map(|(_, case)| case)
    }

    /// The system call that it makes.
    fn calls(&self) -> Option<&'static str> {
        match self.kind {
            DoseKind::Calls => Some("getppid"),
            DoseKind::Wakes | DoseKind::Handoffs => Some("futex"),
            DoseKind::Copies | DoseKind::Lines => None,
        }
    }

    /// In terms of the model, with the steps that were `measured`.
    pub(super) fn dosed(&self, subject: &Subject, counts: &Counts, measured: &[CaseId]) -> Dosed {
        let each = |each: u64| match self.kind {
            DoseKind::Handoffs => each as f64,
            _ => each as f64 * self.roles,
        };
        let steps = self.steps.iter().filter(|(_, case)| measured.contains(case));
        let mut found = Dosed {
            kind: self.kind.name(),
            about: about(self.kind).into(),
            parts: parts(self.kind).to_vec(),
            case: Some(self.case.clone()),
            steps: steps.map(|(count, case)| (each(*count), case.clone())).collect(),
            ..Dosed::default()
        };
        if self.kind == DoseKind::Handoffs {
            self.price_handoffs(counts, &mut found);
        } else {
            let part = subject.direct.iter().find(|part| found.parts.contains(&part.name));
            found.direct = part.map(|part| Direct { count: 1.0, ..part.clone() }).into_iter().collect();
        }
        match self.further_calls(counts) {
            Some(Ok((calls, own, further))) => found.not_shown = self.not_shown(calls, own, further),
            Some(Err(why)) => found.remarks.push(format!("that it was done was not counted: {why}")),
            None => {}
        }
        found
    }

    /// The system call of a dose, how many of it the case makes itself in an operation, and how many more there are with the smaller dose.
    fn further_calls<'a>(&self, counts: &'a Counts) -> Option<Result<(&'static str, f64, f64), &'a str>> {
        let (calls, with) = self.calls().zip(self.counted())?;
        let of = |case: &CaseId| {
            let counted = counts.calls.get(case).map(|counted| calls_of(counted, calls));
            counted.ok_or_else(|| counts.not_counted.get(case).map_or(counts.otherwise, String::as_str))
        };
        let own = of(&self.case);
        Some(own.and_then(|own| Ok((calls, own, of(with)? - own))))
    }

    /// What the counts say where they do not show the dose.
    fn not_shown(&self, calls: &str, own: f64, further: f64) -> Option<String> {
        let each = self.steps[0].0 as f64;
        let (least, most) = match self.kind {
            // Each role wakes the other, and sleeps where that has not answered yet, which may take more than one call.
            DoseKind::Handoffs => (2.0 * each, 8.0 * each),
            _ => (self.roles * each, self.roles * each),
        };
        // How often a role that spins a while goes to sleep differs from one run to the next, by at most the calls that it makes for that.
        let tolerance = UNCOUNTED * most + own.max(CALLS_VARY_BY);
        (further < least - tolerance || further > most + tolerance).then(|| {
            format!(
                "the counts of the dosed case do not show the dose: {further:.2} further calls of {calls} in an operation, where {} were put in",
                if least < most { format!("{least:.0} to {most:.0}") } else { format!("{least:.0}") }
            )
        })
    }

    /// What a handoff is made of is what its counts are more.
    fn price_handoffs(&self, counts: &Counts, found: &mut Dosed) {
        let Some((each, with)) = self.steps.first() else { return };
        let per_op = |case: &CaseId| counts.per_op.get(case).cloned().unwrap_or_default();
        let (with, without) = (per_op(with), per_op(&self.case));
        let more = |get: fn(&PerOp) -> f64| (get(&with) - get(&without)) / *each as f64;
        let waits = more(|per_op| per_op.voluntary_switches);
        let switches = more(|per_op| per_op.voluntary_switches + per_op.involuntary_switches);
        // Each role wakes the other, and each time that one sleeps is a call. A tracer, which slows them, sees others.
        let futexes = 2.0 + waits;
        let part =
            |name, count, price: Formula| Direct { name, of: None, about: String::new(), count, price };
        found.direct.push(part(names::FUTEX_CALLS, futexes, Formula::of(futex_wake())));
        found.direct.push(part(names::SWITCHES, switches, switch()));
        if !self.is_on_one_cpu() {
            found.direct.push(part(names::CACHE_LINES, 2.0, Formula::of(cache_line(&self.case))));
        }
        if waits > LEAST {
            let waits = Fitted { name: names::BLOCK_AND_WAKE, count: Count::Times(waits) };
            let cold = Fitted { name: names::COLD_CACHES, count: Count::NsOf(WORK, 1.0) };
            found.fitted.extend([waits, cold]);
        }
        found.remarks.push(format!(
            "one is {futexes:.2} calls of futex, {switches:.2} switches and {waits:.2} times to block and wake, as counted"
        ));
    }

    fn is_on_one_cpu(&self) -> bool {
        self.case.placement == "same-cpu"
    }
}

/// How often all roles make this call in an operation.
fn calls_of(counted: &SystemCalls, name: &str) -> f64 {
    counted.roles.iter().filter_map(|role| role.calls.get(name)).sum()
}

/// Why the prices of parts are not tried, those apart that a dose tries; `otherwise` where one could.
pub(super) fn not_tried(otherwise: &BTreeMap<&'static str, String>) -> BTreeMap<&'static str, String> {
    let cannot = CANNOT_BE_PUT_IN.map(|(name, why)| (name, why.to_owned()));
    let mut all: BTreeMap<&'static str, String> = cannot.into();
    all.extend(otherwise.iter().map(|(name, why)| (*name, why.clone())));
    all
}

/// For every part that a dose could try: this.
pub(super) fn for_all(why: &str) -> BTreeMap<&'static str, String> {
    let tried = KINDS.iter().flat_map(|kind| parts(*kind));
    tried.filter(|name| **name != names::SWITCHES).map(|name| (*name, why.to_owned())).collect()
}

/// For the parts of one dose: this.
pub(super) fn for_parts(dosing: &Dosing, why: &str) -> BTreeMap<&'static str, String> {
    parts(dosing.kind).iter().map(|name| (*name, why.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use weighbridge_record::RoleCalls;

    use super::*;

    fn dosing(kind: DoseKind, each: u64) -> Dosing {
        let case = CaseId::new("roundtrip", "pipe", 64, "same-cpu");
        let steps = vec![(each, dosed(&case, kind, each)), (2 * each, dosed(&case, kind, 2 * each))];
        Dosing { explained: case.clone(), case, kind, steps, roles: 2.0 }
    }

    /// Counts of the case, and of the same with so many more of a call in each role.
    fn counts(dosing: &Dosing, name: &str, more: f64) -> Counts {
        let calls = |more: f64| {
            let role = |role: &str| RoleCalls {
                role: role.into(),
                ops: 100,
                calls: [(name.to_owned(), 1.0 + more), ("read".to_owned(), 1.0)].into(),
            };
            SystemCalls { per_op: 4.0 + 2.0 * more, roles: vec![role("client"), role("server")] }
        };
        let with = dosing.counted().unwrap().clone();
        Counts {
            per_op: [
                (dosing.case.clone(), PerOp { voluntary_switches: 2.0, ..PerOp::default() }),
                (with.clone(), PerOp { voluntary_switches: 5.0, ..PerOp::default() }),
            ]
            .into(),
            calls: [(dosing.case.clone(), calls(0.0)), (with, calls(more))].into(),
            not_counted: BTreeMap::new(),
            otherwise: "that was not asked for",
        }
    }

    fn said(kind: DoseKind, name: &str, more: f64) -> Option<String> {
        let dosing = dosing(kind, 4);
        let measured: Vec<CaseId> = dosing.steps.iter().map(|(_, case)| case.clone()).collect();
        dosing.dosed(&Subject::default(), &counts(&dosing, name, more), &measured).not_shown
    }

    #[test]
    fn a_dose_that_was_not_executed_is_told_by_the_counts() {
        assert_eq!(said(DoseKind::Calls, "getppid", 4.0), None);
        // A harness that does nothing, half of it, or twice as much; and one that calls something else.
        for (name, more) in [("getppid", 0.0), ("getppid", 2.0), ("getppid", 8.0), ("getpid", 4.0)] {
            let why = said(DoseKind::Calls, name, more).unwrap_or_else(|| panic!("{name}, {more} more"));
            assert!(why.contains("do not show the dose") && why.contains("where 8 were put in"), "{why}");
        }
        assert_eq!(said(DoseKind::Wakes, "futex", 4.0), None);
        assert!(said(DoseKind::Wakes, "futex", 0.0).is_some());
        // A handoff wakes and sleeps in each role, once or twice.
        assert_eq!(said(DoseKind::Handoffs, "futex", 8.0), None);
        assert!(said(DoseKind::Handoffs, "futex", 1.0).unwrap().contains("where 8 to 32 were put in"));
    }

    #[test]
    fn without_a_tracer_the_dose_says_so_and_a_handoff_is_what_the_kernel_counts() {
        let dosing = dosing(DoseKind::Handoffs, 1);
        let counts = Counts { calls: BTreeMap::new(), ..counts(&dosing, "futex", 2.0) };
        let found = dosing.dosed(&Subject::default(), &counts, &[dosing.steps[0].1.clone()]);
        assert_eq!((found.not_shown, found.steps.len()), (None, 1));
        assert!(found.remarks.iter().any(|said| said.contains("was not counted: that was not asked for")));
        let count = |name: &str| found.direct.iter().find(|part| part.name == name).unwrap().count;
        assert_eq!((count(names::FUTEX_CALLS), count(names::SWITCHES)), (5.0, 3.0));
        assert_eq!(found.fitted[0].count, Count::Times(3.0));
    }

    #[test]
    fn the_smaller_dose_is_a_quarter_of_the_cost_and_one_at_least() {
        let call = CaseId::new("solo", "getppid", 0, "same-cpu");
        let part = Direct {
            name: names::SYSTEM_CALLS,
            of: None,
            about: String::new(),
            count: 4.0,
            price: Formula::of(call.clone()),
        };
        let subject = Subject { direct: vec![part], ..Subject::default() };
        let costs = |ns| Costs::from([(call.clone(), ns)]);
        for (kind, price_ns, wanted) in [
            (DoseKind::Calls, 100.0, 10),
            (DoseKind::Calls, 20_000.0, 1),
            (DoseKind::Calls, 1e-9, MOST_OF_DOSE / 2),
            (DoseKind::Lines, 0.01, 10),
            (DoseKind::Handoffs, 100.0, 1),
        ] {
            assert_eq!(how_many(kind, &subject, 8_000.0, &costs(price_ns), 2.0), wanted, "{kind:?}");
        }
    }

    #[test]
    fn every_part_that_an_explanation_can_have_is_tried_or_says_why_not() {
        let all = not_tried(&for_all("that was not asked for"));
        for name in names::ALL {
            assert!(all.contains_key(name), "{name}");
        }
        let why = &all[names::COPIES];
        assert_eq!(why, "that was not asked for");
        assert!(all[names::SWITCHES].starts_with("cannot be put in"));
    }
}
