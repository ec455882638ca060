//! `weighbridge explain`: why a figure is what it is.

mod observe;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use weighbridge_lab::catalogue::{self, Refusal};
use weighbridge_lab::contract::Prepared;
use weighbridge_lab::host::Host;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_lab::session::{Ended, Sink};
use weighbridge_record::{End, Line, Skipped};
use weighbridge_report::Report;

use crate::args::{PROFILE, Selection};
use crate::commands::{header_with, look_at_host, random_seed, rendered, write_page};
use crate::destination::Destination;
use crate::progress::Shown;
use crate::recorder::Recorder;
use crate::values::{self, Page, RunFormat};
use crate::{Exit, Failure, output, scope};

/// `weighbridge explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub observation: observe::ObserveArgs,
    /// Seed of the order of runs [default: a random one, kept in the record]
    #[arg(long, value_name = "N", help_heading = "Observation")]
    pub seed: Option<u64>,
    /// File for the record, which must not exist yet [default: a file in ~/.local/state/weighbridge, see `weighbridge history`]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// File for the HTML page, which must not exist yet, or `none` [default: the record's name with .html]
    #[arg(long, value_name = "FILE", value_parser = values::page, help_heading = "Output")]
    pub html: Option<Page>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = RunFormat::Table, help_heading = "Output")]
    pub format: RunFormat,
    /// Write only warnings to standard error, no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// Explains cases.
///
/// # Errors
/// One sentence for the user.
pub fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    // Before anything may start a thread, so that no thread has these signals open.
    let interrupt =
        Interrupt::install().map_err(|error| Failure::new(format!("Ctrl-C cannot be handled: {error}")))?;
    let mut host = look_at_host()?;
    if args.observation.means {
        return observe::means(&host, args.format);
    }
    let (cases, skipped) = cases(args, &mut host)?;
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
        observe::observe(&args.observation, &cases, (&host, &interrupt), (seed, args.quiet), &mut recorder)
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
fn cases(args: &ExplainArgs, host: &mut Host) -> Result<(Vec<Prepared>, Vec<Skipped>), Failure> {
    if let Some(sides) = args.observation.sides(host)? {
        return Ok((sides, Vec::new()));
    }
    if args.selection.globs.is_empty() && args.selection.suite.is_none() {
        return Err(Failure::new(
            "no case is named; as in `weighbridge explain roundtrip/pipe/1/same-cpu`, see `weighbridge list`",
        ));
    }
    let (selected, _) = scope::select(&args.selection, host)?;
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
