//! `weighbridge import`: the output of other benchmark tools as a record.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use weighbridge_record::import::{About, Added, Import, Input, Problem};
use weighbridge_record::{Line, Writer};

use crate::args;
use crate::destination::{cannot_create, create_record};
use crate::{Exit, Failure, output, store};

/// A file is read as a whole, and what is made of it takes several times its size.
const LARGEST_FILE: u64 = 1 << 30;
/// So many lines of a file are named one by one.
const MOST_NAMED: usize = 20;

/// Writes a record of what the files say; of what cannot be used it is said why.
pub fn import(args: &args::Import) -> Result<Exit, Failure> {
    let mut import = Import::default();
    let mut exit = Exit::Fine;
    let mut entries = 0;
    for path in &args.files {
        let added = match content(path) {
            Ok(content) => match Input::new(path, &content) {
                Ok(input) => import.add(input),
                Err(problem) => Added { problems: vec![problem], ..Added::default() },
            },
            Err(why) => {
                output::say(&format!("error: {why}"));
                exit = Exit::Failed;
                continue;
            }
        };
        entries += added.entries;
        name("skipped", path, &added.skipped);
        name("error", path, &added.problems);
        if !added.problems.is_empty() {
            exit = Exit::Failed;
        }
    }
    if import.is_empty() {
        // Each file's reason has been told.
        return Ok(exit);
    }
    let tools = import.tools().iter().copied().collect::<Vec<_>>().join(", ");
    let lines = import.into_lines(&About {
        importer: format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        command: args::typed(),
        file_time: file_time(&args.files),
        commit: args.commit.clone(),
    });
    let (path, mut writer) = create(args.out.as_deref())?;
    let mut figures = 0;
    for line in lines {
        figures += usize::from(matches!(line, Line::Case(_)));
        writer.write(&line).map_err(|error| {
            Failure::new(format!(
                "cannot write to `{}`: {error}; choose another place with --out",
                path.display()
            ))
        })?;
    }
    let many =
        |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let (figures, entries) = (many(figures, "figure", "figures"), many(entries, "entry", "entries"));
    output::say(&format!("{figures} of {tools} from {entries}"));
    output::say(&format!("record: {}", path.display()));
    Ok(exit)
}

/// The content of a file; not more of it than is read.
fn content(path: &Path) -> Result<Vec<u8>, String> {
    let name = path.display();
    let cannot = |error| format!("cannot read `{name}`: {error}");
    let file = File::open(path).map_err(cannot)?;
    let length = file.metadata().map_err(cannot)?.len();
    let mut content = Vec::new();
    // A pipe has no length.
    if length <= LARGEST_FILE {
        file.take(LARGEST_FILE + 1).read_to_end(&mut content).map_err(cannot)?;
    }
    if length.max(content.len() as u64) > LARGEST_FILE {
        return Err(format!(
            "`{name}` is larger than 1 GiB, the most that is read; split it, or let the tool write less (averages, fewer repetitions)"
        ));
    }
    Ok(content)
}

fn name(kind: &str, path: &Path, problems: &[Problem]) {
    let path = path.display();
    for problem in problems.iter().take(MOST_NAMED) {
        let comma = if problem.line.is_some() { "," } else { "" };
        output::say(&format!("{kind}: `{path}`{comma} {problem}"));
    }
    if let more @ 1.. = problems.len().saturating_sub(MOST_NAMED) {
        output::say(&format!("{kind}: `{path}`, and {more} more like these"));
    }
}

fn create(out: Option<&Path>) -> Result<(PathBuf, Writer), Failure> {
    match out {
        Some(out) => {
            let writer = create_record(out).map_err(|error| cannot_create(out, "--out", &error))?;
            Ok((out.into(), writer))
        }
        None => {
            let folder = store::create_folder()
                .map_err(|why| Failure::new(format!("{why}; name the record with --out")))?;
            store::create_record(&folder).map_err(|error| cannot_create(&folder, "--out", &error))
        }
    }
}

/// When the first of the files was last changed; now where the file system does not tell.
fn file_time(files: &[PathBuf]) -> String {
    let changed = |path: &PathBuf| std::fs::metadata(path).ok()?.modified().ok();
    let first = files.iter().filter_map(changed).min().unwrap_or_else(std::time::SystemTime::now);
    let first = jiff::Timestamp::try_from(first).unwrap_or_else(|_| jiff::Timestamp::now());
    first.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
