//! The first line of a record: what was asked, of which program, on which machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::{Identity, Provenance};

/// What was asked of which tool on which machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`crate::SCHEMA`] of the writer.
    pub schema: u32,
    /// The program that wrote the record.
    pub tool: Tool,
    /// When the session began, RFC 3339.
    pub started: String,
    /// The command line that made the record: program and arguments; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Seed of the order of runs.
    pub seed: u64,
    /// The settings in force, by the name of the flag.
    pub settings: BTreeMap<String, String>,
    /// The machine that measured.
    pub machine: Machine,
    /// Which machine that is among others; absent in imported records and in those from before it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// What the user said of the session (`--label`). Labels are public: they go wherever the record goes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Where the session came from, where that is known.
    #[serde(default, skip_serializing_if = "Provenance::is_empty")]
    pub provenance: Provenance,
}

impl Header {
    /// Did another tool measure, so that the record says what its files say? Tests inside a kernel that was just measured have no file.
    pub fn is_imported(&self) -> bool {
        self.settings.contains_key("imported-files")
    }
}

/// Name and build of the program that measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The commit it was built from, where that was known at build time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Optimisation of the build: `release` or `debug`. Numbers of a debug build mean nothing.
    pub profile: String,
}

/// The machine as the program saw it. What could not be read is absent, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the host.
    pub hostname: String,
    /// Operating system, as an imported file names it; absent where it does not, and where this program measured, on Linux.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub os: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Kernel build (`uname -v`).
    pub kernel_build: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// The kernel's command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Changes with every boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Model name of the first CPU.
    pub cpu_model: String,
    /// Microcode revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// CPUs that this process may use.
    pub allowed_cpus: Vec<u32>,
    /// Every online CPU with its place in the topology.
    pub cpus: Vec<Cpu>,
    /// The caches of the first CPU.
    pub caches: Vec<Cache>,
    /// NUMA nodes.
    pub nodes: Vec<Node>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Its modules, where the firmware tells them and this process may read that; `missing` says why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram: Option<Dram>,
    /// The clock of the timed regions.
    pub clock: Clock,
    /// `hypervisor` vendor, or `none`.
    pub virtualisation: String,
    /// Is a performance monitoring unit usable by this process?
    pub pmu: bool,
    /// Name and state of each CPU vulnerability.
    pub mitigations: BTreeMap<String, String>,
    /// Frequency scaling, idle states, boost: file name to content.
    pub power: BTreeMap<String, String>,
    /// Resource limits of this process: name to `soft/hard`.
    pub limits: BTreeMap<String, String>,
    /// Kernel settings that change results: name to value.
    pub sysctls: BTreeMap<String, String>,
    /// Load averages at the start, as in `/proc/loadavg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// On which nodes the memory of this process, and so of the roles, is taken: `default` is the node of the CPU that touches it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_policy: Option<String>,
    /// C library and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<String>,
    /// What the machine lacks that would have told more, each with its reason.
    pub missing: Vec<String>,
}

/// One CPU's place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Lowest CPU of its core; CPUs with the same core and package are SMT siblings.
    pub core: u32,
    /// Number of the package (socket).
    pub package: u32,
    /// Lowest CPU that shares the last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
}

/// One cache of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3 …
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub r#type: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u32,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Number of the node.
    pub node: u32,
    /// CPUs of the node.
    pub cpus: Vec<u32>,
    /// Memory of the node.
    pub memory_bytes: u64,
}

/// The memory modules together, as the firmware tells them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dram {
    /// Slots with a module in them.
    pub modules: u32,
    /// Channels with a module in them, told from the names of the slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Transfers per second as configured, in millions; of the slowest module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub megatransfers_per_s: Option<u32>,
    /// Bits of data in a transfer of one channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bits: Option<u32>,
    /// What all channels move in a second if they never pause: the sum over channels of transfers times width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
}

/// The clock of the timed regions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// `CLOCK_MONOTONIC_RAW`, or [`CLOCK_OF_INSTRUCTIONS`].
    pub source: String,
    /// What the kernel reads for it: `tsc`, `kvm-clock`, …
    pub kernel_source: String,
    /// Smallest step seen, in nanoseconds.
    pub resolution_ns: f64,
    /// Cost of one reading, in nanoseconds.
    pub read_ns: f64,
    /// Ticks of the time-stamp counter per second, measured against the clock; absent where there is no invariant TSC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tsc_hz: Option<f64>,
}

/// The source of a clock that advances by one for each instruction that an emulated machine executes. Its record has no times.
pub const CLOCK_OF_INSTRUCTIONS: &str = "icount";

impl Clock {
    /// Does it count instructions, and not time?
    pub fn counts_instructions(&self) -> bool {
        self.source == CLOCK_OF_INSTRUCTIONS
    }
}
