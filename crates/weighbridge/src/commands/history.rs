//! `weighbridge history`: the records of earlier runs, the oldest first, or the [series] of their cases.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{coverage, series};
use crate::args;
use crate::store::{self, Entry};
use crate::values::PageFormat;
use crate::{Exit, Failure, output, values};

const HEAD: [&str; 5] = ["started", "cases", "selection", "machine", "record"];
/// More of what was selected would push the path out of sight.
const SELECTION_CHARS: usize = 40;

pub fn history(args: &args::History) -> Result<Exit, Failure> {
    let format = args.answer.format;
    args.answer.check(format == PageFormat::Html)?;
    let (entries, exit) = match &args.paths[..] {
        [] => (of_store(format)?, Exit::Fine),
        paths => of_paths(paths),
    };
    if args.coverage {
        return coverage::coverage(args, &entries, exit);
    }
    let is_list = args.by.is_none() && !args.changes && !args.across_machines && args.answer.out.is_none();
    output::print(match format {
        PageFormat::Json if is_list => output::json(&entries.iter().map(as_json).collect::<Vec<_>>()),
        PageFormat::Table if is_list => table(&entries),
        _ => return series::series(args, entries, exit),
    })?;
    Ok(exit)
}

fn of_store(format: PageFormat) -> Result<Vec<Entry>, Failure> {
    let way_out = "name records or folders, as in `weighbridge history DIR`";
    let folder = store::folder().map_err(|why| Failure::new(format!("{why}; {way_out}")))?;
    let entries =
        of_folder(&folder).map_err(|why| Failure::new(format!("`{}` {why}; {way_out}", folder.display())))?;
    if entries.is_empty() && format == PageFormat::Table {
        output::say(&format!(
            "there is no record in `{}` yet; `weighbridge run` writes one",
            folder.display()
        ));
    }
    Ok(entries)
}

/// Those that can be read; of the others it is said why not.
fn of_paths(paths: &[PathBuf]) -> (Vec<Entry>, Exit) {
    let (mut entries, mut exit) = (Vec::new(), Exit::Fine);
    for path in paths {
        let found = if path.is_dir() { of_folder(path) } else { store::entry(path).map(|entry| vec![entry]) };
        match found {
            Ok(found) => entries.extend(found),
            Err(why) => {
                output::say(&format!("error: `{}` {why}", path.display()));
                exit = Exit::Failed;
            }
        }
    }
    store::sort(&mut entries);
    (entries, exit)
}

fn of_folder(folder: &Path) -> Result<Vec<Entry>, String> {
    let (entries, others) = store::entries(folder).map_err(|error| format!("cannot be read: {error}"))?;
    for store::NoRecord { path, why } in others {
        output::warn(&format!("`{}` {why}; left out", path.display()));
    }
    Ok(entries)
}

/// The suite, or the words that stood in its place.
fn selection(entry: &Entry) -> String {
    let setting = |name: &str| entry.header.settings.get(name).cloned();
    match (setting("suite"), setting("cases")) {
        (Some(suite), Some(words)) => format!("{suite}: {words}"),
        (suite, words) => suite.or(words).unwrap_or_default(),
    }
}

/// The start in the local time zone.
fn started(entry: &Entry) -> String {
    let started: Result<jiff::Timestamp, _> = entry.header.started.parse();
    started.map_or_else(
        |_| entry.header.started.clone(),
        |started| started.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

fn row(entry: &Entry) -> [String; 5] {
    let mut selection = selection(entry);
    if selection.chars().count() > SELECTION_CHARS {
        selection = selection.chars().take(SELECTION_CHARS - 1).chain(['…']).collect();
    }
    let unfinished = if entry.is_complete { "" } else { " (ended early)" };
    let void = if entry.is_void { " (with void figures)" } else { "" };
    let machine = &entry.header.machine;
    [
        started(entry),
        entry.cases.to_string(),
        selection,
        format!("{}, Linux {}", machine.hostname, machine.kernel),
        format!("{}{unfinished}{void}", values::quoted(&entry.path)),
    ]
}

fn table(entries: &[Entry]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let rows: Vec<[String; 5]> =
        std::iter::once(HEAD.map(String::from)).chain(entries.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [w0, w1, w2, w3, _] = std::array::from_fn(width);
    let line = |[started, cases, selection, machine, record]: &[String; 5]| {
        format!("{started:<w0$}  {cases:>w1$}  {selection:<w2$}  {machine:<w3$}  {record}\n")
    };
    rows.iter().map(line).collect()
}

fn as_json(entry: &Entry) -> Value {
    let header = &entry.header;
    json!({
        "started": header.started,
        "cases": entry.cases,
        "complete": entry.is_complete,
        "void": entry.is_void,
        "suite": header.settings.get("suite"),
        "words": header.settings.get("cases"),
        "machine": { "hostname": header.machine.hostname, "kernel": header.machine.kernel, "cpu_model": header.machine.cpu_model },
        "path": entry.path,
    })
}
