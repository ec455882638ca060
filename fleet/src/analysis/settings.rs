//! Settings that go with costs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weighbridge_stats::hosts::association::{FEWEST, SAME, associations, phi};
use weighbridge_stats::hosts::components::hosts_for;
use weighbridge_stats::median;

use super::hosts::Table;
use super::share;
use crate::lake::Lake;

/// A setting with more values than this counts as a number, above or below its middle, or not at all.
const MOST_VALUES: usize = 20;

/// A setting and its value.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// The value, or `> 12` for numbers above the middle.
    pub value: String,
    /// Machines that have it.
    pub machines: usize,
    /// Correlation with the first of its group: 1 on the same machines, −1 on the others.
    pub with_first: f64,
}

/// Settings that cannot be told apart, and what goes with them.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The settings, the strongest first.
    pub settings: Vec<Setting>,
    /// The case in which it is clearest.
    pub case: String,
    /// What machines with the first setting cost more there, as a share.
    pub effect: f64,
    /// Standard score of ranks.
    pub z: f64,
    /// Probability of as large a score of any setting in any case by chance.
    pub p: f64,
    /// What would tell.
    pub experiment: String,
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explaining {
    /// Settings that differ between enough machines of a class.
    pub compared: usize,
    /// The largest score that chance gives in one of twenty fleets.
    pub limit: f64,
    /// What goes with costs.
    pub groups: Vec<Group>,
}

pub fn explaining(lake: &Lake, tables: &[Table]) -> Explaining {
    let tables: Vec<&Table> = tables.iter().filter(|table| table.hosts.len() >= 2 * FEWEST).collect();
    let hosts: Vec<usize> = tables.iter().flat_map(|table| table.hosts.iter().copied()).collect();
    let classes: Vec<usize> = tables
        .iter()
        .enumerate()
        .flat_map(|(class, table)| std::iter::repeat_n(class, table.hosts.len()))
        .collect();
    let names: BTreeSet<u32> = tables.iter().flat_map(|table| table.cases.iter().copied()).collect();
    let values = |case: u32| -> Vec<f64> {
        let of_table = |table: &&Table| {
            let column = table.cases.iter().position(|other| *other == case);
            let of = |row: usize| column.map_or(f64::NAN, |column| table.costs.get(row, column));
            (0..table.hosts.len()).map(of).collect::<Vec<_>>()
        };
        tables.iter().flat_map(of_table).collect()
    };
    let cases: Vec<u32> = names.into_iter().collect();
    let costs: Vec<Vec<f64>> = cases.iter().map(|case| values(*case)).collect();
    let (settings, flags) = indicators(lake, &hosts);
    let found = associations(&costs, &flags, &classes, 1);
    let group = |members: &Vec<usize>| {
        let first =
            found.found.iter().find(|of| of.setting == members[0]).expect("a group of what was found");
        let flags_of_first = &flags[members[0]];
        let effect = apart(&costs[first.case], flags_of_first, &classes);
        let shown: Vec<Setting> = members
            .iter()
            .map(|member| Setting {
                with_first: phi(&flags[*member], flags_of_first),
                ..settings[*member].clone()
            })
            .collect();
        Group {
            experiment: experiment(&shown, effect, &costs[first.case], &flags, members),
            settings: shown,
            case: lake.cases.name(cases[first.case]).into(),
            effect: share(effect),
            z: first.z,
            p: first.p,
        }
    };
    Explaining {
        compared: found.compared,
        limit: found.limit,
        groups: found.groups.iter().map(group).collect(),
    }
}

/// Each setting as machines that have a value and those that have not.
fn indicators(lake: &Lake, hosts: &[usize]) -> (Vec<Setting>, Vec<Vec<bool>>) {
    let mut values: BTreeMap<u32, Vec<Option<u32>>> = BTreeMap::new();
    for (row, host) in hosts.iter().enumerate() {
        for (name, value) in &lake.hosts[*host].facts {
            values.entry(*name).or_insert_with(|| vec![None; hosts.len()])[row] = Some(*value);
        }
    }
    let (mut settings, mut flags): (Vec<Setting>, Vec<Vec<bool>>) = (Vec::new(), Vec::new());
    let mut add = |name: u32, value: String, has: Vec<bool>| {
        let machines = has.iter().filter(|has| **has).count();
        if machines >= FEWEST && has.len() - machines >= FEWEST {
            settings.push(Setting { name: lake.facts.name(name).into(), value, machines, with_first: 1.0 });
            flags.push(has);
        }
    };
    for (name, of_hosts) in values {
        let distinct: BTreeSet<Option<u32>> = of_hosts.iter().copied().collect();
        match distinct.len() {
            0 | 1 => {}
            // The one says what the other does not.
            2 => {
                let value = distinct.iter().flatten().next_back().copied();
                let has = of_hosts.iter().map(|of| *of == value).collect();
                add(name, value.map(|value| lake.values.name(value).to_owned()).unwrap_or_default(), has);
            }
            3..=MOST_VALUES => {
                for value in distinct.into_iter().flatten() {
                    let has = of_hosts.iter().map(|of| *of == Some(value)).collect();
                    add(name, lake.values.name(value).into(), has);
                }
            }
            _ => {
                let number = |of: &Option<u32>| {
                    lake.values.name((*of)?).trim().parse::<f64>().ok().filter(|value| value.is_finite())
                };
                let numbers: Vec<Option<f64>> = of_hosts.iter().map(number).collect();
                let known: Vec<f64> = numbers.iter().copied().flatten().collect();
                if known.len() == of_hosts.len() {
                    let middle = median(&known);
                    add(name, format!("> {middle}"), known.iter().map(|value| *value > middle).collect());
                }
            }
        }
    }
    (settings, flags)
}

/// Middle of those that have it less the middle of those that have not, within classes.
fn apart(values: &[f64], flags: &[bool], classes: &[usize]) -> f64 {
    let most = classes.iter().max().map_or(0, |most| most + 1);
    let mut differences = Vec::new();
    for class in 0..most {
        let side = |has: bool| -> Vec<f64> {
            let of = |row: &usize| classes[*row] == class && flags[*row] == has && values[*row].is_finite();
            (0..values.len()).filter(of).map(|row| values[row]).collect()
        };
        let (with, without) = (side(true), side(false));
        if !with.is_empty() && !without.is_empty() {
            differences.push((median(&with) - median(&without), with.len().min(without.len())));
        }
    }
    let weight: usize = differences.iter().map(|(_, weight)| weight).sum();
    differences.iter().map(|(difference, of)| difference * *of as f64).sum::<f64>() / weight.max(1) as f64
}

fn experiment(
    group: &[Setting],
    effect: f64,
    values: &[f64],
    flags: &[Vec<bool>],
    members: &[usize],
) -> String {
    let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let hosts =
        hosts_for(weighbridge_stats::order::standard_deviation(&known), (effect.abs() / 2.0).max(1e-4))
            .unwrap_or(2)
            .max(2);
    let first = &group[0];
    let alone = format!(
        "on {hosts} machines with {} = {}, change that alone and measure each before and after (`compare --paired`)",
        first.name, first.value
    );
    let Some((other, member)) = group.iter().zip(members).nth(1) else { return alone };
    let differing = flags[members[0]]
        .iter()
        .zip(&flags[*member])
        .filter(|(a, b)| (*a == *b) != (other.with_first > 0.0))
        .count();
    match differing {
        0 => format!("no machine has one of the {} settings without the others: {alone}", group.len()),
        _ => format!(
            "{differing} machines tell {} and {} apart (|φ| > {SAME} on all others): measure those again; else {alone}",
            first.name, other.name
        ),
    }
}
