//! The columns of a fit: counts whose prices cannot be measured alone. Columns that no case tells apart become one, with both names.

use weighbridge_record::CaseId;
use weighbridge_stats::nnls::robust;

use crate::explain::measured::Costs;
use crate::explain::subject::Subject;

/// A relative residual beyond this counts less: the case has something that the model does not describe.
const TOLERANCE: f64 = 0.02;
/// Columns whose cosine is above this are not told apart.
const ALIKE: f64 = 0.999;

/// Prices that are fitted in one place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Columns {
    pub(crate) place: String,
    /// The names that each column has.
    columns: Vec<Vec<&'static str>>,
}

impl Columns {
    /// Those of the cases of a place.
    pub(crate) fn of(place: &str, subjects: &[Subject], costs: &Costs) -> Columns {
        let here = || subjects.iter().filter(|subject| subject.place == place);
        let mut columns: Vec<(Vec<&'static str>, Vec<f64>)> = Vec::new();
        for name in here().flat_map(|subject| subject.fitted.iter().map(|fitted| fitted.name)) {
            if columns.iter().any(|(names, _)| names.contains(&name)) {
                continue;
            }
            let counts: Vec<f64> = here().map(|subject| count(subject, name, costs)).collect();
            if counts.iter().all(|count| *count == 0.0) {
                continue;
            }
            match columns.iter_mut().find(|(_, others)| cosine(&counts, others) > ALIKE) {
                Some((names, _)) => names.push(name),
                None => columns.push((vec![name], counts)),
            }
        }
        Columns { place: place.into(), columns: columns.into_iter().map(|(names, _)| names).collect() }
    }

    /// What the columns are called.
    pub(crate) fn names(&self) -> Vec<String> {
        self.columns.iter().map(|names| names.join(" and ")).collect()
    }

    /// The first name of each column.
    pub(crate) fn first_names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|names| names[0])
    }

    /// The counts of a case; of columns that are one the first.
    pub(crate) fn counts(&self, subject: &Subject, costs: &Costs) -> Vec<f64> {
        self.columns.iter().map(|names| count(subject, names[0], costs)).collect()
    }

    /// The cases from which the prices are fitted, those of a mechanism left out.
    pub(crate) fn cases<'a>(
        &'a self,
        subjects: &'a [Subject],
        left_out: Option<&'a CaseId>,
        costs: &'a Costs,
    ) -> impl Iterator<Item = &'a Subject> + 'a {
        let is_other = move |subject: &&Subject| {
            left_out.is_none_or(|left_out| left_out.mechanism != subject.id().mechanism)
        };
        let counts = |subject: &&Subject| self.counts(subject, costs).iter().any(|count| *count > 0.0);
        subjects.iter().filter(|subject| subject.place == self.place).filter(is_other).filter(counts)
    }

    /// The prices in nanoseconds, fitted from these cases by relative residuals: `None` of a column that none of them has.
    pub(crate) fn prices(
        &self,
        subjects: &[Subject],
        left_out: Option<&CaseId>,
        costs: &Costs,
    ) -> Vec<Option<f64>> {
        let mut rows = Vec::new();
        let mut right = Vec::new();
        for subject in self.cases(subjects, left_out, costs) {
            let (Some(cost), Some(direct)) = (costs.get(subject.id()), subject.direct_ns(costs)) else {
                continue;
            };
            // In microseconds, so that all numbers are near 1.
            let counts = self.counts(subject, costs);
            rows.push(counts.iter().map(|count| 1000.0 * count / cost).collect::<Vec<f64>>());
            right.push((cost - direct) / cost);
        }
        let has = |column: usize| rows.iter().any(|row| row[column] > 0.0);
        let known: Vec<bool> = (0..self.columns.len()).map(has).collect();
        if rows.is_empty() {
            return known.iter().map(|_| None).collect();
        }
        let fit = robust(&rows, &right, TOLERANCE);
        known.iter().zip(fit.solution).map(|(known, us)| known.then_some(1000.0 * us)).collect()
    }
}

fn count(subject: &Subject, name: &str, costs: &Costs) -> f64 {
    let of = subject.fitted.iter().filter(|fitted| fitted.name == name);
    of.map(|fitted| fitted.count(subject, costs)).sum()
}

fn cosine(one: &[f64], other: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(one, other) / (product(one, one) * product(other, other)).sqrt()
}
