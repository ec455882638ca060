//! `weighbridge history` with `--by`, `--changes` or as a page: each case over the records, and where its level changes.

use std::collections::BTreeSet;

use weighbridge_record::{Line, history};
use weighbridge_report::{Dated, History};

use crate::args::{self, By};
use crate::store::Entry;
use crate::values::PageFormat;
use crate::{Exit, Failure, output};

/// So many machines are named in a refusal.
const MOST_MACHINES: usize = 3;

/// Shows the series of the records, which come in the order of time.
pub fn series(args: &args::History, mut entries: Vec<Entry>, exit: Exit) -> Result<Exit, Failure> {
    let machines: Vec<String> = entries.iter().map(machine).collect::<BTreeSet<_>>().into_iter().collect();
    if machines.len() > 1 && !args.across_machines {
        let named = machines.iter().take(MOST_MACHINES).map(|machine| format!("`{machine}`"));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if machines.len() > MOST_MACHINES { ", …" } else { "" };
        return Err(Failure::mistake(format!(
            "the records are of {} machines ({named}{more}), so a change may be one of machine; name the records of one machine, or add \
             --across-machines",
            machines.len()
        )));
    }
    let (by, key): (_, fn(&Entry) -> String) = match args.by.unwrap_or(By::Time) {
        By::Time => ("time", |_| String::new()),
        By::Commit => ("commit", |entry| entry.header.tool.commit.clone().unwrap_or_default()),
        By::Kernel => ("kernel", |entry| entry.header.machine.kernel.clone()),
        By::Machine => ("machine", machine),
    };
    // Records of one key next to each other, in the order in which each was first measured.
    let keys: Vec<String> = entries.iter().map(key).collect();
    entries.sort_by_key(|entry| keys.iter().position(|known| *known == key(entry)));
    let mut lines: Vec<Vec<Line>> = Vec::new();
    for entry in &entries {
        lines.push(read(entry, |line| matches!(line, Line::Case(_) | Line::Summary(_)))?);
    }
    let lines: Vec<&[Line]> = lines.iter().map(Vec::as_slice).collect();
    let mut series = history::series(&lines);
    if args.changes {
        series.retain(|series| !series.changes.is_empty());
    } else if series.is_empty() {
        let none = "there is no record; `weighbridge run` writes one";
        return Err(Failure::new(if entries.is_empty() { none } else { "no record has a figure" }));
    }
    let history = History { by, machines, records: entries.iter().map(dated).collect(), series };
    args.answer.write(match args.answer.format {
        PageFormat::Table => history.text(output::style()),
        PageFormat::Markdown => history.markdown(),
        PageFormat::Json => history.json(),
        PageFormat::Html => history.html(),
    })?;
    Ok(exit)
}

/// The lines of a record that are of interest; of those that cannot be used it is said why.
pub(super) fn read(entry: &Entry, is_kept: impl Fn(&Line) -> bool) -> Result<Vec<Line>, Failure> {
    let mut reading = weighbridge_record::read_file(&entry.path)
        .map_err(|error| Failure::new(format!("cannot read `{}`: {error}", entry.path.display())))?;
    for problem in &reading.problems {
        output::warn(&format!("`{}`, {problem}; left out", entry.path.display()));
    }
    super::report::warn_of_void(&format!("`{}`", entry.path.display()), &mut reading);
    let void = reading.void_cases();
    let is_void = |line: &Line| matches!(line, Line::Summary(summary) if void.contains(&summary.case));
    Ok(reading.lines.into_iter().filter(|line| is_kept(line) && !is_void(line)).collect())
}

fn machine(entry: &Entry) -> String {
    weighbridge_record::earlier::machine(&entry.header)
}

fn dated(entry: &Entry) -> Dated {
    let header = &entry.header;
    Dated {
        path: entry.path.display().to_string(),
        started: header.started.clone(),
        commit: header.tool.commit.clone(),
        kernel: header.machine.kernel.clone(),
        machine: machine(entry),
    }
}
