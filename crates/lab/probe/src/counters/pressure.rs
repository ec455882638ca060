//! CPU time that was wanted and not given: throttling by a control group, and pressure as the scheduler sums it (PSI).

use std::fs;
use std::path::{Path, PathBuf};

/// What the limits of our control group, or of one above it, have withheld since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which a group had used up what its limit allows (`nr_throttled`).
    pub periods: u64,
    /// Time for which its CPUs were kept from it, in nanoseconds, added up over the CPUs.
    pub ns: u64,
}

impl Throttling {
    /// Reads `cpu.stat` of the group of this process and of all groups above it that can be seen, in version 2 and 1 of control
    /// groups; `None` where no group tells.
    pub fn read() -> Option<Throttling> {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let groups = groups(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
        let stats = groups.iter().filter_map(|group| fs::read_to_string(group.join("cpu.stat")).ok());
        stats.filter_map(|stat| Throttling::parse(&stat)).reduce(|sum, of_group| Throttling {
            periods: sum.periods + of_group.periods,
            ns: sum.ns + of_group.ns,
        })
    }

    /// What was withheld between `earlier` and this reading. Nothing, where the process has moved to another group meanwhile.
    pub fn since(self, earlier: Throttling) -> Throttling {
        Throttling {
            periods: self.periods.saturating_sub(earlier.periods),
            ns: self.ns.saturating_sub(earlier.ns),
        }
    }

    /// From the text of a `cpu.stat`; `None` where the group has no CPU controller.
    fn parse(stat: &str) -> Option<Throttling> {
        let field = |name: &str| -> Option<u64> {
            stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
        };
        // Version 2 tells microseconds, version 1 nanoseconds.
        let ns = field("throttled_usec").map(|us| us * 1000).or_else(|| field("throttled_time"))?;
        Some(Throttling { periods: field("nr_throttled")?, ns })
    }
}

/// Time for which some task of the machine waited for a CPU since boot (`some` of `/proc/pressure/cpu`), in nanoseconds; `None`
/// where the kernel does not tell.
pub fn cpu_pressure_ns() -> Option<u64> {
    parse_pressure(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn parse_pressure(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

/// Folders of the groups that may limit the CPU time of this process: its own and those above it, of each hierarchy.
fn groups(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let is_v2 = controllers.is_empty();
        if !is_v2 && !controllers.split(',').any(|controller| controller == "cpu") {
            continue;
        }
        let Some((root, mount)) = mountinfo.lines().find_map(|line| mount_of(line, is_v2)) else { continue };
        // In a container the mount may begin at the container's own group.
        let below = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
        let own = mount.join(below);
        groups.extend(own.ancestors().take_while(|group| group.starts_with(&mount)).map(Path::to_path_buf));
    }
    groups
}

/// Which group is mounted where, by a line of `mountinfo` that mounts a hierarchy with a CPU controller.
fn mount_of(line: &str, is_v2: bool) -> Option<(String, PathBuf)> {
    let (mount, of) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut of = of.split(' ');
    let kind = of.next()?;
    let options = of.nth(1)?;
    let is_v1 = || kind == "cgroup" && options.split(',').any(|option| option == "cpu");
    let matches = if is_v2 { kind == "cgroup2" } else { is_v1() };
    // The kernel writes a space in a path as an octal number.
    matches.then(|| (root.replace("\\040", " "), PathBuf::from(point.replace("\\040", " "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 1 0:22 / /proc rw shared:1 - proc proc rw
35 24 0:30 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
36 24 0:31 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory
37 24 0:32 /docker/7f /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct
";

    #[test]
    fn both_versions_of_cpu_stat_are_read_in_their_units() {
        let some = |periods, ns| Some(Throttling { periods, ns });
        for (stat, found) in [
            (
                "usage_usec 100\nnr_periods 7\nnr_throttled 3\nthrottled_usec 1500\nnr_bursts 0\n",
                some(3, 1_500_000),
            ),
            ("nr_periods 7\nnr_throttled 2\nthrottled_time 123456\n", some(2, 123_456)),
            ("usage_usec 100\nuser_usec 60\nsystem_usec 40\n", None),
            ("", None),
        ] {
            assert_eq!(Throttling::parse(stat), found, "{stat}");
        }
    }

    #[test]
    fn pressure_is_the_total_of_some() {
        let text = "some avg10=0.48 avg60=2.87 avg300=17.91 total=8930080918\nfull avg10=0.00 total=7\n";
        assert_eq!(parse_pressure(text), Some(8_930_080_918_000));
        assert_eq!(parse_pressure("full avg10=0.00 total=7\n"), None);
        assert_eq!(parse_pressure("some total=x\n"), None);
    }

    #[test]
    fn the_groups_are_our_own_and_those_above_it_in_each_hierarchy() {
        let unified = "/sys/fs/cgroup/unified";
        let cpu = "/sys/fs/cgroup/cpu,cpuacct";
        for (cgroup, mounts, folders) in [
            (
                "0::/user.slice/a b\n",
                MOUNTS,
                vec![format!("{unified}/user.slice/a b"), format!("{unified}/user.slice"), unified.into()],
            ),
            // The mount begins at the container's group.
            (
                "5:memory:/x\n4:cpu,cpuacct:/docker/7f/inner\n",
                MOUNTS,
                vec![format!("{cpu}/inner"), cpu.into()],
            ),
            ("4:cpuset:/x\nnonsense\n", MOUNTS, vec![]),
            ("0::/\n", "", vec![]),
        ] {
            assert_eq!(
                groups(cgroup, mounts),
                folders.iter().map(PathBuf::from).collect::<Vec<_>>(),
                "{cgroup}"
            );
        }
    }
}
