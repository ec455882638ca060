//! A session that explains: cases and the primitives that they are made of, in sets that take turns with one hub.
//!
//! What runs here is measured and counted; the solver, which says what follows from it, is [`weighbridge_analysis::explain`]. A set is one
//! or two cases and the hub of their place: a case and the same mechanism to itself stand in one set, so that noise of the machine is the
//! same in both.

mod doses;
mod model;
mod set;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use weighbridge_analysis::explain::{Dosed, Group, Measured, Subject};
use weighbridge_record::{self as record, CaseId, Line, PerOp, SystemCalls};
use weighbridge_stats as stats;
use weighbridge_stats::duet::{Slice, hub_session};

use crate::axis::DOSE;
use crate::contract::{Caps, Prepared};
use crate::coordinator::{Coordinator, Counted, PeerStart};
use crate::duet::Random;
use crate::interrupt::Interrupt;
use crate::rounds::{self, Extent, InRounds};
use crate::session::{Ended, Sink};
use crate::set::NoSet;
use doses::{Dosing, Wanted};
pub use model::refusal;
use model::{Counts, Plan};

/// What is to be explained, and with which effort.
#[derive(Clone, Debug)]
pub struct Request {
    /// The cases; none for which there is a [`refusal`].
    pub cases: Vec<Prepared>,
    /// Further payloads of which prices are needed.
    pub payloads: Vec<u64>,
    /// Sets of each case at most.
    pub sets: usize,
    /// Time for all of it.
    pub budget: Duration,
    /// Are system calls counted, which takes a tracer?
    pub count_calls: bool,
    /// Are prices tried by doses in the cases?
    pub doses: bool,
    /// Seed of the order of sets and of turns.
    pub seed: u64,
}

/// What was measured.
#[derive(Debug)]
pub struct Explained {
    /// How the session ended.
    pub ended: Ended,
    /// Costs, set by set.
    pub measured: Measured,
    /// The cases that were asked for and those from which prices are fitted.
    pub subjects: Vec<Subject>,
}

/// Failures of a case or a hub, with no set measured between them, after which it is not measured again.
const MOST_FAILURES: u32 = 2;

/// The share of the budget that doses have at most.
const DOSES_SHARE: f64 = 1.0 / 3.0;

/// Cases that are measured in the same sets.
#[derive(Default)]
struct Open {
    /// Where the cases are doses of one case, which is the hub.
    dosing: Option<Dosing>,
    hub: Option<CaseId>,
    cases: Vec<Prepared>,
    sets: Vec<Vec<f64>>,
    /// Failures of each case, and of the hub, since a set was measured.
    failures: BTreeMap<CaseId, u32>,
    failed_sets: usize,
    last_failure: Option<String>,
    slowest: Duration,
}

impl Open {
    /// Takes note that a set failed because of this party, the hub after the cases. What has failed too often is dropped; what was measured
    /// beside it goes on alone.
    fn fail(&mut self, party: usize, why: &str) {
        self.failed_sets += 1;
        self.last_failure = Some(why.into());
        let case = self.cases.get(party).map(|case| &case.params.id);
        let Some(id) = case.or(self.hub.as_ref()).cloned() else { return };
        let failures = self.failures.entry(id).or_default();
        *failures += 1;
        if *failures < MOST_FAILURES {
            return;
        }
        self.failures.clear();
        if party < self.cases.len() {
            self.cases.remove(party);
            for ratios in &mut self.sets {
                ratios.remove(party);
            }
        } else {
            self.cases.clear();
            self.sets.clear();
        }
    }

    /// Why its sets are too few, where they are far fewer than the `most` of any other: its interval would be too narrow.
    fn too_few(&self, most: usize) -> Option<String> {
        let sets = self.sets.len();
        if sets > 0 && 2 * sets >= most {
            return None;
        }
        let because =
            self.last_failure.as_ref().map_or(String::new(), |why| format!(", the last because {why}"));
        Some(format!(
            "{sets} of its sets were measured and {} failed{because}; it takes half of the {most} sets of others, and one at least",
            self.failed_sets
        ))
    }
}

