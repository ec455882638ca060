//! `weighbridge advise`: which mechanism to take, from a record or by measuring the candidates.

mod asking;
mod candidates;

use std::io::{self, IsTerminal};

use weighbridge_harness::catalogue;
use weighbridge_harness::host::Host;
use weighbridge_harness::session::Ended;
use weighbridge_record::CaseId;
use weighbridge_report::{Advice, Question, Report, advise as advice_of};

use super::measuring::{interrupt, warn_of_debug_build};
use super::{look_at_host, plan, report, run};
use crate::advise_args::AdviseArgs;
use crate::args::{Effort, Run, RunFormat, Selection};
use crate::destination::Destination;
use crate::explain_args::TimelineArgs;
use crate::output_args::{Output, OutputWithPage};
use crate::scope::Scope;
use crate::values::{Page, PageFormat};
use crate::{Exit, Failure, output, values};

/// Time for a measurement for which no other is given.
const BUDGET_S: u64 = 150;

pub fn advise(args: &AdviseArgs) -> Result<Exit, Failure> {
    if args.format == PageFormat::Html && io::stdout().is_terminal() {
        return Err(Failure::mistake("an HTML page is not written to a terminal; redirect it to a file"));
    }
    let may_ask = !args.quiet && io::stdin().is_terminal() && io::stderr().is_terminal();
    match &args.record {
        Some(record) => {
            let question = asking::question(args, may_ask, 2)?;
            let report = Report::from_reading(report::read(record)?);
            conclude(args, &report, &question, Exit::Fine)
        }
        None => measure(args, may_ask),
    }
}

fn measure(args: &AdviseArgs, may_ask: bool) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let mut host = look_at_host()?;
    let question = asking::question(args, may_ask, host.allowed_cpus.len())?;
    let run = as_run(args, &question, &host)?;
    let scope = Scope::new(&run.selection, &run.effort, &mut host)?;
    if args.dry_run {
        return plan::show(&scope);
    }
    scope.check_not_empty()?;
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
    conclude(args, &closed.report, &question, exit)
}

/// The run that measures the candidates.
fn as_run(args: &AdviseArgs, question: &Question, host: &Host) -> Result<Run, Failure> {
    let candidates = candidates::of(question, host);
    if candidates.is_empty() {
        return Err(Failure::new(format!(
            "no mechanism can be measured here for {}; `weighbridge list` shows what there is",
            question.in_words()
        )));
    }
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
            budget: Some(args.budget.unwrap_or(std::time::Duration::from_secs(BUDGET_S))),
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
            of: Output { out: args.out.clone(), format: RunFormat::Table, quiet: args.quiet },
            html: Some(Page::None),
        },
        dry_run: args.dry_run,
        progress: false,
    })
}

/// What this program knows of a case whose record does not tell its properties.
fn known(id: &CaseId) -> Option<weighbridge_record::Properties> {
    let (target, _, params) = catalogue::resolve(id).ok()?;
    target.properties_of(&params)
}

/// Shows the advice; the code of the worst that was found.
fn conclude(args: &AdviseArgs, report: &Report, question: &Question, exit: Exit) -> Result<Exit, Failure> {
    let advice = advice_of(report, question, known).map_err(|why| {
        Failure::new(format!(
            "{why}; {}",
            if args.record.is_some() {
                "leave --record out to measure it"
            } else {
                "a longer --budget would measure more"
            }
        ))
    })?;
    output::print(output::rendered(args.format, || advice.document(), &advice))?;
    Ok(match exit {
        Exit::Fine if report.is_void() => Exit::Undecided,
        Exit::Fine => exit_of(&advice, args.strict),
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
