//! What the kernel did while a case ran: counts of its events, where time was spent, and what it cost to look. All of it comes from
//! runs whose figures are no results of the case.

use serde::{Deserialize, Serialize};
use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::paired_ratio;

use crate::{CaseId, SystemCalls};

/// Events of the kernel per operation of a case, and what it cost to count them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The case.
    pub case: CaseId,
    /// CPUs on which everything was counted, whichever process it belonged to: those of the roles, and those of a process beside them.
    pub cpus: Vec<u32>,
    /// Unit of `unobserved`.
    pub unit: String,
    /// Median of the unobserved runs.
    pub unobserved: f64,
    /// Its 95 % interval, from six runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unobserved_ci95: Option<[f64; 2]>,
    /// Rounds; each has an unobserved run and one with each means, in random order.
    pub rounds: u32,
    /// Why unobserved runs failed, one sentence each. After two failures there were no more of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unobserved_failures: Vec<String>,
    /// What each means has cost.
    pub looks: Vec<Look>,
    /// What was counted.
    pub counts: Vec<EventCount>,
    /// System calls, counted by a tracer in one more run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<SystemCalls>,
    /// What could not be used here.
    pub refused: Vec<RefusedMeans>,
}

/// The cost of looking by one means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// The means: `software`, `tracepoints`, `interrupts`, `halts`, `sampling` or `hardware`.
    pub means: String,
    /// Cost of an observed operation as a multiple of an unobserved one of the same round: the median. Absent where no run succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// Its 95 % interval, from six pairs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// Pairs of an observed and an unobserved run.
    pub pairs: u32,
    /// Why observed runs failed, one sentence each; the unobserved figure holds all the same.
    pub failures: Vec<String>,
}

/// How often something happened for an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventCount {
    /// The event, by the kernel's name for it; `idle periods` are pairs of `power:cpu_idle`.
    pub event: String,
    /// By which means.
    pub means: String,
    /// Per operation, on all observed CPUs together: the median of the runs.
    pub per_op: f64,
    /// The least and the most of the runs.
    pub range: [f64; 2],
}

/// A means that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedMeans {
    /// The means.
    pub means: String,
    /// Why, and which right or setting would allow it.
    pub why: String,
}

/// Where the time of the observed CPUs went, by samples of them. Good to rank; a sample that falls where interrupts are off is taken where
/// they come back on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The case.
    pub case: CaseId,
    /// What triggered the samples: `cpu-clock`.
    pub clock: String,
    /// Time between two samples of a CPU, in nanoseconds.
    pub period_ns: f64,
    /// Observed runs.
    pub runs: u32,
    /// Operations in them.
    pub ops: u64,
    /// Samples.
    pub samples: u64,
    /// Samples that found no room in the buffer.
    pub lost: u64,
    /// Times that the kernel has stopped sampling because it took too long.
    pub throttled: u64,
    /// Why kernel functions have no names, where they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols_hidden: Option<String>,
    /// Time by role, in user mode and in the kernel.
    pub parts: Vec<ProfilePart>,
    /// What the kernel counts of the auxiliary process, such as a broker: its part should come to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<CountedBeside>,
    /// Time by function, the longest first.
    pub symbols: Vec<SymbolTime>,
    /// Stacks and their samples: names from the outermost to the innermost with `;` between them, the role first, functions of the kernel
    /// with `_[k]`. What has less than 0.5 % of the samples of those that take part is counted for its caller; other processes and
    /// idle CPUs have no stacks.
    pub folded: Vec<(String, u64)>,
}

impl Profile {
    /// Whose time it is when what runs takes no part. A record has that time and not what it was spent on.
    pub const OTHERS: &'static str = "(other processes)";
    /// Whose time it is when a CPU has nothing to run, as above.
    pub const IDLE: &'static str = "(idle)";
    /// What marks a function of the kernel in a folded stack, as other tools have it.
    pub const IN_KERNEL: &'static str = "_[k]";
    /// Functions and stacks with less than this share of the samples of the roles are left out, or counted for their callers.
    pub const LEAST_SHARE: f64 = 0.005;

    /// Is it the time of a role, or of a process beside the roles, and not that of other processes or of idle CPUs?
    pub fn takes_part(role: &str) -> bool {
        role != Profile::OTHERS && role != Profile::IDLE
    }
}

/// The time of one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfilePart {
    /// The role; `(idle)` for CPUs that had nothing to run, `(other processes)` for all that takes no part.
    pub role: String,
    /// In user mode, nanoseconds per operation.
    pub user_ns: f64,
    /// In the kernel, nanoseconds per operation.
    pub kernel_ns: f64,
}

/// The CPU time of an auxiliary process as the kernel counts it, with and without samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedBeside {
    /// The process, by its name among the parts.
    pub role: String,
    /// For an operation of the sampled runs, nanoseconds: all of them together, as the samples are.
    pub sampled_ns: f64,
    /// For an operation of the unobserved runs, nanoseconds: the median.
    pub unobserved_ns: f64,
    /// The cost of looking for this process: its time of a sampled run over that of the unobserved run of the same round, the middle and
    /// its interval. Without an interval, all three are the middle.
    pub looking_ratio: [f64; 3],
}

/// The time of one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SymbolTime {
    /// Whose time.
    pub role: String,
    /// The function, or the file in brackets where that tells no names.
    pub symbol: String,
    /// A function of the kernel?
    pub in_kernel: bool,
    /// Spent in the function itself, nanoseconds per operation.
    pub self_ns: f64,
    /// With all that it calls, nanoseconds per operation.
    pub total_ns: f64,
}

/// How two observed cases differ, per operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// One case.
    pub a: CaseId,
    /// The other case.
    pub b: CaseId,
    /// Events, the largest difference first.
    pub counts: Vec<DifferenceRow>,
    /// Time by role, in user mode and in the kernel, nanoseconds.
    pub parts: Vec<DifferenceRow>,
    /// Time of functions, all roles together, nanoseconds; the largest difference first.
    pub symbols: Vec<DifferenceRow>,
}

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DifferenceRow {
    /// Event, part or function; functions of the kernel with `_[k]`.
    pub name: String,
    /// Per operation of A; absent where it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<f64>,
    /// Per operation of B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<f64>,
    /// B − A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
}

/// What looking costs, from pairs of a figure without and with it: the middle of their ratios and its interval, or three times the middle where
/// too few pairs give none. Nothing of no pair.
pub fn looking_ratio(pairs: &[(f64, f64)]) -> Option<[f64; 3]> {
    let usable = |(without, with): &&(f64, f64)| *without > 0.0 && *with > 0.0;
    let pairs: Vec<(f64, f64)> = pairs.iter().filter(usable).copied().collect();
    let ratio = (!pairs.is_empty()).then(|| paired_ratio(&pairs, CONFIDENCE))?;
    let [low, high] = ratio.interval.map_or([ratio.median; 2], |of| [of.low, of.high]);
    Some([ratio.median, low, high])
}

/// The interval of what looking costs; nothing where there is none.
pub fn looking_interval([ratio, low, high]: [f64; 3]) -> Option<[f64; 2]> {
    (low < ratio || ratio < high).then_some([low, high])
}
