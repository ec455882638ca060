//! Which CPUs share what: core, last-level cache, package, NUMA node. From sysfs.
//!
//! Kernels, containers and virtual machines leave out any of these files. What is missing is replaced by the coarsest
//! thing that is still true: a CPU is a core of its own, a package shares its last-level cache, all memory is one node.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use causeway_os::{Error, Result};

/// The CPUs that are online, their caches, and the nodes of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The online CPUs, by number.
    pub cpus: Vec<Place>,
    /// The different caches that CPUs have, innermost first, each kind once.
    pub caches: Vec<Cache>,
    /// The NUMA nodes, by number; one, without a known size, where the kernel shows none.
    pub nodes: Vec<Node>,
}

/// Where a CPU is. Two CPUs share a thing when they have the same number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The CPU.
    pub cpu: u32,
    /// Lowest CPU of the same core: two CPUs with the same number are SMT siblings.
    pub core: u32,
    /// The package (socket).
    pub package: u32,
    /// Lowest CPU that shares the highest-level cache.
    pub llc: u32,
    /// The NUMA node.
    pub node: u32,
}

/// A cache that at least one CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cache {
    /// 1, 2, 3, …
    pub level: u32,
    /// Whether it holds data, instructions or both.
    pub kind: CacheKind,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u32,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Data and instructions.
    Unified,
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the node.
    pub node: u32,
    /// Its online CPUs; a node may have none.
    pub cpus: Vec<u32>,
    /// Its memory, where the kernel tells.
    pub memory_bytes: Option<u64>,
}

impl Topology {
    /// The topology of this machine; an error where `/sys` does not even say which CPUs there are.
    pub fn read() -> Result<Topology> {
        Topology::read_from(Path::new("/sys"))
    }

    fn read_from(sysfs_root: &Path) -> Result<Topology> {
        let system = sysfs_root.join("devices/system");
        let online = online_cpus(&system.join("cpu"));
        if online.is_empty() {
            let why = io::Error::new(io::ErrorKind::NotFound, "no online CPU is listed");
            return Err(Error::new("read the topology in", system.join("cpu").display().to_string(), why));
        }
        let nodes = read_nodes(&system.join("node"), &online);
        let mut caches = BTreeSet::new();
        let mut cpus: Vec<Place> = Vec::new();
        for &cpu in &online {
            let dir = system.join(format!("cpu/cpu{cpu}"));
            let package = number(&dir.join("topology/physical_package_id")).unwrap_or(0);
            let siblings = |name: &str| lowest(&dir.join("topology").join(name), &online);
            let core = siblings("core_cpus_list").or_else(|| siblings("thread_siblings_list")).unwrap_or(cpu);
            let of_cpu = read_caches(&dir.join("cache"), &online);
            let package_mate = || cpus.iter().find(|place| place.package == package).map(|place| place.cpu);
            let llc = of_cpu.iter().max_by_key(|(level, ..)| *level).map(|(_, lowest_cpu, _)| *lowest_cpu);
            let llc = llc.or_else(package_mate).unwrap_or(cpu);
            let node = nodes.iter().find(|node| node.cpus.contains(&cpu)).map_or(0, |node| node.node);
            caches.extend(of_cpu.into_iter().filter_map(|(.., cache)| cache));
            cpus.push(Place { cpu, core, package, llc, node });
        }
        Ok(Topology { cpus, caches: caches.into_iter().collect(), nodes })
    }

    /// The place of `cpu`; `None` when it is not online.
    pub fn place(&self, cpu: u32) -> Option<Place> {
        self.cpus.iter().copied().find(|place| place.cpu == cpu)
    }
}

fn online_cpus(dir: &Path) -> Vec<u32> {
    list(&dir.join("online"))
        .unwrap_or_else(|| numbered(dir, "cpu").into_iter().map(|(cpu, _)| cpu).collect())
}

fn read_nodes(dir: &Path, online: &[u32]) -> Vec<Node> {
    let node = |(node, path): (u32, PathBuf)| {
        let mut cpus = list(&path.join("cpulist")).unwrap_or_default();
        cpus.retain(|cpu| online.contains(cpu));
        Node { node, cpus, memory_bytes: memory_bytes(&path.join("meminfo")) }
    };
    let nodes: Vec<Node> = numbered(dir, "node").into_iter().map(node).collect();
    if nodes.is_empty() { vec![Node { node: 0, cpus: online.to_vec(), memory_bytes: None }] } else { nodes }
}

