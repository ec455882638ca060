//! `weighbridge explain`: why a figure is what it is. What the kernel does meanwhile is in [`observe`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use weighbridge_lab::catalogue::{self, Refusal};
use weighbridge_lab::contract::Prepared;
use weighbridge_lab::coordinator::Coordinator;
use weighbridge_lab::host::Host;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_lab::session::{Ended, Sink};
use weighbridge_record::{End, Line, Skipped};
use weighbridge_report::Report;

use super::run::{header_with, random_seed, rendered, write_page};
use super::{THIS_PROGRAM, look_at_host};
use crate::args::{Explain, PROFILE};
use crate::destination::Destination;
use crate::explain::observe;
use crate::progress::Shown;
use crate::recorder::Recorder;
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
    let destination = Destination::create(args.out.as_deref(), args.html.as_ref())?;
    if PROFILE == "debug" {
        output::warn("this is a debug build, and its numbers mean nothing; build with --release");
    }
    destination.note.iter().for_each(|note| output::warn(note));
    let began = Instant::now();
    let seed = args.seed.unwrap_or_else(random_seed);
    let Destination { record, writer, page, is_in_store, .. } = destination;
    let mut recorder = Recorder::new(record, writer, is_in_store, Shown::Not);
    let header = header_with(BTreeMap::new(), &host, seed);
    let opening = std::iter::once(Line::Header(Box::new(header)))
        .chain(skipped.into_iter().map(Line::Skipped))
        .try_for_each(|line| recorder.line(line));
    let ended = opening.and_then(|()| {
        let coordinator = Coordinator::new(&host, &interrupt, THIS_PROGRAM.into(), seed);
        let on = (Path::new(THIS_PROGRAM), &interrupt);
        observe::observe(&args.observation, &cases, coordinator, on, (seed, args.quiet), &mut recorder)
    });
    let complete = matches!(ended, Ok(Ended::Complete));
    let closing = recorder.line(Line::End(End { complete, elapsed_s: began.elapsed().as_secs_f64() }));
    let record = recorder.path().to_owned();
    let report = Report::from_reading(recorder.into_reading());
    let printed = output::print(rendered(&report, args.format));
    let page = write_page(&report, &page, &record, is_in_store);
    if !args.quiet {
        output::say(&format!("record: {}", record.display()));
        if let Ok(Some(page)) = &page {
            output::say(&format!("page:   {}", page.display()));
        }
    }
    let ended = ended.and_then(|ended| closing.map(|()| ended));
    let ended = ended.map_err(|error| {
        Failure::new(format!("{error}; what was observed until then is in `{}`", record.display()))
    })?;
    printed.and(page.map(|_| ()))?;
    match ended {
        Ended::Interrupted => Ok(Exit::Interrupted),
        Ended::Complete if report.observations.is_empty() => {
            Err(Failure::new("no case could be observed; the record has the reasons"))
        }
        Ended::Complete => Ok(Exit::Fine),
    }
}

/// The cases that are named, and those of them that cannot run here.
fn cases(typed: &Explain, host: &mut Host) -> Result<(Vec<Prepared>, Vec<Skipped>), Failure> {
    if let Some(sides) = typed.how.observation.sides(host)? {
        return Ok((sides, Vec::new()));
    }
    if typed.selection.globs.is_empty() && typed.selection.suite.is_none() {
        return Err(Failure::new(
            "no case is named; as in `weighbridge explain roundtrip/pipe/1/same-cpu`, see `weighbridge list`",
        ));
    }
    let (selected, _) = scope::select(&typed.selection, host)?;
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for id in selected.ids() {
        match catalogue::prepare(id, host) {
            Ok(case) => cases.push(case),
            Err(Refusal::NotHere(why)) => skipped.push(Skipped { case: id.clone(), step: "fit".into(), why }),
            Err(Refusal::NoSuchCase(why)) => return Err(Failure::new(format!("no case `{id}`: {why}"))),
        }
    }
    match skipped.first() {
        Some(Skipped { case, why, .. }) if cases.is_empty() => {
            Err(Failure::new(format!("no selected case can run here, such as {case}: {why}")))
        }
        _ => Ok((cases, skipped)),
    }
}
