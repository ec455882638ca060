//! The lines of a record, one type each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::CaseId;
use crate::compare::{CaseVerdict, Claims, ComparedSet};
use crate::contest::{Contest, Findings};
use crate::latency::{Distribution, Latencies};

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The first line: tool, settings, machine.
    Header(Box<Header>),
    /// A case, before its first run.
    Case(Case),
    /// One finished run.
    Run(Run),
    /// What the runs of a case amount to.
    Summary(Summary),
    /// A hub over the whole session.
    Hub(Hub),
    /// Two cases of one record, interleaved, as a ratio of their costs.
    Comparison(Comparison),
    /// Cases that differ in the mechanism, and which order of them is sure.
    Contest(Contest),
    /// All contests of a record, judged together.
    Findings(Findings),
    /// How many times a figure of a baseline a case has.
    Ratio(Ratio),
    /// The size at which two mechanisms cost the same.
    Crossover(Crossover),
    /// A figure that others have published, beside ours.
    Published(Published),
    /// A figure of another tool and ours, measured in turn.
    Check(Box<Check>),
    /// One set of a comparison of two sides.
    ComparedSet(Box<ComparedSet>),
    /// What may be said of one side against the other in a case.
    Verdict(Box<CaseVerdict>),
    /// What holds of all cases of a comparison together.
    Claims(Claims),
    /// A case that could not be measured, or a run of it, and why.
    Skipped(Skipped),
    /// The last line.
    End(End),
}

/// What was asked of which tool on which machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// A case and its effective settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Its id.
    pub case: CaseId,
    /// How the ends talk.
    pub pattern: String,
    /// Mechanism, signal or operation.
    pub mechanism: String,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// Placement as asked for.
    pub placement: String,
    /// Placement as it came out: `two-cpus` may be `same-llc` here.
    pub resolved_placement: String,
    /// CPU of each role, in the order of `roles`; empty when not pinned.
    pub cpus: Vec<u32>,
    /// Names of the roles.
    pub roles: Vec<String>,
    /// Every axis of the case with its effective value, defaults included.
    pub axes: BTreeMap<String, String>,
    /// Unit of `value`, `samples`, `median` and `ci95`.
    pub unit: String,
    /// Is a larger value better (rates), or a smaller one (times)?
    pub higher_is_better: bool,
    /// Why the case does not take turns with a hub; absent where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_alone: Option<String>,
    /// Settings read back from the kernel by the endpoints, by role or common: pipe size, sndbuf, MSS …
    pub facts: BTreeMap<String, String>,
}

/// Counts per operation, summed over the roles. Absent is what could not be counted here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerOp {
    /// Context switches because a role waited.
    pub voluntary_switches: f64,
    /// Context switches because the scheduler took the CPU away.
    pub involuntary_switches: f64,
    /// Page faults without input or output.
    pub minor_faults: f64,
    /// Page faults that read from a device.
    #[serde(default)]
    pub major_faults: f64,
    /// CPU time, user and system, in nanoseconds.
    pub cpu_ns: f64,
    /// The part of it in user mode; absent in records from before it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_ns: Option<f64>,
    /// The part of it in the kernel, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_ns: Option<f64>,
    /// Moves of a role to another CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrations: Option<f64>,
    /// CPU cycles, only from a PMU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
    /// Instructions, only from a PMU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
}

impl PerOp {
    /// What the roles ran, with its unit: CPU time in `ns`, or `instructions` where an emulated machine counted those and no time.
    pub fn cpu(&self) -> (f64, &'static str) {
        match self.instructions {
            Some(instructions) if self.cpu_ns == 0.0 => (instructions, "instructions"),
            _ => (self.cpu_ns, "ns"),
        }
    }

