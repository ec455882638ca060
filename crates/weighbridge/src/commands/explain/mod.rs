//! `weighbridge explain`: selects cases, has each question about them answered, and shows the answers.
//!
//! What was typed: [`explain_args`](crate::explain_args) · what a cost is made of: [`cost`] · what the kernel does: [`observe`] · when each
//! thing happens: [`timeline`] · how an answer reads: the sections of [`weighbridge_report`].

mod broker;
mod cost;
mod observe;
pub mod timeline;

use std::io;
use std::path::Path;

use weighbridge_analysis::explain::{Asked, Change};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::host::Host;
use weighbridge_harness::machine;
use weighbridge_harness::session::Ended;
use weighbridge_record::{Line, Price, Skipped};
use weighbridge_report::{self as report, Report};

use super::look_at_host;
use super::measuring::{Bench, Closed, Measuring, header, interrupt, random_seed, warn_of_debug_build};
use super::report::read as read_record;
use crate::args::Explain;
use crate::destination::{Destination, refuse_existing};
use crate::explain_args::{ExplainArgs, Question, WhatIf};
use crate::recorder::Recorder;
use crate::values::DocumentFormat;
use crate::{Exit, Failure, output, scope};

pub fn explain(typed: &Explain) -> Result<Exit, Failure> {
    let args = &typed.how;
    let interrupt = interrupt()?;
    let mut host = look_at_host()?;
    if args.observation.probes {
        return observe::show_probes(&host, args.output.of.format);
    }
    let (cases, skipped) = cases(typed, &mut host)?;
    let work = Work::of(args, cases, &skipped, &host)?;
    let changes: Vec<Change> = args.cost.what_if.iter().map(change).collect::<Result<_, _>>()?;
    let destination = Destination::create(args.output.of.out.as_deref(), args.output.html.as_ref())?;
    warn_of_debug_build();
    let skipped: Vec<Skipped> = skipped.into_iter().chain(work.refused.iter().cloned()).collect();
    if let [first, rest @ ..] = &skipped[..] {
        let more =
            if rest.is_empty() { String::new() } else { format!(" ({} more are left out)", rest.len()) };
        output::warn(&format!("{}{more}", first.why));
    }
    let bench = Bench {
        host: &host,
        interrupt: &interrupt,
        seed: args.seed.unwrap_or_else(random_seed),
        is_watched: false,
    };
    let header = header(settings(typed, work.costs.len()), machine::describe(&host), bench.seed);
    let mut measuring = Measuring::begin(destination, args.output.of.quiet);
    let mut unanswered = None;
    let ended = measuring
        .open(header, skipped)
        .and_then(|()| work.answer(args, &changes, bench, &mut measuring.recorder, &mut unanswered));
    conclude(args, measuring.close(ended), unanswered)
}

/// What is to be done.
struct Work {
    /// Cases whose costs are explained.
    costs: Vec<Prepared>,
    /// Cases that are observed.
    observed: Vec<Prepared>,
    /// Cases that get a time line.
    marked: Vec<Prepared>,
    /// Cases whose costs cannot be explained.
    refused: Vec<Skipped>,
}

impl Work {
    fn of(
        args: &ExplainArgs,
        cases: Vec<Prepared>,
        skipped: &[Skipped],
        host: &Host,
    ) -> Result<Work, Failure> {
        let all_for = |question| {
            if args.answers(question, cases.len()) { cases.clone() } else { Vec::new() }
        };
        let (costs, refused) = cost::explicable(&all_for(Question::Cost), host);
        let (observed, marked) = (all_for(Question::Kernel), all_for(Question::Timeline));
        timeline::check(&args.timeline, &marked)?;
        if let Some(file) = &args.observation.folded {
            refuse_existing(file, "--folded")?;
        }
        if costs.is_empty() && observed.is_empty() && marked.is_empty() {
            let whys: Vec<&str> = skipped.iter().chain(&refused).map(|skip| skip.why.as_str()).collect();
            return Err(Failure::mistake(match &whys[..] {
                [] => "no case is selected that can be explained".into(),
                [only] => (*only).into(),
                [first, ..] => format!("none of the {} selected cases can be explained; {first}", whys.len()),
            }));
        }
        args.check(cases.len(), |question| match question {
            Question::Cost => !costs.is_empty(),
            Question::Kernel => !observed.is_empty(),
            Question::Timeline => marked.iter().any(timeline::has_messages),
        })?;
        Ok(Work { costs, observed, marked, refused })
    }

