//! Who contends for an answer: the contest of a record that is nearest to a question, with what is known of each contestant.

use std::collections::HashSet;

use weighbridge_record::{CaseId, Contest, Contestant, Properties, Property, Summary, derive};
use weighbridge_stats::compare::CONFIDENCE;

use super::choice::{AtRate, Contender};
use super::question::Question;
use crate::model::{Measured, Report, Sourced};
use crate::section::{common_axes, named};

/// A figure answers for another size or number of receivers up to this factor. Beyond it an order is told, and no cost.
const NEAR: f64 = 2.0;

/// A contest, and how far it is from a question.
pub struct Nearest<'a> {
    report: &'a Report,
    /// The contest; of one case where the record has no other.
    pub contest: Sourced<Contest>,
    /// Its size.
    pub payload_bytes: u64,
    /// Its receivers, where the pattern has several.
    pub receivers: Option<f64>,
    /// Its rate, where its operations were due at one.
    pub rate: Option<f64>,
}

impl<'a> Nearest<'a> {
    /// The contest that is nearest to a question: of its pattern and placement, with nothing else set.
    pub fn of(report: &'a Report, question: &Question) -> Option<Nearest<'a>> {
        let contests = report.contests.iter().filter(|contest| {
            let id = &contest.what.contestants[0].case;
            is_of(question, id) && !common_axes(&contest.what).keys().any(|axis| is_set(axis))
        });
        let alone = || report.cases.iter().filter(|case| is_of(question, &case.id)).filter_map(alone);
        let apart = |asked: f64, there: f64| factor(asked, there).ln();
        let distance = |of: &Nearest<'_>| {
            let receivers = of.receivers.unwrap_or(question.receivers as f64);
            // Cases at a rate are measured alone, those back to back in turns with a hub, which tells more of them apart.
            let rate = of.rate.map_or(0.0, |rate| 0.1 + apart(question.rate, rate));
            apart(question.receivers as f64, receivers)
                + apart(question.payload_bytes as f64, of.payload_bytes as f64)
                + rate
        };
        let nearest = |all: &mut dyn Iterator<Item = Sourced<Contest>>| {
            let all = all.map(|contest| Nearest::new(report, contest));
            all.min_by(|a, b| distance(a).total_cmp(&distance(b)))
        };
        nearest(&mut contests.cloned()).or_else(|| {
            let is_asked = |of: &Sourced<Contest>| question.admits(&of.what.contestants[0].case.mechanism);
            nearest(&mut alone().filter(is_asked))
        })
    }