    /// Each count of all of them put together by `with`. What one of them could not count is not known of all.
    pub fn fold(all: &[&PerOp], with: impl Fn(&[f64]) -> f64) -> PerOp {
        let of = |field: fn(&PerOp) -> f64| with(&all.iter().map(|per_op| field(per_op)).collect::<Vec<_>>());
        let of_known = |field: fn(&PerOp) -> Option<f64>| {
            let known: Option<Vec<f64>> = all.iter().map(|per_op| field(per_op)).collect();
            known.map(|values| with(&values))
        };
        PerOp {
            voluntary_switches: of(|per_op| per_op.voluntary_switches),
            involuntary_switches: of(|per_op| per_op.involuntary_switches),
            minor_faults: of(|per_op| per_op.minor_faults),
            major_faults: of(|per_op| per_op.major_faults),
            cpu_ns: of(|per_op| per_op.cpu_ns),
            user_ns: of_known(|per_op| per_op.user_ns),
            kernel_ns: of_known(|per_op| per_op.kernel_ns),
            migrations: of_known(|per_op| per_op.migrations),
            cycles: of_known(|per_op| per_op.cycles),
            instructions: of_known(|per_op| per_op.instructions),
        }
    }
}

/// What one role counted in the timed part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoleCounters {
    /// Name of the role.
    pub role: String,
    /// CPU it was pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Operations between its two readings.
    pub ops: u64,
    /// Bytes that arrived at this role in the timed part, counted there.
    pub received_bytes: u64,
    /// Counts per operation of this role alone.
    pub per_op: PerOp,
}

/// What disturbed a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Samples during which the leading role was preempted.
    pub marked_samples: u64,
    /// Time stolen by the hypervisor from all CPUs during the run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_ms: Option<f64>,
    /// Interrupts of all CPUs during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
    /// Time for which some task of the machine waited for a CPU, as a share of the run (PSI): roles that share a CPU wait too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pressure: Option<f64>,
    /// Voluntary context switches of the coordinator during the timed part; must be 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator_switches: Option<u64>,
}

/// One measurement of a case by freshly started peers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The case.
    pub case: CaseId,
    /// Index of the run inside its case, from 0.
    pub run: u32,
    /// Index of the round of the whole record; runs of one round are neighbours in time.
    pub round: u32,
    /// Median of `samples`, in the case's unit.
    pub value: f64,
    /// One value per timed batch, in the case's unit, in the order of time.
    pub samples: Vec<f64>,
    /// Operations in each sample.
    pub ops_per_sample: u64,
    /// Counts per operation, all roles.
    pub per_op: PerOp,
    /// Counts of each role.
    pub roles: Vec<RoleCounters>,
    /// Further series of the run, one value per sample, by name with unit: `events_per_call`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<f64>>,
    /// What single operations took, where each was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Latencies>,
    /// The slices in which the case and its hub took turns; absent where the case was measured alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Slices>,
    /// What was discarded before the first sample; absent where the run did not warm up by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// What disturbed the run.
    pub noise: Noise,
    /// From the decision to start the peers until all were ready, in milliseconds.
    pub startup_ms: f64,
    /// The whole run, in milliseconds.
    pub elapsed_ms: f64,
    /// Remarks, each `sort: text`: `anomaly` (a counter check failed), `noisy`, `lost`.
    pub flags: Vec<String>,
}

/// What a run has discarded before its first sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Its length, in milliseconds.
    pub ms: f64,
    /// Number of batches.
    pub batches: u64,
    /// Did the cost of an operation stop changing before the longest warm-up was over?
    pub steady: bool,
}

/// The slices of a set: a case and its hub took turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slices {
    /// The hub.
    pub hub: CaseId,
    /// Wanted length of a slice, in milliseconds.
    pub slice_ms: f64,
    /// Slices of the case.
    pub of_case: SliceSeries,
    /// Slices of the hub.
    pub of_hub: SliceSeries,
}

/// Slices of one party of a set, in the order of time; one value a slice in each series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceSeries {
    /// When the timed part began, in nanoseconds since the first slice of the set.
    pub start_ns: Vec<u64>,
    /// How long the timed part took, in nanoseconds.
    pub elapsed_ns: Vec<u64>,
    /// Operations in the timed part; of a stream of messages that are not empty, bytes.
    pub ops: Vec<u64>,
}

/// The cost of a case as a multiple of its hub's, from sets in which both took turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToHub {
    /// The hub.
    pub hub: CaseId,
    /// Cost of the case over cost of the hub: the median over the sets. Above 1 the case costs more, whatever its unit.
    pub median: f64,
    /// Its interval at 95 %, with the set as the unit, as the session stopped by it; absent below six sets.
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// Number of sets.
    pub sets: u32,
}