    /// Answers one question after the other, until the user has had enough.
    fn answer(
        self,
        args: &ExplainArgs,
        changes: &[Change],
        bench: Bench<'_>,
        recorder: &mut Recorder,
        unanswered: &mut Option<String>,
    ) -> io::Result<Ended> {
        if !self.costs.is_empty() {
            let explained = cost::explain(&args.cost, self.costs, changes, bench, recorder)?;
            *unanswered = explained.unanswered;
            if explained.ended == Ended::Interrupted {
                return Ok(Ended::Interrupted);
            }
        }
        if !self.observed.is_empty() {
            let ended =
                observe::observe(&args.observation, &self.observed, bench, args.output.of.quiet, recorder)?;
            if ended == Ended::Interrupted {
                return Ok(Ended::Interrupted);
            }
        }
        timeline::timelines(&args.timeline, &self.marked, &mut bench.coordinator(), recorder)
    }
}

/// The cases that are named, and those of them that cannot run here.
fn cases(typed: &Explain, host: &mut Host) -> Result<(Vec<Prepared>, Vec<Skipped>), Failure> {
    if let Some(sides) = observe::sides(&typed.how.observation, host)? {
        return Ok((sides, Vec::new()));
    }
    if typed.selection.globs.is_empty() && typed.selection.suite.is_none() {
        return Err(Failure::mistake(
            "nothing says what to explain: name a case, as in `weighbridge explain roundtrip/pipe/64/same-cpu`, or --suite quick",
        ));
    }
    let (selected, _) = scope::select(&typed.selection, host)?;
    let (cases, mut skipped) = scope::prepared(&selected, host)?;
    for Skipped { case, why, .. } in &mut skipped {
        *why = format!("{case}: {why}");
    }
    Ok((cases, skipped))
}

fn change(asked: &WhatIf) -> Result<Change, Failure> {
    let prices = match &asked.asked {
        Asked::Prices(record) => prices_of(Path::new(record))?,
        _ => Vec::new(),
    };
    Ok(Change { text: asked.text.clone(), asked: asked.asked.clone(), prices })
}

/// The price list of a record, which must have one.
pub fn prices_of(path: &Path) -> Result<Vec<Price>, Failure> {
    let price = |line: Line| if let Line::Price(price) = line { Some(price) } else { None };
    let prices: Vec<Price> = read_record(path)?.lines.into_iter().filter_map(price).collect();
    if prices.is_empty() {
        return Err(Failure::mistake(format!(
            "`{}` has no prices; a record of `weighbridge explain` has them",
            path.display()
        )));
    }
    Ok(prices)
}

/// Shows what was found, and says what was not.
fn conclude(args: &ExplainArgs, closed: Closed, unanswered: Option<String>) -> Result<Exit, Failure> {
    let Closed { ended, report, files, .. } = closed;
    let record = files.record.display();
    let has_answers =
        !(report.explanations.is_empty() && report.observations.is_empty() && report.timelines.is_empty());
    let text = if has_answers { rendered(&report, args.output.of.format) } else { String::new() };
    let told = files.show(&report, text);
    let ended = ended
        .map_err(|error| Failure::new(format!("{error}; what was found until then is in `{record}`")))?;
    told.check()?;
    if let Some(why) = unanswered {
        return Err(Failure::new(why));
    }
    if ended == Ended::Interrupted {
        output::say("interrupted: the record is valid, and holds what was measured until then");
        return Ok(Exit::Interrupted);
    }
    if args.observation.a.is_some() && report.differences.is_empty() {
        return Err(Failure::new(format!(
            "the two cases are not compared, because one of them could not be observed; `{record}` has the reason"
        )));
    }
    if !has_answers {
        return Err(Failure::new(format!("nothing was explained; `{record}` has the reasons")));
    }
    if report.is_void() {
        return Ok(Exit::Undecided);
    }
    Ok(Exit::Fine)
}

fn settings(typed: &Explain, costs: usize) -> Vec<(&'static str, String)> {
    let Explain { selection, how } = typed;
    let settings =
        [("explain", selection.suite.clone().unwrap_or_default()), ("cases", selection.globs.join(","))];
    settings.into_iter().chain(how.settings(costs)).collect()
}

fn rendered(report: &Report, format: DocumentFormat) -> String {
    match format {
        DocumentFormat::Table => report::text(report, output::style()),
        DocumentFormat::Markdown => report::markdown(report),
        DocumentFormat::Json => report::json(report),
    }
}
