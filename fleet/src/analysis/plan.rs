//! What to measure again: machines and cells that may be off, and machines without a second boot where the error of a figure is not
//! known.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weighbridge_record::plan::Plan;
use weighbridge_stats::random::Random;

use super::Options;
use super::hosts::{Class, Table};
use crate::lake::Lake;

/// Machines with two boots that tell the error of a figure well.
const PAIRS: usize = 100;
/// Asked for again, as a share of a class, and at least.
const ONE_IN: usize = 20;
const LEAST: usize = 20;

/// A machine to measure again, in another boot.
#[derive(Clone, Debug, Serialize)]
pub struct RemeasureHost {
    /// Its name.
    pub machine: String,
    /// Why.
    pub why: String,
    /// The cases; empty for all.
    pub cases: Vec<String>,
}

/// What to measure again.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Remeasure {
    /// The machines, those that are off by most first.
    pub hosts: Vec<RemeasureHost>,
    /// Candidates for which there was no room.
    pub left_out: usize,
}

/// A plan of what to measure again: `weighbridge run --plan` carries out on each of the machines what is asked of it.
#[derive(Clone, Debug, Serialize)]
pub struct Again {
    #[serde(flatten)]
    plan: Plan,
    hosts: Vec<RemeasureHost>,
    left_out: usize,
}

impl Remeasure {
    /// With the effort of this plan, and those of the cases that are in it.
    pub fn as_plan(&self, of: &Plan) -> Again {
        let planned: BTreeMap<String, _> =
            of.cases.iter().map(|case| (case.case.to_string(), case)).collect();
        let mut hosts = self.hosts.clone();
        hosts.retain_mut(|host| {
            let is_for_all = host.cases.is_empty();
            host.cases.retain(|case| planned.contains_key(case));
            // Without any it would be asked for all.
            is_for_all || !host.cases.is_empty()
        });
        let is_asked = |case: &String| hosts.iter().any(|of| of.cases.is_empty() || of.cases.contains(case));
        let cases = of.cases.iter().filter(|case| is_asked(&case.case.to_string())).cloned().collect();
        let plan = Plan::new(Some(of.seed), of.settings.clone(), cases);
        Again { plan, hosts, left_out: self.left_out }
    }
}

pub fn remeasure(lake: &Lake, tables: &[Table], classes: &[Class], options: &Options) -> Remeasure {
    let mut plan = Remeasure::default();
    for (table, class) in tables.iter().zip(classes) {
        if class.machines < super::hosts::FEWEST {
            continue;
        }
        let most = options.remeasure.unwrap_or_else(|| (class.machines / ONE_IN).max(LEAST));
        let mut asked = BTreeSet::new();
        let candidates: Vec<_> = class.hosts.iter().filter(|host| !host.is_sure).collect();
        plan.left_out += candidates.len().saturating_sub(most);
        for host in candidates.into_iter().take(most) {
            asked.insert(host.machine.clone());
            let why = format!(
                "{:+.1} % in {} boot{}",
                100.0 * host.effect,
                host.boots,
                if host.boots == 1 { "" } else { "s" }
            );
            plan.hosts.push(RemeasureHost { machine: host.machine.clone(), why, cases: Vec::new() });
        }
        let mut of_cells: BTreeMap<&str, Vec<&super::OffCell>> = BTreeMap::new();
        for cell in class.cells.iter().filter(|cell| !cell.is_sure && !asked.contains(&cell.machine)) {
            of_cells.entry(&cell.machine).or_default().push(cell);
        }
        for (machine, cells) in of_cells {
            let mut cases: Vec<String> = cells.iter().map(|cell| cell.case.clone()).collect();
            // What the others of the machine say tells whether it is the machine.
            let others =
                class_cases(lake, table).filter(|case| !cases.contains(case)).take(3).collect::<Vec<_>>();
            cases.extend(others);
            let why = format!("{:+.1} % in {}", 100.0 * cells[0].effect, cells[0].case);
            asked.insert(machine.to_owned());
            plan.hosts.push(RemeasureHost { machine: machine.to_owned(), why, cases });
        }
        plan.hosts.extend(for_the_error(lake, table, class, &asked));
    }
    plan
}

fn class_cases<'a>(lake: &'a Lake, table: &'a Table) -> impl Iterator<Item = String> + 'a {
    table.cases.iter().map(|case| lake.cases.name(*case).to_owned())
}

/// Machines at random, so that the error is that of all.
fn for_the_error(lake: &Lake, table: &Table, class: &Class, asked: &BTreeSet<String>) -> Vec<RemeasureHost> {
    let missing = PAIRS.min(class.machines).saturating_sub(class.pairs);
    if class.deviation.is_some() && class.pairs >= PAIRS / 3 {
        return Vec::new();
    }
    let once = (0..table.hosts.len())
        .filter(|row| table.boots[*row].len() == 1)
        .map(|row| &lake.hosts[table.hosts[row]].name);
    let mut names: Vec<&String> = once.filter(|name| !asked.contains(*name)).collect();
    Random::new(names.len() as u64).shuffle(&mut names);
    let why = "a second boot tells how sure the figures of this class are".to_owned();
    names
        .into_iter()
        .take(missing)
        .map(|name| RemeasureHost { machine: name.clone(), why: why.clone(), cases: Vec::new() })
        .collect()
}
