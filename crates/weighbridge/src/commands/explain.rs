//! `weighbridge explain`: selects cases, has each question about them answered, and shows the answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use weighbridge_analysis::explain::{Asked, Change};
use weighbridge_lab::catalogue::{self, Refusal};
use weighbridge_lab::contract::Prepared;
use weighbridge_lab::coordinator::Coordinator;
use weighbridge_lab::host::Host;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_lab::session::{Ended, Sink};
use weighbridge_record::{End, Line, Price, Skipped};
use weighbridge_report::{self as report, Report};

use super::report::read as read_record;
use super::run::{header_with, random_seed, write_page};
use super::timeline::{self, timelines};
use super::{THIS_PROGRAM, look_at_host};
use crate::args::{Explain, PROFILE};
use crate::destination::Destination;
use crate::explain::{ExplainArgs, Question, cost, observe};
use crate::progress::Shown;
use crate::recorder::Recorder;
use crate::values::ExplainFormat;
use crate::{Exit, Failure, output, scope};

/// Explains cases.
///
/// # Errors
/// One sentence for the user.
pub fn explain(typed: &Explain) -> Result<Exit, Failure> {
    let args = &typed.how;
    // Before anything may start a thread, so that no thread has these signals open.
    let interrupt =
        Interrupt::install().map_err(|error| Failure::new(format!("Ctrl-C cannot be handled: {error}")))?;
    let mut host = look_at_host()?;
    if args.observation.means {
        return observe::means(&host, Path::new(THIS_PROGRAM), args.format);
    }
    let (cases, skipped) = cases(typed, &mut host)?;
    let work = Work::of(args, cases, skipped, &host)?;
    let changes: Vec<Change> = args.cost.what_if.iter().map(change).collect::<Result<_, _>>()?;
    let destination = Destination::create(args.out.as_deref(), args.html.as_ref())?;
    if PROFILE == "debug" {
        output::warn("this is a debug build, and its numbers mean nothing; build with --release");
    }
    destination.note.iter().for_each(|note| output::warn(note));
    if let [first, rest @ ..] = &work.skipped[..] {
        let more =
            if rest.is_empty() { String::new() } else { format!(" ({} more are left out)", rest.len()) };
        output::warn(&format!("{}{more}", first.why));
    }
    answer(typed, &host, &interrupt, work, &changes, destination)
}

/// What is to be done.
struct Work {
    /// Cases whose costs are explained.
    costs: Vec<Prepared>,
    /// Cases that are observed.
    observed: Vec<Prepared>,
    /// Cases that get a time line.
    marked: Vec<Prepared>,
    /// What cannot run here, or cannot be explained.
    skipped: Vec<Skipped>,
}

impl Work {
    fn of(
        args: &ExplainArgs,
        cases: Vec<Prepared>,
        mut skipped: Vec<Skipped>,
        host: &Host,
    ) -> Result<Work, Failure> {
        let mut costs = Vec::new();
        if args.answers(Question::Cost, cases.len()) {
            let (fit, refused) = cost::explicable(&cases, host);
            costs = fit;
            skipped.extend(refused);
        }
        let all_for = |question| match args.answers(question, cases.len()) {
            true => cases.clone(),
            false => Vec::new(),
        };
        let (observed, marked) = (all_for(Question::Kernel), all_for(Question::Timeline));
        timeline::check(&args.timeline, &marked)?;
        args.observation.check()?;
        if costs.is_empty() && observed.is_empty() && marked.is_empty() {
            return Err(Failure::new(match &skipped[..] {
                [] => "no case is selected that can be explained".into(),
                [only] => only.why.clone(),
                [first, ..] => {
                    format!("none of the {} selected cases can be explained; {}", skipped.len(), first.why)
                }
            }));
        }
        args.check(cases.len(), |question| match question {
            Question::Cost => !costs.is_empty(),
            Question::Kernel => !observed.is_empty(),
            Question::Timeline => marked.iter().any(timeline::has_messages),
        })?;
        Ok(Work { costs, observed, marked, skipped })
    }
}

/// The cases that are named, and those of them that cannot run here.
fn cases(typed: &Explain, host: &mut Host) -> Result<(Vec<Prepared>, Vec<Skipped>), Failure> {
    if let Some(sides) = typed.how.observation.sides(host)? {
        return Ok((sides, Vec::new()));
    }
    if typed.selection.globs.is_empty() && typed.selection.suite.is_none() {
        return Err(Failure::new(
            "nothing says what to explain: name a case, as in `weighbridge explain roundtrip/pipe/64/same-cpu`, or --suite quick",
        ));
    }
    let (selected, _) = scope::select(&typed.selection, host)?;
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for id in selected.ids() {
        match catalogue::prepare(id, host) {
            Ok(case) => cases.push(case),
            Err(Refusal::NotHere(why)) => {
                let why = format!("{id}: {why}");
                skipped.push(Skipped { case: id.clone(), step: "fit".into(), why });
            }
            Err(Refusal::NoSuchCase(why)) => return Err(Failure::new(format!("no case `{id}`: {why}"))),
        }
    }
    Ok((cases, skipped))
}

