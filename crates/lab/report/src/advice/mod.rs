//! A choice for one question, from one record: what to take, how sure that is, and what each demand costs.

mod choice;
mod contenders;
mod crossing;
mod question;
mod shown;
#[cfg(test)]
mod tests;

use serde::Serialize;
use weighbridge_record::{CaseId, Crossover, Properties, Property};

pub use choice::{Choice, Contender, Demand, Excluded, Field, Price};
use contenders::{Nearest, polls};
pub use question::Question;

use crate::model::Report;
use crate::units::{count, per_second, size};
use crate::words::{listed, many};

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
    /// Candidates that were to contend.
    pub candidates: usize,
    /// Those of them that have no figure.
    pub without_figure: Vec<WithoutFigure>,
    /// Index of the choice among the contenders; absent where nothing meets the demands.
    pub choice: Option<usize>,
    /// Does the choice surely meet the demands, and is it surely ahead of everything else that may? Then there is no doubt.
    pub is_sure: bool,
    /// Why it is not sure, a clause each.
    pub doubts: Vec<String>,
    /// The confidence at which an order is sure, and of all intervals.
    pub confidence: f64,
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
    /// Sizes at which another that meets the demands costs as much as the choice, the nearest first, where the record has several sizes of which
    /// the order is sure.
    pub crossovers: Vec<Crossover>,
}

/// A candidate of which nothing is known but that it is one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WithoutFigure {
    /// The case.
    pub case: CaseId,
    /// The mechanism, with those of its axes in which candidates differ.
    pub name: String,
    /// Why it failed, where it did; otherwise there was no time for it.
    pub why: Option<String>,
    /// Would it be a choice, if it were ahead?
    pub may_be_chosen: bool,
}

/// Crossovers that are told.
const CROSSOVERS: usize = 2;

/// Names in one line; the others are counted.
const NAMED: usize = 12;

/// The advice of a record. Of `candidates`, where any are given, each is to have a figure; otherwise the cases of the record are the candidates.
/// `known` says what is known of cases whose record does not tell their properties.
///
/// # Errors
/// A sentence, where the record has nothing on the question.
pub fn advise(
    report: &Report,
    question: &Question,
    candidates: &[CaseId],
    known: impl Fn(&CaseId) -> Option<Properties> + Copy,
) -> Result<Advice, String> {
    let nearest = Nearest::of(report, question).ok_or_else(|| {
        format!(
            "the record has no figure of {} at {}, so nothing follows from it for {}",
            question.pattern,
            question.placement,
            question.in_words()
        )
    })?;
    let contenders = nearest.contenders(question, known);
    if contenders.is_empty() {
        return Err(format!(
            "the record has no figure of {} for {}",
            question.among.join(" or "),
            question.in_words()
        ));
    }
    let is_near = nearest.is_near(question);
    // Of figures of quite another size it does not follow who holds a rate.
    let demands = if is_near { question.demands() } else { question.properties() };
    let contest = &nearest.contest.what;
    let field = Field { contenders: &contenders, contest };
    let Choice { chosen, not_told_apart, runner_up, prices, excluded, to_give_up } = field.choose(&demands);
    let (to_give_up, choice_then) = to_give_up.map_or((Vec::new(), None), |(of, then)| (of, Some(then)));
    let crossovers = chosen.map_or(Vec::new(), |chosen| {
        let mut found = crossing::crossovers(report, &nearest, &contenders[chosen].case, question, known);
        found.truncate(CROSSOVERS);
        found
    });
    let is_paced = chosen.or(choice_then).is_some_and(|chosen| contenders[chosen].at_rate.is_some());
    let (candidates, without_figure) = without_figure(report, &nearest, question, candidates, known);
    let mut advice = Advice {
        differences: differences(&nearest, question, is_paced),
        question: question.clone(),
        choice: chosen,
        candidates,
        without_figure,
        is_sure: false,
        doubts: Vec::new(),
        confidence: contest.confidence,
        surely_holds_rate: chosen
            .is_some_and(|chosen| contenders[chosen].surely_holds(question.rate, question.cpus())),
        not_told_apart,
        runner_up,
        prices: if is_near { prices } else { Vec::new() },
        excluded,
        to_give_up,
        choice_then,
        crossovers,
        contenders,
    };
    advice.doubts = advice.doubts(&nearest);
    advice.is_sure = chosen.is_some() && advice.doubts.is_empty();
    Ok(advice)
}

