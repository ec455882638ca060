//! `weighbridge advise`: which mechanism to take, from a record or by measuring the candidates, or those that a record lacks.

mod asking;
mod candidates;
mod missing;

use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use causeway_os::sched::allowed_cpus;
use weighbridge_harness::catalogue;
use weighbridge_harness::host::Host;
use weighbridge_harness::machine::describe;
use weighbridge_harness::session::Ended;
use weighbridge_record::earlier::machine;
use weighbridge_record::{CaseId, Header};
use weighbridge_report::{Advice, Question, Report, advise as advice_of};

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
    refuse_the_record_as_output(args)?;
    let may_ask = !args.quiet && io::stdin().is_terminal() && io::stderr().is_terminal();
    let read = args.record.as_deref().map(report::read).transpose()?.map(Report::from_reading);
    match read {
        Some(report) if args.no_measure => {
            let question = asking::question(args, may_ask, 2)?;
            let advice = advice_of(&report, &question, &[], known).map_err(|why| {
                Failure::new(format!("{why}; leave --no-measure out to measure what is missing"))
            })?;
            conclude(args, &report, &advice, Exit::Fine)
        }
        read => {
            // Before Ctrl-C is taken over, which ends nobody who waits for an answer.
            let cpus = allowed_cpus().map_err(|error| Failure::new(error.to_string()))?;
            let question = asking::question(args, may_ask, cpus.len())?;
            measure(args, &question, read.as_ref())
        }
    }
}

/// A record that is read stays as it is, whatever may be replaced.
fn refuse_the_record_as_output(args: &AdviseArgs) -> Result<(), Failure> {
    let (Some(record), Some(out)) = (&args.record, &args.out) else { return Ok(()) };
    let file = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    match (file(record), file(out)) {
        (Some(one), Some(other)) if one == other => Err(Failure::mistake(format!(
            "{} is the record that is read; give what is measured another name with --out",
            values::quoted(out)
        ))),
        _ => Ok(()),
    }
}

fn measure(args: &AdviseArgs, question: &Question, read: Option<&Report>) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let mut host = look_at_host()?;
    let budget = args.budget.unwrap_or(Duration::from_secs(BUDGET_S));
    let all = candidates::of(question, &host, budget);
    if all.is_empty() {
        return Err(Failure::new(format!(
            "nothing can be measured here for {}: {}; `weighbridge list` shows what there is",
            question.in_words(),
            candidates::why_none(question, &host)
        )));
    }
    let usable = read.filter(|report| is_of_here(report, &host));
    let wanted = match usable {
        Some(report) => missing::of(&all, report, question, known),
        None => all.clone(),
    };
    if !args.quiet
        && let Some(record) = &args.record
    {
        output::say(&told(record, usable.is_some(), wanted.len(), all.len()));
    }
    let of_record = usable.map(|report| (report, advice_of(report, question, &all, known)));
    if let Some((report, advice)) = &of_record
        && wanted.is_empty()
    {
        let advice = advice.as_ref().map_err(Failure::new)?;
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
    if exit == Exit::Interrupted {
        let what = if has_numbers {
            "the advice is from what was measured until then"
        } else {
            "no case has a number yet"
        };
        output::say(&format!("interrupted: {what}"));
    }
    if !has_numbers {
        let none = Failure::new("no case gave a number; the record has the reasons");
        return if exit == Exit::Fine { Err(none) } else { Ok(exit) };
    }
    let mut advice = advice_of(&closed.report, question, &wanted, known)
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

fn is_of_here(report: &Report, host: &Host) -> bool {
    let here = header([("", String::new())], describe(host), 0);
    let there = report.sources.first().and_then(|source| source.header.as_ref());
    there.is_some_and(|there| are_of_one_build(there, &here))
}

/// Were both measured on one machine, by one build?
fn are_of_one_build(there: &Header, here: &Header) -> bool {
    machine(there) == machine(here)
        && there.tool.profile == here.tool.profile
        && there.tool.commit == here.tool.commit
}

/// The run that measures these of so many candidates.
fn as_run(args: &AdviseArgs, candidates: &[CaseId], of: usize) -> Result<Run, Failure> {
    assert!(!candidates.is_empty(), "a selection of nothing would be that of a suite");
    let share = (BUDGET_S as f64 * candidates.len() as f64 / of as f64).max(LEAST_S);
    let cpus = std::env::var("WEIGHBRIDGE_CPUS").ok().map(|list| values::cpus(&list));
    Ok(Run {
        selection: Selection {
            globs: candidates.iter().map(CaseId::to_string).collect(),
            suite: None,
            target: args.target.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_record_is_good_for_is_told_in_a_line() {
        let line = |is_usable, wanted| told(Path::new("a.jsonl"), is_usable, wanted, 5);
        assert!(line(false, 5).starts_with("a.jsonl is of another machine or build, so all 5 candidates"));
        assert_eq!(line(true, 0), "a.jsonl has all 5 candidates");
        assert_eq!(line(true, 3), "a.jsonl leaves 3 of 5 candidates to be measured");
        assert!(line(true, 5).starts_with("a.jsonl decides nothing here, so all 5 candidates"));
    }

    #[test]
    fn another_commit_is_another_build_as_is_another_profile_and_another_machine() {
        let here = Header::default();
        let mut others = [here.clone(), here.clone(), here.clone()];
        others[0].tool.commit = Some("1a2b3c4".into());
        others[1].tool.profile = "release".into();
        others[2].machine.hostname = "elsewhere".into();
        assert!(are_of_one_build(&here, &here));
        assert_eq!(others.map(|there| are_of_one_build(&there, &here)), [false; 3]);
    }

    /// No globs are a whole suite to a run: of no candidates there is none.
    #[test]
    #[should_panic(expected = "a selection of nothing")]
    fn no_run_is_made_of_no_candidates() {
        let command =
            <AdviseArgs as clap::Args>::augment_args(clap::Command::new("advise").no_binary_name(true));
        let args = <AdviseArgs as clap::FromArgMatches>::from_arg_matches(&command.get_matches_from([""; 0]));
        let _ = as_run(&args.unwrap(), &[], 5);
    }
}
