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

/// Finds CPUs for a placement among those that may be measured on.
///
/// # Errors
/// A sentence: there is no such placement, or this machine does not have it.
pub fn place(name: &str, host: &Host) -> Result<Placed, String> {
    let name = ALL.iter().map(|placement| placement.name).find(|known| *known == name).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|placement| placement.name).collect();
        format!("there is no placement `{name}`; there are {}", known.join(", "))
    })?;
    if name == "free" {
        return Ok(Placed { resolved: name, cpus: Vec::new() });
    }
    if let Some(why) = &host.pin_refused {
        return Err(format!("{name} needs to pin threads, and that is refused here: {why}; use free"));
    }
    let place_of = |cpu: &u32| host.topology.cpus.iter().find(|place| place.cpu == *cpu).copied();
    let places: Vec<Place> = host.measured_cpus.iter().filter_map(place_of).collect();
    let Some(first) = places.first().copied() else {
        return Err("none of the CPUs that may be measured on is known to the system".into());
    };
    if name == "spread" {
        return Ok(Placed { resolved: name, cpus: places.iter().map(|place| place.cpu).collect() });
    }
    let found = match name {
        "same-cpu" => Some((name, first.cpu, first.cpu)),
        "two-cpus" => {
            ["same-llc", "cross-llc", "cross-node", "smt"].into_iter().find_map(|name| pair(name, &places))
        }
        name => pair(name, &places),
    };
    match found {
        Some((resolved, a, b)) => Ok(Placed { resolved, cpus: vec![a, b] }),
        None if places.len() == 1 => {
            Err(format!("{name} needs two CPUs, and only CPU {} may be measured on", first.cpu))
        }
        None => {
            let about =
                ALL.iter().find(|placement| placement.name == name).map_or("", |placement| placement.about);
            Err(format!("this machine has no {name} ({about}) among CPUs {}", list(&host.measured_cpus)))
        }
    }
}

/// The first pair, in the order of preference, that stands as `name` says.
fn pair(name: &'static str, places: &[Place]) -> Option<(&'static str, u32, u32)> {
    let stands = |a: &Place, b: &Place| {
        let same_core = (a.package, a.core) == (b.package, b.core);
        match name {
            "smt" => same_core,
            "same-llc" => !same_core && a.llc == b.llc,
            "cross-llc" => a.llc != b.llc && a.node == b.node,
            "cross-node" => a.node != b.node,
            _ => false,
        }
    };
    places.iter().enumerate().find_map(|(index, a)| {
        places[index + 1..].iter().find(|b| stands(a, b)).map(|b| (name, a.cpu, b.cpu))
    })
}

/// Where the coordinator should stay: off the measured CPUs where there are others.
pub fn coordinator_cpus(host: &Host, measured: &[u32]) -> Vec<u32> {
    let others: Vec<u32> = host.allowed_cpus.iter().copied().filter(|cpu| !measured.contains(cpu)).collect();
    if others.is_empty() { host.allowed_cpus.clone() } else { others }
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
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
            has_private_ipc: false,
        }
    }

    fn cpus(name: &str, host: &Host) -> (u32, u32) {
        let placed = place(name, host).unwrap();
        (placed.cpus[0], placed.cpus[1])
    }

    #[test]
    fn every_placement_finds_its_pair_on_a_machine_that_has_them_all() {
        // CPU, core, last-level cache, node: two nodes, two caches in the first, SMT siblings 0 and 4.
        let host = host(&[(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 2, 0), (3, 3, 3, 1), (4, 0, 0, 0)]);
        assert_eq!(cpus("same-cpu", &host), (0, 0));
        assert_eq!(cpus("smt", &host), (0, 4));
        assert_eq!(cpus("same-llc", &host), (0, 1));
        assert_eq!(cpus("cross-llc", &host), (0, 2));
        assert_eq!(cpus("cross-node", &host), (0, 3));
        assert_eq!(place("two-cpus", &host).unwrap().resolved, "same-llc");
        assert!(place("free", &host).unwrap().cpus_of(2).is_empty());
        assert_eq!(place("smt", &host).unwrap().cpus_of(3), [0, 4, 4]);
        assert_eq!(place("smt", &host).unwrap().cpus_in_turn(3), [0, 4, 0]);
        assert_eq!(place("spread", &host).unwrap().cpus_in_turn(6), [0, 1, 2, 3, 4, 0]);
    }

    #[test]
    fn what_the_machine_lacks_is_said_and_nothing_is_put_in_its_place() {
        let one = host(&[(3, 0, 3, 0)]);
        assert_eq!(
            place("two-cpus", &one).unwrap_err(),
            "two-cpus needs two CPUs, and only CPU 3 may be measured on"
        );
        assert_eq!(cpus("same-cpu", &one), (3, 3));
        let two = host(&[(0, 0, 0, 0), (1, 1, 0, 0)]);
        assert!(place("cross-node", &two).unwrap_err().contains("no cross-node"));
        assert!(place("next-door", &two).unwrap_err().contains("there are same-cpu, smt"));
    }

    #[test]
    fn two_cpus_is_a_pair_of_siblings_only_where_there_is_no_other() {
        let siblings = host(&[(0, 0, 0, 0), (1, 0, 0, 0)]);
        assert_eq!(place("two-cpus", &siblings).unwrap().resolved, "smt");
    }

    #[test]
    fn chosen_cpus_are_taken_in_their_order_and_the_others_are_left_to_the_coordinator() {
        let mut three = host(&[(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 0, 0)]);
        three.measured_cpus = vec![2, 1];
        assert_eq!(cpus("same-cpu", &three), (2, 2));
        assert_eq!(cpus("two-cpus", &three), (2, 1));
        assert_eq!(coordinator_cpus(&three, &[2, 1]), [0]);
        three.measured_cpus = vec![1];
        assert!(place("two-cpus", &three).unwrap_err().contains("only CPU 1"));
    }

    #[test]
    fn the_coordinator_leaves_measured_cpus_alone_where_it_can() {
        let two = host(&[(0, 0, 0, 0), (1, 1, 0, 0)]);
        assert_eq!(coordinator_cpus(&two, &[0, 0]), [1]);
        assert_eq!(coordinator_cpus(&two, &[0, 1]), [0, 1]);
    }
}
