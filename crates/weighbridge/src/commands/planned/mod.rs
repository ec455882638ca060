//! `weighbridge run --plan`: carries out a plan, so that whatever ends it loses nothing that was finished.
//!
//! A session measures all of its cases side by side, and has none of them finished before its end. A plan is carried out hub by hub instead: a
//! hub and its cases are a session of their own, and what came of them is in the record before the next one begins.

mod spool;

use std::io;
use std::path::Path;
use std::time::Duration;

use weighbridge_harness::catalogue::{self, Refusal};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::crossover::Listener;
use weighbridge_harness::host::Host;
use weighbridge_harness::machine;
use weighbridge_harness::session::{Ended, Session, Settings, Sink, expected_run};
use weighbridge_record::plan::{Plan, PlanSettings};
use weighbridge_record::{CaseId, Earlier, Ending, Header, Identity, Line, Outcome, Skipped, outcomes};
use weighbridge_report::{self as report, Report};
use weighbridge_stats::stopping::LOOKS;

use super::look_at_host;
use super::measuring::{Bench, Closed, Measuring, header, identify, interrupt, warn_of_debug_build};
use super::run::rendered;
use crate::args::Run;
use crate::recorder::Recorder;
use crate::{Exit, Failure, harness, identity, output, plans, scope, store, values};
use spool::Spool;

pub fn run(args: &Run, file: &Path, folder: &Path) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let mut host = look_at_host()?;
    scope::choose_cpus(&args.selection, &mut host)?;
    let machine = machine::describe(&host);
    let identity = identity::of(&machine);
    let plan = plans::read(file, &identity.machine)?;
    let mut header = header(settings(&plan, file, args), machine, plan.seed);
    header.identity = Some(identity);
    identify(&mut header);
    header.provenance.plan_id = Some(plan.plan_id.clone());
    (header.provenance.shard, header.provenance.shards) = (plan.shard, plan.shards);
    if args.dry_run {
        return show(&plan, &host);
    }
    let spool = Spool::open(folder, &plan, &header)?;
    let identity = header.identity.clone().unwrap_or_default();
    warn_of(&identity, &spool);
    let finished = if args.resume { spool.finished().clone() } else { Default::default() };
    let left: Vec<CaseId> =
        plan.cases.iter().map(|of| of.case.clone()).filter(|case| !finished.contains(case)).collect();
    if left.is_empty() {
        output::say(&match finished.len() {
            0 => "there is no case in this part of the plan".into(),
            count => format!("all {count} cases of the plan were finished here since the machine was booted"),
        });
        return Ok(Exit::Fine);
    }
    warn_of_debug_build();
    let (cases, skipped) = prepared(&left, &host)?;
    if cases.is_empty() && finished.is_empty() {
        let Skipped { case, why, .. } = &skipped[0];
        spool.refuse(header, &skipped)?;
        return Err(Failure::mistake(format!(
            "none of the {} cases of the plan can be measured here, such as {case}: {why}",
            left.len()
        )));
    }
    let (destination, attempt) = spool.create()?;
    header.provenance.attempt = Some(attempt);
    let bench = Bench { host: &host, interrupt: &interrupt, seed: plan.seed, is_watched: args.progress };
    let measuring = Measuring::begin(destination, args.output.of.quiet || args.progress);
    let mut harness = harness::missing(&cases, &host);
    harness.retain(|case| !finished.contains(&case.params.id));
    let work = Work { plan: &plan, cases, harness, left: &left };
    let closed = carry_out(&work, bench, measuring, header, skipped);
    conclude(closed, args, &left)
}

/// What the user should know before it begins.
fn warn_of(identity: &Identity, spool: &Spool) {
    if identity::is_weak(identity) {
        let from = &identity.machine_from;
        output::warn(&format!(
            "this machine is known by its {from} alone, which containers and clones share or change; name it with --label machine=NAME"
        ));
    }
    if let Some(other) = spool.clone_of_this() {
        output::warn(&format!(
            "`{}` is of a machine of the same name ({}) that ran at the same time in another boot: one is a clone of the other, or a clock is wrong; \
             tell them apart with --label machine=NAME",
            other.display(),
            identity.machine
        ));
    }
    if let Some(max) = identity.cgroup_cpu_max.as_deref()
        && let Some(cpus) = identity::control_group::cpus(max).filter(|cpus| *cpus < 2.0)
    {
        output::warn(&format!(
            "the control group of this program may use {cpus:.2} CPUs: a run from which it withholds time is void, and a pair of busy roles needs 2; give \
             it more (cpu.max)"
        ));
    }
}

