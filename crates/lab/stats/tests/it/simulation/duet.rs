//! The duet beside noise that both partners feel, and regimes that only the case has.

use fastrand::Rng;
use weighbridge_stats::duet::{Party, Slice, hub_session, to_hub};
use weighbridge_stats::regime::against_hub;

use super::peers::{log_normal, normal};

/// A set of 60 blocks: the machine is in one of two states 1.5 apart, which last some ten slices, and each slice has 3 % of its
/// own. The case costs 1.05 times the hub, and the set has 0.3 % of its own.
fn set(random: &mut Rng) -> Vec<Slice> {
    let own = 1.05 * log_normal(random, 0.003);
    let (mut start_ns, mut is_slow, mut out) = (0, random.bool(), vec![]);
    for _ in 0..60 {
        let mut block = [(Party::Hub, 1.0), (Party::Case(0), own)];
        if random.bool() {
            block.swap(0, 1);
        }
        for (party, factor) in block {
            is_slow ^= random.f64() < 0.1;
            let cost = 5000.0 * factor * log_normal(random, 0.03) * if is_slow { 1.5 } else { 1.0 };
            let elapsed_ns = (cost * 400.0) as u64;
            out.push(Slice { start_ns, elapsed_ns, ops: 400, party });
            start_ns += elapsed_ns + 20_000;
        }
    }
    out
}

#[test]
fn the_ratio_is_narrow_and_covers_where_each_side_alone_moves_by_half() {
    let mut random = Rng::with_seed(60);
    let (mut covered, mut width) = (0, 0.0);
    for _ in 0..300 {
        let sets: Vec<Vec<Slice>> = (0..12).map(|_| set(&mut random)).collect();
        let found = to_hub(&sets, 0).unwrap();
        let interval = found.interval.unwrap();
        covered += usize::from(interval.contains(1.05));
        width += interval.relative_half_width(found.ratio) / 300.0;
        let session = hub_session(&sets).unwrap();
        assert!(session.range_ns[1] > 1.4 * session.range_ns[0], "{session:?}");
    }
    assert!(covered >= 275, "{covered} of 300");
    assert!(width < 0.006, "± {width}");
}

/// Blocks whose log ratio wanders with lag-1 correlation 0.85 and has no trend or mode of its own.
fn wandering(sets: usize, random: &mut Rng) -> Vec<Vec<f64>> {
    let set = |random: &mut Rng| {
        let mut state = normal(random);
        let mut next = || {
            state = 0.85 * state + (1.0 - 0.85_f64 * 0.85).sqrt() * normal(random);
            0.02 * state
        };
        (0..60).map(|_| next()).collect()
    };
    (0..sets).map(|_| set(random)).collect()
}

#[test]
fn correlation_of_0_85_is_neither_a_trend_nor_two_modes() {
    let mut random = Rng::with_seed(61);
    for sets in [8, 12, 24] {
        let flagged =
            (0..1000).filter(|_| !against_hub(&wandering(sets, &mut random), 0.0).is_empty()).count();
        assert!(flagged <= 25, "{sets} sets: {flagged} of 1000");
    }
}

#[test]
fn a_trend_and_two_modes_of_the_case_alone_are_found_through_that_correlation() {
    let mut random = Rng::with_seed(62);
    let (mut trends, mut modes) = (0, 0);
    for _ in 0..200 {
        let mut sets = wandering(12, &mut random);
        for set in &mut sets {
            set.iter_mut().enumerate().for_each(|(block, log)| *log += 0.05 * block as f64 / 60.0);
        }
        trends += usize::from(!against_hub(&sets, 0.005).is_empty());
        let mut sets = wandering(12, &mut random);
        for set in &mut sets {
            let mut is_slow = random.bool();
            for log in set {
                is_slow ^= random.f64() < 0.1;
                *log = 0.2 * *log + if is_slow { 0.3 } else { 0.0 };
            }
        }
        modes += usize::from(!against_hub(&sets, 0.005).is_empty());
    }
    assert!(trends >= 180 && modes >= 180, "{trends}, {modes} of 200");
}
