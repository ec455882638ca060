//! `weighbridge import`: the output of other benchmark tools as a record.

use std::path::{Path, PathBuf};

use weighbridge_record::import::{About, Import, Input};
use weighbridge_record::{Line, Writer};

use crate::args;
use crate::destination::{cannot_create, create_record};
use crate::{Exit, Failure, output, store};

/// Writes a record of what the files say; of what cannot be used it is said why.
pub fn import(args: &args::Import) -> Result<Exit, Failure> {
    let mut import = Import::default();
    let mut exit = Exit::Fine;
    for path in &args.files {
        let name = path.display();
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => {
                output::say(&format!("error: cannot read `{name}`: {error}"));
                exit = Exit::Failed;
                continue;
            }
        };
        let problems = import.add(Input { path, text: &text }).unwrap_or_else(|problem| vec![problem]);
        for problem in problems {
            let comma = if problem.line.is_some() { "," } else { "" };
            output::say(&format!("error: `{name}`{comma} {problem}"));
            exit = Exit::Failed;
        }
    }
    if import.is_empty() {
        // Each file's reason has been told.
        return Ok(exit);
    }
    let lines = import.lines(&About {
        importer: format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        command: args::typed(),
        file_time: file_time(&args.files),
        commit: args.commit.clone(),
    });
    let (path, mut writer) = create(args.out.as_deref())?;
    for line in &lines {
        writer.write(line).map_err(|error| {
            Failure::new(format!(
                "cannot write to `{}`: {error}; choose another place with --out",
                path.display()
            ))
        })?;
    }
    let cases = lines.iter().filter(|line| matches!(line, Line::Case(_))).count();
    let tools: Vec<&str> = import.tools().into_iter().collect();
    let figures = if cases == 1 { "figure" } else { "figures" };
    output::say(&format!("{cases} {figures} of {}", tools.join(", ")));
    output::say(&format!("record: {}", path.display()));
    Ok(exit)
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