/// A hub over the whole session: what the absolute figures of its cases are scaled by, and how steady the machine was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hub {
    /// The hub.
    pub case: CaseId,
    /// Unit of `median` and `range`: nanoseconds per operation, or per byte for a stream.
    pub unit: String,
    /// Median over the sets of the median of their slices.
    pub median: f64,
    /// The 5 % and 95 % quantile of all slices.
    pub range: [f64; 2],
    /// Number of sets.
    pub sets: u32,
    /// What slices of twice the length did to the ratios to it; absent where no case had sets of both lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubled_slices: Option<DoubledSlices>,
    /// Sets in which it took turns with other hubs; each pair of hubs stands once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meetings: Vec<HubMeeting>,
}

/// Two hubs that took turns with each other, so that their cases can be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HubMeeting {
    /// The other hub.
    pub with: CaseId,
    /// Cost of this hub over cost of the other one: the Hodges–Lehmann estimate over the sets.
    pub ratio: f64,
    /// Its interval at 95 %, with the set as the unit; absent below six sets.
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// The ratio of each set, in the order of time.
    pub ratios: Vec<f64>,
}

/// A control: does a case cost the same where it is interrupted by its hub half as often?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoubledSlices {
    /// Ratio to the hub with slices of twice the length over that with slices of the usual length, over all cases that had both.
    pub factor: f64,
    /// Its interval at 95 %, with the case as the unit; absent below six cases.
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// Number of cases.
    pub cases: u32,
}

/// Why no further runs were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// The interval is as narrow as was asked.
    Precision,
    /// The largest number of runs was made.
    MaxRuns,
    /// The time allowed was used up.
    Budget,
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// A run failed; see the `skipped` line of the case.
    Error,
}

/// A remark on the samples: not one steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegimeKind {
    /// The samples fall into two groups.
    TwoModes,
    /// The level changed once.
    Step,
    /// The level drifts.
    Slope,
    /// Neighbouring samples resemble each other.
    Correlated,
}

/// A regime found in the samples or runs of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    /// What was found.
    pub regime: RegimeKind,
    /// `samples` inside runs, or `runs` of the case.
    pub within: String,
    /// In how many of the runs (1 for a regime among runs).
    pub runs: u32,
    /// A sentence with the figures.
    pub detail: String,
    /// The two levels, for two modes and steps, in the case's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<[f64; 2]>,
}

/// How often a run was begun, and how often that gave no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// Runs that were begun.
    pub begun: u32,
    /// Those of them that failed or were void; each has a `skipped` line.
    pub failed: u32,
}

/// What the runs of a case amount to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The case.
    pub case: CaseId,
    /// Unit of `median` and `ci95`.
    pub unit: String,
    /// Number of runs.
    pub runs: u32,
    /// Runs that were begun, and those of them that failed or were void; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Attempts>,
    /// Median over the runs' values.
    pub median: f64,
    /// Interval of the median at 95 %, widened by the correlation of neighbouring runs: the one by which the case stopped. Absent
    /// below six runs.
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// Lowest and highest run.
    pub range: [f64; 2],
    /// Spread between runs: half the interquartile range of their values over their median.
    pub spread_between: f64,
    /// Spread within runs: the median over runs of the same figure for samples.
    pub spread_within: f64,
    /// Its cost as a multiple of its hub's; absent where the case was measured alone. With it, `median` is that multiple of
    /// the hub's median over the session, and `ci95` follows from its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_hub: Option<ToHub>,
    /// The best state: the value that the best 5 % of slices reach, in the case's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<f64>,
    /// Share of the time that was spent in a slow state of the machine, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_share: Option<f64>,
    /// Why no further runs were made.
    pub stopped_by: StoppedBy,
    /// Median over the runs of each count.
    pub per_op: PerOp,
    /// Median over the runs of each further series' median.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, f64>,
    /// Order-statistic intervals of these medians, at least 95 %; absent below six runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series_ci95: BTreeMap<String, [f64; 2]>,
    /// What single operations took, where each was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Counter checks that failed: counts that this case must not have, each with the reason.
    pub anomalies: Vec<String>,
    /// Departures from one steady state.
    pub regimes: Vec<Regime>,
}

/// Two cases measured in the same rounds, as the ratio of their costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The case that is judged.
    pub case: CaseId,
    /// The case that it is compared with.
    pub baseline: CaseId,
    /// How many times faster `case` is than `baseline` (below 1: slower), median over pairs of the same round.
    pub speedup: f64,
    /// Sign-test interval of the ratio, at least 95 %; absent below six pairs.
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// Number of pairs.
    pub pairs: u32,
}