struct Session<'a, 'c> {
    coordinator: Coordinator<'c>,
    interrupt: &'a Interrupt,
    request: &'a Request,
    plan: &'a Plan,
    random: Random,
    groups: Vec<Open>,
    hubs: BTreeMap<CaseId, Prepared>,
    hub_sets: BTreeMap<CaseId, Vec<Vec<Slice>>>,
    per_op: BTreeMap<CaseId, Vec<PerOp>>,
    calls: BTreeMap<CaseId, SystemCalls>,
    not_counted: BTreeMap<CaseId, String>,
    /// Why prices of parts are not tried in a case.
    not_tried: BTreeMap<CaseId, BTreeMap<&'static str, String>>,
    runs: usize,
}

/// Measures everything that an explanation needs. Sets and failures are told to `sink` as they come.
pub fn run(
    request: &Request,
    coordinator: Coordinator<'_>,
    interrupt: &Interrupt,
    sink: &mut dyn Sink,
) -> io::Result<Explained> {
    let plan = Plan::new(&request.cases, &request.payloads, coordinator.host());
    for skipped in &plan.skipped {
        sink.line(Line::Skipped(skipped.clone()))?;
    }
    let open = |(hub, cases): &(Option<CaseId>, Vec<Prepared>)| Open {
        hub: hub.clone(),
        cases: cases.clone(),
        ..Open::default()
    };
    let mut session = Session {
        coordinator,
        interrupt,
        request,
        plan: &plan,
        random: Random::new(request.seed),
        groups: plan.groups.iter().map(open).collect(),
        hubs: plan.hubs.clone(),
        hub_sets: BTreeMap::new(),
        per_op: BTreeMap::new(),
        calls: BTreeMap::new(),
        not_counted: BTreeMap::new(),
        not_tried: BTreeMap::new(),
        runs: 0,
    };
    let ended = rounds::run(&mut session, 0, request.budget, interrupt, sink)?;
    session.into_explained(ended, sink)
}

impl Session<'_, '_> {
    /// The cases whose system calls are parts of something.
    fn with_counted_calls(&self) -> Vec<Prepared> {
        let all = self.groups.iter().flat_map(|group| &group.cases);
        all.filter(|case| self.plan.counts_calls_of(&case.params.id)).cloned().collect()
    }

    /// Counts the system calls of these cases. Where that is refused once, it is for all.
    fn count_calls(&mut self, all: &[Prepared]) -> io::Result<bool> {
        for case in all {
            if self.interrupt.take()? {
                return Ok(false);
            }
            let id = case.params.id.clone();
            match self.coordinator.count_calls(case, &PeerStart::default()) {
                Counted::Interrupted => return Ok(false),
                Counted::Calls(calls) => _ = self.calls.insert(id, calls),
                Counted::Threads => {
                    let why = "the calls of threads of one process are not told apart (peers=thread)";
                    self.not_counted.insert(id, why.into());
                }
                Counted::Failed { step, why } if step == "plan" => {
                    for case in all {
                        self.not_counted.entry(case.params.id.clone()).or_insert_with(|| why.clone());
                    }
                    break;
                }
                Counted::Failed { why, .. } => _ = self.not_counted.insert(id, why),
            }
        }
        Ok(true)
    }

    /// Plans doses of the cases that are asked for, as many as their share of the budget holds, and counts their system calls.
    fn add_doses(&mut self) -> io::Result<bool> {
        let measured = self.measured_so_far();
        let costs = measured.costs();
        let has_cost: BTreeSet<&CaseId> = costs.keys().collect();
        let subjects = self.plan.subjects(&self.counts(), &has_cost);
        let asked = || subjects.iter().filter(|subject| subject.is_asked);
        let host = self.coordinator.host();
        let wanted = |subject: &Subject| {
            let case = self.plan.like(subject.id(), &has_cost);
            doses::wanted(subject, &case, &costs, host).into_iter()
        };
        let of_cases: Vec<_> = asked().map(wanted).collect();
        let mut counted = Vec::new();
        for (Wanted { dosing, undosed, dosed }, slowest) in self.within_share(of_cases) {
            counted.extend(dosed.iter().find(|case| dosing.counted() == Some(&case.params.id)).cloned());
            let is_virtual = undosed.target.caps.has(Caps::VIRTUAL_TIME);
            let hub = (!is_virtual).then(|| dosing.case.clone());
            self.hubs.extend(hub.clone().map(|hub| (hub, undosed)));
            self.groups.push(Open { dosing: Some(dosing), hub, cases: dosed, slowest, ..Open::default() });
        }
        if self.request.count_calls { self.count_calls(&counted) } else { Ok(true) }
    }

