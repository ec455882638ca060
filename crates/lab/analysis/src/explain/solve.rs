//! From costs and counts to explanations: parts, remainder, prices, answers to what-if questions, each with its interval.

mod judge;

use std::collections::BTreeSet;

use weighbridge_record::{CaseId, ExplainedPart, Explanation, Price, WhatIf};
use weighbridge_stats::random::Random;
use weighbridge_stats::resample;

use crate::explain::beyond::{Beyond, Errors};
use crate::explain::columns::Columns;
use crate::explain::dose::{Dosed, Response};
use crate::explain::measured::{Costs, Measured};
use crate::explain::names;
use crate::explain::refused::{ANOTHER_PROCESS, without_refused};
use crate::explain::subject::{Direct, Subject, total_ns};
use crate::explain::verdict;
use crate::explain::what_if::{Asked, Change, foreign, part_named};
use judge::price_of;

/// Sessions drawn again for each interval.
const DRAWN: usize = 300;

/// What a session comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solution {
    /// Prices of everything that occurs in an explanation, those that were fitted from all cases.
    pub prices: Vec<Price>,
    /// One for each case that was asked for and measured.
    pub explanations: Vec<Explanation>,
    /// What-if questions about a part that none of these cases has, a sentence each.
    pub unanswered: Vec<String>,
}

/// Explains the cases that are asked for. `changes` are what-if questions, which are answered for each case that can answer them; the others have
/// a remark.
///
/// # Panics
/// If a set has not a ratio for each of its cases, or a hub has no set.
pub fn explain(measured: &Measured, subjects: &[Subject], changes: &[Change], seed: u64) -> Solution {
    let costs = measured.costs();
    let mut random = Random::new(seed);
    let draws = if measured.has_intervals() { DRAWN } else { 0 };
    let sessions: Vec<Costs> = (0..draws).map(|_| measured.drawn(&mut random)).collect();
    let subjects = without_refused(subjects, &costs, &sessions, measured.fewest_sets());
    let model = Model::new(&subjects, changes, &costs);
    let no_scatter: Vec<Vec<f64>> = changes.iter().map(|change| vec![0.0; change.prices.len()]).collect();
    let found = model.evaluate(&costs, &no_scatter).expect("the model was made for these costs");
    let halves = measured
        .costs_by_half(&costs)
        .map(|costs| model.evaluate(&costs, &no_scatter).expect("only costs of dosed cases differ"));
    let drawn: Vec<Numbers> = sessions
        .iter()
        .filter_map(|costs| {
            let scatter: Vec<Vec<f64>> = changes
                .iter()
                .map(|change| change.prices.iter().map(|_| random.normal()).collect())
                .collect();
            model.evaluate(costs, &scatter)
        })
        .collect();
    let interval = Intervals { found: &found, drawn: &drawn, sets: measured.fewest_sets() };
    let explanations = model
        .asked
        .iter()
        .enumerate()
        .map(|(index, asked)| model.explanation(index, asked, &found, &halves, measured, interval))
        .collect();
    Solution { prices: model.prices(&found, interval), explanations, unanswered: model.unanswered() }
}

/// What sessions with other sets come to.
#[derive(Clone, Copy)]
struct Intervals<'a> {
    found: &'a Numbers,
    drawn: &'a [Numbers],
    sets: usize,
}

impl Intervals<'_> {
    fn of(&self, get: &dyn Fn(&Numbers) -> f64) -> Option<[f64; 2]> {
        let values: Vec<f64> = self.drawn.iter().map(get).filter(|value| value.is_finite()).collect();
        resample::interval(get(self.found), &values, self.sets)
    }
}

/// Everything about the subjects that does not depend on chance.
struct Model<'a> {
    subjects: &'a [Subject],
    costs: &'a Costs,
    changes: &'a [Change],
    columns: Vec<Columns>,
    asked: Vec<Named<'a>>,
    prices: Vec<Priced<'a>>,
}

/// A case that is asked for.
struct Named<'a> {
    subject: &'a Subject,
    columns: usize,
}

