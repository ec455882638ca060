//! A choice for one question, from one record: what to take, how sure that is, and what each demand costs.

mod choice;
mod shown;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde::Serialize;
use weighbridge_record::{CaseId, Contest, Crossover, Properties, Property, Summary, derive};

pub use choice::{AtRate, Choice, Contender, Demand, Excluded, Field, Price};

use crate::model::{Report, Sourced};
use crate::section::{common_axes, named};
use crate::units::{count, grouped, size};

/// What somebody wants to exchange, and what must hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
    /// `roundtrip`, `stream` or `fan-out`.
    pub pattern: String,
    /// Where the processes run.
    pub placement: String,
    /// Bytes of a message.
    pub payload_bytes: u64,
    /// Receivers of each message; 1 between two ends.
    pub receivers: u64,
    /// Operations in a second.
    pub rate: f64,
    /// What the mechanism must have.
    pub demands: Vec<Property>,
    /// The largest share of one CPU that all processes may take together.
    pub cpu_budget: Option<f64>,
    /// The mechanisms among which the choice is; all where none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub among: Vec<String>,
}

impl Question {
    /// Is this mechanism asked about?
    pub fn admits(&self, mechanism: &str) -> bool {
        self.among.is_empty() || self.among.iter().any(|one| one == mechanism)
    }

    /// CPUs that there are.
    fn cpus(&self) -> f64 {
        if self.placement == "same-cpu" { 1.0 } else { 2.0 }
    }

    fn demands(&self) -> Vec<Demand> {
        let has = self.demands.iter().copied().map(Demand::Has);
        has.chain([Demand::Rate { per_s: self.rate, cpus: self.cpus() }])
            .chain(self.cpu_budget.map(Demand::Budget))
            .collect()
    }

    /// In one line: `500 B to 8 receivers, 20,000 a second, on two CPUs`.
    pub fn in_words(&self) -> String {
        let to = match (self.pattern.as_str(), self.receivers) {
            ("roundtrip", _) => "there and back".into(),
            (_, 1) => "one way".into(),
            (_, receivers) => format!("to {receivers} receivers"),
        };
        let at = if self.cpus() == 1.0 { "one CPU" } else { "two CPUs" };
        format!("{} {to}, {} a second, on {at}", size(self.payload_bytes), grouped(self.rate.round() as u64))
    }
}

/// What is advised.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What was asked.
    pub question: Question,
    /// What to know of the figures, a sentence each: where they are of another question than was asked, how they differ; and which candidates an
    /// earlier record has ruled out.
    pub differences: Vec<String>,
    /// All contestants, lowest cost first.
    pub contenders: Vec<Contender>,
    /// Index of the choice among the contenders; absent where nothing meets the demands.
    pub choice: Option<usize>,
    /// Does the choice surely meet the demands, and is it surely ahead of everything else that does?
    pub is_sure: bool,
    /// Was the choice measured at the rate, or do its figures leave room for it?
    pub surely_holds_rate: bool,
    /// Indices of those that meet the demands, too, and are not surely behind it.
    pub not_told_apart: Vec<usize>,
    /// Index of the next mechanism that meets the demands.
    pub runner_up: Option<usize>,
    /// What the demands cost.
    pub prices: Vec<Price>,
    /// Who does not meet them.
    pub excluded: Vec<Excluded>,
    /// Where nothing meets the demands: those to give up.
    pub to_give_up: Vec<Demand>,
    /// Index of what is chosen then.
    pub choice_then: Option<usize>,
    /// Sizes at which another that meets the demands costs as much as the choice, where the record has several sizes.
    pub crossovers: Vec<Crossover>,
}

/// Crossovers that are told.
const CROSSOVERS: usize = 2;

