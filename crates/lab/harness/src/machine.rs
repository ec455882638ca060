//! The machine as a record describes it: everything that changes results, as the system itself tells it.
//!
//! What cannot be read is absent or stands in `missing` with its reason; nothing is guessed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use causeway_os::{clock, limits};
use weighbridge_probe::counters::{Events, Msr};
use weighbridge_probe::dmi::{self, Module, Modules};
use weighbridge_probe::topology::{self, Place, Topology};
use weighbridge_record as record;

use crate::host::{self, Host};

/// Files by their folders, each with the names in it.
type Files = &'static [(&'static str, &'static [&'static str])];

/// Kernel settings that change what is measured.
const SYSCTLS: Files = &[
    ("fs", &["nr_open", "pipe-max-size", "pipe-user-pages-hard", "pipe-user-pages-soft"]),
    ("fs/mqueue", &["msg_max", "msgsize_max", "queues_max"]),
    ("kernel", &["io_uring_disabled", "msgmax", "msgmnb", "numa_balancing", "perf_event_paranoid"]),
    ("kernel", &["randomize_va_space", "sched_autogroup_enabled", "sched_rt_runtime_us"]),
    ("kernel/yama", &["ptrace_scope"]),
    ("net/core", &["busy_poll", "rmem_default", "rmem_max", "wmem_default", "wmem_max"]),
    ("net/ipv4", &["tcp_autocorking", "tcp_congestion_control", "tcp_rmem", "tcp_wmem"]),
    ("net/unix", &["max_dgram_qlen"]),
    ("vm", &["overcommit_memory"]),
];

/// Power and idling.
const POWER: Files = &[
    ("devices/system/cpu/cpu0/cpufreq", &["scaling_driver", "scaling_governor", "scaling_max_freq"]),
    ("devices/system/cpu/cpu0/cpufreq", &["energy_performance_preference"]),
    ("devices/system/cpu/cpufreq", &["boost"]),
    ("devices/system/cpu/intel_pstate", &["no_turbo"]),
    ("devices/system/cpu/cpuidle", &["current_driver", "current_governor"]),
    ("devices/system/cpu/smt", &["active"]),
    ("devices/system/cpu", &["isolated", "nohz_full"]),
    ("kernel/mm/transparent_hugepage", &["enabled", "shmem_enabled"]),
    ("module/haltpoll/parameters", &["guest_halt_poll_ns"]),
];

/// Describes the machine. Takes some ten milliseconds, for the clock.
pub fn describe(host: &Host) -> record::Machine {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let virtualisation = virtualisation(&cpuinfo);
    let dram = Modules::read();
    let Topology { cpus, caches, nodes } = &host.topology;
    let cpu =
        |&Place { cpu, core, package, llc, node }: &Place| record::Cpu { cpu, core, package, llc, node };
    let cache = |cache: &topology::Cache| record::Cache {
        level: cache.level,
        r#type: cache.kind.to_string(),
        size_bytes: cache.size_bytes,
        line_bytes: cache.line_bytes,
    };
    let node = |of: &topology::Node| record::Node {
        node: of.node,
        cpus: of.cpus.clone(),
        memory_bytes: of.memory_bytes.unwrap_or(0),
    };
    record::Machine {
        hostname: text(uname.nodename()),
        os: String::new(),
        kernel: text(uname.release()),
        kernel_build: text(uname.version()),
        arch: text(uname.machine()),
        command_line: read("/proc/cmdline"),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        cpu_model: field("model name").unwrap_or_else(|| "unknown".into()),
        microcode: field("microcode"),
        allowed_cpus: host.allowed_cpus.clone(),
        cpus: cpus.iter().map(cpu).collect(),
        caches: caches.iter().map(cache).collect(),
        nodes: nodes.iter().map(node).collect(),
        memory_bytes: host::memory_bytes().unwrap_or(0),
        dram: dram.as_ref().ok().map(describe_dram),
        clock: describe_clock(),
        missing: missing(host, &virtualisation, &dram),
        virtualisation,
        pmu: Events::hardware().has_pmu(),
        mitigations: directory("/sys/devices/system/cpu/vulnerabilities"),
        power: files("/sys", POWER),
        limits: limits::rlimits()
            .into_iter()
            .map(|(name, soft, hard)| (name.into(), format!("{soft}/{hard}")))
            .collect(),
        sysctls: files("/proc/sys", SYSCTLS),
        load: read("/proc/loadavg"),
        memory_policy: memory_policy(),
        libc: libc_version(),
    }
}

/// Of this process, which its roles inherit: as the kernel words it for the first of its mappings. Nothing where it knows no nodes.
fn memory_policy() -> Option<String> {
    let first = std::fs::read_to_string("/proc/self/numa_maps").ok()?;
    Some(first.split_ascii_whitespace().nth(1)?.to_owned())
}

fn describe_clock() -> record::Clock {
    let measured = clock::measure();
    record::Clock {
        source: "CLOCK_MONOTONIC_RAW".into(),
        kernel_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_else(|| "unknown".into()),
        resolution_ns: measured.resolution_ns,
        read_ns: measured.read_ns,
        tsc_hz: measured.ticks_per_second,
    }
}

