//! Which sessions count: those that disturbed each other, machines that are two, clocks that are wrong, and attempts that another one
//! replaces.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weighbridge_record::Ending;

use crate::clock::minute;
use crate::lake::{Lake, Row, Session};

/// Shown of each list; all are counted.
const SHOWN: usize = 50;

/// Records tell their start in whole seconds: one right behind another may seem to begin that long before the other has ended.
const STARTS_US: i64 = 1_000_000;

/// Two sessions that ran on one machine at the same time.
#[derive(Clone, Debug, Serialize)]
pub struct Overlap {
    /// The machine of the first.
    pub machine: String,
    /// That of the second, which is another name where containers have names of their own.
    pub other: String,
    /// Their records.
    pub records: [String; 2],
    /// When both ran.
    pub from: String,
    /// For how long, in seconds.
    pub seconds: f64,
}

/// Neighbors.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Interference {
    /// Sessions that ran beside another one; none of them counts for a claim.
    pub sessions: usize,
    /// Machines on which that was.
    pub machines: usize,
    /// What such sessions cost more than others of the same machine and case, as a share; absent where there are too few to tell.
    pub cost: Option<f64>,
    /// The first of them.
    pub overlaps: Vec<Overlap>,
}

/// What is wrong, apart from figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trouble {
    /// Machines that were in two boots at the same time: two machines with one id. Nothing is claimed of them.
    pub clones: Vec<String>,
    /// Machines whose clock was more than a day ahead of the store's.
    pub clocks_ahead: Vec<String>,
    /// Sessions that came into the store more than a day after they ended: pushed late, or by a clock that is behind.
    pub late_sessions: usize,
    /// Machines that are named by their host name, which in a container is that of the container.
    pub named_by_hostname: usize,
    /// Objects that could not be used, a sentence each.
    pub objects: Vec<String>,
}

/// A session that has not ended ran for that long at least.
fn end(session: &Session) -> i64 {
    session.ended_us.unwrap_or(session.started_us)
}

/// Sessions of one boot that overlap, and their indices.
pub fn interference(lake: &Lake) -> (Interference, BTreeSet<usize>) {
    let mut of_boot: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, session) in lake.sessions.iter().enumerate() {
        // Sessions of which the boot is not known might be anywhere.
        if !lake.boots.name(session.boot).is_empty() {
            of_boot.entry(session.boot).or_default().push(index);
        }
    }
    let (mut flagged, mut overlaps, mut machines) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    for (boot, all) in &of_boot {
        // In the order of time, so that those which may overlap the next are the ones that have not ended.
        let mut running: Vec<usize> = Vec::new();
        for index in all {
            let session = &lake.sessions[*index];
            running.retain(|other| end(&lake.sessions[*other]) - STARTS_US > session.started_us);
            for other in &running {
                let before = &lake.sessions[*other];
                flagged.extend([*other, *index]);
                machines.insert(boot);
                if overlaps.len() < SHOWN {
                    overlaps.push(Overlap {
                        machine: lake.hosts[before.host].name.clone(),
                        other: lake.hosts[session.host].name.clone(),
                        records: [before.record.clone(), session.record.clone()],
                        from: minute(session.started_us),
                        seconds: (end(before).min(end(session)) - session.started_us) as f64 / 1e6,
                    });
                }
            }
            running.push(*index);
        }
    }
    let cost = beside(lake, &flagged);
    (Interference { sessions: flagged.len(), machines: machines.len(), cost, overlaps }, flagged)
}

/// Over machines and cases with figures from both kinds of sessions: the middle of the differences.
fn beside(lake: &Lake, flagged: &BTreeSet<usize>) -> Option<f64> {
    let hosts: BTreeSet<usize> = flagged.iter().map(|index| lake.sessions[*index].host).collect();
    let mut costs: BTreeMap<(usize, u32), [Vec<f64>; 2]> = BTreeMap::new();
    for (index, session) in
        lake.sessions.iter().enumerate().filter(|(_, session)| hosts.contains(&session.host))
    {
        for row in session.rows.iter().filter(|row| row.cost.is_finite()) {
            costs.entry((session.host, row.case)).or_default()[usize::from(flagged.contains(&index))]
                .push(row.cost);
        }
    }
    let both = costs.values().filter(|[alone, beside]| !alone.is_empty() && !beside.is_empty());
    let median = weighbridge_stats::median;
    let differences: Vec<f64> = both.map(|[alone, beside]| median(beside) - median(alone)).collect();
    (differences.len() >= 5).then(|| super::share(median(&differences)))
}

/// What is wrong, and the indices of machines that are several.
pub fn trouble(lake: &Lake) -> (Trouble, BTreeSet<usize>) {
    let mut running: BTreeMap<usize, (i64, u32)> = BTreeMap::new();
    let (mut clones, mut ahead) = (BTreeSet::new(), BTreeSet::new());
    for session in &lake.sessions {
        let last = running.entry(session.host).or_insert((i64::MIN, session.boot));
        if session.started_us < last.0 && last.1 != session.boot {
            clones.insert(session.host);
        }
        if end(session) > last.0 {
            *last = (end(session), session.boot);
        }
        if session.clock_days > 0 {
            ahead.insert(session.host);
        }
    }
    // A boot that is over does not come back.
    let mut boots: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for session in lake.sessions.iter().filter(|session| !lake.boots.name(session.boot).is_empty()) {
        let of = boots.entry(session.host).or_default();
        if of.last() != Some(&session.boot) {
            if of.contains(&session.boot) {
                clones.insert(session.host);
            }
            of.push(session.boot);
        }
    }
    let names = |of: &BTreeSet<usize>| of.iter().map(|host| lake.hosts[*host].name.clone()).collect();
    let trouble = Trouble {
        clones: names(&clones),
        clocks_ahead: names(&ahead),
        late_sessions: lake.sessions.iter().filter(|session| session.clock_days < 0).count(),
        named_by_hostname: lake.hosts.iter().filter(|host| host.named_by == "hostname").count(),
        objects: lake.problems.iter().map(ToString::to_string).collect(),
    };
    (trouble, clones)
}

/// A row that counts, with the index of its session.
pub type Usable = (usize, Row);

/// Rows with a figure of sessions that ran alone on machines that are one. Of the attempts at one plan and shard in one boot, the last
/// that measured a case counts.
pub fn usable(lake: &Lake, overlapping: &BTreeSet<usize>, clones: &BTreeSet<usize>) -> Vec<Usable> {
    let counts = |(index, session): &(usize, &Session)| {
        !overlapping.contains(index) && !clones.contains(&session.host)
    };
    let mut last: BTreeMap<(usize, u32, &str, i64, u32), Usable> = BTreeMap::new();
    let mut all = Vec::new();
    for (index, session) in lake.sessions.iter().enumerate().filter(counts) {
        for row in session.rows.iter().filter(|row| row.ending == Ending::Measured && row.cost.is_finite()) {
            match &session.plan {
                Some((plan, shard, _)) => {
                    _ = last.insert((session.host, session.boot, plan, *shard, row.case), (index, *row));
                }
                None => all.push((index, *row)),
            }
        }
    }
    all.extend(last.into_values());
    all
}
