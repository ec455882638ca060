//! A session that explains: cases and the primitives that they are made of, in sets that take turns with one hub.
//!
//! What runs here is measured and counted; what follows from it is computed by `weighbridge-explain`. A set is one or two cases and the hub
//! of their place: a case and the same mechanism to itself stand in one set, so that noise of the machine is the same in both.

mod model;
mod set;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use weighbridge_explain::{Group, Measured, Subject};
use weighbridge_record::{self as record, CaseId, Line, PerOp, SystemCalls};
use weighbridge_stats as stats;
use weighbridge_stats::duet::{Slice, hub_session};

use crate::contract::Prepared;
use crate::coordinator::{Coordinator, Counted, PeerStart};
use crate::duet::Random;
use crate::interrupt::Interrupt;
use crate::session::{Ended, Progress, Sink};
use model::Plan;
pub use model::refusal;

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

/// Failures after which a case is not measured again.
const MOST_FAILURES: u32 = 2;

/// Cases that are measured in the same sets.
struct Open {
    hub: Option<CaseId>,
    cases: Vec<Prepared>,
    sets: Vec<Vec<f64>>,
    failures: u32,
    dearest: Duration,
}

/// The session while it runs.
struct Session<'a, 'c> {
    coordinator: Coordinator<'c>,
    interrupt: &'a Interrupt,
    sink: &'a mut dyn Sink,
    random: Random,
    groups: Vec<Open>,
    hubs: BTreeMap<CaseId, Prepared>,
    hub_sets: BTreeMap<CaseId, Vec<Vec<Slice>>>,
    per_op: BTreeMap<CaseId, Vec<PerOp>>,
    calls: BTreeMap<CaseId, SystemCalls>,
    not_counted: Option<String>,
    began: Instant,
    runs: usize,
}

/// Measures everything that an explanation needs. Sets and failures are told to `sink` as they come.
///
/// # Errors
/// Only those of `sink`, and that of reading the signals that end the program.
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
        sets: Vec::new(),
        failures: 0,
        dearest: Duration::ZERO,
    };
    let mut session = Session {
        coordinator,
        interrupt,
        sink,
        random: Random::new(request.seed),
        groups: plan.groups.iter().map(open).collect(),
        hubs: plan.hubs.clone(),
        hub_sets: BTreeMap::new(),
        per_op: BTreeMap::new(),
        calls: BTreeMap::new(),
        not_counted: None,
        began: Instant::now(),
        runs: 0,
    };
    let mut ended = Ended::Complete;
    for round in 0..request.sets {
        if !session.round(round, request, &plan)? {
            ended = Ended::Interrupted;
            break;
        }
    }
    Ok(session.into_explained(ended, &plan))
}

impl Session<'_, '_> {
    /// One set of each group in random order; after the first round the system calls. `false` when the user has had enough.
    fn round(&mut self, round: usize, request: &Request, plan: &Plan) -> io::Result<bool> {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        self.random.shuffle(&mut order);
        for index in order {
            if self.interrupt.take()? {
                return Ok(false);
            }
            let group = &self.groups[index];
            if group.cases.is_empty() || self.began.elapsed() + group.dearest > request.budget {
                continue;
            }
            let left = self.groups.len() * (request.sets - round);
            self.sink.progress(&Progress {
                case: &group.cases[0].params.id,
                runs: self.runs,
                closed: 0,
                cases: self.groups.len(),
                round: round as u32,
                elapsed: self.began.elapsed(),
                remaining: (group.dearest * left as u32)
                    .min(request.budget.saturating_sub(self.began.elapsed())),
            });
            if !self.one_set(index)? {
                return Ok(false);
            }
        }
        if round == 0 && request.count_calls {
            return self.count_calls(plan);
        }
        Ok(true)
    }

