//! Prices that say nothing. A switch is priced by two processes that yield to each other; where a third one wants their CPU, a yield is its
//! whole time slice, and the difference of two such costs may be anything, also below 0.

use weighbridge_stats::resample;

use crate::explain::dose::Dosed;
use crate::explain::measured::Costs;
use crate::explain::names;
use crate::explain::subject::{Direct, Formula, Subject};

/// Why a switch has no price.
pub const ANOTHER_PROCESS: &str = "another process ran on this CPU";

/// The subjects with no price of switches where that is not positive, or its interval over these sessions wider than itself.
pub(crate) fn without_refused(
    subjects: &[Subject],
    costs: &Costs,
    drawn: &[Costs],
    sets: usize,
) -> Vec<Subject> {
    let is_refused = |price: &Formula| {
        let Some(ns) = price.ns(costs) else { return false };
        let values: Vec<f64> = drawn.iter().filter_map(|costs| price.ns(costs)).collect();
        let is_wide = |[low, high]: [f64; 2]| high - low > ns;
        ns <= 0.0 || resample::interval(ns, &values, sets).is_some_and(is_wide)
    };
    // All cases have the same price, and there may be hundreds of them.
    let mut known: Vec<(Formula, bool)> = Vec::new();
    let mut refuse = |parts: &mut Vec<Direct>| {
        for part in parts.iter_mut().filter(|part| part.name == names::SWITCHES) {
            let is_known = known.iter().find(|(price, _)| *price == part.price).map(|(_, refused)| *refused);
            let refused = is_known.unwrap_or_else(|| {
                let refused = is_refused(&part.price);
                known.push((part.price.clone(), refused));
                refused
            });
            if refused {
                part.price = Formula::default();
            }
        }
    };
    let mut subjects = subjects.to_vec();
    for subject in &mut subjects {
        refuse(&mut subject.direct);
        subject.at_payload.values_mut().for_each(&mut refuse);
        subject.doses.iter_mut().for_each(|dosed: &mut Dosed| refuse(&mut dosed.direct));
    }
    subjects
}
