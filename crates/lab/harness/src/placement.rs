//! Where the peers run: names for what the topology offers, and the CPUs they come to.

use crate::host::Host;
use weighbridge_probe::topology::Place;

/// A placement as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its name in case ids.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
}

/// Every placement there is, on any machine.
pub const ALL: &[Placement] = &[
    Placement { name: "same-cpu", about: "all roles on one CPU" },
    Placement { name: "smt", about: "two hardware threads of one core" },
    Placement { name: "same-llc", about: "two cores that share the last-level cache" },
    Placement { name: "cross-llc", about: "two cores of one node with last-level caches of their own" },
    Placement { name: "cross-node", about: "two cores of different NUMA nodes" },
    Placement {
        name: "two-cpus",
        about: "the nearest two cores there are: same-llc, else cross-llc, cross-node, smt",
    },
    Placement { name: "spread", about: "one CPU after another, as many as there are" },
    Placement { name: "free", about: "not pinned; the scheduler decides" },
];

/// A placement on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its name with aliases resolved.
    pub resolved: &'static str,
    /// The CPU of the first role and those of the others, the last for all that are left; none where nothing is pinned.
    pub cpus: Vec<u32>,
    /// The same of other nodes, or pairs of nodes, where the machine has several and the user chose none of its CPUs.
    pub others: Vec<Vec<u32>>,
}

impl Placed {
    /// The CPU of each of `roles` roles; empty where nothing is pinned.
    pub fn cpus_of(&self, roles: usize) -> Vec<u32> {
        let Some(last) = self.cpus.len().checked_sub(1) else { return Vec::new() };
        (0..roles).map(|role| self.cpus[role.min(last)]).collect()
    }

    /// The same for roles that all do the same: one CPU after the other, and from the beginning again.
    pub fn cpus_in_turn(&self, roles: usize) -> Vec<u32> {
        self.cpus.iter().copied().cycle().take(if self.cpus.is_empty() { 0 } else { roles }).collect()
    }
}

/// The placement of this name, or a sentence with those that there are.
pub fn named(name: &str) -> Result<Placement, String> {
    ALL.iter().copied().find(|placement| placement.name == name).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|placement| placement.name).collect();
        format!("there is no placement `{name}`; there are {}", known.join(", "))
    })
}

/// Finds CPUs for a placement among those that may be measured on, or says what this machine lacks.
pub fn place(name: &str, host: &Host) -> Result<Placed, String> {
    let Placement { name, about } = named(name)?;
    if name == "free" {
        return Ok(Placed { resolved: name, cpus: Vec::new(), others: Vec::new() });
    }
    if let Some(why) = &host.pin_refused {
        return Err(format!("{name} needs to pin threads, and that is refused here: {why}; use free"));
    }
    let places: Vec<Place> = host.measured_cpus.iter().filter_map(|cpu| host.topology.place(*cpu)).collect();
    let Some(first) = places.first().copied() else {
        return Err("none of the CPUs that may be measured on is known to the system".into());
    };
    if name == "spread" {
        let cpus = places.iter().map(|place| place.cpu).collect();
        return Ok(Placed { resolved: name, cpus, others: Vec::new() });
    }
    let found = match name {
        "same-cpu" => Some((name, first.cpu, first.cpu)),
        "two-cpus" => {
            ["same-llc", "cross-llc", "cross-node", "smt"].into_iter().find_map(|name| pair(name, &places))
        }
        name => pair(name, &places),
    };
    match found {
        Some((resolved, a, b)) => {
            let is_chosen = host.measured_cpus != host.allowed_cpus;
            let others = if is_chosen { Vec::new() } else { elsewhere(resolved, &places, [a, b]) };
            Ok(Placed { resolved, cpus: vec![a, b], others })
        }
        None if places.len() == 1 => {
            Err(format!("{name} needs two CPUs, and only CPU {} may be measured on", first.cpu))
        }
        None => {
            let cpus = host.measured_cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            Err(format!("this machine has no {name} ({about}) among CPUs {cpus}"))
        }
    }
}

/// The first pair, in the order of preference, that stands as `name` says.
fn pair(name: &'static str, places: &[Place]) -> Option<(&'static str, u32, u32)> {
    pairs(name, places).next().map(|(a, b)| (name, a.cpu, b.cpu))
}

/// All pairs that stand as `name` says.
fn pairs<'a>(name: &'a str, places: &'a [Place]) -> impl Iterator<Item = (&'a Place, &'a Place)> {
    let stands = move |a: &Place, b: &Place| {
        let same_core = (a.package, a.core) == (b.package, b.core);
        match name {
            "smt" => same_core,
            "same-llc" => !same_core && a.llc == b.llc,
            "cross-llc" => a.llc != b.llc && a.node == b.node,
            "cross-node" => a.node != b.node,
            _ => false,
        }
    };
    let from = move |(index, a): (usize, &'a Place)| {
        places[index + 1..].iter().filter(move |b| stands(a, b)).map(move |b| (a, b))
    };
    places.iter().enumerate().flat_map(from)
}

/// Of each other node, or pair of nodes, the first CPUs that stand alike: what one node shows need not hold of the next, whose memory, load and
/// firmware are its own.
fn elsewhere(name: &str, places: &[Place], [first, second]: [u32; 2]) -> Vec<Vec<u32>> {
    let node = |cpu: u32| places.iter().find(|place| place.cpu == cpu).map_or(0, |place| place.node);
    let mut seen = vec![[node(first), node(second)]];
    let mut others = Vec::new();
    let alike: Vec<(&Place, &Place)> = match name {
        "same-cpu" => places.iter().map(|place| (place, place)).collect(),
        name => pairs(name, places).collect(),
    };
    for (a, b) in alike {
        if !seen.contains(&[a.node, b.node]) {
            seen.push([a.node, b.node]);
            others.push(vec![a.cpu, b.cpu]);
        }
    }
    others
}

