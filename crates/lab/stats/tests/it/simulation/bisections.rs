//! Bisection over 1,024 commits whose first bad one is known.

use weighbridge_stats::bisect::{Bisection, Next};
use weighbridge_stats::random::Random;

const COMMITS: usize = 1024;
/// Of one measurement.
const NOISE: f64 = 0.01;

/// How a search ended, and after how many measurements.
fn search(
    noise: Option<f64>,
    random: &mut Random,
    cost: impl Fn(usize) -> f64,
    most: usize,
) -> (Option<Next>, usize) {
    let mut bisection = Bisection::new(COMMITS, noise);
    for measured in 0..most {
        match bisection.next() {
            Next::Measure(position) => {
                bisection.tell(position, cost(position) * (NOISE * random.normal()).exp())
            }
            found => return (Some(found), measured),
        }
    }
    (None, most)
}

/// The effect in standard deviations of one measurement, and how many boots a simulation takes that knows both levels and the noise (10 bits
/// over the capacity of such a channel, and the end).
const SIMULATED: [(f64, f64); 4] = [(4.0, 11.0), (2.0, 21.0), (1.0, 66.0), (0.5, 244.0)];

#[test]
fn a_step_is_found_with_few_more_boots_than_by_who_knows_both_levels() {
    for (effect, simulated) in SIMULATED {
        let mut random = Random::new(1);
        let rounds = if effect < 1.0 { 60 } else { 200 };
        for noise in [Some(NOISE), None] {
            let (mut right, mut boots) = (0, 0);
            for round in 0..rounds {
                let first_bad = 1 + (round * 613 + 7) % COMMITS;
                let cost = |position: usize| if position >= first_bad { (effect * NOISE).exp() } else { 1.0 };
                let (found, made) = search(noise, &mut random, cost, 4000);
                right +=
                    usize::from(matches!(found, Some(Next::Found { position, .. }) if position == first_bad));
                boots += made;
            }
            let (share, mean) = (right as f64 / rounds as f64, boots as f64 / rounds as f64);
            println!(
                "effect {effect} σ, noise {noise:?}: right {share:.3}, {mean:.1} boots, simulated {simulated}"
            );
            // Where the noise is not known, six measurements of the ends come first to learn it.
            let most = simulated * 1.5 + if noise.is_none() { 6.0 } else { 0.0 };
            assert!(mean <= most, "effect {effect} σ, noise {noise:?}: {mean} boots");
            assert!(share >= 0.93, "effect {effect} σ, noise {noise:?}: right in {share}");
        }
    }
}

#[test]
fn ends_that_do_not_differ_are_told_so_and_name_no_commit() {
    let mut random = Random::new(2);
    let (mut named, mut told, rounds) = (0, 0, 100);
    for _ in 0..rounds {
        match search(Some(NOISE), &mut random, |_| 1.0, 2000).0 {
            Some(Next::NoStep { .. }) => told += 1,
            Some(_) => named += 1,
            None => {}
        }
    }
    println!("no step: told {told}, named {named} of {rounds}");
    assert!(named <= 5 && told >= 90, "told {told}, named {named}");
}

#[test]
fn two_steps_of_one_size_are_told_or_one_of_them_is_named() {
    let mut random = Random::new(3);
    let (mut two, mut one, rounds) = (0, 0, 60);
    for round in 0..rounds {
        let steps = [200 + round, 700 + 3 * round];
        let cost = |position: usize| {
            let passed = steps.iter().filter(|step| position >= **step).count();
            (2.0 * NOISE * passed as f64).exp()
        };
        match search(Some(NOISE), &mut random, cost, 2000).0 {
            Some(Next::TwoSteps { .. }) => two += 1,
            Some(Next::Found { position, .. }) if steps.contains(&position) => one += 1,
            _ => {}
        }
    }
    println!("two steps: told {two}, one of them named {one} of {rounds}");
    assert!(two + one >= 54, "told {two}, named {one}");
}
