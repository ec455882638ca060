//! `weighbridge history --coverage`: what the intervals of each session foretold, and what the next one found.

use weighbridge_record::coverage;
use weighbridge_record::{Line, Run};
use weighbridge_report::Ledger;

use super::series::read;
use crate::args;
use crate::store::Entry;
use crate::values::PageFormat;
use crate::{Exit, Failure, output};

/// Shows the ledger of the records, which come in the order of time.
pub fn coverage(args: &args::History, entries: &[Entry], exit: Exit) -> Result<Exit, Failure> {
    if entries.len() < 2 {
        return Err(Failure::new(
            "coverage is counted over pairs of sessions, and there are fewer than two records; `weighbridge run` writes one",
        ));
    }
    let mut records: Vec<Vec<Line>> = Vec::new();
    for entry in entries {
        let kept = |line: &Line| {
            matches!(line, Line::Header(_) | Line::Case(_) | Line::Run(_) | Line::Summary(_) | Line::Hub(_))
        };
        records.push(read(entry, kept)?.into_iter().map(without_samples).collect());
    }
    let records: Vec<&[Line]> = records.iter().map(Vec::as_slice).collect();
    let ledger = Ledger(coverage::coverage(&records));
    args.answer.write(match args.answer.format {
        PageFormat::Table => ledger.document().text(output::style()),
        PageFormat::Markdown => ledger.document().markdown(),
        PageFormat::Json => ledger.json(),
        PageFormat::Html => ledger.document().html(),
    })?;
    Ok(exit)
}

/// Of a run only what disturbed it is of interest, and hundreds of records are to fit into memory.
fn without_samples(line: Line) -> Line {
    match line {
        Line::Run(Run { case, noise, .. }) => Line::Run(Run { case, noise, ..Run::default() }),
        line => line,
    }
}