/// A price and where it is used first.
enum Priced<'a> {
    Direct(&'a Subject, &'a Direct),
    Fitted { columns: usize, column: usize },
}

/// What one draw comes to.
struct Numbers {
    asked: Vec<Parts>,
    prices: Vec<f64>,
    /// How much the models miss, for the columns of each place.
    errors: Vec<Errors>,
}

#[derive(Default)]
struct Parts {
    ns: f64,
    /// Of each part, those that are measured first.
    counts: Vec<f64>,
    /// Price and nanoseconds of each part, those that are measured first. A price that could not be fitted is none, and its part 0.
    parts: Vec<(Option<f64>, f64)>,
    unexplained_ns: f64,
    /// The cost beyond the mechanism to itself; all of it where that is not known.
    beyond_self_ns: f64,
    null_ns: Option<f64>,
    responses: Vec<Option<Response>>,
    changed_ns: Vec<f64>,
    /// The same where it was measured; else no number.
    changed_measured_ns: Vec<f64>,
}

impl Parts {
    fn share(&self) -> f64 {
        self.unexplained_ns / self.ns
    }

    fn share_beyond_self(&self) -> f64 {
        self.unexplained_ns / self.beyond_self_ns
    }
}

impl<'a> Model<'a> {
    fn new(subjects: &'a [Subject], changes: &'a [Change], costs: &'a Costs) -> Model<'a> {
        let places: BTreeSet<&str> = subjects.iter().map(|subject| subject.place.as_str()).collect();
        let columns: Vec<Columns> = places.iter().map(|place| Columns::of(place, subjects, costs)).collect();
        let is_measured =
            |subject: &&Subject| costs.contains_key(subject.id()) && subject.direct_ns(costs).is_some();
        let asked: Vec<Named<'_>> = subjects
            .iter()
            .filter(|subject| subject.is_asked)
            .filter(is_measured)
            .map(|subject| {
                let columns = columns.iter().position(|columns| columns.place == subject.place);
                Named { subject, columns: columns.expect("each place has its columns") }
            })
            .collect();
        let mut prices: Vec<Priced<'_>> = Vec::new();
        for subject in asked.iter().map(|asked| asked.subject) {
            for part in subject.direct.iter().filter(|part| !part.price.is_refused()) {
                let is_known = prices.iter().any(|known| match known {
                    Priced::Direct(other, known) => {
                        (&other.place, known.name, &known.of) == (&subject.place, part.name, &part.of)
                    }
                    Priced::Fitted { .. } => false,
                });
                if !is_known {
                    prices.push(Priced::Direct(subject, part));
                }
            }
        }
        for (index, of_place) in columns.iter().enumerate() {
            let all = of_place.prices(subjects, None, costs);
            let known = all.iter().enumerate().filter(|(_, price)| price.is_some());
            prices.extend(known.map(|(column, _)| Priced::Fitted { columns: index, column }));
        }
        Model { subjects, costs, changes, columns, asked, prices }
    }

    /// Why no case has the part that a question is about, for each such question.
    fn unanswered(&self) -> Vec<String> {
        let why = |change: &Change| {
            let Asked::Count { part, .. } = &change.asked else { return None };
            let mut refused = self.asked.iter().map(|asked| self.part_of(asked, part).err());
            let first = refused.next()??;
            refused.all(|why| why.is_some()).then(|| format!("{} has no answer: {first}", change.text))
        };
        self.changes.iter().filter_map(why).collect()
    }

    fn names(&self, asked: &Named<'_>) -> Vec<String> {
        let direct = asked.subject.direct.iter().map(|part| part.name.to_owned());
        direct.chain(self.columns[asked.columns].names()).collect()
    }

    fn part_of(&self, asked: &Named<'_>, part: &str) -> Result<usize, String> {
        let names = self.names(asked);
        part_named(part, names.iter().map(String::as_str))
    }

    /// `None` where a drawn cost is not a number.
    fn evaluate(&self, costs: &Costs, scatter: &[Vec<f64>]) -> Option<Numbers> {
        let beyond = Beyond::of(self.subjects, costs);
        let asked: Option<Vec<Parts>> =
            self.asked.iter().map(|asked| self.parts(asked, costs, &beyond, scatter)).collect();
        let of_place: Vec<Vec<Option<f64>>> =
            self.columns.iter().map(|columns| columns.prices(self.subjects, None, costs)).collect();
        let price = |priced: &Priced<'_>| match priced {
            Priced::Direct(_, part) => part.price.ns(costs),
            Priced::Fitted { columns, column } => of_place[*columns][*column],
        };
        let prices = self.prices.iter().map(price).collect::<Option<_>>()?;
        let errors = |columns: &Columns| {
            beyond.errors(&columns.place, |subject| self.unexplained_ns(subject, columns, costs))
        };
        Some(Numbers { asked: asked?, prices, errors: self.columns.iter().map(errors).collect() })
    }