impl Advice {
    /// Why the choice is not sure.
    fn doubts(&self, nearest: &Nearest<'_>) -> Vec<String> {
        let Some(chosen) = self.choice.map(|choice| &self.contenders[choice]) else { return Vec::new() };
        let question = &self.question;
        let names = self.not_told_apart.iter().map(|index| self.contenders[*index].name.clone()).collect();
        let missing = self.without_figure.iter().filter(|one| one.may_be_chosen).count();
        let stays_within = question.cpu_budget.is_none_or(|most| chosen.surely_within(most));
        let field = Field { contenders: &self.contenders, contest: &nearest.contest.what };
        let mut others = 0..self.contenders.len();
        // Whoever is surely ahead of something was measured often enough for that.
        let is_backed = chosen.interval.is_some()
            || self.choice.is_some_and(|choice| others.any(|other| field.is_ahead(choice, other)));
        [
            (!self.not_told_apart.is_empty())
                .then(|| format!("not told apart from {}", listed(NAMED, names))),
            other_question(nearest, question),
            (!self.surely_holds_rate).then(|| "whether it holds the rate was not measured".into()),
            (!stays_within).then(|| "whether it keeps to the share of a CPU was not measured".into()),
            (missing > 0)
                .then(|| format!("{} that may meet the demands have no figure", many(missing, "candidate"))),
            (!is_backed).then(|| format!("of {} no interval follows", many(chosen.runs as usize, "run"))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

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

/// How many candidates there are, and those without a figure.
fn without_figure(
    report: &Report,
    nearest: &Nearest<'_>,
    question: &Question,
    candidates: &[CaseId],
    known: impl Fn(&CaseId) -> Option<Properties>,
) -> (usize, Vec<WithoutFigure>) {
    let source = nearest.contest.source;
    let is_there = |id: &CaseId| report.case(source, id).is_some_and(|case| case.summary.is_some());
    let (all, missing) = if candidates.is_empty() {
        let missing = nearest.without_figure(question);
        (nearest.contest.what.contestants.len() + missing.len(), missing)
    } else {
        // Those at the rate tell of who holds it, and are no candidates of their own.
        let own: Vec<&CaseId> = candidates.iter().filter(|id| !id.axes.contains_key("rate")).collect();
        (own.len(), own.into_iter().filter(|id| !is_there(id)).cloned().collect())
    };
    let is_polled = |id: &CaseId| id.axes.get("wait").is_some_and(|wait| polls(wait));
    // Who is to be polled is taken as it was measured so.
    let is_answered_polled = |id: &CaseId| {
        let mut all = candidates.iter().chain(nearest.contest.what.contestants.iter().map(|one| &one.case));
        question.demands.contains(&Property::Pollable)
            && !is_polled(id)
            && all.any(|other| other.mechanism == id.mechanism && is_polled(other))
    };
    let described = |id: CaseId| {
        let told = report.case(source, &id).and_then(|case| case.case.as_ref()?.properties);
        let has = |own: Properties| question.demands.iter().all(|demand| own.has(*demand));
        let skipped = report.skipped.iter().find(|skip| skip.source == source && skip.what.case == id);
        WithoutFigure {
            name: nearest.name(&id),
            why: skipped.map(|skip| skip.what.why.clone()),
            may_be_chosen: told.or_else(|| known(&id)).is_none_or(has) && !is_answered_polled(&id),
            case: id,
        }
    };
    (all, missing.into_iter().map(described).collect())
}

/// Of what else the figures are than was asked.
fn other_question(nearest: &Nearest<'_>, question: &Question) -> Option<String> {
    let payload = (nearest.payload_bytes != question.payload_bytes).then(|| size(nearest.payload_bytes));
    let receivers = nearest.receivers.filter(|of| *of != question.receivers as f64);
    let rate = nearest.rate.filter(|rate| *rate != question.rate);
    let of: Vec<String> = payload
        .into_iter()
        .chain(receivers.map(|of| format!("{} receivers", count(of))))
        .chain(rate.map(|rate| format!("{} a second", per_second(rate))))
        .collect();
    (!of.is_empty()).then(|| format!("the figures are of {}", of.join(" and ")))
}

fn differences(nearest: &Nearest<'_>, question: &Question, is_paced: bool) -> Vec<String> {
    let mut out = Vec::new();
    let payload = nearest.payload_bytes;
    if payload != question.payload_bytes {
        out.push(format!("the record's nearest size is {}: the figures are of that", size(payload)));
    }
    if let Some(receivers) = nearest.receivers.filter(|of| *of != question.receivers as f64) {
        out.push(format!(
            "the figures are of {} receivers, the nearest number that was measured",
            count(receivers)
        ));
    }
    if !nearest.is_near(question) {
        out.push(
            "that is so far from what was asked that only the order is told, and neither a cost nor who holds the rate"
                .into(),
        );
        return out;
    }
    match nearest.rate {
        Some(rate) if rate == question.rate => {}
        Some(rate) => out.push(format!("the figures are of {} a second", per_second(rate))),
        None if !is_paced => out.push(
            "measured back to back, not at the rate: shares of a CPU are CPU time per operation times the rate, and between \
             operations that are far apart a sleeping CPU costs more"
                .into(),
        ),
        None => {}
    }
    out
}
