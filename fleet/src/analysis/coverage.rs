//! What is there and what is missing. Without it a fleet shows those that survived.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weighbridge_record::Ending;

use super::Options;
use crate::clock::minute;
use crate::lake::Lake;

/// Shown of each list; all are counted.
const SHOWN: usize = 100;

/// Cases without a figure, for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct Unmeasured {
    /// `skipped`, `void` or `interrupted`.
    pub outcome: &'static str,
    /// The sentence of the record.
    pub why: String,
    /// Rows.
    pub rows: usize,
    /// Machines.
    pub machines: usize,
    /// Some of the cases.
    pub cases: Vec<String>,
}

/// What there is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Coverage {
    /// Objects that were read.
    pub objects: usize,
    /// Machines.
    pub machines: usize,
    /// Boots.
    pub boots: usize,
    /// Sessions.
    pub sessions: usize,
    /// Those that did not measure all that they planned.
    pub incomplete_sessions: usize,
    /// Cases.
    pub cases: usize,
    /// Rows with a figure.
    pub measured: usize,
    /// When the first session began and the last one.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// Machines that were to be there and are not.
    pub missing_machines: Vec<String>,
    /// Machines and cases of which another machine of the class has a figure and they have not.
    pub missing_cells: usize,
    /// Cases that are missing on most machines of a class that has them, and on how many.
    pub missing_cases: Vec<(String, usize)>,
    /// Shards of plans of which nothing came: the plan, and the numbers.
    pub missing_shards: Vec<(String, Vec<i64>)>,
    /// Rows without a figure, by reason.
    pub unmeasured: Vec<Unmeasured>,
}

/// Rows without a figure for one reason.
#[derive(Default)]
struct Reason {
    rows: usize,
    machines: BTreeSet<usize>,
    cases: BTreeSet<u32>,
}

pub fn coverage(lake: &Lake, options: &Options) -> Coverage {
    let there: BTreeSet<&str> = lake.hosts.iter().map(|host| host.name.as_str()).collect();
    let missing = options.expected.iter().filter(|name| !there.contains(name.as_str())).cloned().collect();
    let mut reasons: BTreeMap<(&'static str, u32), Reason> = BTreeMap::new();
    let mut measured = 0;
    let mut of_class: BTreeMap<u32, BTreeMap<u32, BTreeSet<usize>>> = BTreeMap::new();
    for session in &lake.sessions {
        for row in &session.rows {
            if row.ending == Ending::Measured {
                measured += 1;
                of_class
                    .entry(lake.hosts[session.host].class)
                    .or_default()
                    .entry(row.case)
                    .or_default()
                    .insert(session.host);
            } else {
                let of = reasons.entry((row.ending.name(), row.why)).or_default();
                of.rows += 1;
                of.machines.insert(session.host);
                of.cases.insert(row.case);
            }
        }
    }
    let mut hosts_of: BTreeMap<u32, usize> = BTreeMap::new();
    lake.hosts.iter().for_each(|host| *hosts_of.entry(host.class).or_default() += 1);
    let mut missing_cells = 0;
    let mut missing_cases: BTreeMap<u32, usize> = BTreeMap::new();
    for (class, cases) in &of_class {
        for (case, hosts) in cases {
            let without = hosts_of[class] - hosts.len();
            missing_cells += without;
            *missing_cases.entry(*case).or_default() += without;
        }
    }
    let mut missing_cases: Vec<(String, usize)> = missing_cases
        .into_iter()
        .filter(|(_, machines)| *machines > 0)
        .map(|(case, machines)| (lake.cases.name(case).to_owned(), machines))
        .collect();
    missing_cases.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    missing_cases.truncate(SHOWN);
    let mut unmeasured: Vec<Unmeasured> = reasons
        .into_iter()
        .map(|((outcome, why), Reason { rows, machines, cases })| Unmeasured {
            outcome,
            why: lake.whys.name(why).to_owned(),
            rows,
            machines: machines.len(),
            cases: cases.iter().take(3).map(|case| lake.cases.name(*case).to_owned()).collect(),
        })
        .collect();
    unmeasured.sort_by(|a, b| b.rows.cmp(&a.rows).then(a.why.cmp(&b.why)));
    unmeasured.truncate(SHOWN);
    let boots: BTreeSet<_> = lake.sessions.iter().map(|session| (session.host, session.boot)).collect();
    let time =
        |session: Option<&crate::lake::Session>| session.map(|of| minute(of.started_us)).unwrap_or_default();
    Coverage {
        objects: lake.objects,
        machines: lake.hosts.len(),
        boots: boots.len(),
        sessions: lake.sessions.len(),
        incomplete_sessions: lake.sessions.iter().filter(|session| !session.complete).count(),
        cases: lake.cases.all().len(),
        measured,
        from: time(lake.sessions.first()),
        to: time(lake.sessions.last()),
        missing_machines: missing,
        missing_cells,
        missing_cases,
        missing_shards: shards(lake),
        unmeasured,
    }
}

fn shards(lake: &Lake) -> Vec<(String, Vec<i64>)> {
    let mut seen: BTreeMap<&str, (i64, BTreeSet<i64>)> = BTreeMap::new();
    for (plan, shard, shards) in lake.sessions.iter().filter_map(|session| session.plan.as_ref()) {
        let of = seen.entry(plan).or_default();
        of.0 = of.0.max(*shards);
        of.1.insert(*shard);
    }
    // A plan of one part is nobody's shard.
    let shared = seen.into_iter().filter(|(_, (shards, _))| *shards > 1);
    let missing = |(plan, (shards, there)): (&str, (i64, BTreeSet<i64>))| {
        (
            plan.to_owned(),
            (1..=shards.min(100_000)).filter(|shard| !there.contains(shard)).collect::<Vec<_>>(),
        )
    };
    shared.map(missing).filter(|(_, missing)| !missing.is_empty()).collect()
}