fn change(asked: &cost::WhatIf) -> Result<Change, Failure> {
    let prices = match &asked.asked {
        Asked::Prices(record) => prices_of(Path::new(record))?,
        _ => Vec::new(),
    };
    Ok(Change { text: asked.text.clone(), asked: asked.asked.clone(), prices })
}

/// The price list of a record.
///
/// # Errors
/// The file is no record, or has no prices.
pub fn prices_of(path: &Path) -> Result<Vec<Price>, Failure> {
    let price = |line: Line| if let Line::Price(price) = line { Some(price) } else { None };
    let prices: Vec<Price> = read_record(path)?.lines.into_iter().filter_map(price).collect();
    if prices.is_empty() {
        return Err(Failure::new(format!(
            "`{}` has no prices; a record of `weighbridge explain` has them",
            path.display()
        )));
    }
    Ok(prices)
}

fn answer(
    typed: &Explain,
    host: &Host,
    interrupt: &Interrupt,
    work: Work,
    changes: &[Change],
    destination: Destination,
) -> Result<Exit, Failure> {
    let args = &typed.how;
    let began = Instant::now();
    let seed = args.seed.unwrap_or_else(random_seed);
    let progress = if args.quiet { Shown::Not } else { Shown::on_stderr() };
    let Destination { record, writer, page, is_in_store, .. } = destination;
    let mut recorder = Recorder::new(record, writer, is_in_store, progress);
    let header = header_with(settings(typed, work.costs.len()), host, seed);
    let mut unanswered = None;
    let ended = std::iter::once(Line::Header(Box::new(header)))
        .chain(work.skipped.into_iter().map(Line::Skipped))
        .try_for_each(|line| recorder.line(line))
        .and_then(|()| {
            let coordinator = || Coordinator::new(host, interrupt, THIS_PROGRAM.into(), seed);
            if !work.costs.is_empty() {
                let (ended, why) = cost::explain(
                    &args.cost,
                    work.costs,
                    changes,
                    coordinator(),
                    interrupt,
                    seed,
                    &mut recorder,
                )?;
                unanswered = why;
                if ended == Ended::Interrupted {
                    return Ok(ended);
                }
            }
            if !work.observed.is_empty() {
                let on = (Path::new(THIS_PROGRAM), interrupt);
                let of = (&args.observation, work.observed.as_slice());
                let ended =
                    observe::observe(of.0, of.1, coordinator(), on, (seed, args.quiet), &mut recorder)?;
                if ended == Ended::Interrupted {
                    return Ok(ended);
                }
            }
            timelines(&args.timeline, &work.marked, &mut coordinator(), &mut recorder)
        });
    let complete = matches!(ended, Ok(Ended::Complete));
    let closing = recorder.line(Line::End(End { complete, elapsed_s: began.elapsed().as_secs_f64() }));
    let record = recorder.path().to_owned();
    let report = Report::from_reading(recorder.into_reading());
    let has_answers =
        !(report.explanations.is_empty() && report.observations.is_empty() && report.timelines.is_empty());
    let printed = if has_answers { output::print(rendered(&report, args.format)) } else { Ok(()) };
    let page = write_page(&report, &page, &record, is_in_store);
    if !args.quiet {
        output::say(&format!("record: {}", record.display()));
        if let Ok(Some(page)) = &page {
            output::say(&format!("page:   {}", page.display()));
        }
    }
    let ended = ended.and_then(|ended| closing.map(|()| ended)).map_err(|error| {
        Failure::new(format!("{error}; what was found until then is in `{}`", record.display()))
    })?;
    printed?;
    page?;
    if let Some(why) = unanswered {
        return Err(Failure::new(why));
    }
    if args.observation.a.is_some() && report.differences.is_empty() && ended == Ended::Complete {
        return Err(Failure::new(format!(
            "the two cases are not compared, because one of them could not be observed; `{}` has the reason",
            record.display()
        )));
    }
    match ended {
        Ended::Interrupted => {
            output::say("interrupted: the record is valid, and holds what was measured until then");
            Ok(Exit::Interrupted)
        }
        Ended::Complete if !has_answers => {
            Err(Failure::new(format!("nothing was explained; `{}` has the reasons", record.display())))
        }
        Ended::Complete => Ok(Exit::Fine),
    }
}

fn settings(typed: &Explain, costs: usize) -> BTreeMap<String, String> {
    let Explain { selection, how } = typed;
    let settings =
        [("explain", selection.suite.clone().unwrap_or_default()), ("cases", selection.globs.join(","))];
    let is_set = |(_, value): &(&str, String)| !value.is_empty();
    let all = settings.into_iter().chain(how.settings(costs));
    all.filter(is_set).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn rendered(report: &Report, format: ExplainFormat) -> String {
    match format {
        ExplainFormat::Table => report::text(report, output::style()),
        ExplainFormat::Markdown => report::markdown(report),
        ExplainFormat::Json => report::json(report),
    }
}