/// How many times a figure of a baseline a case has, whatever the figure is: above 1 is more of it, not better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The case.
    pub case: CaseId,
    /// The case that it is compared with.
    pub baseline: CaseId,
    /// The record of the baseline, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_record: Option<String>,
    /// In what the machine of that record differs from this one; absent where it does not, and within one record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_machine: Option<String>,
    /// Which figure: `to_hub` (the cost as a multiple of the hub's, of two records), `value`, `messages_per_s`, `cpu_ns_per_message`, `cpu_ns_per_op`, `voluntary_switches_per_op`,
    /// `involuntary_switches_per_op`, or the name of a series.
    pub figure: String,
    /// The figure of the case, in the case's unit for `value`, else in the unit of the figure's name.
    pub here: f64,
    /// The figure of the baseline.
    pub there: f64,
    /// `here` over `there`: of an interleaved comparison the median over pairs of runs of one round, else the median of
    /// all quotients of runs.
    pub ratio: f64,
    /// Interval of the ratio, at least 95 %; absent where there are too few runs.
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// Pairs of runs of one round; 0 where the comparison is not interleaved, because the baseline is of another record.
    pub pairs: u32,
}

/// The size at which two mechanisms cost the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// The first mechanism, at the smallest size that both have.
    pub first: CaseId,
    /// The second one, likewise.
    pub second: CaseId,
    /// Smallest and largest payload at which both were measured, in bytes.
    pub range_bytes: [u64; 2],
    /// Where the medians cross, the largest such size; absent where they do not.
    #[serde(default)]
    pub bytes: Option<f64>,
    /// The nearest measured sizes on both sides at which the intervals do not overlap.
    #[serde(default)]
    pub between_bytes: [Option<f64>; 2],
    /// Is the first one cheaper below that size, or at all sizes where there is none? Absent where they cost the same.
    #[serde(default)]
    pub first_is_cheaper_below: Option<bool>,
    /// How often the medians cross.
    pub crossings: u32,
}

/// A figure that others have published, beside ours. The machines differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Our case.
    pub case: CaseId,
    /// Tool and year.
    pub source: String,
    /// What the source calls the figure.
    pub name: String,
    /// The unit of both figures.
    pub unit: String,
    /// The published figure.
    pub theirs: f64,
    /// Ours, in the same unit.
    pub ours: f64,
    /// `ours` over `theirs`.
    pub ratio: f64,
}

/// A figure of another tool and ours, measured in turn on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Name of the check.
    pub check: String,
    /// The other tool.
    pub tool: String,
    /// The Debian package that has it.
    pub debian_package: String,
    /// Its command line, with `{near}`, `{far}` and `{port}` for what is chosen at run time.
    pub command: Vec<String>,
    /// The program that ran; absent where the tool is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Our case.
    pub case: CaseId,
    /// Unit of all figures.
    pub unit: String,
    /// What the figure of the tool means.
    pub theirs_is: Meaning,
    /// Median over the turns of the tool's figure.
    #[serde(default)]
    pub theirs: Option<f64>,
    /// Median over the turns of ours.
    #[serde(default)]
    pub ours: Option<f64>,
    /// Ours over theirs, median over the turns.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// Sign-test interval of the ratio, at least 95 %; absent below six turns.
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// From where to where the ratio is expected.
    pub band: [f64; 2],
    /// Why the ratio is expected in the band.
    pub because: String,
    /// What is known to move the ratio out of the band.
    pub known_reasons: String,
    /// `inside`, `outside`, `inconclusive`, `failed`, `not measured`, `not here`, `not installed`.
    pub verdict: String,
    /// Why there are fewer turns than were asked for, or none.
    #[serde(default)]
    pub trouble: Option<String>,
    /// The figures of every turn.
    pub turns: Vec<Turn>,
}

/// What the figure of another tool means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meaning {
    /// Hop or round trip, GB or GiB, copies.
    pub counts: String,
    /// Size, and whether its buffer is used again.
    pub message: String,
    /// Processes or threads, and how they wait.
    pub peers: String,
    /// What happens before and inside the time that is measured.
    pub warm_up: String,
}

