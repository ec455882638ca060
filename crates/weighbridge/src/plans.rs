//! From what was typed to a plan as a file. What a machine can measure is not asked here: other machines carry it out.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::session::expected_run;
use weighbridge_harness::{catalogue, hub};
use weighbridge_record::CaseId;
use weighbridge_record::plan::{Plan, PlanSettings, PlannedCase};

use crate::values::Shard;
use crate::{Failure, args, scope};

/// Makes a plan, or a part of one.
pub fn make(args: &args::Plan) -> Result<Plan, Failure> {
    if args.selection.cpus.is_some() {
        return Err(Failure::mistake(
            "the CPUs are those of a machine, and a plan is for any; give --cpus to `weighbridge run --plan`",
        ));
    }
    let (selected, suite) = scope::select_anywhere(&args.selection)?;
    let is_of_suite = args.selection.suite.is_some()
        || args.selection.globs.is_empty()
        || scope::named_suite(&args.selection).is_some();
    let mut seen = BTreeSet::new();
    let mut ids: Vec<CaseId> = selected.ids().filter(|id| seen.insert(*id)).cloned().collect();
    if let Some(why) = ids.iter().find_map(|id| Some((id, catalogue::resolve(id).err()?))) {
        return Err(Failure::mistake(format!("no case `{}`: {}", why.0, why.1)));
    }
    let effort = &args.effort;
    let is_timed = effort.run_time.is_some() || effort.interval.is_some();
    let budget = effort.budget.unwrap_or(suite.budget);
    let max_runs = usize::from(effort.max_runs);
    let (mut timing, mut is_short) = (scope::timing(suite, effort)?, false);
    if is_timed {
        scope::check_intervals(ids.iter())?;
    } else if effort.budget.is_some() {
        let of_suite = is_of_suite.then_some(suite);
        if let Some((_, shorter)) = scope::short(timing, budget, max_runs, ids.len(), of_suite) {
            (timing, is_short) = (shorter, true);
            ids.sort_by_key(scope::memory_bytes);
        }
    }
    let settings = PlanSettings {
        suite: suite.name.into(),
        precision: effort.precision.unwrap_or(suite.precision),
        budget_s: budget.as_secs_f64(),
        max_runs: effort.max_runs.into(),
        sample_ns: timing.sample_ns,
        samples: timing.samples as u32,
        least_samples: timing.least_samples as u32,
        run_ns: timing.run_ns,
        is_short,
        // A case in turns has slices in place of intervals.
        alone: args.alone || is_timed || !suite.in_turn,
        system_calls: !args.no_system_calls && !is_short,
    };
    let one_run_s = expected_run(timing).as_secs_f64();
    let share_s = settings.budget_s / ids.len().max(1) as f64;
    // What a case takes at most, and no less than one run.
    let seconds = (one_run_s * f64::from(settings.max_runs)).min(share_s).max(one_run_s);
    let case = |case: CaseId| PlannedCase {
        hub: if settings.alone { None } else { hub_of(&case) },
        case,
        seconds: (seconds * 1e3).round() / 1e3,
    };
    let cases = ids.into_iter().map(case).collect();
    let plan = Plan::new(args.seed, settings.clone(), cases);
    Ok(match args.shard {
        Some(Shard { index, count }) => plan.shard(index, count),
        None => plan,
    })
}

/// The case with which a case takes turns, as far as that follows from its name: CPUs that stand for those of any machine.
fn hub_of(id: &CaseId) -> Option<CaseId> {
    let (target, pattern, mut params) = catalogue::resolve(id).ok()?;
    params.cpus = match id.placement.as_str() {
        "same-cpu" => vec![0, 0],
        "free" => Vec::new(),
        _ => vec![0, 1],
    };
    let case = Prepared { params, target, pattern, resolved_placement: "", places: Vec::new() };
    hub::of(&case).ok()
}

/// A machine that a report wants to be measured again, and which cases; none for all of the plan.
#[derive(Deserialize)]
struct Asked {
    machine: String,
    cases: Vec<CaseId>,
}

/// What `weighbridge-fleet report --remeasure` writes beside the plan.
#[derive(Deserialize)]
struct OfReport {
    #[serde(default)]
    hosts: Vec<Asked>,
}

/// Reads a plan from a file, or of one that asks for some machines what it wants of this one.
pub fn read(path: &Path, machine: &str) -> Result<Plan, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::mistake(format!("the plan `{name}` cannot be read: {error}")))?;
    let mut plan = Plan::read(&text).map_err(|why| Failure::mistake(format!("`{name}` {why}")))?;
    if let Some((case, why)) =
        plan.cases.iter().find_map(|case| Some((&case.case, catalogue::resolve(&case.case).err()?)))
    {
        return Err(Failure::mistake(format!(
            "the plan `{name}` has a case that this program does not know, {case}: {why}; carry it out with the version that made it"
        )));
    }
    let OfReport { hosts } = serde_json::from_str(&text).map_err(|error| {
        Failure::mistake(format!("the machines of the plan `{name}` cannot be read: {error}"))
    })?;
    match hosts.iter().find(|host| host.machine == machine) {
        Some(asked) if asked.cases.is_empty() => {}
        Some(asked) => plan.cases.retain(|of| asked.cases.contains(&of.case)),
        None if hosts.is_empty() => {}
        None => {
            return Err(Failure::mistake(format!(
                "the plan `{name}` is for {} machines, such as {}, and this one is {machine}; if it is one of them, name it with --label machine=NAME",
                hosts.len(),
                hosts[0].machine
            )));
        }
    }
    Ok(plan)
}

/// Length and number of the samples of a plan.
pub fn timing(plan: &Plan) -> Timing {
    let PlanSettings { sample_ns, samples, least_samples, run_ns, .. } = plan.settings;
    Timing { sample_ns, samples: samples as usize, least_samples: least_samples as usize, run_ns }
}