/// The settings of the record, which are those of the plan.
fn settings(plan: &Plan, file: &Path, args: &Run) -> Vec<(String, String)> {
    let of = &plan.settings;
    let cpus = args.selection.cpus.iter().flat_map(|cpus| &cpus.0).map(u32::to_string).collect::<Vec<_>>();
    [
        ("plan", file.display().to_string()),
        ("suite", of.suite.clone()),
        ("precision", of.precision.to_string()),
        ("budget", format!("{}s", of.budget_s)),
        ("runs", of.max_runs.to_string()),
        ("cpus", cpus.join(",")),
        ("shortened", if of.is_short { "by the plan".into() } else { String::new() }),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Those of the cases that can run here, and why the others cannot.
fn prepared(ids: &[CaseId], host: &Host) -> Result<(Vec<Prepared>, Vec<Skipped>), Failure> {
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for case in ids {
        match catalogue::prepare(case, host) {
            Ok(case) => cases.push(case),
            Err(Refusal::NotHere(why) | Refusal::NoSuchCase(why)) => {
                skipped.push(Skipped { case: case.clone(), step: "fit".into(), why });
            }
        }
    }
    Ok((cases, skipped))
}

fn show(plan: &Plan, host: &Host) -> Result<Exit, Failure> {
    let ids: Vec<CaseId> = plan.cases.iter().map(|of| of.case.clone()).collect();
    let (cases, skipped) = prepared(&ids, host)?;
    let mut text: String = cases.iter().map(|case| format!("{}\n", case.params.id)).collect();
    if !skipped.is_empty() {
        text += "\nskipped:\n";
        text += &report::skips(&skipped, output::style());
    }
    let seconds: f64 = plan.cases.iter().map(|of| of.seconds).sum();
    let time = values::spoken(Duration::from_secs_f64(seconds.max(0.0)));
    text += &format!(
        "\n{} of {} cases of the plan {} would be measured, in {time} at most.\n",
        cases.len(),
        ids.len(),
        plan.plan_id
    );
    output::print(text)?;
    Ok(Exit::Fine)
}

/// What there is to do.
struct Work<'a> {
    plan: &'a Plan,
    /// Cases of the plan.
    cases: Vec<Prepared>,
    /// Cases of the harness that they lack.
    harness: Vec<Prepared>,
    /// What the record answers for.
    left: &'a [CaseId],
}

impl Work<'_> {
    /// The sessions: the harness, then each hub with its cases. Each with the time that it may take, and with the most runs of a case.
    fn sessions(&self) -> Vec<(Vec<Prepared>, Duration, usize)> {
        let PlanSettings { max_runs, .. } = self.plan.settings;
        let of_harness =
            expected_run(plans::timing(self.plan)) * (self.harness.len() * (LOOKS[0] + 1)) as u32;
        let mut sessions = vec![(self.harness.clone(), of_harness, LOOKS[0])];
        for group in self.plan.groups() {
            let is_left = |id: &CaseId| self.cases.iter().find(|case| case.params.id == *id);
            let seconds = group.iter().filter(|of| is_left(&of.case).is_some()).map(|of| of.seconds).sum();
            let cases = group.iter().filter_map(|of| is_left(&of.case)).cloned().collect();
            sessions.push((cases, Duration::from_secs_f64(seconds), max_runs as usize));
        }
        sessions.retain(|(cases, ..)| !cases.is_empty());
        sessions
    }
}

