//! `weighbridge report`: any record in any format, as far as it is valid.

use std::io;
use std::path::Path;

use weighbridge_record::{CaseId, ParseCaseIdError, Problem, Reading, laws};
use weighbridge_report::{self as report, Report};

use crate::args::{self, ReportFormat};
use crate::{Exit, Failure, output};

/// Bad lines told one by one; the others are counted.
const MOST_PROBLEMS: usize = 5;

pub fn report(args: &args::Report) -> Result<Exit, Failure> {
    args.answer.check(args.answer.format == ReportFormat::Html)?;
    let mut exit = Exit::Fine;
    let mut readings = Vec::new();
    for path in &args.records {
        match read(path) {
            Ok(reading) => readings.push((path.display().to_string(), reading)),
            Err(failure) => {
                output::say(&format!("error: {failure}"));
                exit = Exit::Failed;
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
    let report = match &args.baseline {
        None => report,
        Some(baseline) => compared(report, baseline, args.across_machines)?,
    };
    args.answer.write(rendered(&report, args.answer.format))?;
    Ok(if report.is_void() { Exit::Undecided } else { exit })
}

/// The report with all cases compared with a case, or with those of another record.
fn compared(report: Report, baseline: &str, across_machines: bool) -> Result<Report, Failure> {
    let path = Path::new(baseline);
    if path.exists() {
        return report.with_baseline_record(baseline, read(path)?, across_machines).map_err(Failure::new);
    }
    let case: CaseId = baseline.parse().map_err(|error: ParseCaseIdError| {
        Failure::mistake(format!(
            "--baseline takes a case or a record, and there is no file of that name: {error}"
        ))
    })?;
    report.with_baseline(&case).map_err(Failure::mistake)
}

/// What is valid in a record; what is not is said.
pub(super) fn read(path: &Path) -> Result<Reading, Failure> {
    let name = name_of(path);
    let reading = if path == Path::new("-") {
        weighbridge_record::read(io::stdin().lock())
    } else {
        weighbridge_record::read_file(path)
    };
    let mut reading = reading.map_err(|error| {
        Failure::new(match error.kind() {
            io::ErrorKind::IsADirectory => {
                let records = path.join("*.jsonl");
                format!("{name} is a folder; name the records in it, as in {}", records.display())
            }
            _ => format!("cannot read {name}: {error}"),
        })
    })?;
    // Figures of which nothing says by what they were measured are those of none; `history` takes such a file for no record either.
    if reading.header().is_none() {
        return Err(no_record(path, &name, &reading.problems));
    }
    warn_of_void(&name, &mut reading);
    for problem in reading.problems.iter().take(MOST_PROBLEMS) {
        output::warn(&format!("{name}, {problem}"));
    }
    if let Some(more @ 1..) = reading.problems.len().checked_sub(MOST_PROBLEMS) {
        output::warn(&format!("{name}: {more} more lines that are not valid"));
    }
    Ok(reading)
}

/// Looks at the laws of a record that was read: cases that break one have no figure, which is said.
pub(super) fn warn_of_void(name: &str, reading: &mut Reading) {
    let broken = laws::audit(reading);
    for violation in broken.iter().take(MOST_PROBLEMS) {
        output::warn(&format!("{name}, {} is void: {violation}", violation.case));
    }
    if let Some(more @ 1..) = broken.len().checked_sub(MOST_PROBLEMS) {
        output::warn(&format!("{name}: {more} more laws are broken"));
    }
}

/// A file in a sentence.
pub(super) fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { format!("`{}`", path.display()) }
}

/// Why nothing in a file is of a record, in one sentence with a way out.
fn no_record(path: &Path, name: &str, problems: &[Problem]) -> Failure {
    let record = path.with_extension("jsonl");
    let is_page = path.extension().is_some_and(|end| end == "html");
    let way_out = if is_page && record.exists() {
        format!("the record of that page is `{}`", record.display())
    } else {
        "a record is the .jsonl file that `weighbridge run` writes".into()
    };
    Failure::new(match problems {
        [problem] if problem.is_newer() => format!("{name} was {}", problem.why),
        [problem] if problem.is_cut() => {
            format!("{name} {} of its only line, so nothing can be shown; {way_out}", problem.why)
        }
        _ if std::fs::metadata(path).is_ok_and(|file| file.len() == 0 && file.is_file()) => {
            format!("{name} is empty; {way_out}")
        }
        _ => format!("{name} is not a record; {way_out}"),
    })
}

fn rendered(report: &Report, format: ReportFormat) -> String {
    match format {
        ReportFormat::Table => report::text(report, output::style()),
        ReportFormat::Markdown => report::markdown(report),
        ReportFormat::Csv => report::csv(report),
        ReportFormat::Json => report::json(report),
        ReportFormat::Html => report::html(report),
    }
}
