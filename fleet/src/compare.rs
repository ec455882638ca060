//! Two groups of sessions, case by case; the machine is the unit.
//!
//! Runs pooled over machines would claim what a few of them happen to be. Where the groups are of different hardware, the cost by itself
//! compares hardware; the multiple of the hub compares what stands between a case and the hub of the same machine, as long as the hub
//! means the same on both.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weighbridge_record::Ending;
use weighbridge_report::{Block, Document, Section, Table};
use weighbridge_stats::discovery::benjamini_hochberg;
use weighbridge_stats::hosts::components::hosts_for;
use weighbridge_stats::hosts::groups::{Difference, paired, welch};
use weighbridge_stats::median;

use crate::analysis::Q;
use crate::failure::Exit;
use crate::lake::Lake;

/// What may be said of B against A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// More by more than the margin.
    CostsMore,
    /// Less by more than the margin.
    CostsLess,
    /// Within the margin.
    Equal,
    /// The interval has both.
    Inconclusive,
}

/// A case.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The case.
    pub case: String,
    /// Machines of A and of B; of pairs both the same.
    pub hosts: [usize; 2],
    /// Cost of B over cost of A, or of their multiples of the hub.
    pub ratio: f64,
    /// Its interval at 95 %.
    pub interval: [f64; 2],
    /// Is it the ratio of multiples of the hub?
    pub by_hub: bool,
    /// What may be said.
    pub verdict: Verdict,
    /// Machines a side with which the margin is told apart; absent where no number suffices.
    pub hosts_needed: Option<usize>,
}

/// A comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The conditions.
    pub sides: [String; 2],
    /// Machines of each side.
    pub hosts: [usize; 2],
    /// Are machines compared with themselves?
    pub paired: bool,
    /// The margin, as a share.
    pub margin: f64,
    /// What a reader must know first.
    pub notes: Vec<String>,
    /// The cases.
    pub cases: Vec<Compared>,
    /// Cases that only one side has.
    pub on_one_side: Vec<String>,
}

impl Comparison {
    /// As `weighbridge compare` does: 1 for a cost that went up, 4 where nothing can be said.
    pub fn exit(&self) -> Exit {
        let has = |verdict| self.cases.iter().any(|case| case.verdict == verdict);
        match () {
            () if has(Verdict::CostsMore) => Exit::Outside,
            () if self.cases.iter().all(|case| case.verdict == Verdict::Inconclusive) => Exit::Undecided,
            () => Exit::Fine,
        }
    }
}

type Sides = [BTreeMap<usize, f64>; 2];

/// Compares the two sides that the lake was read with.
pub fn compare(lake: &Lake, sides: [String; 2], margin: f64, as_pairs: bool) -> Comparison {
    let (costs, hubs) = (by_case(lake, |row| row.cost), by_case(lake, |row| row.to_hub));
    let hosts: [BTreeSet<usize>; 2] =
        [0, 1].map(|side| costs.values().flat_map(|of: &Sides| of[side].keys().copied()).collect());
    let classes =
        [0, 1].map(|side| hosts[side].iter().map(|host| lake.hosts[*host].class).collect::<BTreeSet<_>>());
    let mut notes = Vec::new();
    let is_alike = classes[0] == classes[1];
    if !is_alike {
        notes.push("The sides are of different hardware: cases with a hub are compared by their multiples of it, which holds as long as the hub does the same on both; the others compare hardware as well.".to_owned());
    }
    let both = hosts[0].intersection(&hosts[1]).count();
    if !as_pairs && both > 0 {
        notes.push(format!(
            "{both} machines are on both sides; --paired compares each with itself and needs fewer."
        ));
    }
    let log_margin = margin.ln_1p();
    let mut compared = Vec::new();
    let mut on_one_side = Vec::new();
    for (case, of) in &costs {
        let hub = hubs.get(case).filter(|_| !is_alike && !as_pairs);
        let of_hub = hub.and_then(|hub| Some((difference(hub, as_pairs)?, hub, true)));
        match of_hub.or_else(|| Some((difference(of, as_pairs)?, of, false))) {
            Some((found, of, by_hub)) => compared.push((case, found, of, by_hub)),
            None if of.iter().any(BTreeMap::is_empty) => on_one_side.push(lake.cases.name(*case).to_owned()),
            None => {}
        }
    }
    let p_values: Vec<f64> = compared.iter().map(|(_, (found, _), _, _)| found.beyond(log_margin)).collect();
    let holds = benjamini_hochberg(&p_values, Q);
    let cases = compared
        .into_iter()
        .zip(holds)
        .map(|((case, (found, deviation), of, by_hub), holds)| {
            let interval = found.interval(0.95);
            let verdict = match () {
                () if holds && found.log_ratio > 0.0 => Verdict::CostsMore,
                () if holds => Verdict::CostsLess,
                () if interval.low > (-log_margin).exp() && interval.high < log_margin.exp() => {
                    Verdict::Equal
                }
                () => Verdict::Inconclusive,
            };
            let pairs = of[0].keys().filter(|host| of[1].contains_key(*host)).count();
            Compared {
                case: lake.cases.name(*case).into(),
                hosts: if as_pairs { [pairs; 2] } else { [of[0].len(), of[1].len()] },
                ratio: found.log_ratio.exp(),
                interval: [interval.low, interval.high],
                by_hub,
                verdict,
                hosts_needed: hosts_for(deviation, log_margin / 2.0),
            }
        })
        .collect();
    on_one_side.sort();
    Comparison {
        sides,
        hosts: hosts.map(|hosts| hosts.len()),
        paired: as_pairs,
        margin,
        notes,
        cases,
        on_one_side,
    }
}