    fn one_set(&mut self, index: usize) -> io::Result<bool> {
        let began = Instant::now();
        let group = &mut self.groups[index];
        let hub = group.hub.as_ref().map(|hub| &self.hubs[hub]);
        let outcome = set::measure(&group.cases, hub, self.random.next_u64(), &mut self.coordinator);
        group.dearest = group.dearest.max(began.elapsed());
        self.runs += 1;
        match outcome {
            set::Outcome::Interrupted => return Ok(false),
            set::Outcome::Failed { party, step, why } => {
                group.failures += 1;
                let of_hub = group.cases.get(party).is_none();
                let case = group.cases.get(party).unwrap_or(&group.cases[0]).params.id.clone();
                let why = if of_hub { format!("its hub: {why}") } else { why };
                if group.failures >= MOST_FAILURES {
                    // What was measured beside it goes on alone; its rows would have another length.
                    group.failures = 0;
                    group.sets.clear();
                    if of_hub {
                        group.cases.clear();
                    } else {
                        group.cases.remove(party);
                    }
                }
                self.sink.line(Line::Skipped(record::Skipped { case, step, why }))?;
            }
            set::Outcome::Measured(set) => {
                for (case, per_op) in group.cases.iter().zip(set.per_op) {
                    self.per_op.entry(case.params.id.clone()).or_default().push(per_op);
                }
                if let Some(hub) = &group.hub {
                    self.hub_sets.entry(hub.clone()).or_default().push(set.of_hub);
                }
                group.sets.push(set.log_ratios.clone());
                self.sink.line(Line::ExplainedSet(record::ExplainedSet {
                    hub: group.hub.clone(),
                    cases: group.cases.iter().map(|case| case.params.id.clone()).collect(),
                    log_ratios: set.log_ratios,
                }))?;
            }
        }
        Ok(true)
    }

    /// Counts the system calls of the cases whose parts they are. Where that is refused once, it will be for all.
    fn count_calls(&mut self, plan: &Plan) -> io::Result<bool> {
        let all: Vec<Prepared> = self.groups.iter().flat_map(|group| &group.cases).cloned().collect();
        for case in all.iter().filter(|case| plan.counts_calls_of(&case.params.id)) {
            if self.interrupt.take()? {
                return Ok(false);
            }
            match self.coordinator.count_calls(case, &PeerStart::default()) {
                Counted::Interrupted => return Ok(false),
                Counted::Calls(calls) => drop(self.calls.insert(case.params.id.clone(), calls)),
                Counted::Threads => {}
                Counted::Failed { step, why } => {
                    let is_refused = step == "plan";
                    self.not_counted.get_or_insert(why);
                    if is_refused {
                        break;
                    }
                }
            }
        }
        Ok(true)
    }

    fn into_explained(self, ended: Ended, plan: &Plan) -> Explained {
        let hub_sets_ns: BTreeMap<CaseId, Vec<f64>> = self
            .hub_sets
            .iter()
            .filter_map(|(hub, sets)| Some((hub.clone(), hub_session(sets)?.set_medians_ns)))
            .collect();
        // What has far fewer sets than the rest, because they failed, would have an interval that is too narrow.
        let most = self.groups.iter().map(|open| open.sets.len()).max().unwrap_or(0);
        let has_enough = |open: &Open| !open.sets.is_empty() && 2 * open.sets.len() >= most;
        let has_hub = |open: &Open| open.hub.as_ref().is_none_or(|hub| hub_sets_ns.contains_key(hub));
        let groups: Vec<Group> = self
            .groups
            .into_iter()
            .filter(|open| has_enough(open) && has_hub(open))
            .map(|open| Group {
                hub: open.hub,
                cases: open.cases.into_iter().map(|case| case.params.id).collect(),
                sets: open.sets,
            })
            .collect();
        let has_cost: BTreeSet<&CaseId> = groups.iter().flat_map(|group| &group.cases).collect();
        let middle = |all: &Vec<PerOp>| PerOp::fold(&all.iter().collect::<Vec<_>>(), stats::median);
        let counts = model::Counts {
            per_op: self.per_op.iter().map(|(case, all)| (case.clone(), middle(all))).collect(),
            calls: self.calls,
            not_counted: self.not_counted,
        };
        let subjects = plan.subjects(&counts, &has_cost);
        Explained { ended, measured: Measured { groups, hub_sets_ns }, subjects }
    }
}
