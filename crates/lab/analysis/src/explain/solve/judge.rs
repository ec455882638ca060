//! What is said of an explanation besides its parts: what of the cost it is about, how good a null model is, and prices that were tried in the
//! case.

use weighbridge_record::{BeyondSelf, Dose, Skill};

use super::{Intervals, Model, Named, Numbers, Parts};
use crate::explain::columns::Columns;
use crate::explain::dose::{Dosed, Response};
use crate::explain::measured::{Costs, Measured};
use crate::explain::subject::{Subject, total_ns};

/// Fewer cases than this say nothing of the skill of a model.
const FEWEST_CASES: usize = 4;

/// What the prices say of one of a dose; `fitted` are those of the columns, with the mechanism held out. `None` without a price.
pub(super) fn price_of(
    dosed: &Dosed,
    subject: &Subject,
    columns: &Columns,
    fitted: &[Option<f64>],
    costs: &Costs,
) -> Option<f64> {
    let is_refused = dosed.direct.iter().any(|part| part.price.is_refused());
    if is_refused || (dosed.direct.is_empty() && dosed.fitted.is_empty()) {
        return None;
    }
    let one = Subject {
        case: subject.case.clone(),
        place: subject.place.clone(),
        direct: dosed.direct.clone(),
        fitted: dosed.fitted.clone(),
        ..Subject::default()
    };
    let of_columns = columns.counts(&one, costs).into_iter().zip(fitted);
    let fitted_ns: Option<f64> =
        of_columns.filter(|(count, _)| *count > 0.0).map(|(count, price)| Some(count * (*price)?)).sum();
    Some(total_ns(&dosed.direct, costs)? + fitted_ns?)
}

impl Model<'_> {
    pub(super) fn beyond_self(
        &self,
        index: usize,
        asked: &Named<'_>,
        found: &Numbers,
        interval: Intervals<'_>,
    ) -> BeyondSelf {
        let here = &found.asked[index];
        let ends = |get: &dyn Fn(&Parts) -> f64| interval.of(&|numbers| get(&numbers.asked[index]));
        let of_place = asked.columns;
        let errors = &found.errors[of_place];
        let skill = Skill {
            cases: errors.cases() as u32,
            model_off_ns: errors.model_off_ns(),
            null_off_ns: errors.null_off_ns(),
            skill: errors.skill(),
            ci95: interval.of(&|numbers| numbers.errors[of_place].skill()),
        };
        BeyondSelf {
            ns: here.beyond_self_ns,
            ci95: ends(&|parts| parts.beyond_self_ns),
            unexplained_share: Some(here.share_beyond_self()).filter(|share| share.is_finite()),
            unexplained_share_ci95: ends(&Parts::share_beyond_self)
                .filter(|_| here.share_beyond_self().is_finite()),
            null_ns: here.null_ns,
            skill: (errors.cases() >= FEWEST_CASES && skill.skill.is_finite()).then_some(skill),
        }
    }

    /// `halves` is what follows from the halves of the sets of dosed cases.
    pub(super) fn doses(
        &self,
        index: usize,
        asked: &Named<'_>,
        found: &Numbers,
        halves: &[Numbers; 2],
        measured: &Measured,
        interval: Intervals<'_>,
    ) -> Vec<Dose> {
        let dose = |(at, dosed): (usize, &Dosed)| {
            let response = |numbers: &Numbers| numbers.asked[index].responses[at].clone();
            let Response { slope_ns, steps_ns, price_ns } = response(found)?;
            let sets = dosed.steps.iter().map(|(_, case)| measured.sets_of(case)).min().unwrap_or(0);
            let interval = Intervals { sets, ..interval };
            let ends = |get: &dyn Fn(&Response) -> f64| {
                interval.of(&|numbers| response(numbers).map_or(f64::NAN, |found| get(&found)))
            };
            let ratio = |found: &Response| found.slope_ns / found.price_ns;
            let has_price = price_ns.is_finite();
            let ratio_ci95 = ends(&ratio).filter(|_| has_price);
            let of_halves = halves.each_ref().map(|half| response(half).map(|found| found.slope_ns));
            Some(Dose {
                kind: dosed.kind.into(),
                about: dosed.about.clone(),
                parts: dosed.parts.iter().map(|name| (*name).to_owned()).collect(),
                case: dosed.case.clone()?,
                per_op: dosed.steps.iter().map(|(per_op, _)| *per_op).collect(),
                slope_ns,
                ci95: ends(&|found| found.slope_ns),
                slope_of_halves_ns: of_halves[0].zip(of_halves[1]).filter(|_| sets > 1).map(<[f64; 2]>::from),
                steps_ns,
                price_ns: has_price.then_some(price_ns),
                price_ci95: ends(&|found| found.price_ns).filter(|_| has_price),
                slope_over_price: has_price.then_some(slope_ns / price_ns),
                slope_over_price_ci95: ratio_ci95,
                verdict: dosed.verdict(has_price, ratio_ci95).into(),
                sets: sets as u32,
                remarks: dosed.not_shown.iter().chain(&dosed.remarks).cloned().collect(),
            })
        };
        asked.subject.doses.iter().enumerate().filter_map(dose).collect()
    }
}
