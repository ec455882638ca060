//! `weighbridge advise`: which mechanism to take, from a record or by measuring the candidates, or those that a record lacks.

mod asking;
mod candidates;
mod missing;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use weighbridge_harness::catalogue;
use weighbridge_harness::host::Host;
use weighbridge_harness::machine::describe;
use weighbridge_harness::session::Ended;
use weighbridge_record::CaseId;
use weighbridge_record::earlier::machine;
use weighbridge_report::{Advice, Report, advise as advice_of};

use super::measuring::{header, interrupt, warn_of_debug_build};
use super::{look_at_host, plan, report, run};
use crate::advise_args::AdviseArgs;
use crate::args::{Effort, Run, RunFormat, Selection};
use crate::destination::Destination;
use crate::explain_args::TimelineArgs;
use crate::output_args::{Output, OutputWithPage};
use crate::scope::Scope;
use crate::values::{Page, PageFormat};
use crate::{Exit, Failure, output, values};

/// Time for a measurement of all candidates for which no other is given; of some of them it is less.
const BUDGET_S: u64 = 150;
const LEAST_S: f64 = 20.0;

pub fn advise(args: &AdviseArgs) -> Result<Exit, Failure> {
    if args.format == PageFormat::Html && io::stdout().is_terminal() {
        return Err(Failure::mistake("an HTML page is not written to a terminal; redirect it to a file"));
    }
    args.checked()?;
    let may_ask = !args.quiet && io::stdin().is_terminal() && io::stderr().is_terminal();
    let read = args.record.as_deref().map(report::read).transpose()?.map(Report::from_reading);
    match read {
        Some(report) if args.no_measure => {
            let question = asking::question(args, may_ask, 2)?;
            let advice = advice_of(&report, &question, known).map_err(|why| {
                Failure::new(format!("{why}; leave --no-measure out to measure what is missing"))
            })?;
            conclude(args, &report, &advice, Exit::Fine)
        }
        read => measure(args, may_ask, read.as_ref()),
    }
}

fn measure(args: &AdviseArgs, may_ask: bool, read: Option<&Report>) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let mut host = look_at_host()?;
    let question = asking::question(args, may_ask, host.allowed_cpus.len())?;
    let all = candidates::of(&question, &host);
    if all.is_empty() {
        return Err(Failure::new(format!(
            "no mechanism can be measured here for {}; `weighbridge list` shows what there is",
            question.in_words()
        )));
    }
    let usable = read.filter(|report| is_of_here(report, &host));
    let wanted = match usable {
        Some(report) => missing::of(&all, report, &question, known),
        None => all.clone(),
    };
    if !args.quiet
        && let Some(record) = &args.record
    {
        output::say(&told(record, usable.is_some(), wanted.len(), all.len()));
    }
    let of_record = usable.map(|report| (report, advice_of(report, &question, known)));
    if let Some((report, Ok(advice))) = &of_record
        && wanted.is_empty()
    {
        return if args.dry_run { Ok(Exit::Fine) } else { conclude(args, report, advice, Exit::Fine) };
    }
    let run = as_run(args, &wanted, all.len())?;
    let scope = Scope::new(&run.selection, &run.effort, &mut host)?;
    if args.dry_run {
        return plan::show(&scope);
    }
    scope.check_not_empty()?;
    plan::detail(&scope);
    let destination = Destination::create(args.out.as_deref(), Some(&Page::None))?;
    warn_of_debug_build();
    let (closed, has_numbers) = run::measure(&run, scope, &host, &interrupt, destination);
    if !args.quiet {
        output::say(&format!("record: {}", closed.files.record.display()));
    }
    let ended = closed.ended.map_err(|error| {
        Failure::new(format!("cannot write to `{}`: {error}", closed.files.record.display()))
    })?;
    let exit = if ended == Ended::Interrupted { Exit::Interrupted } else { Exit::Fine };
    if !has_numbers {
        let none = Failure::new("no case gave a number; the record has the reasons");
        return if exit == Exit::Fine { Err(none) } else { Ok(exit) };
    }
    let mut advice = advice_of(&closed.report, &question, known)
        .map_err(|why| Failure::new(format!("{why}; a longer --budget would measure more")))?;
    if let Some((_, Ok(earlier))) = &of_record
        && wanted.len() < all.len()
    {
        advice = advice.with_earlier(earlier);
        let record = args.record.as_deref().map_or(String::new(), values::quoted);
        let behind = all.len() - wanted.len();
        advice.differences.push(format!(
            "{behind} of {} candidates were not measured again: {record} has them behind those in front",
            all.len()
        ));
    }
    conclude(args, &closed.report, &advice, exit)
}

