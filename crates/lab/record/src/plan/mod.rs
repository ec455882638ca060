//! A plan as a file: which cases are measured, with what effort. It says nothing of a machine, so that a fleet carries out one plan.
//!
//! The same words make the same plan, digit by digit: shards that are made one by one on many hosts are shards of one plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CaseId, digest};

/// The version of the form of a plan.
pub const PLAN_SCHEMA: u32 = 1;

/// What `kind` is in a plan.
const KIND: &str = "plan";

/// Cases with the effort that they are worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `plan`.
    pub kind: String,
    /// [`PLAN_SCHEMA`] of the writer.
    pub schema: u32,
    /// A hash of seed, settings and all cases; the same for every shard.
    pub plan_id: String,
    /// Which shard this is, from 1; absent in a whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// How many shards the plan has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// Seed of the order of runs.
    pub seed: u64,
    /// The effort.
    pub settings: PlanSettings,
    /// The cases, in the order in which they were selected.
    pub cases: Vec<PlannedCase>,
    /// A hash of all of the above: a plan that was changed is refused, because its id would name two plans.
    pub digest: String,
}

/// The effort that the cases of a plan are worth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanSettings {
    /// The suite whose timing they have.
    pub suite: String,
    /// Relative half-width of the interval to be reached.
    pub precision: f64,
    /// Time for all cases together, in seconds.
    pub budget_s: f64,
    /// Most runs of a case.
    pub max_runs: u32,
    /// Wanted length of a sample.
    pub sample_ns: u64,
    /// Wanted number of samples of a run.
    pub samples: u32,
    /// Fewest of a run of slow operations.
    pub least_samples: u32,
    /// What the samples of a run may take together.
    pub run_ns: u64,
    /// Are runs shorter than usual, because the budget is?
    pub is_short: bool,
    /// Is every case measured by itself, and not in turns with its hub?
    pub alone: bool,
    /// Are system calls counted?
    pub system_calls: bool,
}

/// A case of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedCase {
    /// The case.
    pub case: CaseId,
    /// What it is expected to take at most, in seconds.
    pub seconds: f64,
    /// The case with which it takes turns; absent where it is measured by itself. Cases of one hub stay together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<CaseId>,
}

impl PlannedCase {
    /// What stays together with it.
    fn group(&self) -> &CaseId {
        self.hub.as_ref().unwrap_or(&self.case)
    }
}

impl Plan {
    /// A whole plan. Without a seed it has one that follows from what it is.
    pub fn new(seed: Option<u64>, settings: PlanSettings, cases: Vec<PlannedCase>) -> Plan {
        let of_content = || {
            let digits = &digest::sha256(json(&(&settings, &cases)).as_bytes())[..8];
            u64::from(u32::from_str_radix(digits, 16).expect("hexadecimal digits"))
        };
        let seed = seed.unwrap_or_else(of_content);
        let plan_id = digest::short(json(&(PLAN_SCHEMA, seed, &settings, &cases)).as_bytes());
        let (shard, shards, digest) = (None, None, String::new());
        Plan { kind: KIND.into(), schema: PLAN_SCHEMA, plan_id, shard, shards, seed, settings, cases, digest }
            .sealed()
    }

    /// A part of a whole plan, `shard` from 1 to `shards`. All parts are disjoint and together the plan; cases of one hub are in one part, and
    /// the parts take about the same time: the longest group goes first, each to the part that has least.
    ///
    /// # Panics
    /// There is no such shard, or this is one.
    pub fn shard(&self, shard: u32, shards: u32) -> Plan {
        assert!((1..=shards).contains(&shard) && self.shard.is_none(), "{shard} of {shards} of a whole plan");
        let mut seconds_of: BTreeMap<&CaseId, f64> = BTreeMap::new();
        self.cases.iter().for_each(|case| *seconds_of.entry(case.group()).or_default() += case.seconds);
        let mut groups: Vec<(&CaseId, f64)> = seconds_of.into_iter().collect();
        // Equal ones by a hash: in the order of names, one shard would have all of a kind.
        groups.sort_by_cached_key(|(group, _)| digest::short(group.to_string().as_bytes()));
        groups.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut loads = vec![0.0; shards as usize];
        let mut shard_of: BTreeMap<&CaseId, usize> = BTreeMap::new();
        for (group, seconds) in groups {
            let least = (0..loads.len()).min_by(|a, b| f64::total_cmp(&loads[*a], &loads[*b]));
            let least = least.expect("there is a shard");
            loads[least] += seconds;
            shard_of.insert(group, least);
        }
        let is_own = |case: &&PlannedCase| shard_of[case.group()] + 1 == shard as usize;
        let cases = self.cases.iter().filter(is_own).cloned().collect();
        Plan { shard: Some(shard), shards: Some(shards), cases, ..self.clone() }.sealed()
    }

    fn sealed(mut self) -> Plan {
        self.digest.clear();
        self.digest = digest::short(json(&self).as_bytes());
        self
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// It is none, was written by a newer program, or has been changed: what follows the name of the file in a sentence.
    pub fn read(text: &str) -> Result<Plan, String> {
        #[derive(Deserialize)]
        struct Version {
            kind: String,
            schema: u32,
        }
        let none = "is not a plan; `weighbridge plan --format json` writes one";
        let version: Version = serde_json::from_str(text).map_err(|_| none.to_owned())?;
        if version.kind != KIND {
            return Err(none.into());
        }
        if version.schema > PLAN_SCHEMA {
            return Err(format!(
                "is a plan of schema {}, and this weighbridge reads schemas up to {PLAN_SCHEMA}; carry it out with the version that wrote it, or a \
                 newer one",
                version.schema
            ));
        }
        let plan: Plan = serde_json::from_str(text)
            .map_err(|error| format!("is a plan that cannot be read: {error}; write it anew"))?;
        if plan.clone().sealed().digest != plan.digest {
            return Err(
                "was changed after it was made, and its id would name two plans; make another with `weighbridge plan --format json`".into(),
            );
        }
        Ok(plan)
    }

    /// As a file has it.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan is plain data") + "\n"
    }

    /// The cases that are measured together, each list with its hub or by itself, in the order of the plan.
    pub fn groups(&self) -> Vec<Vec<&PlannedCase>> {
        let mut groups: Vec<Vec<&PlannedCase>> = Vec::new();
        for case in &self.cases {
            match groups.iter_mut().find(|group| group[0].group() == case.group()) {
                Some(group) => group.push(case),
                None => groups.push(vec![case]),
            }
        }
        groups
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it is plain data")
}

#[cfg(test)]
mod tests;
