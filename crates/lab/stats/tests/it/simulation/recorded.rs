//! Comparisons drawn from sets that were recorded: their scatter, their tails, their likeness to their neighbors.

use std::collections::BTreeMap;

use fastrand::Rng;
use weighbridge_stats::correlation::pooled_lag1;
use weighbridge_stats::sequential::{Look, Looks};
use weighbridge_stats::verdict::{
    CONTROL_CONFIDENCE, FEWEST_SETS, Resolution, Verdict, has_two_groups, verdict,
};
use weighbridge_stats::{Evidence, Interval};

const IDLE: &str = include_str!("../../data/sets-one-cpu.txt");
const BESIDE_A_LOAD: &str = include_str!("../../data/sets-beside-a-load.txt");

/// Sets that follow each other in a comparison as they did in a session.
const BLOCK: usize = 3;

/// Sets that `weighbridge compare` plans for 60 s, and less than half of them.
const SETS_OF_A_MINUTE: usize = 600;
const FEWER: usize = 250;

/// The sets of each case, session by session.
fn recorded(text: &'static str) -> BTreeMap<&'static str, Vec<Vec<f64>>> {
    let mut cases: BTreeMap<&str, Vec<Vec<f64>>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ').skip(1);
        let case = words.next().unwrap();
        let sets = words.map(|value| 1e-5 * value.parse::<f64>().unwrap()).collect();
        cases.entry(case).or_default().push(sets);
    }
    cases
}

/// So many sets of two sides that are alike: blocks of a random session, of which a random side is A.
fn alike(sessions: &[Vec<f64>], count: usize, random: &mut Rng) -> Vec<f64> {
    let mut sets = Vec::with_capacity(count + BLOCK);
    while sets.len() < count {
        let session = &sessions[random.usize(..sessions.len())];
        let from = random.usize(..=session.len() - BLOCK);
        let sign = if random.bool() { 1.0 } else { -1.0 };
        // The sum of b of n values less the middle of all n scatters less by √(1 − b/n) than that of b values around the true middle.
        let scale = sign / (1.0 - BLOCK as f64 / session.len() as f64).sqrt();
        sets.extend(session[from..from + BLOCK].iter().map(|log| scale * log));
    }
    sets.truncate(count);
    sets
}

/// What is asked of a comparison.
#[derive(Clone, Copy)]
struct Asked {
    margin: f64,
    any_difference: bool,
}

/// A comparison of one case as `weighbridge compare` makes it: `sets` and those of the control are all that there could be.
fn compared(sets: &[f64], control: &[f64], asked: Asked) -> Verdict {
    let looks = Looks::up_to(sets.len());
    let mut count = FEWEST_SETS;
    loop {
        let Look::At { stage, next } = looks.look(count) else { panic!("{count} sets are a look") };
        let so_far = &sets[..count];
        let correlation = pooled_lag1(&[so_far]).unwrap_or(0.0);
        let evidence = Evidence::paired(so_far.to_vec()).correlated(correlation).looked_at(stage);
        let controls = (0..count).filter(|set| *set < FEWEST_SETS || set.is_multiple_of(3)).count();
        let control = Evidence::paired(control[..controls].to_vec()).correlated(correlation);
        let resolution = Resolution::of(&control).unwrap();
        let margin = resolution.margin(asked.margin, count);
        let interval: Option<Interval> = evidence.interval(0.95);
        let found = match (verdict(interval, margin, count), verdict(interval, asked.margin, count)) {
            (Verdict::Equivalent, of) if of != Verdict::Equivalent => {
                Verdict::Inconclusive { settled_by: None }
            }
            (found, _) if asked.any_difference => found,
            (found, _) => found.beyond_margin(interval, margin, count),
        };
        let (found, is_clear) = match found {
            Verdict::Equivalent if has_two_groups(so_far, margin) => {
                (Verdict::Inconclusive { settled_by: None }, false)
            }
            Verdict::Equivalent => (found, margin <= asked.margin),
            Verdict::Regressed(_) | Verdict::Improved(_) if evidence.p() > 0.05 => {
                (Verdict::Inconclusive { settled_by: None }, false)
            }
            found => (found, !matches!(found, Verdict::Inconclusive { .. })),
        };
        match next {
            Some(next) if !is_clear => count = next,
            _ if control.p() <= 1.0 - CONTROL_CONFIDENCE || resolution.is_displaced(asked.margin) => {
                return Verdict::Void;
            }
            _ => return found,
        }
    }
}