    /// As many doses as their share of the budget holds, and what a set of each takes: that of a case takes as many parties. The first dose of
    /// each case goes before the second of any.
    fn within_share(&mut self, mut of_cases: Vec<impl Iterator<Item = Wanted>>) -> Vec<(Wanted, Duration)> {
        let mut left = self.request.budget.mul_f64(DOSES_SHARE);
        let mut planned = Vec::new();
        loop {
            let next: Vec<Wanted> = of_cases.iter_mut().filter_map(Iterator::next).collect();
            if next.is_empty() {
                return planned;
            }
            for wanted in next {
                let Dosing { case, explained, .. } = &wanted.dosing;
                let is_its = |open: &&Open| open.cases.iter().any(|member| member.params.id == *case);
                let slowest = self.groups.iter().find(is_its).map(|open| open.slowest).unwrap_or_default();
                let needed = slowest * (self.request.sets - 1) as u32;
                if needed <= left {
                    left -= needed;
                    planned.push((wanted, slowest));
                } else {
                    let why = "the budget holds no dose of it; raise it with --budget";
                    let of_case = self.not_tried.entry(explained.clone()).or_default();
                    of_case.extend(doses::for_parts(&wanted.dosing, why));
                }
            }
        }
    }

    fn measured_so_far(&self) -> Measured {
        let group = |open: &Open| Group {
            hub: open.hub.clone(),
            cases: open.cases.iter().map(|case| case.params.id.clone()).collect(),
            sets: open.sets.clone(),
        };
        let medians_ns =
            |(hub, sets): (&CaseId, &Vec<Vec<Slice>>)| Some((hub.clone(), hub_session(sets)?.set_medians_ns));
        let (doses, groups): (Vec<&Open>, Vec<&Open>) =
            self.groups.iter().partition(|open| open.dosing.is_some());
        Measured {
            groups: groups.into_iter().map(group).collect(),
            hub_sets_ns: self.hub_sets.iter().filter_map(medians_ns).collect(),
            doses: doses.into_iter().map(group).collect(),
        }
    }

    fn counts(&self) -> Counts {
        let middle = |all: &Vec<PerOp>| PerOp::fold(&all.iter().collect::<Vec<_>>(), stats::median);
        Counts {
            per_op: self.per_op.iter().map(|(case, all)| (case.clone(), middle(all))).collect(),
            calls: self.calls.clone(),
            not_counted: self.not_counted.clone(),
            otherwise: if self.request.count_calls {
                "the session ended before"
            } else {
                "that was not asked for"
            },
        }
    }

    fn into_explained(mut self, ended: Ended, sink: &mut dyn Sink) -> io::Result<Explained> {
        let most = self.groups.iter().map(|open| open.sets.len()).max().unwrap_or(0);
        for open in &mut self.groups {
            let Some(why) = open.too_few(most) else { continue };
            for case in std::mem::take(&mut open.cases) {
                let case = case.params.id;
                sink.line(Line::Skipped(record::Skipped { case, step: "sets".into(), why: why.clone() }))?;
            }
            open.sets.clear();
            if let Some(dosing) = &open.dosing {
                let of_case = self.not_tried.entry(dosing.explained.clone()).or_default();
                of_case.extend(doses::for_parts(dosing, &format!("its dose failed: {why}")));
            }
        }
        let measured = self.measured_so_far();
        let has_cost: BTreeSet<&CaseId> = measured.groups.iter().flat_map(|group| &group.cases).collect();
        let counts = self.counts();
        let mut subjects = self.plan.subjects(&counts, &has_cost);
        for subject in subjects.iter_mut().filter(|subject| subject.is_asked) {
            let id = subject.id().clone();
            let of_subject = self.groups.iter().filter_map(|open| {
                let dosing = open.dosing.as_ref().filter(|dosing| dosing.explained == id)?;
                let cases: Vec<CaseId> = open.cases.iter().map(|case| case.params.id.clone()).collect();
                (!cases.is_empty()).then(|| dosing.dosed(subject, &counts, &cases))
            });
            let dosed: Vec<Dosed> = of_subject.collect();
            subject.doses = dosed;
            let why = if !self.request.doses {
                "that was not asked for"
            } else if id.axes.contains_key(DOSE.name) {
                "the case has a dose already"
            } else {
                "the session ended before"
            };
            let mut because = doses::for_all(why);
            because.extend(self.not_tried.remove(&id).unwrap_or_default());
            subject.not_tried = doses::not_tried(&because);
        }
        Ok(Explained { ended, measured, subjects })
    }
}

