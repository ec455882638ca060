//! `weighbridge explain`: why a case costs what it costs.

use std::time::Instant;

use weighbridge_lab::catalogue::{self, Refusal};
use weighbridge_lab::contract::Prepared;
use weighbridge_lab::coordinator::Coordinator;
use weighbridge_lab::host::Host;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_record::{End, Line, Skipped};
use weighbridge_report::Report;

use super::run::{header_with, random_seed, rendered, write_page};
use super::timeline::{self, timelines};
use super::{THIS_PROGRAM, look_at_host};
use crate::destination::Destination;
use crate::explain::ExplainArgs;
use crate::{Exit, Failure, output};

/// Explains cases.
///
/// # Errors
/// One sentence for the user.
pub fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let interrupt =
        Interrupt::install().map_err(|error| Failure::new(format!("Ctrl-C cannot be handled: {error}")))?;
    if !args.timeline.timeline {
        return Err(Failure::new("nothing is asked for; --timeline shows when each thing happens"));
    }
    let host = look_at_host()?;
    let began = Instant::now();
    let (cases, skipped) = prepared(&args.cases, &host)?;
    timeline::check(&args.timeline, &cases)?;
    let Destination { record, mut writer, page, is_in_store, note } =
        Destination::create(args.out.as_deref(), args.html.as_ref())?;
    note.iter().for_each(|note| output::warn(note));
    let seed = random_seed();
    let mut coordinator = Coordinator::new(&host, &interrupt, THIS_PROGRAM.into(), seed);
    let watched = timelines(&args.timeline, &cases, &mut coordinator)?;
    let header = header_with(std::collections::BTreeMap::new(), &host, seed);
    let end = End { complete: !watched.is_interrupted, elapsed_s: began.elapsed().as_secs_f64() };
    let lines: Vec<Line> = std::iter::once(Line::Header(Box::new(header)))
        .chain(skipped.into_iter().map(Line::Skipped))
        .chain(watched.lines)
        .chain([Line::End(end)])
        .collect();
    lines
        .iter()
        .try_for_each(|line| writer.write(line))
        .map_err(|error| Failure::new(format!("cannot write to `{}`: {error}", record.display())))?;
    let has_result = lines.iter().any(|line| matches!(line, Line::Timeline(_)));
    let report = Report::from_reading(weighbridge_record::Reading { lines, problems: Vec::new() });
    output::print(rendered(&report, args.format))?;
    let page = write_page(&report, &page, &record, is_in_store)?;
    output::say(&format!("record: {}", record.display()));
    if let Some(page) = page {
        output::say(&format!("page:   {}", page.display()));
    }
    match (watched.is_interrupted, has_result) {
        (true, _) => Ok(Exit::Interrupted),
        (false, true) => Ok(Exit::Fine),
        (false, false) => Err(Failure::new("no case gave a time line; the record has the reasons")),
    }
}

/// The cases that can run here, and the others with the reasons.
fn prepared(ids: &[String], host: &Host) -> Result<(Vec<Prepared>, Vec<Skipped>), Failure> {
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for text in ids {
        let case = text.parse().map_err(|error| Failure::new(format!("`{text}`: {error}")))?;
        match catalogue::prepare(&case, host) {
            Ok(prepared) => cases.push(prepared),
            Err(Refusal::NotHere(why)) => skipped.push(Skipped { case, step: "fit".into(), why }),
            Err(Refusal::NoSuchCase(why)) => return Err(Failure::new(format!("`{text}`: {why}"))),
        }
    }
    Ok((cases, skipped))
}
