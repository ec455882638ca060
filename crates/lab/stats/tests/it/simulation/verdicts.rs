//! What a comparison says of sides that differ by less than the margin, of a second A that is displaced, of starts that are slow.

use fastrand::Rng;
use weighbridge_stats::correlation::pooled_lag1;
use weighbridge_stats::discovery::benjamini_hochberg;
use weighbridge_stats::sequential::{Look, Looks, USUAL_MOST};
use weighbridge_stats::verdict::{
    FEWEST_SETS, Resolution, SlowStarts, Verdict, has_two_groups, slow_starts, verdict,
};
use weighbridge_stats::{Evidence, Interval};

use super::sets::{SHAPES, Shape};

const MARGIN: f64 = 0.02;

/// What a comparison of one case comes to, the log ratios of all sets that there could be being given.
struct Compared {
    verdict: Verdict,
    slow: SlowStarts,
}

fn compared(sets: &[f64]) -> Compared {
    let looks = Looks::up_to(sets.len());
    let mut count = FEWEST_SETS;
    loop {
        let so_far = &sets[..count];
        let Look::At { stage, next } = looks.look(count) else { panic!("{count} sets are a look") };
        let correlation = pooled_lag1(&[so_far]).unwrap_or(0.0);
        let interval: Option<Interval> =
            Evidence::paired(so_far.to_vec()).correlated(correlation).looked_at(stage).interval(0.95);
        let found = verdict(interval, MARGIN, count).beyond_margin(interval, MARGIN, count);
        let is_open = match found {
            Verdict::Inconclusive { .. } => true,
            Verdict::Equivalent => has_two_groups(so_far, MARGIN),
            _ => false,
        };
        match next {
            Some(next) if is_open => count = next,
            _ => {
                let verdict = if is_open { Verdict::Inconclusive { settled_by: None } } else { found };
                return Compared { verdict, slow: slow_starts(so_far, MARGIN).unwrap() };
            }
        }
    }
}

/// A job of CI must not fail for a difference that was declared to be none. Four hundred comparisons scatter by ± 1.1 %, one deviation.
#[test]
fn a_true_difference_within_the_margin_is_regressed_in_at_most_one_of_twenty() {
    for shape in SHAPES.into_iter().filter(|shape| shape.correlation() < 0.6) {
        for (truth, most) in [(0.01_f64, 0.04), (MARGIN, 0.06)] {
            for scatter in [0.005, 0.01, 0.03] {
                let mut random = Rng::with_seed(90);
                let is_regressed = |_: &usize| {
                    let ratios = shape.ratios(USUAL_MOST, scatter, &mut random);
                    let sets: Vec<f64> = ratios.iter().map(|ratio| truth.ln_1p() + ratio).collect();
                    compared(&sets).verdict.is_regression()
                };
                let wrong = (0..400).filter(is_regressed).count() as f64 / 400.0;
                println!("{shape:?} ± {scatter}, {truth} more: {:.1} % regressed", 100.0 * wrong);
                assert!(wrong <= most, "{shape:?} ± {scatter}, {truth}: {wrong}");
            }
        }
    }
}

/// The second A is displaced by three times the margin against A and B: either that is seen, or the margin holds it.
#[test]
fn a_displaced_control_is_void_or_in_the_margin() {
    for shape in SHAPES.into_iter().filter(|shape| shape.correlation() < 0.6) {
        for cases in [1, 20] {
            for scatter in [0.005, 0.01, 0.02] {
                let mut random = Rng::with_seed(91);
                let (mut void, mut held) = (0, 0);
                for _ in 0..400 {
                    let mut controls: Vec<Vec<f64>> =
                        (0..cases).map(|_| shape.ratios(FEWEST_SETS, scatter, &mut random)).collect();
                    controls[0].iter_mut().for_each(|log| *log += (1.0 + 3.0 * MARGIN).ln());
                    let correlation =
                        if cases > 1 { pooled_lag1(&controls).unwrap() } else { shape.correlation() };
                    let controls: Vec<Evidence> = controls
                        .into_iter()
                        .map(|logs| Evidence::paired(logs).correlated(correlation))
                        .collect();
                    let p: Vec<f64> = controls.iter().map(Evidence::p).collect();
                    let resolution = Resolution::of(&controls[0]).unwrap();
                    let is_void = benjamini_hochberg(&p, 0.01)[0] || resolution.is_displaced(MARGIN);
                    let margin = resolution.margin(MARGIN, FEWEST_SETS);
                    void += usize::from(is_void);
                    held += usize::from(is_void || margin >= 3.0 * MARGIN);
                }
                println!(
                    "{shape:?} ± {scatter}, {cases} cases: {void} of 400 void, {held} void or within the margin"
                );
                let is_quiet = scatter <= 0.01 && shape == (Shape::Normal { correlation: 0.0 });
                assert!(
                    held >= 380 && (!is_quiet || void >= 380),
                    "{shape:?} ± {scatter}, {cases}: {void}, {held}"
                );
            }
        }
    }
}

/// A tenth of B's starts is slow by half, which is 5 % on average.
#[test]
fn equivalent_says_which_share_of_slow_starts_it_may_have_missed() {
    for scatter in [0.002, 0.005, 0.01] {
        let mut random = Rng::with_seed(92);
        let (mut equivalent, mut covered) = (0, 0);
        for _ in 0..400 {
            let found = compared(&Shape::TwoModes { slow: 0.1 }.sets(USUAL_MOST, scatter, &mut random));
            equivalent += usize::from(found.verdict == Verdict::Equivalent);
            covered += usize::from(found.slow.not_excluded >= 0.1);
        }
        println!("± {scatter}: {equivalent} of 400 equivalent, {covered} do not exclude the truth");
        assert!(covered >= 380 && equivalent <= 312, "± {scatter}: {equivalent}, {covered}");
    }
}