    /// A contest of this report.
    pub fn new(report: &'a Report, contest: Sourced<Contest>) -> Nearest<'a> {
        let payload_bytes = contest.what.contestants[0].case.payload_bytes;
        let [receivers, rate] = ["receivers", "rate"].map(|axis| number(report, &contest, axis));
        Nearest { report, contest, payload_bytes, receivers, rate }
    }

    /// Do its figures answer for what was asked?
    pub fn is_near(&self, question: &Question) -> bool {
        let receivers = self.receivers.unwrap_or(question.receivers as f64);
        factor(self.payload_bytes as f64, question.payload_bytes as f64) <= NEAR
            && factor(receivers, question.receivers as f64) <= NEAR
    }

    /// Those of its contestants that are asked about, lowest cost first.
    pub fn contenders(
        &self,
        question: &Question,
        known: impl Fn(&CaseId) -> Option<Properties>,
    ) -> Vec<Contender> {
        let all = self.contest.what.contestants.iter();
        let asked = all.filter(|one| question.admits(&one.case.mechanism));
        let mut contenders: Vec<Contender> =
            asked.filter_map(|one| self.contender(one, question, &known)).collect();
        if question.demands.contains(&Property::Pollable) {
            count_as_polled(&mut contenders);
        }
        // The order of a contest is by advantages over all others; what is told are costs over that of the first.
        contenders.sort_by(|a, b| a.times_first.total_cmp(&b.times_first));
        contenders
    }

    fn contender(
        &self,
        one: &Contestant,
        question: &Question,
        known: impl Fn(&CaseId) -> Option<Properties>,
    ) -> Option<Contender> {
        let measured = self.report.case(self.contest.source, &one.case)?;
        let summary = measured.summary.as_ref()?;
        let case = measured.case.as_ref();
        let axis = |name: &str| case.and_then(|case| case.axes.get(name));
        let spins = axis("wait").is_some_and(|wait| wait == "spin" || wait == "yield");
        let ends = case.map_or(2, |case| case.roles.len()) as f64;
        // Who spins takes a whole CPU however rarely something comes; what was counted in one operation is less.
        let spinning = if spins { ends.min(question.cpus()) } else { 0.0 };
        let computed = (summary.per_op.cpu_ns > 0.0)
            .then_some((summary.per_op.cpu_ns * question.rate / 1e9).max(spinning));
        let at_rate = self.at_rate(&one.case, question);
        let is_near = self.is_near(question);
        Some(Contender {
            case: one.case.clone(),
            name: self.name(&one.case),
            value: is_near.then_some(summary.median),
            interval: summary.ci95.filter(|_| is_near),
            unit: summary.unit.clone(),
            runs: summary.runs,
            times_first: one.times_first,
            times_first_interval: one.interval,
            back_to_back_per_s: per_s(summary, &one.case).filter(|_| is_near),
            properties: case.and_then(|case| case.properties).or_else(|| known(&one.case)),
            cpu_share: at_rate.as_ref().map(|at| at.cpu_share).or(computed).filter(|_| is_near),
            at_rate: at_rate.filter(|_| is_near),
            polls: axis("wait").is_some_and(|wait| polls(wait)),
            polls_first: axis("wait").is_some_and(|wait| wait == "spin-block"),
            spins,
        })
    }

    /// The mechanism, with those of its axes in which contestants differ.
    pub fn name(&self, case: &CaseId) -> String {
        match self.contest.what.contestants.len() {
            // Of one nothing is common.
            1 => {
                let mut own = case.clone();
                own.axes.retain(|axis, _| derive::is_of_the_mechanism(axis));
                self.report.variant(self.contest.source, &own)
            }
            _ => named(self.report, &self.contest, case),
        }
    }

    /// The same case with operations due at the rate, where it was measured.
    fn at_rate(&self, case: &CaseId, question: &Question) -> Option<AtRate> {
        let measured = self.report.case(self.contest.source, &question.at_rate(case))?;
        let summary = measured.summary.as_ref()?;
        let series = |name: &str| summary.series.get(name).copied();
        Some(AtRate {
            value: summary.median,
            held_per_s: series(derive::HELD)?,
            cpu_share: series(derive::CPU_SHARE)? / 100.0,
        })
    }

    /// The cases of the record that would contend if they had a figure.
    pub fn without_figure(&self, question: &Question) -> Vec<CaseId> {
        let first = &self.contest.what.contestants[0].case;
        let is_one = |case: &&Measured| {
            case.source == self.contest.source
                && case.summary.is_none()
                && case.id.payload_bytes == first.payload_bytes
                && case.id.axes.get("receivers") == first.axes.get("receivers")
                && case.id.axes.get("rate") == first.axes.get("rate")
                && is_of(question, &case.id)
                && !case.id.axes.keys().any(|axis| is_set(axis))
                && !case.is_harness()
                && question.admits(&case.id.mechanism)
        };
        self.report.cases.iter().filter(is_one).map(|case| case.id.clone()).collect()
    }
}

/// How many times the larger of two is the smaller one.
fn factor(one: f64, other: f64) -> f64 {
    let [one, other] = [one, other].map(|of| of.max(1.0));
    (one / other).max(other / one)
}

fn is_of(question: &Question, id: &CaseId) -> bool {
    id.pattern == question.pattern && id.placement == question.placement
}

/// Is it an axis of which a question says nothing, and which is not a way to use a mechanism?
fn is_set(axis: &str) -> bool {
    axis != "receivers" && axis != "rate" && !derive::is_of_the_mechanism(axis)
}

/// A contest of this case alone, where it has a figure.
fn alone(case: &Measured) -> Option<Sourced<Contest>> {
    let summary = case.summary.as_ref().filter(|_| !case.is_harness())?;
    if case.id.axes.keys().any(|axis| is_set(axis)) {
        return None;
    }
    let one = Contestant {
        case: case.id.clone(),
        tier: 0,
        may_be_best: true,
        times_first: 1.0,
        interval: None,
        sets: summary.runs,
    };
    let what = Contest { contestants: vec![one], sure: Vec::new(), confidence: CONFIDENCE };
    Some(Sourced { source: case.source, what })
}

/// Is it a way to wait in which a descriptor is polled?
pub fn polls(wait: &str) -> bool {
    wait == "poll" || wait.starts_with("epoll")
}

/// A program that polls a descriptor pays for that. Where a mechanism was measured so, what it costs without is no answer.
fn count_as_polled(contenders: &mut [Contender]) {
    let polled: HashSet<String> =
        contenders.iter().filter(|one| one.polls).map(|one| one.case.mechanism.clone()).collect();
    for one in contenders.iter_mut().filter(|one| !one.polls && polled.contains(&one.case.mechanism)) {
        one.properties = one.properties.map(|own| own.with(Property::Pollable, false));
    }
}

/// Operations in a second, where a figure tells them. A source of messages to many does not wait until all have one.
fn per_s(summary: &Summary, case: &CaseId) -> Option<f64> {
    match summary.unit.as_str() {
        _ if case.pattern == "fan-out" => None,
        unit if unit.starts_with("ns/") => Some(1e9 / summary.median),
        "bytes/s" => Some(summary.median / case.payload_bytes.max(1) as f64),
        unit if unit.ends_with("/s") => Some(summary.median),
        _ => None,
    }
    .filter(|per_s| per_s.is_finite())
}

/// A number that a case has on an axis, its default included where the record tells it.
fn number(report: &Report, contest: &Sourced<Contest>, axis: &str) -> Option<f64> {
    let first = &contest.what.contestants[0].case;
    let effective = report.case(contest.source, first).and_then(|case| case.case.as_ref()?.axes.get(axis));
    effective.or_else(|| first.axes.get(axis))?.parse().ok()
}
