//! Settings that go with a cost: sums of ranks of the machines that have one, for all settings and cases together.
//!
//! The largest of all z scores is compared with what it is when the machines of a class exchange their settings (Westfall and Young
//! 1993), so that the number of settings and cases costs nothing more than it must. Settings that are nearly the same on all machines
//! cannot be told apart, and are groups. What goes together need not cause anything.

use crate::order::midranks;
use crate::random::Random;

/// Fewest machines with a setting, and without it.
pub const FEWEST: usize = 8;
/// Exchanges behind the limit.
const EXCHANGES: usize = 199;
/// Probability of any claim where no setting matters.
pub const ALPHA: f64 = 0.05;
/// From this correlation on two settings are the same for us.
pub const SAME: f64 = 0.9;

/// A setting and a case that go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Association {
    /// Index of the setting.
    pub setting: usize,
    /// Index of the case.
    pub case: usize,
    /// Above 0 where machines with the setting cost more.
    pub z: f64,
    /// Of a z as large anywhere by chance.
    pub p: f64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Associations {
    /// Largest |z| that chance gives in one of twenty fleets.
    pub limit: f64,
    /// Settings that were compared.
    pub compared: usize,
    /// The strongest of each setting that passes, strongest first.
    pub found: Vec<Association>,
    /// The settings of `found` in groups of those that cannot be told apart, strongest first.
    pub groups: Vec<Vec<usize>>,
}

/// For each case a logarithm of the cost of each machine (not a number where missing), for each setting the machines that have it, and
/// the class of each machine.
pub fn associations(
    cases: &[Vec<f64>],
    settings: &[Vec<bool>],
    classes: &[usize],
    seed: u64,
) -> Associations {
    let hosts = classes.len();
    let strata = strata(classes);
    let compared: Vec<usize> =
        (0..settings.len()).filter(|setting| is_told(&settings[*setting], &strata)).collect();
    if compared.is_empty() || cases.is_empty() {
        return Associations::default();
    }
    let scores: Vec<Scores> = cases.iter().map(|values| Scores::of(values, &strata)).collect();
    // Machines with the setting, or without where those are fewer; a row of all cases for each machine, for the sake of the cache.
    let members: Vec<(f64, Vec<usize>)> =
        compared.iter().map(|setting| smaller_side(&settings[*setting])).collect();
    let table: Vec<f64> = (0..hosts).flat_map(|host| scores.iter().map(move |of| of.of_host[host])).collect();
    let spread: Vec<Vec<f64>> = compared
        .iter()
        .map(|setting| scores.iter().map(|of| of.spread(&settings[*setting], &strata)).collect())
        .collect();
    let width = cases.len();
    let z_scores = |place: &dyn Fn(usize) -> usize| -> Vec<Vec<f64>> {
        let of_setting = |(index, (sign, hosts)): (usize, &(f64, Vec<usize>))| {
            let mut sums = vec![0.0; width];
            for host in hosts {
                let row = &table[place(*host) * width..][..width];
                sums.iter_mut().zip(row).for_each(|(sum, score)| *sum += score);
            }
            let z = |(sum, spread): (f64, &f64)| if *spread > 0.0 { sign * sum / spread } else { 0.0 };
            sums.into_iter().zip(&spread[index]).map(z).collect()
        };
        members.iter().enumerate().map(of_setting).collect()
    };
    let largest = |of: &[Vec<f64>]| of.iter().flatten().fold(0.0_f64, |most, z| most.max(z.abs()));
    let seen = z_scores(&|host| host);
    let mut random = Random::new(seed);
    let mut places: Vec<usize> = (0..hosts).collect();
    let mut by_chance: Vec<f64> = (0..EXCHANGES)
        .map(|_| {
            for stratum in &strata {
                let mut exchanged = stratum.clone();
                random.shuffle(&mut exchanged);
                stratum.iter().zip(exchanged).for_each(|(host, place)| places[*host] = place);
            }
            largest(&z_scores(&|host| places[host]))
        })
        .collect();
    by_chance.sort_unstable_by(f64::total_cmp);
    let p = |z: f64| {
        let as_large = EXCHANGES - by_chance.partition_point(|other| *other < z - 1e-12);
        (1 + as_large) as f64 / (1 + EXCHANGES) as f64
    };
    let mut found: Vec<Association> = compared
        .iter()
        .zip(&seen)
        .filter_map(|(setting, of)| {
            let (case, z) = of.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
            Some(Association { setting: *setting, case, z: *z, p: p(z.abs()) })
        })
        .filter(|found| found.p <= ALPHA)
        .collect();
    found.sort_by(|a, b| b.z.abs().total_cmp(&a.z.abs()).then(a.setting.cmp(&b.setting)));
    let groups = groups(&found, settings);
    let at = (((1.0 - ALPHA) * (EXCHANGES + 1) as f64) as usize).min(EXCHANGES) - 1;
    Associations { limit: by_chance[at], compared: compared.len(), found, groups }
}

