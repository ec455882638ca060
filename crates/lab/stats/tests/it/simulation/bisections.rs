//! Bisection over 1,024 commits whose first bad one is known.

use weighbridge_stats::bisect::{Bisection, Next};
use weighbridge_stats::random::Random;

const COMMITS: usize = 1024;
/// Of one measurement.
const NOISE: f64 = 0.01;

/// How a search ended, and after how many measurements beside the `known` of each end.
fn search(
    known: usize,
    noise: Option<f64>,
    random: &mut Random,
    cost: impl Fn(usize) -> f64,
) -> (Option<Next>, usize) {
    const MOST: usize = 4000;
    let mut bisection = Bisection::new(COMMITS, noise);
    let mut measure = |position: usize| cost(position) * (NOISE * random.normal()).exp();
    for position in (0..known).flat_map(|_| [0, COMMITS]) {
        bisection.tell(position, measure(position));
    }
    for measured in 0..MOST {
        match bisection.next() {
            Next::Measure(position) => bisection.tell(position, measure(position)),
            found => return (Some(found), measured),
        }
    }
    (None, MOST)
}

/// The effect in standard deviations of one measurement, and how many boots a simulation takes that knows both levels and the noise, and stops at
/// 95 % too.
const SIMULATED: [(f64, f64); 4] = [(4.0, 11.0), (2.0, 21.0), (1.0, 66.0), (0.5, 244.0)];

/// Searches for a step of this effect: the share that named it, and boots on average.
fn searches(effect: f64, rounds: usize, known: usize, noise: Option<f64>) -> (f64, f64) {
    let mut random = Random::new(1);
    let (mut right, mut boots) = (0, 0);
    for round in 0..rounds {
        let first_bad = 1 + (round * 613 + 7) % COMMITS;
        let cost = |position: usize| if position >= first_bad { (effect * NOISE).exp() } else { 1.0 };
        let (found, made) = search(known, noise, &mut random, cost);
        right += usize::from(matches!(found, Some(Next::Found { position, .. }) if position == first_bad));
        boots += made;
    }
    (right as f64 / rounds as f64, boots as f64 / rounds as f64)
}

/// Where the change was noticed because both ends were measured before: with as many boots as make it eight standard errors or so.
#[test]
fn a_step_between_ends_that_are_known_takes_at_most_half_as_many_boots_again_as_simulated() {
    for (effect, simulated) in SIMULATED {
        let known = (50.0 / (effect * effect)).max(4.0) as usize;
        let rounds = if effect < 1.0 { 40 } else { 200 };
        let (right, boots) = searches(effect, rounds, known, Some(NOISE));
        println!(
            "effect {effect} σ, {known} boots of each end: right {right:.3}, {boots:.1} boots, simulated {simulated}"
        );
        assert!(boots <= simulated * 1.5, "effect {effect} σ: {boots} boots");
        assert!(right >= 0.93, "effect {effect} σ: right in {right}");
    }
}

#[test]
fn a_step_between_ends_of_which_nothing_is_known_takes_some_twice_as_many() {
    for (effect, simulated) in SIMULATED {
        let rounds = if effect < 1.0 { 20 } else { 100 };
        for noise in [Some(NOISE), None] {
            let (right, boots) = searches(effect, rounds, 0, noise);
            println!(
                "effect {effect} σ, noise {noise:?}: right {right:.3}, {boots:.1} boots, simulated {simulated}"
            );
            // Without the noise, six measurements of the ends come first to learn it.
            let most = simulated * 2.6 + if noise.is_none() { 6.0 } else { 0.0 };
            assert!(boots <= most, "effect {effect} σ, noise {noise:?}: {boots} boots");
            assert!(right >= 0.9, "effect {effect} σ, noise {noise:?}: right in {right}");
        }
    }
}

#[test]
fn ends_that_do_not_differ_are_told_so_and_name_no_commit() {
    let mut random = Random::new(2);
    let (mut named, mut told, rounds) = (0, 0, 100);
    for _ in 0..rounds {
        match search(0, Some(NOISE), &mut random, |_| 1.0).0 {
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
        match search(0, Some(NOISE), &mut random, cost).0 {
            Some(Next::TwoSteps { .. }) => two += 1,
            Some(Next::Found { position, .. }) if steps.contains(&position) => one += 1,
            _ => {}
        }
    }
    println!("two steps: told {two}, one of them named {one} of {rounds}");
    assert!(two + one >= 54, "told {two}, named {one}");
}
