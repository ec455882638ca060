//! `weighbridge report`: any record in any format, as far as it is valid.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use weighbridge_record::Reading;
use weighbridge_report::{self as report, Report};

use crate::args::{self, ReportFormat};
use crate::destination::cannot_create;
use crate::{Exit, Failure, output};

/// Bad lines told one by one; the others are counted.
const MOST_PROBLEMS: usize = 5;

/// Shows records.
pub fn report(args: &args::Report) -> Result<Exit, Failure> {
    if args.format == ReportFormat::Html && args.out.is_none() && io::stdout().is_terminal() {
        return Err(Failure::new("a page is no text for a terminal; give --out FILE"));
    }
    let mut exit = Exit::Fine;
    let mut readings = Vec::new();
    for path in &args.records {
        match read(path) {
            Ok(reading) => readings.push((path.display().to_string(), reading)),
            Err(failure) => {
                output::say(&format!("error: {failure}"));
                exit = Exit::Incomplete;
            }
        }
    }
    if readings.is_empty() {
        return Ok(exit);
    }
    if args.records.len() == 1 {
        // One record needs no name to tell it from others.
        readings[0].0.clear();
    }
    let report = Report::from_readings(readings);
    let text = match &args.against {
        None => rendered(&report, args.format),
        Some(baseline) => report::against(&report, baseline).map_err(Failure::new)?,
    };
    match &args.out {
        None => output::print(text)?,
        Some(out) => write_new(out, text.as_bytes()).map_err(|error| cannot_create(out, "--out", &error))?,
    }
    Ok(exit)
}

/// What is valid in a record; what is not is said.
fn read(path: &Path) -> Result<Reading, Failure> {
    let name = if path == Path::new("-") { "standard input".into() } else { format!("`{}`", path.display()) };
    let reading = match path == Path::new("-") {
        true => weighbridge_record::read(io::stdin().lock()),
        false => weighbridge_record::read_file(path),
    };
    let reading = reading.map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    for problem in reading.problems.iter().take(MOST_PROBLEMS) {
        output::warn(&format!("{name}, {problem}"));
    }
    if reading.problems.len() > MOST_PROBLEMS {
        output::warn(&format!(
            "{name}: {} more lines that are not valid",
            reading.problems.len() - MOST_PROBLEMS
        ));
    }
    if reading.lines.is_empty() {
        return Err(Failure::new(format!("{name} holds nothing of a record")));
    }
    Ok(reading)
}

fn rendered(report: &Report, format: ReportFormat) -> String {
    match format {
        ReportFormat::Table => report::table(report, output::style()),
        ReportFormat::Markdown => report::markdown(report),
        ReportFormat::Csv => report::csv(report),
        ReportFormat::Json => report::json(report),
        ReportFormat::Html => report::html(report),
    }
}

/// Writes a file that must not exist yet. One that could not be written whole is taken away again.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}
