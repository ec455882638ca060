//! Which machine measured, in the words of a fleet: a name that stays, a class of equal hardware, and where the session came from.
//!
//! The name is never the raw machine id, which is confidential (machine-id(5)): it is a keyed hash of it, or what a label says.

use serde::{Deserialize, Serialize};

/// What tells one machine from another, and what makes two alike. What could not be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The name of the machine over boots and records.
    pub machine: String,
    /// What the name was taken from: `label`, `machine-id` (a hash of it), `dmi` (a hash of what the firmware tells of this one machine)
    /// or `hostname`.
    pub machine_from: String,
    /// A hash of facts that stay: architecture, CPU, present CPUs, caches, nodes, installed memory in GiB, hypervisor and product. Machines
    /// of one class may stand in for each other; whatever else differs is in fields of its own.
    pub hw_class: String,
    /// When the running kernel was booted, RFC 3339, by the clock of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted: Option<String>,
    /// Who made the CPU, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_vendor: Option<String>,
    /// Its family; of Arm its architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_family: Option<String>,
    /// The number of its model; of Arm its part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model_number: Option<String>,
    /// Its stepping; of Arm its variant and revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_stepping: Option<String>,
    /// The vendor of the machine, as its firmware tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dmi_vendor: Option<String>,
    /// The product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dmi_product: Option<String>,
    /// The board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dmi_board: Option<String>,
    /// The firmware and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dmi_bios: Option<String>,
    /// The type of instance, where the firmware is that of a cloud which tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// CPU time that the control group may use: quota and period in microseconds, or `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_cpu_max: Option<String>,
    /// Memory that it may use: bytes, or `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_memory_max: Option<String>,
    /// The build id of the running kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_build_id: Option<String>,
    /// The emulator that runs the machine, and its version; absent where none of ours does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
}

/// Where a session came from: the plan that it carries out, and who started it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// What the session is part of: the label `campaign`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The plan; the same for each of its shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// Which shard of the plan, from 1; absent where the plan is not shared out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// How many shards the plan has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// Records of this plan and shard that this machine made before in this boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What started the session, as its environment variables tell: `slurm`, `kubernetes`, `parallel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The job, in the words of the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// How often the scheduler has started the job before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
}

impl Provenance {
    /// Is nothing known?
    pub fn is_empty(&self) -> bool {
        *self == Provenance::default()
    }
}