fn describe_dram(modules: &Modules) -> record::Dram {
    let least = |of: fn(&Module) -> Option<u32>| {
        modules.0.iter().map(of).collect::<Option<Vec<_>>>()?.into_iter().min()
    };
    record::Dram {
        modules: modules.0.len() as u32,
        channels: modules.channels().map(|channels| channels as u32),
        megatransfers_per_s: least(|module| module.megatransfers_per_s),
        data_bits: least(|module| module.data_bits.map(u32::from)),
        bytes_per_s: modules.bytes_per_s(),
    }
}

/// Why it is not known what share of the memory's bandwidth a figure is.
fn dram_missing(dram: &Result<Modules, causeway_os::Error>) -> Option<String> {
    let why = match dram {
        Ok(modules) if modules.bytes_per_s().is_some() => return None,
        Ok(modules) if modules.channels().is_none() => {
            "the firmware's names of the slots do not tell which share a channel".to_owned()
        }
        Ok(_) => "the firmware does not tell the configured speed and width of every module".into(),
        Err(error) => match error.os().kind() {
            io::ErrorKind::PermissionDenied => {
                format!("only root may read {}; run `sudo weighbridge env`", dmi::TABLE)
            }
            io::ErrorKind::NotFound => {
                let table = dmi::TABLE;
                format!(
                    "there is no {table}: the firmware, often that of a virtual machine, has no such table"
                )
            }
            _ => error.to_string(),
        },
    };
    Some(format!("theoretical bandwidth of the memory: {why}"))
}

/// What would have told more, and why it is not there.
fn missing(host: &Host, virtualisation: &str, dram: &Result<Modules, causeway_os::Error>) -> Vec<String> {
    let mut missing = Events::hardware().missing().to_vec();
    if let Some(why) = &host.pin_refused {
        missing.push(format!("pinning: {why}; only the placement `free` can be measured"));
    }
    missing.extend(host.uring_refused.clone());
    if host.allowed_cpus.len() < 2 {
        missing.push("a second CPU: only same-cpu and free can be measured".into());
    }
    if virtualisation != "none" {
        missing.push(format!(
            "a machine of its own ({virtualisation} guest): waking an idle CPU costs an exit to the hypervisor, and \
             figures drift; trust ratios within one record"
        ));
    }
    let has_driver = Path::new("/sys/devices/system/cpu/cpu0/cpufreq").exists();
    if !has_driver {
        missing.push("cpufreq: frequency and governor are not visible".into());
    }
    missing.extend(Msr::find().err().map(|why| {
        let instead = if has_driver { "the one right after it is kept" } else { "none is kept" };
        format!("aperf: {why}, so the mean frequency of a run is not known; {instead}")
    }));
    missing.extend(dram_missing(dram));
    missing
}

fn virtualisation(cpuinfo: &str) -> String {
    let is_flag = |line: &str| line.split_whitespace().any(|flag| flag == "hypervisor");
    let is_guest = cpuinfo.lines().any(|line| line.starts_with("flags") && is_flag(line));
    match (is_guest, read("/sys/class/dmi/id/sys_vendor")) {
        (false, _) => "none".into(),
        (true, Some(vendor)) => vendor,
        (true, None) => "hypervisor".into(),
    }
}

/// The C library and its version, as `getconf` tells it.
fn libc_version() -> Option<String> {
    if cfg!(target_env = "musl") {
        return Some("musl".into());
    }
    let output = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.replace('\t', " "))
}

fn files(root: &str, files: Files) -> BTreeMap<String, String> {
    let paths =
        files.iter().flat_map(|(folder, names)| names.iter().map(move |name| format!("{folder}/{name}")));
    paths.filter_map(|path| read(&format!("{root}/{path}")).map(|text| (path, text))).collect()
}

fn directory(path: &str) -> BTreeMap<String, String> {
    let entry = |entry: fs::DirEntry| {
        Some((entry.file_name().to_string_lossy().into_owned(), read(&entry.path().to_string_lossy())?))
    };
    fs::read_dir(path).into_iter().flatten().flatten().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(slot: &str, speed: Option<u32>) -> Module {
        Module { slot: slot.into(), bank: String::new(), megatransfers_per_s: speed, data_bits: Some(64) }
    }

    #[test]
    fn the_bandwidth_of_memory_is_told_or_it_is_said_why_not() {
        let known = Modules(vec![module("DIMM_A1", Some(3200)), module("DIMM_B1", Some(3200))]);
        let record::Dram { modules, channels, megatransfers_per_s, data_bits, bytes_per_s } =
            describe_dram(&known);
        assert_eq!((modules, channels, megatransfers_per_s, data_bits), (2, Some(2), Some(3200), Some(64)));
        assert_eq!((bytes_per_s, dram_missing(&Ok(known))), (Some(51.2e9), None));
        let error = |kind: io::ErrorKind| Err(causeway_os::Error::new("read", dmi::TABLE, kind));
        for (dram, words) in [
            (Ok(Modules(vec![module("DIMM 0", Some(3200))])), "which share a channel"),
            (Ok(Modules(vec![module("DIMM_A1", None)])), "configured speed"),
            (error(io::ErrorKind::PermissionDenied), "`sudo weighbridge env`"),
            (error(io::ErrorKind::NotFound), "there is no /sys/firmware/dmi/tables/DMI"),
            (error(io::ErrorKind::InvalidData), "cannot read"),
        ] {
            let why = dram_missing(&dram).unwrap();
            assert!(why.contains(words), "{why}");
        }
    }
}
