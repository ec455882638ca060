//! When each thing happens in an operation: phases, and a picture of a few operations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a time line of a run shows. The run is a marked one of its own; its times are longer than those of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// What was observed: the id of a case, or a replay in words.
    pub subject: String,
    /// Operations that the phases are of.
    pub operations: u64,
    /// Nanoseconds of an operation of the marked run: 10th percentile, median, 90th percentile.
    pub operation_ns: [f64; 3],
    /// The median of an operation of one unmarked run after it, where there was one.
    pub unmarked_ns: Option<f64>,
    /// Context switches for an operation, from and to its roles, where the kernel's events were recorded on all CPUs of the roles.
    pub switches_per_operation: Option<f64>,
    /// Of these, by kind of role: those that took the CPU from it while it could have gone on, because it was preempted or yielded.
    #[serde(default)]
    pub preempted_per_operation: BTreeMap<String, f64>,
    /// The same switches of all roles by what took the CPU: a `wake-up` of the thread that has it next, the `tick` of the timer, or `other` (it yielded, or
    /// the kernel did not record the reason).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preempted_by: BTreeMap<String, f64>,
    /// Nanoseconds that a mark costs: the time between two that follow each other, in the middle of many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_ns: Option<f64>,
    /// What the broker's CPU time goes to, where a broker takes part and its system calls were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<BrokerTime>,
    /// The parts of an operation, in the order of time.
    pub phases: Vec<Phase>,
    /// Why the kernel's events are missing, and what would allow them.
    pub refused: Option<String>,
    /// CPUs that processes of the subject may run on and that were not recorded, so that switches there are not known and none are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded_cpus: Vec<u32>,
    /// Events that were lost within the time of the operations; operations near them are left out.
    pub lost_events: u64,
    /// CPUs on which the kernel did not record all switches of the roles within the time of the operations, so that none are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_switches: Vec<MissingSwitches>,
    /// Some operations as a picture.
    pub picture: Picture,
}

/// Switches of a CPU that were not recorded although no events were lost: a thread gave the CPU away that had not got it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingSwitches {
    /// The CPU.
    pub cpu: u32,
    /// Number of them, at least.
    pub count: u64,
    /// Of these, the switches away from the idle task.
    pub from_idle: u64,
}

/// What a broker does in an operation, by its system calls. Times are nanoseconds of CPU time for an operation, medians over `rounds`, less
/// what it costs to look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BrokerTime {
    /// Runs in which it was looked at, each with one beside it in which it was not.
    pub rounds: u64,
    /// In calls that receive (`recvmsg` and others).
    pub receiving_ns: f64,
    /// Outside of system calls: parsing, matching, marshalling.
    pub dispatch_ns: f64,
    /// Of `dispatch_ns`, in the functions that compare match rules, where the broker's file tells their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching_ns: Option<f64>,
    /// In calls that send (`sendmsg` and others).
    pub sending_ns: f64,
    /// In calls that wait for the next message, as far as they take CPU time.
    pub waiting_ns: f64,
    /// In other system calls.
    pub other_calls_ns: f64,
    /// What the kernel counts as the CPU time of the broker for an operation of the runs in which nobody looks: the parts should come to it.
    pub counted_ns: f64,
    /// Of an operation, what passes from a wake-up by the broker to the switch with which the woken takes the CPU from it, less the
    /// same of those who wake the broker: the kernel counts it for who is woken, so that `counted_ns` lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncounted_ns: Option<f64>,
    /// Calls for an operation, by name.
    pub calls: BTreeMap<String, f64>,
    /// The CPU time for an operation with its calls recorded over that without: the ratio in the middle of the rounds, and its interval.
    pub looking_ratio: [f64; 3],
}

impl BrokerTime {
    /// What the parts should come to: what the kernel counts, and what it counts for others.
    pub fn expected_ns(&self) -> f64 {
        self.counted_ns + self.uncounted_ns.unwrap_or(0.0)
    }

    /// All parts.
    pub fn sum_ns(&self) -> f64 {
        self.receiving_ns + self.dispatch_ns + self.sending_ns + self.waiting_ns + self.other_calls_ns
    }
}

/// A part of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// From what to what, in words.
    pub phase: String,
    /// Number of operations that have it.
    pub count: u64,
    /// Nanoseconds where it occurs: 10th percentile, median, 90th percentile.
    pub phase_ns: [f64; 3],
    /// Its part of all operations together, from 0 to 1; absent where parts of an operation overlap, or are not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// Who did what and when, over a few operations. Times are nanoseconds from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Its length.
    pub length_ns: u64,
    /// A lane for each CPU and for each role.
    pub lanes: Vec<PictureLane>,
    /// Messages and wake-ups between lanes.
    pub arrows: Vec<PictureArrow>,
}

/// A CPU, or a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureLane {
    /// Its name.
    pub lane: String,
    /// What fills it, in the order of time.
    pub spans: Vec<PictureSpan>,
}

/// What a CPU or a role does for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureSpan {
    /// When it begins and ends.
    pub between_ns: [u64; 2],
    /// `run`, `ready`, `idle`, `halted`, `interrupt`, `write`, `wait`, `call`, `dispatch`, or `lost` where events are missing.
    pub what: String,
    /// Which role runs or writes, by its place among the roles.
    pub role: Option<u64>,
    /// In words.
    pub name: String,
}

/// Something that goes from one lane to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureArrow {
    /// Places of the two among the lanes.
    pub lanes: [u64; 2],
    /// When it leaves and arrives.
    pub between_ns: [u64; 2],
    /// Is it a message? Otherwise a wake-up.
    pub is_message: bool,
    /// In words.
    pub name: String,
}