fn strata(classes: &[usize]) -> Vec<Vec<usize>> {
    let mut strata = vec![Vec::new(); classes.iter().max().map_or(0, |most| most + 1)];
    classes.iter().enumerate().for_each(|(host, class)| strata[*class].push(host));
    strata.retain(|stratum| stratum.len() > 1);
    strata
}

/// Do enough machines have it, and enough not, within classes that have both?
fn is_told(setting: &[bool], strata: &[Vec<usize>]) -> bool {
    let mut both = [0, 0];
    for stratum in strata {
        let with = stratum.iter().filter(|host| setting[**host]).count();
        if with > 0 && with < stratum.len() {
            both[0] += with;
            both[1] += stratum.len() - with;
        }
    }
    both.iter().all(|count| *count >= FEWEST)
}

fn smaller_side(setting: &[bool]) -> (f64, Vec<usize>) {
    let with = setting.iter().filter(|has| **has).count();
    let is_with = 2 * with <= setting.len();
    let hosts = (0..setting.len()).filter(|host| setting[*host] == is_with).collect();
    (if is_with { 1.0 } else { -1.0 }, hosts)
}

/// Ranks within the class, around 0.
struct Scores {
    of_host: Vec<f64>,
    /// Sum of squares of each class.
    squares: Vec<f64>,
}

impl Scores {
    fn of(values: &[f64], strata: &[Vec<usize>]) -> Scores {
        let mut of_host = vec![0.0; values.len()];
        let squares = strata
            .iter()
            .map(|stratum| {
                let known: Vec<usize> =
                    stratum.iter().copied().filter(|host| values[*host].is_finite()).collect();
                let ranks = midranks(&known.iter().map(|host| values[*host]).collect::<Vec<_>>());
                let middle = (known.len() as f64 + 1.0) / 2.0;
                // Classes of different sizes count by their machines, not by their ranks.
                let scale = 1.0 / known.len().max(1) as f64;
                known.iter().zip(&ranks).for_each(|(host, rank)| of_host[*host] = (rank - middle) * scale);
                known.iter().map(|host| of_host[*host].powi(2)).sum()
            })
            .collect();
        Scores { of_host, squares }
    }

    /// Deviation of the sum over the machines that have the setting when machines of a class exchange it.
    fn spread(&self, setting: &[bool], strata: &[Vec<usize>]) -> f64 {
        let of_stratum = |(stratum, squares): (&Vec<usize>, &f64)| {
            let (n, with) =
                (stratum.len() as f64, stratum.iter().filter(|host| setting[**host]).count() as f64);
            with * (n - with) / (n * (n - 1.0)) * squares
        };
        strata.iter().zip(&self.squares).map(of_stratum).sum::<f64>().sqrt()
    }
}

/// Correlation of two settings (φ); 0 where one is the same everywhere.
pub fn phi(one: &[bool], other: &[bool]) -> f64 {
    let n = one.len() as f64;
    let count = |of: &[bool]| of.iter().filter(|has| **has).count() as f64;
    let both = one.iter().zip(other).filter(|(a, b)| **a && **b).count() as f64;
    let (a, b) = (count(one), count(other));
    let spread = (a * (n - a) * b * (n - b)).sqrt();
    if spread > 0.0 { (n * both - a * b) / spread } else { 0.0 }
}