/// Where the coordinator should stay: off the measured CPUs where there are others.
pub fn coordinator_cpus(host: &Host, measured: &[u32]) -> Vec<u32> {
    let others: Vec<u32> = host.allowed_cpus.iter().copied().filter(|cpu| !measured.contains(cpu)).collect();
    if others.is_empty() { host.allowed_cpus.clone() } else { others }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_probe::topology::Topology;

    fn host(cpus: &[(u32, u32, u32, u32)]) -> Host {
        let cpus: Vec<Place> = cpus
            .iter()
            .map(|&(cpu, core, llc, node)| Place { cpu, core, package: node, llc, node })
            .collect();
        Host {
            allowed_cpus: cpus.iter().map(|place| place.cpu).collect(),
            measured_cpus: cpus.iter().map(|place| place.cpu).collect(),
            topology: Topology { cpus, caches: Vec::new(), nodes: Vec::new() },
            pin_refused: None,
            uring_refused: None,
            nice: 0,
            policy: "other".into(),
            has_private_ipc: false,
        }
    }

    #[test]
    fn every_placement_finds_its_pair_or_says_what_the_machine_lacks() {
        // CPU, core, last-level cache, node: two nodes, two caches in the first, SMT siblings 0 and 4.
        let all = || host(&[(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 2, 0), (3, 3, 3, 1), (4, 0, 0, 0)]);
        let one = || host(&[(3, 0, 3, 0)]);
        let two = || host(&[(0, 0, 0, 0), (1, 1, 0, 0)]);
        let siblings = || host(&[(0, 0, 0, 0), (1, 0, 0, 0)]);
        let chosen = |cpus: &[u32]| Host {
            measured_cpus: cpus.to_vec(),
            ..host(&[(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 0, 0)])
        };
        let pair = |resolved: &str, cpus: [u32; 2]| Ok(format!("{resolved} {cpus:?}"));
        for (host, name, found) in [
            (all(), "same-cpu", pair("same-cpu", [0, 0])),
            (all(), "smt", pair("smt", [0, 4])),
            (all(), "same-llc", pair("same-llc", [0, 1])),
            (all(), "cross-llc", pair("cross-llc", [0, 2])),
            (all(), "cross-node", pair("cross-node", [0, 3])),
            (all(), "two-cpus", pair("same-llc", [0, 1])),
            (one(), "two-cpus", Err("two-cpus needs two CPUs, and only CPU 3 may be measured on")),
            (one(), "same-cpu", pair("same-cpu", [3, 3])),
            (two(), "cross-node", Err("no cross-node")),
            (two(), "next-door", Err("there are same-cpu, smt")),
            // Siblings only where there is no other pair.
            (siblings(), "two-cpus", pair("smt", [0, 1])),
            // In the order in which they were chosen.
            (chosen(&[2, 1]), "same-cpu", pair("same-cpu", [2, 2])),
            (chosen(&[2, 1]), "two-cpus", pair("same-llc", [2, 1])),
            (chosen(&[1]), "two-cpus", Err("only CPU 1")),
        ] {
            match (place(name, &host), found) {
                (Ok(placed), Ok(found)) => {
                    assert_eq!(format!("{} {:?}", placed.resolved, placed.cpus), found)
                }
                (Err(why), Err(found)) => assert!(why.contains(found), "{name}: {why}"),
                (placed, _) => panic!("{name}: {placed:?}"),
            }
        }
    }

    #[test]
    fn each_node_and_pair_of_nodes_is_a_place_unless_cpus_were_chosen() {
        // Two nodes of two cores with one cache each.
        let two = || host(&[(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 2, 1), (3, 3, 2, 1)]);
        let three = || host(&[(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 2, 1), (3, 3, 3, 2)]);
        let one = || host(&[(0, 0, 0, 0), (1, 1, 0, 0)]);
        let chosen = || Host { measured_cpus: vec![2, 3], ..two() };
        for (host, name, first, others) in [
            (two(), "same-cpu", [0, 0], vec![vec![2, 2]]),
            (two(), "two-cpus", [0, 1], vec![vec![2, 3]]),
            (two(), "cross-node", [0, 2], vec![]),
            (three(), "cross-node", [0, 2], vec![vec![0, 3], vec![2, 3]]),
            (three(), "two-cpus", [0, 1], vec![]),
            (one(), "two-cpus", [0, 1], vec![]),
            (chosen(), "two-cpus", [2, 3], vec![]),
        ] {
            let placed = place(name, &host).unwrap();
            assert_eq!((&placed.cpus[..], placed.others), (&first[..], others), "{name}");
        }
    }

    #[test]
    fn further_roles_have_the_last_cpu_or_all_in_turn() {
        let host = host(&[(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 0, 0), (4, 0, 0, 0)]);
        assert!(place("free", &host).unwrap().cpus_of(2).is_empty());
        assert_eq!(place("smt", &host).unwrap().cpus_of(3), [0, 4, 4]);
        assert_eq!(place("smt", &host).unwrap().cpus_in_turn(3), [0, 4, 0]);
        assert_eq!(place("spread", &host).unwrap().cpus_in_turn(6), [0, 1, 2, 4, 0, 1]);
    }

    #[test]
    fn the_coordinator_leaves_measured_cpus_alone_where_it_can() {
        let two = host(&[(0, 0, 0, 0), (1, 1, 0, 0)]);
        assert_eq!(coordinator_cpus(&two, &[0, 0]), [1]);
        assert_eq!(coordinator_cpus(&two, &[0, 1]), [0, 1]);
    }
}
