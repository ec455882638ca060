//! `weighbridge explain`: what the cost of a case is made of. Selects, measures, computes, shows.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use weighbridge_explain::{Asked, Change, explain as explained};
use weighbridge_lab::catalogue::{self, Refusal};
use weighbridge_lab::contract::{Caps, Prepared};
use weighbridge_lab::coordinator::Coordinator;
use weighbridge_lab::explain::{self, Request, refusal};
use weighbridge_lab::host::Host;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_lab::session::{Ended, Sink};
use weighbridge_record::{CaseId, End, Line, Price, Skipped};
use weighbridge_report::{self as report, Report};

use super::report::read as read_record;
use super::run::{header_with, random_seed, write_page};
use super::{THIS_PROGRAM, look_at_host};
use crate::args::{Explain, PROFILE};
use crate::destination::Destination;
use crate::explain::ExplainFormat;
use crate::progress::Shown;
use crate::recorder::Recorder;
use crate::{Exit, Failure, output, scope};

/// Time for one case, or a few.
const LEAST_BUDGET: Duration = Duration::from_secs(18);
/// Time for each of many cases.
const BUDGET_OF_CASE: Duration = Duration::from_secs(5);

/// Explains cases.
///
/// # Errors
/// One sentence for the user.
pub fn explain(typed: &Explain) -> Result<Exit, Failure> {
    let Explain { selection, how: args } = typed;
    // Before anything may start a thread, so that no thread has these signals open.
    let interrupt = Interrupt::install()
        .map_err(|error| Failure::new(format!("Ctrl-C cannot be watched for: {error}")))?;
    if selection.globs.is_empty() && selection.suite.is_none() {
        return Err(Failure::new(
            "nothing says what to explain: name a case, as in `weighbridge explain roundtrip/pipe/64/same-cpu`, or --suite quick",
        ));
    }
    let mut host = look_at_host()?;
    let (selected, _) = scope::select(selection, &mut host)?;
    let ids: Vec<CaseId> = selected.ids().cloned().collect();
    let (cases, skipped) = cases(&ids, &host)?;
    let changes = args.what_if.iter().map(|asked| {
        let prices = match &asked.asked {
            Asked::Prices(record) => prices_of(Path::new(record))?,
            _ => Vec::new(),
        };
        Ok(Change { text: asked.text.clone(), asked: asked.asked.clone(), prices })
    });
    let changes: Vec<Change> = changes.collect::<Result<_, Failure>>()?;
    let destination = Destination::create(args.out.as_deref(), args.html.as_ref())?;
    if PROFILE == "debug" {
        output::warn("this is a debug build, and its numbers mean nothing; build with --release");
    }
    destination.note.iter().for_each(|note| output::warn(note));
    if let [first, rest @ ..] = &skipped[..] {
        let more =
            if rest.is_empty() { String::new() } else { format!(" ({} more are left out)", rest.len()) };
        output::warn(&format!("{}{more}", first.why));
    }
    measure(typed, &host, &interrupt, cases, skipped, &changes, destination)
}