/// The line "Node 0 MemTotal: 4679884 kB".
fn memory_bytes(path: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.split_once("MemTotal:"))?.1;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The caches of one CPU: level, lowest CPU that shares it, and what it is, where the kernel knows how large it is. One of unknown level
/// or unknown sharers tells nothing and is left out.
fn read_caches(dir: &Path, online: &[u32]) -> Vec<(u32, u32, Option<Cache>)> {
    let cache = |(_, path): (u32, PathBuf)| {
        let level = number(&path.join("level"))?;
        Some((level, lowest(&path.join("shared_cpu_list"), online)?, read_cache(&path, level)))
    };
    numbered(dir, "index").into_iter().filter_map(cache).collect()
}

fn read_cache(path: &Path, level: u32) -> Option<Cache> {
    let kind = text(&path.join("type"))?;
    let kinds = [CacheKind::Data, CacheKind::Instruction, CacheKind::Unified];
    let kind = kinds.into_iter().find(|known| known.to_string() == kind)?;
    // The kernel writes kibibytes as "32768K".
    let kib: u64 = text(&path.join("size"))?.strip_suffix('K')?.parse().ok()?;
    let size_bytes = kib.checked_mul(1024)?;
    let line_bytes = number(&path.join("coherency_line_size"))?;
    Some(Cache { level, kind, size_bytes, line_bytes })
}

fn text(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_string())
}

/// Nothing where the file is missing or holds no such number; some firmware gives -1 for "unknown".
fn number<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

fn lowest(path: &Path, online: &[u32]) -> Option<u32> {
    list(path)?.into_iter().filter(|cpu| online.contains(cpu)).min()
}

fn list(path: &Path) -> Option<Vec<u32>> {
    parse_list(&text(path)?)
}

/// The kernel's form of a set: "0-3,8,10-11".
fn parse_list(text: &str) -> Option<Vec<u32>> {
    /// More CPUs than any kernel is built for mean that this is not a list of CPUs.
    const MOST: u32 = 1 << 16;
    let mut set = BTreeSet::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        set.extend(first..=last);
    }
    Some(set.into_iter().collect())
}