impl InRounds for Session<'_, '_> {
    const RUN: &'static str = "set";

    fn next_round(&mut self, round: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        self.random.shuffle(&mut order);
        order.retain(|index| (round as usize) < self.request.sets && !self.groups[*index].cases.is_empty());
        order
    }

    fn run_once(&mut self, index: usize, _round: u32, sink: &mut dyn Sink) -> io::Result<bool> {
        let began = Instant::now();
        let group = &mut self.groups[index];
        let hub = group.hub.as_ref().map(|hub| &self.hubs[hub]);
        let outcome = set::measure(&group.cases, hub, self.random.next_u64(), &mut self.coordinator);
        group.slowest = group.slowest.max(began.elapsed());
        self.runs += 1;
        match outcome {
            Err(NoSet::Interrupted) => return Ok(false),
            Err(NoSet::Failed { party, step, why }) => {
                let of_hub = group.cases.get(party).is_none();
                let case = group.cases.get(party).unwrap_or(&group.cases[0]).params.id.clone();
                let why = if of_hub { format!("its hub: {why}") } else { why };
                group.fail(party, &why);
                sink.line(Line::Skipped(record::Skipped { case, step, why }))?;
            }
            Ok(set) => {
                for (case, per_op) in group.cases.iter().zip(set.per_op) {
                    self.per_op.entry(case.params.id.clone()).or_default().push(per_op);
                }
                if let Some(hub) = group.hub.as_ref().filter(|_| group.dosing.is_none()) {
                    self.hub_sets.entry(hub.clone()).or_default().push(set.of_hub);
                }
                group.failures.clear();
                group.sets.push(set.log_ratios.clone());
                sink.line(Line::ExplainedSet(record::ExplainedSet {
                    hub: group.hub.clone(),
                    cases: group.cases.iter().map(|case| case.params.id.clone()).collect(),
                    log_ratios: set.log_ratios,
                }))?;
            }
        }
        Ok(true)
    }

    /// After the first round the system calls are counted, and the doses planned.
    fn end_round(&mut self, round: u32) -> io::Result<bool> {
        if round > 0 {
            return Ok(true);
        }
        let counted = self.with_counted_calls();
        Ok((!self.request.count_calls || self.count_calls(&counted)?)
            && (!self.request.doses || self.add_doses()?))
    }

    fn id(&self, index: usize) -> &CaseId {
        &self.groups[index].cases[0].params.id
    }

    fn cost(&self, index: usize) -> Duration {
        self.groups[index].slowest
    }

    /// What has too few sets is said in the end.
    fn close(&mut self, _index: usize) -> bool {
        false
    }

    fn extent(&self, index: usize, round: u32) -> Extent {
        let left = self.groups.len() * (self.request.sets - round as usize);
        Extent {
            runs: self.runs,
            closed: 0,
            cases: self.groups.len(),
            needed: self.groups[index].slowest * left as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn open(cases: &[&str]) -> Open {
        let case = |id: &&str| testing::case(id, &[]);
        Open {
            hub: Some("roundtrip/pipe/1/free".parse().unwrap()),
            cases: cases.iter().map(case).collect(),
            ..Open::default()
        }
    }

    const BOTH: [&str; 2] = ["roundtrip/mock/1/free", "self/mock/1/free"];

    #[test]
    fn a_party_is_dropped_after_failures_of_its_own_in_a_row_and_the_other_keeps_its_sets() {
        let mut group = open(&BOTH);
        group.sets = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        group.fail(0, "first");
        group.fail(1, "second");
        group.fail(2, "third");
        assert_eq!(group.cases.len(), 2, "one failure of each");
        group.fail(0, "fourth");
        assert_eq!(group.cases[0].params.id.to_string(), BOTH[1]);
        assert_eq!(group.sets, [[2.0], [4.0]]);
        group.fail(1, "hub");
        group.fail(1, "hub");
        assert!(group.cases.is_empty() && group.sets.is_empty());
    }

    #[test]
    fn what_has_too_few_sets_says_how_many_failed_and_why() {
        let mut group = open(&BOTH);
        assert!(group.too_few(0).is_some(), "without a set there is no cost");
        group.sets = vec![vec![1.0, 2.0]; 5];
        group.fail(0, "the peer was killed");
        assert_eq!(group.too_few(10), None);
        let why = group.too_few(12).unwrap();
        assert!(why.contains("5 of its sets were measured and 1 failed, the last because the peer"), "{why}");
    }
}
