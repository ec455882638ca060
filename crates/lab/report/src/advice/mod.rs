//! A choice for one question, from one record: what to take, how sure that is, and what each demand costs.

mod choice;
mod shown;

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
}

impl Question {
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
    /// Where the figures are of another question than was asked, how they differ, a sentence each.
    pub differences: Vec<String>,
    /// All contestants, lowest cost first.
    pub contenders: Vec<Contender>,
    /// Index of the choice among the contenders; absent where nothing meets the demands.
    pub choice: Option<usize>,
    /// Is the choice surely ahead of everything else that meets the demands?
    pub is_sure: bool,
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
                properties: told.or_else(|| known(&one.case)),
                cpu_share: at_rate.as_ref().map(|at| at.cpu_share).or(computed),
                at_rate,
                spins,
            })
        })
        .collect();
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
    let is_paced = chosen.is_some_and(|chosen| contenders[chosen].at_rate.is_some());
    Ok(Advice {
        differences: differences(report, contest, question, is_paced),
        question: question.clone(),
        choice: chosen,
        is_sure: chosen.is_some() && not_told_apart.is_empty(),
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

#[cfg(test)]
mod tests {
    use weighbridge_record::{Across, Case, Contestant, Line, PerOp, Reading, SureOrder};

    use super::*;

    /// A record of pipes and rings at these sizes, where the ring costs less up to 1 KiB and surely so at 64 B.
    fn record(sizes: &[u64]) -> Report {
        let mut lines = Vec::new();
        for &bytes in sizes {
            let case = |mechanism: &str| CaseId::new("roundtrip", mechanism, bytes, "two-cpus");
            let ring = 1000.0 * (bytes as f64 / 1024.0).max(0.1);
            for (mechanism, median, wait, has) in [
                ("ring", ring, "spin", &[][..]),
                ("pipe", 1000.0, "block", &[Property::Pollable, Property::OtherUsers][..]),
            ] {
                let id = case(mechanism);
                let axes = [("wait".to_owned(), wait.to_owned())].into();
                let (roles, unit) = (vec![String::new(); 2], "ns/roundtrip".to_owned());
                let properties = Some(Properties::of(has, Across::PassedDescriptors));
                lines.push(Line::Case(Case {
                    case: id.clone(),
                    axes,
                    roles,
                    unit,
                    properties,
                    ..Case::default()
                }));
                let per_op = PerOp { cpu_ns: median * 2.0, ..PerOp::default() };
                let ci95 = Some([median * 0.99, median * 1.01]);
                lines.push(Line::Summary(Summary {
                    per_op,
                    ci95,
                    ..Summary::new(id, "ns/roundtrip", 9, median)
                }));
            }
            let contestant = |(mechanism, times_first): (&str, f64)| Contestant {
                case: case(mechanism),
                tier: 0,
                may_be_best: true,
                times_first,
                interval: None,
                sets: 9,
            };
            let mut order = [("ring", 1.0), ("pipe", 1000.0 / ring)];
            if ring > 1000.0 {
                order = [("pipe", 1.0), ("ring", ring / 1000.0)];
            }
            let sure = SureOrder { ahead: vec![case("ring")], behind: vec![case("pipe")] };
            lines.push(Line::Contest(Contest {
                contestants: order.map(contestant).into(),
                sure: if bytes == 64 { vec![sure] } else { Vec::new() },
                confidence: 0.95,
            }));
        }
        let counted =
            weighbridge_record::Findings { contests: 1, claimed: 1, fdr: 0.05, expected_by_chance: 0.1 };
        lines.push(Line::Findings(counted));
        Report::from_reading(Reading { lines, problems: Vec::new() })
    }

    fn question(payload_bytes: u64, demands: &[Property]) -> Question {
        Question {
            pattern: "roundtrip".into(),
            placement: "two-cpus".into(),
            payload_bytes,
            receivers: 1,
            rate: 10_000.0,
            demands: demands.to_vec(),
            cpu_budget: None,
        }
    }

    fn asked(sizes: &[u64], question: &Question) -> (Advice, String) {
        let advice = advise(&record(sizes), question, |_| None).unwrap();
        let text = advice.document().text(crate::Style { width: Some(200), ..Default::default() });
        (advice, text)
    }

    #[test]
    fn an_advice_says_cost_share_confidence_price_and_where_it_turns() {
        let (advice, text) = asked(&[64, 512, 4096], &question(64, &[]));
        assert!(advice.is_sure, "{advice:?}");
        for part in [
            "64 B there and back, 10,000 a second, on two CPUs",
            "Take ring: 100 ns/roundtrip, 200 % of a CPU at the rate, because it spins",
            "Sure: everything else that meets the demands costs more.",
            "Runner-up: pipe: 1.00 µs/roundtrip, 2 % of a CPU at the rate, 10.0 times the cost",
            "pipe costs less",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let (_, text) = asked(&[64], &question(64, &[Property::Pollable]));
        for part in ["Take pipe", "pollable: 10.0 times ring", "not \"pollable\": ring"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_nearest_size_answers_and_is_named() {
        let (advice, text) = asked(&[64, 512, 4096], &question(500, &[]));
        assert!(text.contains("The record's nearest size is 512 B"), "{text}");
        assert!(!advice.is_sure && text.contains("Not sure: not told apart from pipe"), "{text}");
        let (_, text) = asked(&[64, 512, 4096], &question(64, &[]));
        assert!(!text.contains("nearest size"), "{text}");
    }

    #[test]
    fn a_budget_takes_who_sleeps_in_place_of_who_spins() {
        let (advice, text) = asked(&[64], &Question { cpu_budget: Some(0.1), ..question(64, &[]) });
        assert_eq!(advice.choice.map(|index| advice.contenders[index].name.clone()), Some("pipe".into()));
        assert!(text.contains("at most 10 % of a CPU: 10.0 times ring"), "{text}");
    }

    #[test]
    fn demands_that_nothing_meets_and_questions_without_an_answer_are_a_sentence() {
        let (advice, text) = asked(&[64], &question(64, &[Property::Pollable, Property::SurvivesKill]));
        assert_eq!(advice.choice, None);
        let says = "giving up \"survives kill -9 of a peer\" would leave pipe";
        assert!(text.contains(says), "{text}");
        let elsewhere = Question { placement: "same-cpu".into(), ..question(64, &[]) };
        let why = advise(&record(&[64]), &elsewhere, |_| None).unwrap_err();
        assert!(why.contains("no two cases of roundtrip at same-cpu"), "{why}");
    }

    #[test]
    fn what_was_measured_at_the_rate_replaces_what_was_computed() {
        let mut report = record(&[64]);
        let id = CaseId::new("roundtrip", "ring", 64, "two-cpus").with("rate", "10000");
        let mut summary = Summary::new(id.clone(), "ns/roundtrip", 9, 5000.0);
        summary.series = [("held_per_s", 10_000.0), ("cpu_share_at_rate_percent", 3.0)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        report.cases.push(crate::Measured { id, summary: Some(summary), ..Default::default() });
        let advice = advise(&report, &question(64, &[]), |_| None).unwrap();
        let ring = &advice.contenders[advice.choice.unwrap()];
        assert_eq!((ring.name.as_str(), ring.cpu_share), ("ring", Some(0.03)));
        assert!(advice.differences.is_empty(), "{advice:?}");
    }
}