/// The directories `name`0, `name`1, … inside `dir`, by number.
fn numbered(dir: &Path, name: &str) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let numbered = |entry: std::fs::DirEntry| {
        Some((entry.file_name().to_str()?.strip_prefix(name)?.parse().ok()?, entry.path()))
    };
    let mut found: Vec<(u32, PathBuf)> = entries.flatten().filter_map(numbered).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(online: &str) -> Tree {
            let tree = Tree(tempfile::tempdir().unwrap());
            tree.write("cpu/online", online);
            tree
        }

        fn write(&self, path: &str, text: impl fmt::Display) {
            let path = self.0.path().join("devices/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }

        fn core(&self, cpu: u32, siblings: &str, package: &str) {
            self.write(&format!("cpu/cpu{cpu}/topology/core_cpus_list"), siblings);
            self.write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), package);
        }

        fn cache(&self, cpu: u32, index: u32, level: u32, kind: &str, size: &str, shared: &str) {
            let dir = format!("cpu/cpu{cpu}/cache/index{index}");
            self.write(&format!("{dir}/level"), level);
            self.write(&format!("{dir}/type"), kind);
            self.write(&format!("{dir}/size"), size);
            self.write(&format!("{dir}/coherency_line_size"), 64);
            self.write(&format!("{dir}/shared_cpu_list"), shared);
        }

        fn node(&self, node: u32, cpus: &str, kib: u64) {
            self.write(&format!("node/node{node}/cpulist"), cpus);
            let meminfo = format!("Node {node} MemTotal:       {kib} kB\nNode {node} MemFree:  1 kB");
            self.write(&format!("node/node{node}/meminfo"), meminfo);
        }

        fn read(&self) -> Topology {
            Topology::read_from(self.0.path()).unwrap()
        }
    }

    fn column(topology: &Topology, of: impl Fn(&Place) -> u32) -> Vec<u32> {
        topology.cpus.iter().map(of).collect()
    }

    /// Eight CPUs in four cores; siblings are four apart; two last-level caches in one package; one node each.
    fn smt_machine() -> Tree {
        let tree = Tree::new("0-7");
        for cpu in 0..8 {
            let core = cpu % 4;
            let siblings = format!("{core},{}", core + 4);
            let shared = if core < 2 { "0-1,4-5" } else { "2-3,6-7" };
            tree.core(cpu, &siblings, "0");
            tree.cache(cpu, 0, 1, "Data", "48K", &siblings);
            tree.cache(cpu, 1, 1, "Instruction", "32K", &siblings);
            tree.cache(cpu, 2, 2, "Unified", "1024K", &siblings);
            tree.cache(cpu, 3, 3, "Unified", "32768K", shared);
        }
        tree.node(0, "0-1,4-5", 4_000_000);
        tree.node(1, "2-3,6-7", 2_000_000);
        tree
    }

    #[test]
    fn siblings_caches_and_nodes_are_told_apart() {
        let topology = smt_machine().read();
        assert_eq!(column(&topology, |place| place.cpu), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(column(&topology, |place| place.core), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(column(&topology, |place| place.package), [0; 8]);
        assert_eq!(column(&topology, |place| place.llc), [0, 0, 2, 2, 0, 0, 2, 2]);
        assert_eq!(column(&topology, |place| place.node), [0, 0, 1, 1, 0, 0, 1, 1]);
        let caches: Vec<String> = topology
            .caches
            .iter()
            .map(|cache| {
                format!("L{} {} {} {}", cache.level, cache.kind, cache.size_bytes >> 10, cache.line_bytes)
            })
            .collect();
        assert_eq!(
            caches,
            ["L1 Data 48 64", "L1 Instruction 32 64", "L2 Unified 1024 64", "L3 Unified 32768 64"]
        );
        let node = |node, cpus: [u32; 4], bytes| Node { node, cpus: cpus.into(), memory_bytes: Some(bytes) };
        assert_eq!(
            topology.nodes,
            [node(0, [0, 1, 4, 5], 4_096_000_000), node(1, [2, 3, 6, 7], 2_048_000_000)]
        );
        assert_eq!(topology.place(6).unwrap().llc, 2);
        assert_eq!(topology.place(8), None);
    }

    #[test]
    fn a_cpu_that_is_offline_does_not_exist_and_without_that_file_the_directories_count() {
        let tree = smt_machine();
        fs::remove_file(tree.0.path().join("devices/system/cpu/online")).unwrap();
        tree.write("cpu/cpufreq/boost", 1);
        assert_eq!(tree.read(), smt_machine().read());
        tree.write("cpu/online", "1-2,4-7");
        let topology = tree.read();
        assert_eq!(column(&topology, |place| place.cpu), [1, 2, 4, 5, 6, 7]);
        assert_eq!(column(&topology, |place| place.core), [1, 2, 4, 1, 2, 7]);
        assert_eq!(column(&topology, |place| place.llc), [1, 2, 1, 1, 2, 2]);
        assert_eq!(topology.nodes[0].cpus, [1, 4, 5]);
    }

    #[test]
    fn what_is_not_told_is_the_coarsest_thing_that_is_still_true() {
        let tree = Tree::new("0,2-4");
        for (cpu, package) in [(2, 0), (3, 1), (4, 1)] {
            tree.write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), package);
        }
        let topology = tree.read();
        assert_eq!(column(&topology, |place| place.core), [0, 2, 3, 4]);
        assert_eq!(column(&topology, |place| place.llc), [0, 0, 3, 3], "a package shares its cache");
        assert_eq!(column(&topology, |place| place.node), [0; 4]);
        assert_eq!(topology.caches, []);
        assert_eq!(topology.nodes, [Node { node: 0, cpus: vec![0, 2, 3, 4], memory_bytes: None }]);
    }

    #[test]
    fn older_names_unknown_values_and_nonsense_are_survived() {
        let tree = Tree::new("0-1");
        for cpu in 0..2 {
            tree.write(&format!("cpu/cpu{cpu}/topology/thread_siblings_list"), "0-1");
            tree.write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), "-1");
            tree.cache(cpu, 0, 2, "Unified", "large", &cpu.to_string());
            tree.cache(cpu, 1, 3, "Unified", "1024K", "4294967295-1");
        }
        let topology = tree.read();
        assert_eq!(column(&topology, |place| place.core), [0, 0]);
        // The cache of unknown size still says who shares it; the one of unknown sharers says nothing.
        assert_eq!(column(&topology, |place| place.llc), [0, 1]);
        assert_eq!(topology.caches, []);
        let empty = tempfile::tempdir().unwrap();
        let error = Topology::read_from(empty.path()).unwrap_err();
        assert_eq!(error.os().kind(), io::ErrorKind::NotFound, "{error}");
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list(""), Some(vec![]));
        for wrong in ["a", "3-1", "1-", "-1", "0-4000000000"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_machine_has_the_cpus_that_we_may_run_on() {
        let topology = Topology::read().unwrap();
        for cpu in causeway_os::sched::allowed_cpus().unwrap() {
            assert!(topology.place(cpu).is_some(), "{cpu}");
        }
    }
}
