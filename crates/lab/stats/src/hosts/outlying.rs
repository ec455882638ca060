//! Machines that are off by more than a margin.
//!
//! The yardstick is the error of a machine's own figure, from machines that were measured in two boots, and never the scatter of the
//! fleet: where machines have heavy tails or come in two kinds, that scatter says nothing of how sure a figure is. The hypothesis is
//! |effect| ≤ margin, so a fleet whose machines differ by less gives no claim however well it is measured. A claim needs two boots that
//! each show it, and all are judged together ([`benjamini_hochberg`]).

use crate::discovery::benjamini_hochberg;
use crate::hosts::robust_variance;
use crate::normal::two_sided_student_p;
use crate::order::mean;

/// Fewest pairs of boots from which the error of a figure is told.
pub const FEWEST_PAIRS: usize = 10;

/// From so many pairs on, machines that stood out in their first boot are left out of the error: they were measured again because of
/// the chance in it.
const ENOUGH_PAIRS: usize = 30;

/// The median of squares tells of a normal scatter what 0.37 times as many values would by their mean (Huber 1981, §5.1).
const EFFICIENCY: f64 = 0.37;

/// What is said of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Surely off by more than the margin.
    Outlying,
    /// It may be; another boot would tell.
    Candidate,
    /// Nothing is said against it.
    Ordinary,
}

/// A machine against its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Mean of its boots.
    pub effect: f64,
    /// Standard error of it.
    pub error: Option<f64>,
    /// Of |effect| ≤ margin; 1 where it cannot be told.
    pub p: f64,
    /// What is said.
    pub standing: Standing,
}

/// All machines of a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outlying {
    /// Standard deviation of a figure between boots; `None` with fewer than [`FEWEST_PAIRS`].
    pub deviation: Option<f64>,
    /// Pairs of boots that it is from.
    pub pairs: usize,
    /// Of each machine.
    pub hosts: Vec<Judged>,
}

/// Judges machines by their effects, a list of boots in the order of time for each; with a share of at most `q` of wrong claims.
/// A machine without boots is ordinary.
///
/// # Panics
/// If the margin is negative or an effect not finite.
pub fn outlying(boots: &[Vec<f64>], margin: f64, q: f64) -> Outlying {
    assert!(margin >= 0.0, "a margin of {margin}");
    let apart = |boots: &Vec<f64>| {
        boots.chunks_exact(2).map(|two| (two[0] - two[1]) / std::f64::consts::SQRT_2).collect::<Vec<_>>()
    };
    let unselected = |boots: &&Vec<f64>| boots.first().is_some_and(|first| first.abs() <= margin);
    let mut differences: Vec<f64> = boots.iter().filter(unselected).flat_map(apart).collect();
    if differences.len() < ENOUGH_PAIRS {
        differences = boots.iter().flat_map(apart).collect();
    }
    let pairs = differences.len();
    let deviation = (pairs >= FEWEST_PAIRS).then(|| robust_variance(&differences).sqrt());
    let freedom = (EFFICIENCY * pairs as f64).max(2.0);
    let mut hosts: Vec<Judged> =
        boots.iter().map(|boots| judged(boots, margin, deviation, freedom)).collect();
    let shown = |boots: &[f64], effect: f64| {
        boots.len() >= 2 && boots.iter().all(|boot| boot.signum() == effect.signum() && boot.abs() > margin)
    };
    let testable: Vec<f64> = hosts
        .iter()
        .zip(boots)
        .map(|(host, boots)| if shown(boots, host.effect) { host.p } else { 1.0 })
        .collect();
    for (host, is_sure) in hosts.iter_mut().zip(benjamini_hochberg(&testable, q)) {
        host.standing = match is_sure && host.error.is_some() {
            true => Standing::Outlying,
            false if host.effect.abs() > margin => Standing::Candidate,
            false => Standing::Ordinary,
        };
    }
    Outlying { deviation, pairs, hosts }
}

fn judged(boots: &[f64], margin: f64, deviation: Option<f64>, freedom: f64) -> Judged {
    if boots.is_empty() {
        return Judged { effect: 0.0, error: None, p: 1.0, standing: Standing::Ordinary };
    }
    let effect = mean(boots);
    let error = deviation.map(|deviation| deviation / (boots.len() as f64).sqrt());
    let beyond = |error: f64| {
        let upper = |distance: f64| {
            let half = two_sided_student_p(distance / error, freedom) / 2.0;
            if distance < 0.0 { 1.0 - half } else { half }
        };
        (upper(effect.abs() - margin) + upper(effect.abs() + margin)).min(1.0)
    };
    let p = error.filter(|error| *error > 0.0).map_or(1.0, beyond);
    Judged { effect, error, p, standing: Standing::Ordinary }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn boots(effect: f64, count: usize, random: &mut Random) -> Vec<f64> {
        (0..count).map(|_| effect + 0.007 * random.normal()).collect()
    }

    #[test]
    fn what_is_far_beyond_the_margin_in_two_boots_is_claimed_and_in_one_boot_a_candidate() {
        let mut random = Random::new(3);
        let mut fleet: Vec<Vec<f64>> = (0..200).map(|_| boots(0.0, 2, &mut random)).collect();
        fleet.push(boots(0.08, 2, &mut random));
        fleet.push(boots(0.08, 1, &mut random));
        fleet.push(boots(-0.08, 2, &mut random));
        fleet.push(vec![0.001, 0.12]);
        fleet.push(vec![]);
        let found = outlying(&fleet, 0.03, 0.05);
        let standings: Vec<Standing> = found.hosts[200..].iter().map(|host| host.standing).collect();
        use Standing::*;
        assert_eq!(standings, [Outlying, Candidate, Outlying, Candidate, Ordinary]);
        assert!(found.hosts[..200].iter().all(|host| host.standing == Ordinary));
        assert!((found.deviation.unwrap() - 0.007).abs() < 0.0015, "{:?}", found.deviation);
    }

    #[test]
    fn without_second_boots_nothing_is_claimed() {
        let found = outlying(&[vec![0.5], vec![0.0], vec![0.0]], 0.03, 0.05);
        assert_eq!(found.deviation, None);
        assert_eq!(found.hosts[0].standing, Standing::Candidate);
    }
}
