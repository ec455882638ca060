//! The part of a cost that the mechanism to itself does not have, and the null model of it.
//!
//! What one role alone does adds up by itself: own work is that cost less its system calls and copies, which are then added again. So
//! an explanation is judged by the rest, and beside a model that knows nothing of calls and switches: that two processes cost whatever the
//! other mechanisms in the same place cost in the middle. The mechanism that is predicted is held out of both.

use weighbridge_record::CaseId;
use weighbridge_stats::order::median;

use crate::explain::measured::Costs;
use crate::explain::names;
use crate::explain::subject::Subject;

/// Parts that add up to measured costs by themselves: those of one role alone, and the halts, which are a difference of two cases.
const BY_ITSELF: [&str; 4] = [names::SYSTEM_CALLS, names::COPIES, names::OWN_WORK, names::HALTS];
/// Fewer other mechanisms than this have no middle.
const FEWEST_OTHERS: usize = 3;

/// What a case costs beyond the mechanism to itself; `None` where one of the two was not measured.
pub(crate) fn beyond_self_ns(subject: &Subject, costs: &Costs) -> Option<f64> {
    if subject.direct.iter().all(|part| part.name != names::OWN_WORK) {
        return None;
    }
    let by_itself = subject.direct.iter().filter(|part| BY_ITSELF.contains(&part.name));
    let by_itself_ns: Option<f64> = by_itself.map(|part| Some(part.count * part.price.ns(costs)?)).sum();
    Some(costs.get(subject.id())? - by_itself_ns?)
}

/// The same of all subjects.
pub(crate) struct Beyond<'a>(Vec<(&'a Subject, f64)>);

impl<'a> Beyond<'a> {
    pub(crate) fn of(subjects: &'a [Subject], costs: &Costs) -> Beyond<'a> {
        let with_ns = |subject: &'a Subject| Some((subject, beyond_self_ns(subject, costs)?));
        Beyond(subjects.iter().filter_map(with_ns).collect())
    }

    /// That of one case.
    pub(crate) fn ns(&self, case: &CaseId) -> Option<f64> {
        self.0.iter().find(|(subject, _)| subject.id() == case).map(|(_, ns)| *ns)
    }

    /// What the null model says of a case.
    pub(crate) fn null_ns(&self, of: &Subject) -> Option<f64> {
        let is_other = |(subject, _): &&(&Subject, f64)| {
            subject.place == of.place && subject.id().mechanism != of.id().mechanism
        };
        let others: Vec<f64> = self.0.iter().filter(is_other).map(|(_, ns)| *ns).collect();
        (others.len() >= FEWEST_OTHERS).then(|| median(&others))
    }

    /// By how much the two models miss the cases of a place. `unexplained_ns` is what the model misses, with the mechanism held out. Cases with
    /// halts stand there already as what they are without.
    pub(crate) fn errors(&self, place: &str, unexplained_ns: impl Fn(&Subject) -> Option<f64>) -> Errors {
        let has_halts = |subject: &Subject| subject.direct.iter().any(|part| part.name == names::HALTS);
        let here = self.0.iter().filter(|(subject, _)| subject.place == place && !has_halts(subject));
        let both = here.filter_map(|(subject, ns)| {
            Some((unexplained_ns(subject)?.abs(), (ns - self.null_ns(subject)?).abs()))
        });
        let (model_ns, null_ns): (Vec<f64>, Vec<f64>) = both.unzip();
        Errors { model_ns, null_ns }
    }
}

/// How much each of two models misses, case by case.
pub(crate) struct Errors {
    model_ns: Vec<f64>,
    null_ns: Vec<f64>,
}

impl Errors {
    pub(crate) fn cases(&self) -> usize {
        self.model_ns.len()
    }

    pub(crate) fn model_off_ns(&self) -> f64 {
        middle(&self.model_ns)
    }

    pub(crate) fn null_off_ns(&self) -> f64 {
        middle(&self.null_ns)
    }

    /// 1 less the ratio of the two; no number where the null model misses nothing.
    pub(crate) fn skill(&self) -> f64 {
        1.0 - self.model_off_ns() / self.null_off_ns()
    }
}

fn middle(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { median(values) }
}