    /// What is left of a case, its mechanism held out.
    fn unexplained_ns(&self, subject: &Subject, columns: &Columns, costs: &Costs) -> Option<f64> {
        let prices = columns.prices(self.subjects, Some(subject.id()), costs);
        let fitted = prices.iter().zip(columns.counts(subject, costs));
        let fitted_ns: f64 = fitted.map(|(price, count)| price.map_or(0.0, |price| count * price)).sum();
        Some(costs.get(subject.id())? - subject.direct_ns(costs)? - fitted_ns)
    }

    fn parts(
        &self,
        asked: &Named<'_>,
        costs: &Costs,
        beyond: &Beyond<'_>,
        scatter: &[Vec<f64>],
    ) -> Option<Parts> {
        let Named { subject, columns } = asked;
        let columns = &self.columns[*columns];
        let ns = *costs.get(subject.id())?;
        let mut parts: Vec<(Option<f64>, f64)> = Vec::new();
        for part in &subject.direct {
            let price = part.price.ns(costs)?;
            parts.push(((!part.price.is_refused()).then_some(price), part.count * price));
        }
        let fitted = columns.prices(self.subjects, Some(subject.id()), costs);
        let counts: Vec<f64> =
            subject.direct.iter().map(|part| part.count).chain(columns.counts(subject, costs)).collect();
        let response =
            |dosed: &Dosed| dosed.response(costs, price_of(dosed, subject, columns, &fitted, costs));
        let responses = subject.doses.iter().map(response).collect();
        for (price, count) in fitted.into_iter().zip(&counts[subject.direct.len()..]) {
            parts.push((price, price.map_or(0.0, |price| count * price)));
        }
        let unexplained_ns = ns - parts.iter().map(|(_, ns)| ns).sum::<f64>();
        let names = self.names(asked);
        let changed = |(change, scatter): (&Change, &Vec<f64>)| match &change.asked {
            Asked::Count { part, by } => {
                let price = self.part_of(asked, part).ok().and_then(|index| parts[index].0);
                price.map_or(f64::NAN, |price| ns + by * price)
            }
            Asked::Payload(bytes) => {
                let other = subject.at_payload.get(bytes).and_then(|other| total_ns(other, costs));
                let now = total_ns(&subject.direct, costs);
                other.zip(now).map_or(f64::NAN, |(other, now)| ns + other - now)
            }
            Asked::Prices(_) => {
                let mut changed = ns;
                for (index, name) in names.iter().enumerate() {
                    let of = subject.direct.get(index).and_then(|part| part.of.as_ref());
                    let price = foreign(change, scatter, name, of, &subject.place);
                    if let Some((price, own)) = price.zip(parts[index].0) {
                        changed += counts[index] * (price - own);
                    }
                }
                changed
            }
        };
        let changed_ns = self.changes.iter().zip(scatter).map(changed).collect();
        let beyond_self_ns = beyond.ns(subject.id()).unwrap_or(ns);
        let null_ns = beyond.null_ns(subject).filter(|_| beyond.ns(subject.id()).is_some());
        let measured = |change: &Change| match change.asked {
            Asked::Payload(payload_bytes) => {
                costs.get(&CaseId { payload_bytes, ..subject.id().clone() }).copied().unwrap_or(f64::NAN)
            }
            _ => f64::NAN,
        };
        let changed_measured_ns = self.changes.iter().map(measured).collect();
        Some(Parts {
            ns,
            counts,
            parts,
            unexplained_ns,
            beyond_self_ns,
            null_ns,
            responses,
            changed_ns,
            changed_measured_ns,
        })
    }