fn carry_out(
    work: &Work<'_>,
    bench: Bench<'_>,
    mut measuring: Measuring,
    header: Header,
    skipped: Vec<Skipped>,
) -> Closed {
    let earlier = store::earlier(&header);
    let skips: Vec<CaseId> = skipped.iter().map(|skipped| skipped.case.clone()).collect();
    let opening = measuring.open(header, skipped);
    let recorder = &mut measuring.recorder;
    let ended =
        opening.and_then(|()| tell(recorder, &skips)).and_then(|()| measure(work, bench, earlier, recorder));
    let ended = ended.and_then(|ended| {
        let derived = report::derived(&Report::from_reading(recorder.reading()));
        derived.into_iter().try_for_each(|line| recorder.line(line))?;
        let told: Vec<CaseId> = all_told(recorder).into_iter().map(|outcome| outcome.case).collect();
        let untold: Vec<CaseId> = work.left.iter().filter(|case| !told.contains(case)).cloned().collect();
        tell(recorder, &untold)?;
        Ok(ended)
    });
    measuring.close(ended)
}

/// One session after another, each with what became of its cases behind it.
fn measure(
    work: &Work<'_>,
    bench: Bench<'_>,
    earlier: Earlier,
    recorder: &mut Recorder,
) -> io::Result<Ended> {
    let PlanSettings { precision, is_short, alone, system_calls, .. } = work.plan.settings;
    let mut first_round = 0;
    for (index, (cases, budget, max_runs)) in work.sessions().into_iter().enumerate() {
        let ids: Vec<CaseId> = cases.iter().map(|case| case.params.id.clone()).collect();
        let settings = Settings {
            precision,
            budget,
            timing: plans::timing(work.plan),
            seed: work.plan.seed.wrapping_add(index as u64),
            max_runs,
            first_round,
            duet: !alone,
            count_calls: system_calls,
            is_short,
            earlier: earlier.clone(),
        };
        let mut listener = Listener::new(recorder, first_round);
        let session = Session::new(settings, bench.coordinator(), bench.interrupt, cases);
        let ended = session.run(&mut listener)?;
        first_round = listener.heard().1;
        if ended == Ended::Interrupted {
            return Ok(ended);
        }
        tell(recorder, &ids)?;
    }
    Ok(Ended::Complete)
}

/// Writes what became of these cases.
fn tell(recorder: &mut Recorder, cases: &[CaseId]) -> io::Result<()> {
    let all = outcomes(&recorder.reading(), cases);
    all.into_iter()
        .filter(|outcome| cases.contains(&outcome.case))
        .try_for_each(|outcome| recorder.line(Line::Outcome(outcome)))
}

fn all_told(recorder: &Recorder) -> Vec<Outcome> {
    let lines = recorder.reading().lines;
    lines.into_iter().filter_map(|line| if let Line::Outcome(of) = line { Some(of) } else { None }).collect()
}

/// Shows what was found. The exit code is for who starts the job again.
fn conclude(closed: Closed, args: &Run, left: &[CaseId]) -> Result<Exit, Failure> {
    let Closed { ended, report, files, .. } = closed;
    let outcomes = weighbridge_record::read_file(&files.record).map(|reading| outcomes(&reading, left));
    files.show(&report, rendered(&report, args.output.of.format)).check()?;
    let record = files.record.display();
    let ended = ended.map_err(|error| Failure::new(format!("cannot write to `{record}`: {error}")))?;
    let outcomes =
        outcomes.map_err(|error| Failure::new(format!("`{record}` cannot be read again: {error}")))?;
    let of_plan: Vec<&Outcome> = outcomes.iter().filter(|outcome| left.contains(&outcome.case)).collect();
    let count = |ending: Ending| of_plan.iter().filter(|outcome| outcome.outcome == ending).count();
    let [measured, skipped, void, interrupted] =
        [Ending::Measured, Ending::Skipped, Ending::Void, Ending::Interrupted].map(count);
    let text = format!("{measured} measured, {skipped} skipped, {void} void, {interrupted} interrupted");
    if ended == Ended::Interrupted {
        output::say(&format!("interrupted: the record is valid; {text}; --resume goes on from here"));
        return Ok(Exit::Interrupted);
    }
    if void + interrupted > 0 {
        let first = of_plan.iter().find(|of| [Ending::Void, Ending::Interrupted].contains(&of.outcome));
        let (case, why) = first
            .map_or((String::new(), ""), |of| (of.case.to_string(), of.why.as_deref().unwrap_or_default()));
        output::say(&format!("{text}; the void ones may be measured again, such as {case}: {why}"));
        return Ok(Exit::Later);
    }
    output::say(&text);
    Ok(Exit::Fine)
}