/// The difference, and the deviation of a machine (of pairs, of a difference over √2: hosts are counted as for two groups).
fn difference(of: &Sides, as_pairs: bool) -> Option<(Difference, f64)> {
    let deviation = weighbridge_stats::order::standard_deviation;
    if as_pairs {
        let logs: Vec<f64> = of[0].iter().filter_map(|(host, a)| Some(of[1].get(host)? - a)).collect();
        let found = paired(&logs)?;
        return Some((found, deviation(&logs) / std::f64::consts::SQRT_2));
    }
    let [a, b] = [0, 1].map(|side| of[side].values().copied().collect::<Vec<_>>());
    let found = welch(&a, &b)?;
    let typical = f64::midpoint(deviation(&a).powi(2), deviation(&b).powi(2)).sqrt();
    Some((found, typical))
}

/// Of each case the middle over boots of each machine, by side.
fn by_case(lake: &Lake, of: fn(&crate::lake::Row) -> f64) -> BTreeMap<u32, Sides> {
    type Boots = BTreeMap<u32, Vec<f64>>;
    let mut all: BTreeMap<u32, [BTreeMap<usize, Boots>; 2]> = BTreeMap::new();
    for session in &lake.sessions {
        for row in session.rows.iter().filter(|row| row.ending == Ending::Measured && of(row).is_finite()) {
            for side in (0..2).filter(|side| row.sides & (1 << side) != 0) {
                let hosts = &mut all.entry(row.case).or_default()[side];
                hosts.entry(session.host).or_default().entry(session.boot).or_default().push(of(row));
            }
        }
    }
    let middle = |boots: &Boots| median(&boots.values().map(|costs| median(costs)).collect::<Vec<_>>());
    let sides = |sides: [BTreeMap<usize, Boots>; 2]| {
        sides.map(|hosts| hosts.iter().map(|(host, boots)| (*host, middle(boots))).collect())
    };
    all.into_iter().map(|(case, of)| (case, sides(of))).collect()
}

/// As text and page.
pub fn document(of: &Comparison) -> Document {
    let unit = if of.paired {
        "machines, each against itself".to_owned()
    } else {
        format!("{} and {} machines", of.hosts[0], of.hosts[1])
    };
    let sentence = format!(
        "B ({}) over A ({}), {unit}; the machine is the unit. Beyond ± {} % at most 5 % of the verdicts are expected to be wrong.",
        of.sides[1],
        of.sides[0],
        100.0 * of.margin
    );
    let row = |case: &Compared| {
        let verdict = match case.verdict {
            Verdict::CostsMore => "costs more".to_owned(),
            Verdict::CostsLess => "costs less".into(),
            Verdict::Equal => "equal within the margin".into(),
            Verdict::Inconclusive => "inconclusive".into(),
        };
        let needed = case.hosts_needed.map_or_else(|| "no number".into(), |hosts| hosts.to_string());
        let hosts = format!("{}, {}", case.hosts[0], case.hosts[1]);
        let what = if case.by_hub { "multiples of the hub" } else { "cost" };
        let interval = format!("{:.3} to {:.3}", case.interval[0], case.interval[1]);
        [case.case.clone(), format!("{:.3}", case.ratio), interval, what.into(), hosts, verdict, needed]
    };
    let heads = ["case", "B over A", "95 %", "of", "machines", "verdict", "machines needed"];
    let table = Table::new("", heads, of.cases.iter().map(row)).with_texts([3, 5]);
    let mut blocks = vec![Block::Table(table)];
    if !of.on_one_side.is_empty() {
        blocks.push(Block::Paragraph(format!("Only one side has {}.", of.on_one_side.join(", "))));
    }
    let sections = vec![Section::of("Comparison", [sentence], blocks)];
    Document { title: "Two groups of machines".into(), warnings: of.notes.clone(), sections }
}