    fn explanation(
        &self,
        index: usize,
        asked: &Named<'_>,
        found: &Numbers,
        halves: &[Numbers; 2],
        measured: &Measured,
        interval: Intervals<'_>,
    ) -> Explanation {
        let Named { subject, columns } = asked;
        let columns = &self.columns[*columns];
        let of = |numbers: &Numbers, get: &dyn Fn(&Parts) -> f64| get(&numbers.asked[index]);
        let ends = |get: &dyn Fn(&Parts) -> f64| interval.of(&|numbers| of(numbers, get));
        let here = &found.asked[index];
        let beyond_self = self.beyond_self(index, asked, found, interval);
        let mut remarks = subject.remarks.clone();
        let mut parts = Vec::new();
        let direct_names = subject.direct.iter().map(|part| part.name);
        let first_names: Vec<&str> = direct_names.chain(columns.first_names()).collect();
        for (at, (name, count)) in self.names(asked).into_iter().zip(here.counts.iter().copied()).enumerate()
        {
            let is_fitted = at >= subject.direct.len();
            let (price, ns) = here.parts[at];
            let no_price = (price.is_none() && !is_fitted).then(|| ANOTHER_PROCESS.to_owned());
            let Some(price_ns) = price.or(no_price.as_ref().map(|_| 0.0)) else {
                if count > 0.0 {
                    remarks.push(format!(
                        "no other mechanism was measured from which the price of {name} could be fitted; it is in the unexplained part"
                    ));
                }
                continue;
            };
            if count == 0.0 {
                continue;
            }
            let ci95 = ends(&|parts| parts.parts[at].1).filter(|_| no_price.is_none());
            let first_name = first_names[at];
            let dosed = subject.doses.iter().zip(&here.responses);
            let tries = |(dosed, found): &(&Dosed, &Option<Response>)| {
                found.is_some() && dosed.parts.contains(&first_name)
            };
            let dose = dosed.into_iter().find(tries).map(|(dosed, _)| dosed.kind.to_owned());
            let not_tried = subject.not_tried.get(first_name).filter(|_| dose.is_none()).cloned();
            parts.push(ExplainedPart {
                name,
                count,
                price_ns,
                is_fitted,
                no_price,
                ns,
                ci95,
                dose,
                not_tried,
            });
        }
        let fitted_from: Vec<CaseId> = if parts.iter().any(|part| part.is_fitted) {
            columns
                .cases(self.subjects, Some(subject.id()), self.costs)
                .map(|other| other.id().clone())
                .collect()
        } else {
            Vec::new()
        };
        let unanswered = (0..self.changes.len()).filter(|change| !here.changed_ns[*change].is_finite());
        remarks.extend(unanswered.map(|change| {
            let Change { text, asked: question, .. } = &self.changes[change];
            format!("{text} has no answer: {}", self.no_answer(asked, question))
        }));
        let what_if = (0..self.changes.len())
            .filter(|change| here.changed_ns[*change].is_finite())
            .map(|change| WhatIf {
                change: self.changes[change].text.clone(),
                ns: here.changed_ns[change],
                ci95: ends(&|parts| parts.changed_ns[change]),
                measured_ns: Some(here.changed_measured_ns[change]).filter(|ns| ns.is_finite()),
                measured_ci95: ends(&|parts| parts.changed_measured_ns[change]),
                factor: here.changed_ns[change] / here.ns,
                factor_ci95: ends(&|parts| parts.changed_ns[change] / parts.ns),
                remarks: self.left_out(asked, here, &self.changes[change]),
            })
            .collect();
        Explanation {
            case: subject.id().clone(),
            unit: subject.unit.clone(),
            ns: here.ns,
            ci95: ends(&|parts| parts.ns),
            parts,
            unexplained_ns: here.unexplained_ns,
            unexplained_ns_ci95: ends(&|parts| parts.unexplained_ns),
            unexplained_share: here.share(),
            unexplained_share_ci95: ends(&Parts::share),
            parts_over_cost: Some(1.0 - here.share()),
            verdict: verdict::of_case(
                ends(&|parts| parts.beyond_self_ns / parts.ns),
                beyond_self.unexplained_share_ci95,
            )
            .into(),
            beyond_self: Some(beyond_self),
            fitted_from,
            doses: self.doses(index, asked, found, halves, measured, interval),
            what_if,
            sets: measured.sets_of(subject.id()) as u32,
            per_op: subject.per_op.clone(),
            system_calls: subject.system_calls.clone(),
            remarks,
        }
    }

