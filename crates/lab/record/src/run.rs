//! A case, and one run of it: what was measured and what was counted beside.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::CaseId;
use crate::latency::Latencies;
use crate::property::Properties;

/// A case and its effective settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The same at each place that runs take in turn, on a machine of several nodes; the first is `cpus`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Vec<u32>>,
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
    /// What a judge of its figures must know of the target: `harness`, `virtual-time`, `lossy`, `symmetric`; absent in records from before
    /// it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traits: Option<Vec<String>>,
    /// What a choice may demand of it beside its cost; absent of what is no way to exchange messages, and in records from before it was
    /// told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Properties>,
}

impl Case {
    /// Has the target this trait? Nothing where its traits are not told.
    pub fn has(&self, name: &str) -> Option<bool> {
        self.traits.as_ref().map(|traits| traits.iter().any(|own| own == name))
    }
}

/// The fact of an imported case that says what it is one of several ways to do: cases with the same text are compared with each other, and
/// imported cases without it with none.
pub const ALTERNATIVE_TO: &str = "alternative_to";

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The process that played it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Where it ran when counting began, and when it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whereabouts: Vec<Whereabouts>,
    /// What of its case it read back from the kernel, by the name of the fact.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The samples as this role has counted them by itself; absent where it does not do them one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledByRole>,
    /// How far the mechanism came meanwhile in what arrived at this role, by its own count; absent where it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<CameOn>,
    /// What the kernel saw it read and write between the same two readings; absent where that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoCounts>,
}

/// What a mechanism itself counts of the messages that arrive, apart from who takes them: its position in a ring or a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CameOn {
    /// How far it came, in messages or bytes of its own.
    pub by: u64,
    /// How far one operation brings it, as told by messages that were checked before anything was timed.
    pub each: u64,
}

/// Where a role ran at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The CPU on which it ran.
    pub cpu: u32,
    /// The CPUs on which it might run, as the kernel writes lists: `0-3,8`.
    pub allowed: String,
}

/// The samples of a run as one role has counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledByRole {
    /// Operations in them.
    pub ops: u64,
    /// CPU time of the role in them.
    pub cpu_ns: u64,
    /// Time before their beginnings that other roles may already have spent on them, and time in which this role read its counters: what
    /// CPU time in them may exceed their length by.
    pub gaps_ns: u64,
}

/// What a thread read and wrote by system calls of these names, whatever it was, as `/proc/thread-self/io` counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounts {
    /// Bytes that `read` and its relatives returned.
    pub read_bytes: u64,
    /// Bytes that `write` and its relatives took.
    pub written_bytes: u64,
    /// Calls of `read` and its relatives, those that found nothing included.
    pub read_calls: u64,
    /// Calls of `write` and its relatives.
    pub write_calls: u64,
}

/// All samples of a run together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledTotal {
    /// Number of samples.
    pub samples: u64,
    /// Operations in them.
    pub ops: u64,
    /// Bytes that arrived in them, where a sample counts bytes.
    pub bytes: u64,
    /// Their length, the harness's own loop included.
    pub elapsed_ns: u64,
}

/// What became of the operations that were due at a rate (open loop).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paced {
    /// Operations of all samples, as many as were due for them: of several messages that are due at once, one.
    pub operations: u64,
    /// From the beginning of the first sample to the end of the last.
    pub wall_ns: u64,
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
    /// Frequency of each measured CPU, where the kernel tells it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequencies: Vec<CpuFrequency>,
}

/// How fast a CPU was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuFrequency {
    /// Its number.
    pub cpu: u32,
    /// Its frequency, in kilohertz.
    pub khz: u64,
    /// Is that the mean over the run, while the CPU was not halted (APERF and MPERF)? Otherwise it is the one right after the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_mean: bool,
}

/// One measurement of a case by freshly started peers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The case.
    pub case: CaseId,
    /// Index of the run inside its case, from 0.
    pub run: u32,
    /// Index of the round of the whole record; runs of one round are neighbors in time.
    pub round: u32,
    /// Median of `samples`, in the case's unit.
    pub value: f64,
    /// One value per timed batch, in the case's unit, in the order of time.
    pub samples: Vec<f64>,
    /// Operations in each sample.
    pub ops_per_sample: u64,
    /// All samples together; absent in records from before it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_total: Option<SampledTotal>,
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
    /// What became of the operations that were due; absent where the next one follows the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced: Option<Paced>,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slices {
    /// The hub.
    pub hub: CaseId,
    /// Wanted length of a slice, in milliseconds.
    pub slice_ms: f64,
    /// Slices of the case.
    pub of_case: SliceSeries,
    /// Slices of the hub.
    pub of_hub: SliceSeries,
    /// What the roles of the hub counted, and where they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hub_roles: Vec<RoleCounters>,
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

/// System calls per operation, counted by a tracer (ptrace) in a run whose times are not used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemCalls {
    /// Of all roles together, per operation.
    pub per_op: f64,
    /// Of each role.
    pub roles: Vec<RoleCalls>,
}

/// The system calls of one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleCalls {
    /// Its name.
    pub role: String,
    /// Its operations in that run.
    pub ops: u64,
    /// Calls for each of them, by name.
    pub calls: BTreeMap<String, f64>,
}