/// One turn of a check: both figures in the unit of the check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Figure of the external tool.
    pub theirs: f64,
    /// Figure of our case.
    pub ours: f64,
}

/// A case, or one run of it, that gave no number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The case.
    pub case: CaseId,
    /// The step in which it ended: `fit`, `plan`, `conditions` (roles did not run as the case says), `throttled` (a control group
    /// withheld CPU time), or the step of a peer's life
    /// (`hello`, `pin`, `attach`, `prefault`, `verify`,
    /// `ready`, `calibrate`, `batches`, `report`).
    pub step: String,
    /// One sentence: what, why, and how to change it where the user can.
    pub why: String,
}

/// The last line of a record that was closed in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Was everything measured that was planned?
    pub complete: bool,
    /// Wall-clock time, in seconds.
    pub elapsed_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Percentile;
    use serde_json::Value;

    /// Lines with every field present, optional ones too.
    fn full_lines() -> Vec<Line> {
        let case = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let map = || BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let per_op = PerOp {
            user_ns: Some(1.0),
            kernel_ns: Some(1.0),
            migrations: Some(0.0),
            cycles: Some(1.0),
            instructions: Some(1.0),
            ..PerOp::default()
        };
        let machine = Machine {
            command_line: Some("x".into()),
            boot_id: Some("x".into()),
            microcode: Some("x".into()),
            cpus: vec![Cpu { cpu: 0, core: 0, package: 0, llc: 0, node: 0 }],
            caches: vec![Cache { level: 1, r#type: "Data".into(), size_bytes: 1, line_bytes: 1 }],
            nodes: vec![Node { node: 0, cpus: vec![0], memory_bytes: 1 }],
            clock: Clock { tsc_hz: Some(1.0), ..Clock::default() },
            load: Some("x".into()),
            libc: Some("x".into()),
            ..Machine::default()
        };
        let mut lines = vec![
            Line::Header(Box::new(Header {
                schema: crate::SCHEMA,
                tool: Tool { commit: Some("x".into()), ..Tool::default() },
                started: "2026-01-01T00:00:00Z".into(),
                command: vec!["weighbridge".into()],
                seed: 1,
                settings: map(),
                machine,
            })),
            Line::Case(Case {
                case: case.clone(),
                pattern: "roundtrip".into(),
                mechanism: "pipe".into(),
                payload_bytes: 1,
                placement: "same-cpu".into(),
                resolved_placement: "same-cpu".into(),
                cpus: vec![0, 0],
                roles: vec!["client".into()],
                axes: map(),
                unit: "ns/roundtrip".into(),
                higher_is_better: false,
                measured_alone: Some("x".into()),
                facts: map(),
            }),
            Line::Run(Run {
                case: case.clone(),
                run: 0,
                round: 0,
                value: 1.0,
                samples: vec![1.0],
                ops_per_sample: 1,
                per_op: per_op.clone(),
                roles: vec![RoleCounters {
                    role: "client".into(),
                    cpu: Some(0),
                    ops: 1,
                    received_bytes: 1,
                    per_op: per_op.clone(),
                }],
                series: BTreeMap::from([("events_per_call".into(), vec![1.0])]),
                latencies: Some(Latencies { counts: vec![(1, 1)], max_ns: 1, clock_read_ns: 1.0 }),
                slices: Some(Slices {
                    hub: case.clone(),
                    slice_ms: 2.0,
                    of_case: SliceSeries { start_ns: vec![0], elapsed_ns: vec![1], ops: vec![1] },
                    of_hub: SliceSeries { start_ns: vec![2], elapsed_ns: vec![1], ops: vec![1] },
                }),
                warm_up: Some(WarmUp { ms: 120.0, batches: 24, steady: true }),
                noise: Noise {
                    marked_samples: 0,
                    steal_ms: Some(0.0),
                    interrupts: Some(0),
                    cpu_pressure: Some(0.0),
                    coordinator_switches: Some(0),
                },
                startup_ms: 1.0,
                elapsed_ms: 1.0,
                flags: vec!["anomaly: 3 switches".into()],
            }),
            Line::Summary(Summary {
                case: case.clone(),
                unit: "ns/roundtrip".into(),
                runs: 6,
                attempts: Some(Attempts { begun: 7, failed: 1 }),
                median: 1.0,
                ci95: Some([1.0, 1.0]),
                range: [1.0, 1.0],
                spread_between: 0.0,
                spread_within: 0.0,
                to_hub: Some(ToHub { hub: case.clone(), median: 1.0, ci95: Some([1.0, 1.0]), sets: 6 }),
                best: Some(1.0),
                slow_share: Some(0.0),
                stopped_by: StoppedBy::MaxRuns,
                per_op,
                series: BTreeMap::from([("events_per_call".into(), 1.0)]),
                series_ci95: BTreeMap::from([("events_per_call".into(), [1.0, 1.0])]),
                distribution: Some(Distribution {
                    percentiles: vec![Percentile { p: 0.5, ns: 1.0, ci95: Some([1.0, 1.0]), pooled: true }],
                    observations: 1,
                    max_ns: 1,
                }),
                anomalies: vec!["3 switches".into()],
                regimes: vec![Regime {
                    regime: RegimeKind::TwoModes,
                    within: "runs".into(),
                    runs: 1,
                    detail: "x".into(),
                    levels: Some([1.0, 2.0]),
                }],
            }),
            Line::Hub(Hub {
                case: case.clone(),
                unit: "ns/roundtrip".into(),
                median: 1.0,
                range: [1.0, 2.0],
                sets: 6,
                doubled_slices: Some(DoubledSlices { factor: 1.0, ci95: Some([1.0, 1.0]), cases: 6 }),
                meetings: vec![HubMeeting {
                    with: case.clone(),
                    ratio: 1.0,
                    ci95: Some([1.0, 1.0]),
                    ratios: vec![1.0; 6],
                }],
            }),
            Line::Comparison(Comparison {
                case: case.clone(),
                baseline: case.clone(),
                speedup: 1.0,
                ci95: Some([1.0, 1.0]),
                pairs: 6,
            }),
            Line::Ratio(Ratio {
                case: case.clone(),
                baseline: case.clone(),
                baseline_record: Some("before.jsonl".into()),
                other_machine: Some("hostname: a and b".into()),
                figure: "value".into(),
                here: 1.0,
                there: 1.0,
                ratio: 1.0,
                ci95: Some([1.0, 1.0]),
                pairs: 6,
            }),
            Line::Crossover(Crossover {
                first: case.clone(),
                second: case.clone(),
                range_bytes: [1, 2],
                bytes: Some(1.5),
                between_bytes: [Some(1.0), None],
                first_is_cheaper_below: Some(true),
                crossings: 1,
            }),
            Line::Published(Published {
                case: case.clone(),
                source: "tool, 2014".into(),
                name: "x".into(),
                unit: "ns".into(),
                theirs: 1.0,
                ours: 2.0,
                ratio: 2.0,
            }),
            Line::Check(Box::new(Check {
                case: case.clone(),
                program: Some("/usr/bin/x".into()),
                trouble: Some("x".into()),
                turns: vec![Turn { theirs: 1.0, ours: 1.0 }],
                ..Check::default()
            })),
            Line::Skipped(Skipped { case: case.clone(), step: "fit".into(), why: "x".into() }),
            Line::End(End { complete: true, elapsed_s: 1.0 }),
        ];
        lines.extend(crate::compare::tests::full_lines(&case));
        lines.extend(crate::contest::tests::full_lines(&case));
        lines
    }

    /// Names of the fields of our own types; below `settings`, `axes` and the like stand other people's names.
    fn field_names(value: &Value, names: &mut Vec<String>) {
        const FOREIGN: &[&str] = &[
            "settings",
            "axes",
            "facts",
            "mitigations",
            "power",
            "limits",
            "sysctls",
            "series",
            "series_ci95",
        ];
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    names.push(name.clone());
                    if !FOREIGN.contains(&name.as_str()) {
                        field_names(value, names);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| field_names(item, names)),
            _ => {}
        }
    }

    #[test]
    fn every_line_survives_being_written_and_read() {
        for line in full_lines() {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
        }
    }

    #[test]
    fn the_document_names_every_field() {
        let document = include_str!("../../../docs/record.md");
        let mut names = Vec::new();
        for line in full_lines() {
            field_names(&serde_json::to_value(&line).unwrap(), &mut names);
        }
        assert!(names.len() > 80, "{}", names.len());
        let missing: Vec<_> = names.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/record.md does not name {missing:?}");
    }
}