/// What is done with a record, in a line.
fn told(record: &Path, is_usable: bool, wanted: usize, all: usize) -> String {
    let record = values::quoted(record);
    match wanted {
        _ if !is_usable => format!(
            "{record} is of another machine or build, so all {all} candidates are measured here; --no-measure answers from it alone"
        ),
        0 => format!("{record} has all {all} candidates"),
        _ if wanted == all => format!("{record} decides nothing here, so all {all} candidates are measured"),
        _ => format!("{record} leaves {wanted} of {all} candidates to be measured"),
    }
}

/// Was it measured on this machine, by a build of this kind?
fn is_of_here(report: &Report, host: &Host) -> bool {
    let here = header([("", String::new())], describe(host), 0);
    let there = report.sources.first().and_then(|source| source.header.as_ref());
    there.is_some_and(|there| machine(there) == machine(&here) && there.tool.profile == here.tool.profile)
}

/// The run that measures these of so many candidates.
fn as_run(args: &AdviseArgs, candidates: &[CaseId], of: usize) -> Result<Run, Failure> {
    let share = (BUDGET_S as f64 * candidates.len() as f64 / of as f64).max(LEAST_S);
    let cpus = std::env::var("WEIGHBRIDGE_CPUS").ok().map(|list| values::cpus(&list));
    Ok(Run {
        selection: Selection {
            globs: candidates.iter().map(CaseId::to_string).collect(),
            suite: None,
            target: Vec::new(),
            sizes: None,
            place: Vec::new(),
            wait: Vec::new(),
            set: Vec::new(),
            // Here the option of this name is a number; what is said once for all commands counts.
            cpus: cpus.transpose().map_err(Failure::mistake)?,
        },
        effort: Effort {
            precision: None,
            budget: Some(args.budget.unwrap_or(Duration::from_secs_f64(share))),
            run_time: None,
            interval: None,
            max_runs: 40,
        },
        seed: None,
        module: None,
        memory_bandwidth: None,
        alone: false,
        no_system_calls: true,
        timeline: TimelineArgs::default(),
        output: OutputWithPage {
            of: Output {
                out: args.out.clone(),
                format: RunFormat::Table,
                quiet: args.quiet,
                label: Vec::new(),
            },
            html: Some(Page::None),
        },
        dry_run: args.dry_run,
        progress: false,
        plan: None,
        out_dir: None,
        resume: false,
    })
}

/// What this program knows of a case whose record does not tell its properties.
fn known(id: &CaseId) -> Option<weighbridge_record::Properties> {
    let (target, _, params) = catalogue::resolve(id).ok()?;
    target.properties_of(&params)
}

/// Shows the advice; the code of the worst that was found.
fn conclude(args: &AdviseArgs, report: &Report, advice: &Advice, exit: Exit) -> Result<Exit, Failure> {
    output::print(output::rendered(args.format, || advice.document(), advice))?;
    Ok(match exit {
        Exit::Fine if report.is_void() => Exit::Undecided,
        Exit::Fine => exit_of(advice, args.strict),
        other => other,
    })
}

fn exit_of(advice: &Advice, is_strict: bool) -> Exit {
    match (advice.choice, advice.is_sure) {
        (None, _) => Exit::Outside,
        (Some(_), false) if is_strict => Exit::Undecided,
        _ => Exit::Fine,
    }
}
