//! What changed on many machines at one time.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weighbridge_record::Ending;
use weighbridge_stats::hosts::events::{SHORTEST, Split, events as of_case, split};
use weighbridge_stats::median;

use super::{Q, share};
use crate::clock::{DAY_US, day};
use crate::lake::Lake;

/// Machines that are named.
const SHOWN: usize = 20;

/// A day on which many machines changed.
#[derive(Clone, Debug, Serialize)]
pub struct FleetEvent {
    /// First day of the new level.
    pub day: String,
    /// Machines that changed.
    pub machines: usize,
    /// Machines that have figures from before and after.
    pub of: usize,
    /// The first of those that changed.
    pub some: Vec<String>,
    /// Cases in which they did.
    pub cases: Vec<String>,
    /// Middle of the changes, as a share.
    pub change: f64,
    /// Kernels before and after, where most of them changed it on that day.
    pub kernel: Option<[String; 2]>,
}

/// Steps of one day and direction.
#[derive(Default)]
struct Together {
    hosts: BTreeSet<usize>,
    cases: Vec<u32>,
    changes: Vec<f64>,
}

pub fn events(lake: &Lake, clones: &BTreeSet<usize>, margin: f64) -> Vec<FleetEvent> {
    let of_day = |us: i64| us.div_euclid(DAY_US);
    let mut histories: BTreeMap<(u32, usize), BTreeMap<i64, Vec<f64>>> = BTreeMap::new();
    let mut kernels: BTreeMap<usize, BTreeMap<i64, u32>> = BTreeMap::new();
    let mut days: BTreeSet<i64> = BTreeSet::new();
    for session in &lake.sessions {
        days.insert(of_day(session.started_us));
    }
    if days.len() < 2 * SHORTEST {
        return Vec::new();
    }
    for session in lake.sessions.iter().filter(|session| !clones.contains(&session.host)) {
        let day = of_day(session.started_us);
        kernels.entry(session.host).or_default().insert(day, session.kernel);
        for row in session.rows.iter().filter(|row| row.ending == Ending::Measured && row.cost.is_finite()) {
            histories.entry((row.case, session.host)).or_default().entry(day).or_default().push(row.cost);
        }
    }
    let number: BTreeMap<i64, usize> = days.iter().enumerate().map(|(number, day)| (*day, number)).collect();
    let days: Vec<i64> = days.into_iter().collect();
    let mut splits: BTreeMap<u32, Vec<(usize, Split)>> = BTreeMap::new();
    for ((case, host), history) in &histories {
        let history: Vec<(usize, f64)> =
            history.iter().map(|(day, costs)| (number[day], median(costs))).collect();
        if let Some(found) = split(&history, margin.ln_1p()) {
            splits.entry(*case).or_default().push((*host, found));
        }
    }
    // The same day and direction in several cases is one event.
    let mut together: BTreeMap<(usize, bool), Together> = BTreeMap::new();
    for (case, all) in &splits {
        let found: Vec<Split> = all.iter().map(|(_, split)| *split).collect();
        for event in of_case(&found, days.len(), Q) {
            let of = together.entry((event.day, event.change > 0.0)).or_default();
            of.hosts.extend(event.splits.iter().map(|index| all[*index].0));
            of.cases.push(*case);
            of.changes.extend(event.splits.iter().map(|index| all[*index].1.change));
        }
    }
    let name = |host: &usize| lake.hosts[*host].name.clone();
    let mut events: Vec<FleetEvent> = together
        .into_iter()
        .map(|((at, _), Together { hosts, cases, changes })| FleetEvent {
            day: day(days[at] * DAY_US),
            machines: hosts.len(),
            of: kernels
                .values()
                .filter(|seen| {
                    seen.range(..days[at]).next().is_some() && seen.range(days[at]..).next().is_some()
                })
                .count(),
            some: hosts.iter().take(SHOWN).map(name).collect(),
            cases: cases.iter().map(|case| lake.cases.name(*case).to_owned()).collect(),
            change: share(median(&changes)),
            kernel: kernel_change(lake, &kernels, &hosts, days[at]),
        })
        .collect();
    events.sort_by(|a, b| b.machines.cmp(&a.machines).then(a.day.cmp(&b.day)));
    events
}

/// The kernels that most of these machines had before a day and from then on, where they differ.
fn kernel_change(
    lake: &Lake,
    kernels: &BTreeMap<usize, BTreeMap<i64, u32>>,
    hosts: &BTreeSet<usize>,
    day: i64,
) -> Option<[String; 2]> {
    let mut changes: BTreeMap<[u32; 2], usize> = BTreeMap::new();
    for seen in hosts.iter().filter_map(|host| kernels.get(host)) {
        let before = seen.range(..day).next_back();
        let after = seen.range(day..).next();
        if let (Some((_, before)), Some((_, after))) = (before, after) {
            *changes.entry([*before, *after]).or_default() += 1;
        }
    }
    let (change, count) = changes.into_iter().max_by_key(|(_, count)| *count)?;
    (change[0] != change[1] && 2 * count > hosts.len())
        .then(|| change.map(|kernel| lake.kernels.name(kernel).to_owned()))
}
