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

/// Searches for a step of this effect: how many boots they take on average. The right commit is named as often as promised, but for three
/// standard errors of the share. `BISECTIONS=400` makes so many of each.
fn searches(effect: f64, known: usize, noise: Option<f64>, promised: f64) -> f64 {
    let asked = std::env::var("BISECTIONS").ok().and_then(|text| text.parse().ok());
    let rounds = asked.unwrap_or(if effect < 1.0 { 30 } else { 100 });
    let mut random = Random::new(1);
    let (mut right, mut boots) = (0, 0);
    for round in 0..rounds {
        let first_bad = 1 + (round * 613 + 7) % COMMITS;
        let cost = |position: usize| if position >= first_bad { (effect * NOISE).exp() } else { 1.0 };
        let (found, made) = search(known, noise, &mut random, cost);
        right += usize::from(matches!(found, Some(Next::Found { position, .. }) if position == first_bad));
        boots += made;
    }
    let [right, boots] = [right, boots].map(|of| of as f64 / rounds as f64);
    println!(
        "effect {effect} σ, {known} boots of each end, noise {noise:?}: right {right:.3}, {boots:.1} boots"
    );
    let error = (promised * (1.0 - promised) / rounds as f64).sqrt();
    assert!(right >= promised - 3.0 * error, "effect {effect} σ, {known} known, {noise:?}: right in {right}");
    boots
}

/// Where the change was noticed because both ends were measured before: with as many boots as make it eight standard errors or so, and with so
/// many that the levels are known, as the simulation knows them.
#[test]
fn a_step_between_ends_that_are_known_takes_at_most_half_as_many_boots_again_as_simulated() {
    for (effect, simulated) in SIMULATED {
        for (known, most) in [((50.0 / (effect * effect)).max(4.0) as usize, 1.5), (20_000, 1.2)] {
            let boots = searches(effect, known, Some(NOISE), 0.95);
            assert!(boots <= simulated * most, "effect {effect} σ, {known} known: {boots} boots");
        }
    }
}

#[test]
fn a_step_between_ends_of_which_nothing_is_known_takes_some_twice_as_many() {
    for (effect, simulated) in SIMULATED {
        for noise in [Some(NOISE), None] {
            let boots = searches(effect, 0, noise, 0.9);
            // Without the noise, six measurements of the ends come first to learn it.
            let most = simulated * 2.3 + if noise.is_none() { 6.0 } else { 0.0 };
            assert!(boots <= most, "effect {effect} σ, noise {noise:?}: {boots} boots");
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

/// What is left to tell there is a commit and an end, and of the end's level nothing is learned at the commit.
#[test]
fn no_search_for_a_step_beside_an_end_takes_more_than_ten_times_the_median() {
    let mut random = Random::new(4);
    let mut boots = Vec::new();
    for round in 0..400 {
        let first_bad = [1, COMMITS][round % 2];
        let cost = |position: usize| if position >= first_bad { NOISE.exp() } else { 1.0 };
        let (found, made) = search(0, [Some(NOISE), None][round / 2 % 2], &mut random, cost);
        assert!(found.is_some(), "round {round}: no end after {made} boots");
        boots.push(made);
    }
    boots.sort_unstable();
    println!("steps beside an end: median {} boots, most {}", boots[200], boots[399]);
    assert!(boots[399] <= 10 * boots[200], "{} boots, median {}", boots[399], boots[200]);
}