fn groups(found: &[Association], settings: &[Vec<bool>]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for association in found {
        let own = &settings[association.setting];
        let group = groups.iter_mut().find(|group| phi(own, &settings[group[0]]).abs() > SAME);
        match group {
            Some(group) => group.push(association.setting),
            None => groups.push(vec![association.setting]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(hosts: usize, effect: f64, seed: u64) -> (Vec<Vec<f64>>, Vec<Vec<bool>>, Vec<usize>) {
        let mut random = Random::new(seed);
        let mut settings: Vec<Vec<bool>> =
            (0..40).map(|_| (0..hosts).map(|_| random.below(10) == 0).collect()).collect();
        settings.push(settings[7].clone());
        let of_host: Vec<f64> =
            (0..hosts).map(|host| random.normal() + if settings[7][host] { effect } else { 0.0 }).collect();
        let cases = (0..10).map(|_| of_host.iter().map(|of| of + 0.3 * random.normal()).collect()).collect();
        (cases, settings, (0..hosts).map(|host| host % 2).collect())
    }

    #[test]
    fn the_setting_is_found_with_its_copy_and_chance_is_not() {
        let (cases, settings, classes) = fleet(400, 1.5, 2);
        let found = associations(&cases, &settings, &classes, 1);
        assert_eq!(found.groups[0], [7, 40], "{found:?}");
        assert!(found.found[0].z > found.limit);
        let claims = (0..40).filter(|seed| {
            let (cases, settings, classes) = fleet(120, 0.0, 100 + seed);
            !associations(&cases, &settings, &classes, 1).found.is_empty()
        });
        let claims = claims.count();
        assert!(claims <= 6, "{claims} of 40");
    }

    #[test]
    fn settings_are_compared_by_the_machines_that_share_them() {
        let of = |letters: &str| letters.chars().map(|letter| letter == 'x').collect::<Vec<_>>();
        for (one, other, expected) in [
            ("xx..x.", "x...xx", 1.0 / 3.0),
            ("xx..", "xx..", 1.0),
            ("xx..", "..xx", -1.0),
            ("xx..", "xxxx", 0.0),
            ("x...", "xx..", 2.0 / 12.0_f64.sqrt()),
        ] {
            assert!((phi(&of(one), &of(other)) - expected).abs() < 1e-12, "{one} {other}");
        }
        assert_eq!(smaller_side(&of("x..x.")), (1.0, vec![0, 3]));
        assert_eq!(smaller_side(&of("xx.x.")), (-1.0, vec![2, 4]));
        assert_eq!(smaller_side(&of("x.")), (1.0, vec![0]));
        assert_eq!(strata(&[2, 0, 2, 0, 1, 0]), [vec![1, 3, 5], vec![0, 2]]);
        let both = [vec![0, 1, 2, 3], vec![4, 5, 6]];
        assert!(!is_told(&of("xx..x.."), &both));
    }

    /// Ranks of five known machines, of which two have the setting: by all ten ways to choose two.
    #[test]
    fn the_spread_of_a_score_is_that_of_all_exchanges() {
        let values = [3.0, 1.0, 7.0, 5.0, 9.0];
        let strata = [vec![0, 1, 2, 3, 4]];
        let scores = Scores::of(&values, &strata);
        assert!(scores.of_host.iter().zip([-0.2, -0.4, 0.2, 0.0, 0.4]).all(|(a, b)| (a - b).abs() < 1e-12));
        let sums: Vec<f64> = (0..5)
            .flat_map(|i| (i + 1..5).map(move |j| (i, j)))
            .map(|(i, j)| scores.of_host[i] + scores.of_host[j])
            .collect();
        let variance = sums.iter().map(|sum| sum * sum).sum::<f64>() / sums.len() as f64;
        let spread = scores.spread(&[true, false, false, true, false], &strata);
        assert!((spread - variance.sqrt()).abs() < 1e-12, "{spread}");
        let missing = Scores::of(&[3.0, f64::NAN, 7.0], &[vec![0, 1, 2]]);
        assert_eq!((missing.of_host, missing.squares), (vec![-0.25, 0.0, 0.25], vec![0.125]));
    }

    #[test]
    fn what_only_a_class_has_is_not_compared() {
        let classes: Vec<usize> = (0..60).map(|host| host / 30).collect();
        let of_class = classes.iter().map(|class| *class == 1).collect();
        let values = classes.iter().map(|class| *class as f64).collect();
        assert_eq!(associations(&[values], &[of_class], &classes, 1).compared, 0);
    }
}