/// How often each of these is found of sides that differ by `truth`.
fn rates(
    sessions: &[Vec<f64>],
    (truth, asked): (f64, Asked),
    (most, comparisons): (usize, usize),
    random: &mut Rng,
    is_found: [fn(Verdict) -> bool; 2],
) -> [f64; 2] {
    let mut found = [0; 2];
    for _ in 0..comparisons {
        let sets: Vec<f64> = alike(sessions, most, random).iter().map(|log| log + truth.ln_1p()).collect();
        let of = compared(&sets, &alike(sessions, most, random), asked);
        found = [0, 1].map(|index| found[index] + usize::from(is_found[index](of)));
    }
    found.map(|found| found as f64 / comparisons as f64)
}

fn is_claimed(found: Verdict) -> bool {
    matches!(found, Verdict::Regressed(_) | Verdict::Improved(_))
}

fn is_regressed(found: Verdict) -> bool {
    found.is_regression()
}

fn is_void(found: Verdict) -> bool {
    found == Verdict::Void
}

fn is_equivalent(found: Verdict) -> bool {
    found == Verdict::Equivalent
}

/// The margin that a small difference needs, and the same where differences within it are claimed too.
const FINE: Asked = Asked { margin: 0.003, any_difference: false };
const ANY: Asked = Asked { margin: 0.003, any_difference: true };

/// Of a hundred comparisons 90 or more find 2 %.
#[test]
fn a_minute_on_one_cpu_finds_two_percent() {
    let mut random = Rng::with_seed(101);
    for (case, sessions) in recorded(IDLE) {
        for most in [40, FEWER, SETS_OF_A_MINUTE] {
            let mut found =
                |asked| rates(&sessions, (0.02, asked), (most, 100), &mut random, [is_regressed, is_void]);
            let ([fine, void], [any, _]) = (found(FINE), found(ANY));
            println!("{case}, {most} sets, 2 % more: {fine} found, {any} of any size, {void} void");
            assert!(most < SETS_OF_A_MINUTE || fine.min(any) >= 0.9, "{case}: {fine}, {any}");
        }
    }
}

/// Beside a load no number of sets that a minute holds finds it for sure, but the more are planned the oftener.
#[test]
fn beside_a_load_more_sets_find_more() {
    let mut random = Rng::with_seed(104);
    let mut all = [0.0, 0.0];
    for (case, sessions) in recorded(BESIDE_A_LOAD) {
        for (index, most) in [FEWER, SETS_OF_A_MINUTE].into_iter().enumerate() {
            let [found, void] =
                rates(&sessions, (0.02, ANY), (most, 200), &mut random, [is_regressed, is_void]);
            println!("{case} beside a load, {most} sets, 2 % more: {found} found, {void} void");
            all[index] += found / 2.0;
        }
        let equal = (SETS_OF_A_MINUTE, 200);
        let [claimed, void] = rates(&sessions, (0.0, ANY), equal, &mut random, [is_claimed, is_void]);
        println!("{case} beside a load, equal: {claimed} claimed, {void} void");
        assert!(claimed <= 0.083 && void <= 0.043, "{case}: {claimed}, {void}");
    }
    assert!(all[1] > all[0] + 0.05, "{all:?}");
}

#[test]
fn half_a_percent_is_never_equivalent_within_three_tenths() {
    let mut random = Rng::with_seed(102);
    for (case, sessions) in recorded(IDLE) {
        let of = (SETS_OF_A_MINUTE, 100);
        let [equivalent, found] =
            rates(&sessions, (0.005, FINE), of, &mut random, [is_equivalent, is_regressed]);
        println!("{case}, 0.5 % more: {equivalent} equivalent within 0.3 %, {found} regressed");
        assert_eq!(equivalent, 0.0, "{case}");
    }
}

/// Two hundred comparisons scatter by ± 1.5 %, one deviation, and all cases together by a quarter of it.
#[test]
fn equal_sides_differ_in_at_most_one_of_twenty() {
    let mut random = Rng::with_seed(103);
    let cases = recorded(IDLE);
    for most in [40, SETS_OF_A_MINUTE] {
        let mut all = 0.0;
        for (case, sessions) in &cases {
            let [claimed, void] =
                rates(sessions, (0.0, ANY), (most, 200), &mut random, [is_claimed, is_void]);
            println!("{case}, {most} sets, equal: {claimed} claimed, {void} void");
            assert!(claimed <= 0.083 && void <= 0.043, "{case}: {claimed}, {void}");
            all += claimed / cases.len() as f64;
        }
        println!("all cases, {most} sets: {all:.4} claimed");
        assert!(all <= 0.055, "{all}");
    }
}