/// The advice of a record. `known` says what is known of cases whose record does not tell their properties.
///
/// # Errors
/// A sentence, where the record has nothing on the question.
pub fn advise(
    report: &Report,
    question: &Question,
    known: impl Fn(&CaseId) -> Option<Properties>,
) -> Result<Advice, String> {
    let contest = nearest(report, question).ok_or_else(|| {
        format!(
            "the record compares no two cases of {} at {}, so nothing follows from it for {}",
            question.pattern,
            question.placement,
            question.in_words()
        )
    })?;
    let mut contenders: Vec<Contender> = contest
        .what
        .contestants
        .iter()
        .filter(|one| question.admits(&one.case.mechanism))
        .filter_map(|one| {
            let measured = report.case(contest.source, &one.case)?;
            let summary = measured.summary.as_ref()?;
            let told = measured.case.as_ref().and_then(|case| case.properties);
            let axis = |name: &str| measured.case.as_ref().and_then(|case| case.axes.get(name));
            let spins = axis("wait").is_some_and(|wait| wait == "spin" || wait == "yield");
            let ends = measured.case.as_ref().map_or(2, |case| case.roles.len()) as f64;
            // Who spins takes a whole CPU however rarely something comes; what was counted in one operation is less.
            let spinning = if spins { ends.min(question.cpus()) } else { 0.0 };
            let computed = (summary.per_op.cpu_ns > 0.0)
                .then_some((summary.per_op.cpu_ns * question.rate / 1e9).max(spinning));
            let at_rate = at_rate(report, contest.source, &one.case, question.rate);
            Some(Contender {
                case: one.case.clone(),
                name: named(report, contest, &one.case),
                value: summary.median,
                unit: summary.unit.clone(),
                times_first: one.times_first,
                back_to_back_per_s: per_s(summary, &one.case),
                properties: told.or_else(|| known(&one.case)),
                cpu_share: at_rate.as_ref().map(|at| at.cpu_share).or(computed),
                at_rate,
                polls: axis("wait").is_some_and(|wait| wait == "poll" || wait.starts_with("epoll")),
                polls_first: axis("wait").is_some_and(|wait| wait == "spin-block"),
                spins,
            })
        })
        .collect();
    if question.demands.contains(&Property::Pollable) {
        count_as_polled(&mut contenders);
    }
    if contenders.is_empty() {
        return Err(format!(
            "the record has no figure of {} for {}",
            question.among.join(" or "),
            question.in_words()
        ));
    }
    // The order of a contest is by advantages over all others; what is told are costs over that of the first.
    contenders.sort_by(|a, b| a.times_first.total_cmp(&b.times_first));
    let field = Field { contenders: &contenders, contest: &contest.what };
    let Choice { chosen, not_told_apart, runner_up, prices, excluded, to_give_up } =
        field.choose(&question.demands());
    let (to_give_up, choice_then) = to_give_up.map_or((Vec::new(), None), |(of, then)| (of, Some(then)));
    let crossovers = chosen.map_or(Vec::new(), |chosen| {
        let all = contenders.iter().enumerate();
        let others = all.filter(|(index, other)| {
            *index != chosen
                && other.case.mechanism != contenders[chosen].case.mechanism
                && question.demands.iter().all(|of| other.properties.is_some_and(|own| own.has(*of)))
        });
        let found =
            others.filter_map(|(_, other)| crossover(report, contest, &contenders[chosen].case, &other.case));
        found.filter(|found| found.bytes.is_some()).take(CROSSOVERS).collect()
    });
    let holds = chosen.is_some_and(|chosen| contenders[chosen].surely_holds(question.rate, question.cpus()));
    let is_paced = chosen.or(choice_then).is_some_and(|chosen| contenders[chosen].at_rate.is_some());
    Ok(Advice {
        differences: differences(report, contest, question, is_paced),
        question: question.clone(),
        choice: chosen,
        is_sure: holds && not_told_apart.is_empty(),
        surely_holds_rate: holds,
        not_told_apart,
        runner_up,
        prices,
        excluded,
        to_give_up,
        choice_then,
        crossovers,
        contenders,
    })
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

impl Advice {
    /// The candidates that are worth measuring again where others are measured beside them: the choice, who is not told apart from it, and the next.
    pub fn front(&self) -> impl Iterator<Item = &Contender> {
        let indices =
            self.choice.into_iter().chain(self.not_told_apart.iter().copied()).chain(self.runner_up);
        indices.map(|index| &self.contenders[index])
    }

    /// Of an advice that measured few candidates again: what only the record before has of the same question.
    #[must_use]
    pub fn with_earlier(mut self, earlier: &Advice) -> Advice {
        let is_measured =
            |mechanism: &String| self.contenders.iter().any(|one| one.case.mechanism == *mechanism);
        for of in &earlier.excluded {
            let Demand::Has(_) = of.demand else { continue };
            let mut more = of.mechanisms.clone();
            more.retain(|mechanism| !is_measured(mechanism));
            match self.excluded.iter_mut().find(|own| own.demand == of.demand) {
                Some(own) => own.mechanisms.extend(more),
                None if more.is_empty() => {}
                None => self.excluded.push(Excluded { demand: of.demand, mechanisms: more }),
            }
        }
        let case = |of: &Advice| of.choice.map(|choice| of.contenders[choice].case.clone());
        if self.crossovers.is_empty() && case(&self) == case(earlier) {
            self.crossovers.clone_from(&earlier.crossovers);
        }
        self
    }
}

/// The same case with operations due at the rate, where it was measured.
fn at_rate(report: &Report, source: usize, case: &CaseId, rate: f64) -> Option<AtRate> {
    let twin = case.clone().with("rate", &format!("{}", rate.round()));
    let summary = report.case(source, &twin)?.summary.as_ref()?;
    let series = |name: &str| summary.series.get(name).copied();
    Some(AtRate {
        value: summary.median,
        held_per_s: series("held_per_s")?,
        cpu_share: series("cpu_share_at_rate_percent")? / 100.0,
    })
}

/// Where two kinds of cases, of which these have one size, cost the same.
fn crossover(
    report: &Report,
    contest: &Sourced<Contest>,
    first: &CaseId,
    second: &CaseId,
) -> Option<Crossover> {
    let of_size = |id: &CaseId, bytes: u64| -> Option<&Summary> {
        let id = CaseId { payload_bytes: bytes, ..id.clone() };
        report.case(contest.source, &id)?.summary.as_ref()
    };
    let sizes = report.cases.iter().filter(|case| case.source == contest.source).map(|case| &case.id);
    let sizes = sizes.filter(|id| CaseId { payload_bytes: first.payload_bytes, ..(*id).clone() } == *first);
    let pairs: Vec<(&Summary, &Summary)> = sizes
        .filter_map(|id| Some((of_size(first, id.payload_bytes)?, of_size(second, id.payload_bytes)?)))
        .collect();
    derive::crossover(&pairs)
}

/// A number that a case has on an axis, its default included where the record tells it.
fn number(report: &Report, contest: &Sourced<Contest>, axis: &str) -> Option<f64> {
    let first = &contest.what.contestants[0].case;
    let effective = report.case(contest.source, first).and_then(|case| case.case.as_ref()?.axes.get(axis));
    effective.or_else(|| first.axes.get(axis))?.parse().ok()
}

/// The contest that is nearest to a question: of its pattern and placement, with nothing else set.
fn nearest<'a>(report: &'a Report, question: &Question) -> Option<&'a Sourced<Contest>> {
    let is_of_it = |contest: &&Sourced<Contest>| {
        let id = &contest.what.contestants[0].case;
        let is_set = |axis: &String| axis != "receivers" && axis != "rate";
        id.pattern == question.pattern
            && id.placement == question.placement
            && !common_axes(&contest.what)
                .keys()
                .any(|axis| is_set(axis) && !derive::is_of_the_mechanism(axis))
    };
    let apart = |asked: f64, there: f64| (asked.max(1.0).ln() - there.max(1.0).ln()).abs();
    let distance = |contest: &Sourced<Contest>| {
        let receivers = number(report, contest, "receivers").unwrap_or(question.receivers as f64);
        let payload = contest.what.contestants[0].case.payload_bytes as f64;
        // Cases at a rate are measured alone, those back to back in turns with a hub, which tells more of them apart.
        let rate = number(report, contest, "rate").map_or(0.0, |rate| 0.1 + apart(question.rate, rate));
        apart(question.receivers as f64, receivers) + apart(question.payload_bytes as f64, payload) + rate
    };
    let all = report.contests.iter().filter(is_of_it);
    all.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

fn differences(
    report: &Report,
    contest: &Sourced<Contest>,
    question: &Question,
    is_paced: bool,
) -> Vec<String> {
    let mut out = Vec::new();
    let payload = contest.what.contestants[0].case.payload_bytes;
    if payload != question.payload_bytes {
        out.push(format!("the record's nearest size is {}: the figures are of that", size(payload)));
    }
    let receivers = number(report, contest, "receivers").unwrap_or(question.receivers as f64);
    if receivers != question.receivers as f64 {
        out.push(format!(
            "the figures are of {} receivers, the nearest number that was measured",
            count(receivers)
        ));
    }
    match number(report, contest, "rate") {
        Some(rate) if rate == question.rate => {}
        Some(rate) => out.push(format!("the figures are of {} a second", grouped(rate as u64))),
        None if !is_paced => out.push(
            "measured back to back, not at the rate: shares of a CPU are CPU time per operation times the rate, and between \
             operations that are far apart a sleeping CPU costs more"
                .into(),
        ),
        None => {}
    }
    out
}

/// A share as people say it: `12 %`, `0.45 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", if share >= 0.0995 { format!("{:.0}", share * 100.0) } else { count(share * 100.0) })
}
