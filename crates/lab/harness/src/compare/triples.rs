//! Two sides that somebody else has measured in rounds: each round has A, B and a second A in random order.

use weighbridge_record::{CaseId, CaseVerdict, Claims};
use weighbridge_stats::evidence::Evidence;

use super::judge::{Judged, Rules, judge};

/// One quantity of both sides.
#[derive(Clone, Debug)]
pub struct Triples {
    /// What the quantity is called by.
    pub case: CaseId,
    /// What A and B are.
    pub labels: [String; 2],
    /// Unit of the figures, which are costs: more is worse.
    pub unit: String,
    /// The figures of A, B and the second A in each round.
    pub figures: Vec<[f64; 3]>,
}

/// The verdict on each quantity, and what holds of all of them together. A round in which a figure is not positive counts as failed.
///
/// # Panics
/// If the margin or the rate of false discoveries is no share.
pub fn judge_triples(quantities: &[Triples], rules: Rules) -> (Vec<CaseVerdict>, Claims) {
    let judged: Vec<Judged> = quantities.iter().map(Triples::judged).collect();
    judge(&judged, rules)
}

impl Triples {
    fn judged(&self) -> Judged {
        let is_usable = |of: &&[f64; 3]| of.iter().all(|figure| *figure > 0.0 && figure.is_finite());
        let usable: Vec<&[f64; 3]> = self.figures.iter().filter(is_usable).collect();
        let against_a = |side: usize| usable.iter().map(|of| (of[side] / of[0]).ln()).collect::<Vec<f64>>();
        Judged {
            case: self.case.clone(),
            labels: self.labels.clone(),
            unit: self.unit.clone(),
            evidence: Evidence::paired(against_a(1)),
            log_ratios: against_a(1),
            control: Evidence::paired(against_a(2)),
            values: [0, 1].map(|side| usable.iter().map(|of| of[side]).collect()),
            per_op: [None, None],
            system_calls: [None, None],
            builds: None,
            failed_sets: self.figures.len() - usable.len(),
            remarks: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(b: f64, second_a: f64) -> Triples {
        let figure =
            |round: usize, cost: f64, salt: usize| cost * (1.0 + ((round * 7 + salt) % 5) as f64 / 500.0);
        let figures = (0..12).map(|round| {
            [figure(round, 1000.0, 0), figure(round, 1000.0 * b, 2), figure(round, 1000.0 * second_a, 3)]
        });
        Triples {
            case: CaseId::new("replay", "time", 0, "free"),
            labels: ["old".into(), "new".into()],
            unit: "ns".into(),
            figures: figures.collect(),
        }
    }

    #[test]
    fn what_costs_more_regressed_and_where_a_differs_from_itself_nothing_is_said() {
        let rules = Rules { margin: 0.05, ..Rules::default() };
        let of = |quantity: Triples| judge_triples(&[quantity], rules).0.remove(0);
        assert_eq!(of(quantity(1.2, 1.0)).verdict, "regressed");
        assert_eq!(of(quantity(0.8, 1.0)).verdict, "improved");
        assert_eq!(of(quantity(1.0, 1.0)).verdict, "equivalent");
        assert_eq!(of(quantity(1.2, 1.2)).verdict, "void");
        let mut few = quantity(1.2, 1.0);
        few.figures.truncate(5);
        assert_eq!(of(few).verdict, "inconclusive");
        let mut zero = quantity(1.2, 1.0);
        zero.figures.iter_mut().for_each(|of| of[1] = 0.0);
        let zero = of(zero);
        assert_eq!((zero.ratio, zero.failed_sets), (None, 12));
    }
}