/// Which cases can be explained, and why the others cannot.
fn cases(ids: &[CaseId], host: &Host) -> Result<(Vec<Prepared>, Vec<Skipped>), Failure> {
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for id in ids {
        let step = "fit".to_owned();
        match catalogue::prepare(id, host) {
            // The harness has nothing that could be explained; it is part of every suite.
            Ok(case) if case.target.id == "noop" && case.target.caps.has(Caps::HARNESS) && ids.len() > 1 => {}
            Ok(case) => match refusal(&case, host) {
                None => cases.push(case),
                Some(why) => skipped.push(Skipped { case: id.clone(), step, why }),
            },
            Err(Refusal::NotHere(why)) => {
                skipped.push(Skipped { case: id.clone(), step, why: format!("{id}: {why}") })
            }
            Err(Refusal::NoSuchCase(why)) => return Err(Failure::new(format!("no case `{id}`: {why}"))),
        }
    }
    match (cases.is_empty(), skipped.first()) {
        (true, Some(first)) => Err(Failure::new(match skipped.len() {
            1 => first.why.clone(),
            count => format!("none of the {count} selected cases can be explained; {}", first.why),
        })),
        (true, None) => Err(Failure::new("no case is selected that can be explained")),
        (false, _) => Ok((cases, skipped)),
    }
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

fn measure(
    typed: &Explain,
    host: &Host,
    interrupt: &Interrupt,
    cases: Vec<Prepared>,
    skipped: Vec<Skipped>,
    changes: &[Change],
    destination: Destination,
) -> Result<Exit, Failure> {
    let args = &typed.how;
    let began = Instant::now();
    let seed = args.seed.unwrap_or_else(random_seed);
    let budget = args.budget.unwrap_or(LEAST_BUDGET.max(BUDGET_OF_CASE * cases.len() as u32));
    let progress = if args.quiet { Shown::Not } else { Shown::on_stderr() };
    let Destination { record, writer, page, is_in_store, .. } = destination;
    let mut recorder = Recorder::new(record, writer, is_in_store, progress);
    let header = header_with(settings(typed, budget), host, seed);
    let opening = std::iter::once(Line::Header(Box::new(header)))
        .chain(skipped.into_iter().map(Line::Skipped))
        .try_for_each(|line| recorder.line(line));
    let payloads = changes.iter().filter_map(|change| match change.asked {
        Asked::Payload(bytes) => Some(bytes),
        _ => None,
    });
    let request = Request {
        cases,
        payloads: payloads.collect(),
        sets: args.sets.into(),
        budget,
        count_calls: !args.no_system_calls,
        seed,
    };
    let coordinator = Coordinator::new(host, interrupt, THIS_PROGRAM.into(), seed);
    let mut wrong_question = None;
    let ended = opening.and_then(|()| {
        let found = explain::run(&request, coordinator, interrupt, &mut recorder)?;
        match explained(&found.measured, &found.subjects, changes, seed) {
            Ok(solution) => {
                let explanations =
                    solution.explanations.into_iter().map(|of| Line::Explanation(Box::new(of)));
                solution
                    .prices
                    .into_iter()
                    .map(Line::Price)
                    .chain(explanations)
                    .try_for_each(|line| recorder.line(line))?;
            }
            Err(why) => wrong_question = Some(why),
        }
        Ok(found.ended)
    });
    let complete = matches!(ended, Ok(Ended::Complete));
    let closing = recorder.line(Line::End(End { complete, elapsed_s: began.elapsed().as_secs_f64() }));
    let record = recorder.path().to_owned();
    let report = Report::from_reading(recorder.into_reading());
    let has_explanations = !report.explanations.is_empty();
    let printed = if has_explanations { output::print(rendered(&report, args.format)) } else { Ok(()) };
    let page = write_page(&report, &page, &record, is_in_store);
    if !args.quiet {
        output::say(&format!("record: {}", record.display()));
        if let Ok(Some(page)) = &page {
            output::say(&format!("page:   {}", page.display()));
        }
    }
    let ended = ended
        .and_then(|ended| closing.map(|()| ended))
        .map_err(|error| Failure::new(format!("cannot write to `{}`: {error}", record.display())))?;
    printed?;
    page?;
    if let Some(why) = wrong_question {
        return Err(Failure::new(why));
    }
    match ended {
        Ended::Interrupted => {
            output::say("interrupted: the record is valid, and holds what was measured until then");
            Ok(Exit::Interrupted)
        }
        Ended::Complete if !has_explanations => {
            Err(Failure::new(format!("no case was measured; `{}` has the reasons", record.display())))
        }
        Ended::Complete => Ok(Exit::Fine),
    }
}

fn settings(typed: &Explain, budget: Duration) -> BTreeMap<String, String> {
    let Explain { selection, how: args } = typed;
    let what_if: Vec<&str> = args.what_if.iter().map(|asked| asked.text.as_str()).collect();
    let settings = [
        ("explain", selection.suite.clone().unwrap_or_default()),
        ("cases", selection.globs.join(",")),
        ("what-if", what_if.join(",")),
        ("sets", args.sets.to_string()),
        ("budget", format!("{}s", budget.as_secs_f64())),
    ];
    let is_set = |(_, value): &(&str, String)| !value.is_empty();
    settings.into_iter().filter(is_set).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn rendered(report: &Report, format: ExplainFormat) -> String {
    match format {
        ExplainFormat::Table => report::text(report, output::style()),
        ExplainFormat::Markdown => report::markdown(report),
        ExplainFormat::Json => report::json(report),
    }
}