    /// Why a question has no answer.
    fn no_answer(&self, asked: &Named<'_>, question: &Asked) -> String {
        match question {
            Asked::Count { part, .. } => match self.part_of(asked, part) {
                Ok(index) if index < asked.subject.direct.len() => format!("no price: {ANOTHER_PROCESS}"),
                Ok(_) => "its price could not be fitted, because no other mechanism was measured that has it"
                    .into(),
                Err(why) => why,
            },
            Asked::Payload(bytes) => format!(
                "what {} does itself with {bytes} bytes, or with {}, could not be measured",
                asked.subject.id().mechanism,
                asked.subject.id().payload_bytes
            ),
            Asked::Prices(_) => "a price is not a number".into(),
        }
    }

    /// What a change does not touch although it may.
    fn left_out(&self, asked: &Named<'_>, here: &Parts, change: &Change) -> Vec<String> {
        let no_scatter = vec![0.0; change.prices.len()];
        match &change.asked {
            Asked::Count { .. } => Vec::new(),
            Asked::Payload(_) => {
                let changes = [names::SYSTEM_CALLS, names::COPIES, names::OWN_WORK];
                let mut kept: Vec<String> =
                    self.names(asked).into_iter().filter(|name| !changes.contains(&name.as_str())).collect();
                if asked.subject.id().placement != "same-cpu" {
                    kept.push(names::BYTES_BETWEEN_CPUS.into());
                }
                kept.push("the unexplained part".into());
                let mut seen = BTreeSet::new();
                kept.retain(|name| seen.insert(name.clone()));
                vec![format!("as with the present payload: {}", kept.join(", "))]
            }
            Asked::Prices(_) => {
                let subject = asked.subject;
                let is_foreign = |(index, name): &(usize, String)| {
                    let of = subject.direct.get(*index).and_then(|part| part.of.as_ref());
                    let is_priced = here.parts[*index].0.is_some();
                    is_priced && foreign(change, &no_scatter, name, of, &subject.place).is_some()
                };
                let kept: Vec<String> = self
                    .names(asked)
                    .into_iter()
                    .enumerate()
                    .filter(|named| !is_foreign(named))
                    .map(|(_, name)| name)
                    .chain(["the unexplained part".to_owned()])
                    .collect();
                vec![format!("as here: {}", kept.join(", "))]
            }
        }
    }

    fn prices(&self, found: &Numbers, interval: Intervals<'_>) -> Vec<Price> {
        let line = |(index, priced): (usize, &Priced<'_>)| {
            let (ns, ci95) = (found.prices[index], interval.of(&|numbers| numbers.prices[index]));
            match priced {
                Priced::Direct(subject, part) => Price {
                    name: part.name.into(),
                    of: part.of.clone(),
                    place: subject.place.clone(),
                    about: part.about.clone(),
                    ns,
                    ci95,
                    fitted_from: Vec::new(),
                },
                Priced::Fitted { columns, column } => {
                    let columns = &self.columns[*columns];
                    Price {
                        name: columns.names()[*column].clone(),
                        of: None,
                        place: columns.place.clone(),
                        about:
                            "what the costs of the cases have beyond their measured parts, for each of these"
                                .into(),
                        ns,
                        ci95,
                        fitted_from: columns
                            .cases(self.subjects, None, self.costs)
                            .map(|case| case.id().clone())
                            .collect(),
                    }
                }
            }
        };
        self.prices.iter().enumerate().map(line).collect()
    }
}
