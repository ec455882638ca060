//! Where the scatter of a case comes from: machines, boots of one machine, runs of one boot.
//!
//! Moments of nested groups, with medians of squares in the place of means, so that a few bad machines do not make the fleet look
//! wild. One boot a machine cannot tell the two apart.

use super::robust_variance;
use crate::normal::two_sided_t;
use crate::order::{mean, median};

/// Fewest machines of a scatter between machines, and fewest with two boots of one between boots.
pub const FEWEST: usize = 5;

/// A case on one machine in one boot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boot {
    /// Logarithm of the cost.
    pub level: f64,
    /// Standard deviation of a run of this boot, where that is known.
    pub run: Option<f64>,
    /// Runs behind the level.
    pub runs: usize,
}

/// Standard deviations of the logarithm, about the same as relative ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Components {
    /// Between machines; with [`Components::boot`] unknown, between machines and boots together.
    pub host: Option<f64>,
    /// Between boots of a machine.
    pub boot: Option<f64>,
    /// Between runs of a boot.
    pub run: Option<f64>,
}

/// Of one case: the boots of each machine.
pub fn components(hosts: &[Vec<Boot>]) -> Components {
    let runs: Vec<f64> = hosts.iter().flatten().filter_map(|boot| boot.run).collect();
    let run = (!runs.is_empty()).then(|| median(&runs));
    let counts: Vec<f64> = hosts.iter().flatten().map(|boot| boot.runs.max(1) as f64).collect();
    let of_runs = run.map_or(0.0, |run| run * run / median_or(&counts, 1.0));
    let apart = |boots: &[Boot]| (boots[0].level - boots[1].level) / std::f64::consts::SQRT_2;
    let differences: Vec<f64> =
        hosts.iter().flat_map(|boots| boots.chunks_exact(2).map(apart).collect::<Vec<_>>()).collect();
    let between = (differences.len() >= FEWEST).then(|| robust_variance(&differences));
    let boot = between.map(|variance| (variance - of_runs).max(0.0).sqrt());
    let levels: Vec<f64> = hosts
        .iter()
        .filter(|boots| !boots.is_empty())
        .map(|boots| mean(&boots.iter().map(|boot| boot.level).collect::<Vec<_>>()))
        .collect();
    let host = (levels.len() >= FEWEST).then(|| {
        let middle = median(&levels);
        let around: Vec<f64> = levels.iter().map(|level| level - middle).collect();
        let counts: Vec<f64> =
            hosts.iter().filter(|boots| !boots.is_empty()).map(|boots| boots.len() as f64).collect();
        (robust_variance(&around) - between.unwrap_or(of_runs) / median(&counts)).max(0.0).sqrt()
    });
    Components { host, boot, run }
}

fn median_or(values: &[f64], other: f64) -> f64 {
    if values.is_empty() { other } else { median(values) }
}

/// Runs of a boot that tell most for the time (Kalibera and Jones 2013): √(cost of a boot over cost of a run · variance of a run over
/// that of a boot), at least one. `None` where boots do not scatter or that is not known.
pub fn runs_per_boot(of: &Components, boot_s: f64, run_s: f64) -> Option<usize> {
    let (boot, run) = (of.boot.filter(|boot| *boot > 0.0)?, of.run?);
    Some(((boot_s / run_s).sqrt() * run / boot).round().max(1.0) as usize)
}

/// The most machines that are looked for.
pub const MOST_HOSTS: usize = 1_000_000;

/// Machines in each of two groups with which a difference is known to ± `margin` (0.01 is 1 %) at 95 %, where each has this standard
/// deviation; `None` where even [`MOST_HOSTS`] do not suffice.
///
/// # Panics
/// If the margin is not positive.
pub fn hosts_for(deviation: f64, margin: f64) -> Option<usize> {
    assert!(margin > 0.0, "a margin of {margin}");
    if deviation == 0.0 {
        return Some(2);
    }
    let arm = |hosts: usize| two_sided_t(0.05, 2.0 * hosts as f64 - 2.0) * deviation * (2.0 / hosts as f64).sqrt();
    let fits = |hosts: usize| arm(hosts) <= margin;
    if !fits(MOST_HOSTS) {
        return None;
    }
    let (mut too_few, mut enough) = (1, MOST_HOSTS);
    while enough - too_few > 1 {
        let middle = usize::midpoint(too_few, enough);
        *(if fits(middle) { &mut enough } else { &mut too_few }) = middle;
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn fleet(hosts: usize, boots: usize, deviations: [f64; 3], seed: u64) -> Vec<Vec<Boot>> {
        let mut random = Random::new(seed);
        let [host, boot, run] = deviations;
        let mut one = |level: f64| {
            let of_runs = run / 8.0_f64.sqrt() * random.normal();
            Boot { level: level + boot * random.normal() + of_runs, run: Some(run), runs: 8 }
        };
        let mut of_hosts = Random::new(seed + 1000);
        (0..hosts)
            .map(|_| {
                let level = host * of_hosts.normal();
                (0..boots).map(|_| one(level)).collect()
            })
            .collect()
    }

    #[test]
    fn components_come_back() {
        let all: Vec<Components> = (0..40).map(|seed| components(&fleet(60, 2, [0.02, 0.007, 0.01], seed))).collect();
        let middle = |of: fn(&Components) -> Option<f64>| median(&all.iter().filter_map(of).collect::<Vec<_>>());
        assert!((middle(|of| of.host) - 0.02).abs() < 0.002, "{}", middle(|of| of.host));
        assert!((middle(|of| of.boot) - 0.007).abs() < 0.001, "{}", middle(|of| of.boot));
        assert_eq!(middle(|of| of.run), 0.01);
    }

    #[test]
    fn one_boot_a_machine_tells_nothing_of_boots() {
        let found = components(&fleet(30, 1, [0.02, 0.007, 0.01], 1));
        assert!(found.boot.is_none() && found.host.is_some(), "{found:?}");
        assert_eq!(components(&[]), Components::default());
    }

    #[test]
    fn hosts_and_runs_are_those_of_the_literature() {
        let hosts = |deviation, margin| hosts_for(deviation, margin).unwrap();
        assert_eq!([hosts(0.01, 0.01), hosts(0.02, 0.01), hosts(0.05, 0.01)], [9, 32, 194]);
        assert_eq!([hosts(0.01, 0.02), hosts(0.02, 0.02), hosts(0.05, 0.02)], [4, 9, 50]);
        assert_eq!(hosts_for(100.0, 0.01), None);
        let of = Components { host: None, boot: Some(0.007), run: Some(0.01) };
        assert_eq!(runs_per_boot(&of, 60.0, 1.0), Some(11));
        assert_eq!(runs_per_boot(&Components { boot: None, ..of }, 60.0, 1.0), None);
    }
}
