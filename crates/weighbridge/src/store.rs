//! The folder in which runs keep their records: `$XDG_STATE_HOME/weighbridge`, by default `~/.local/state/weighbridge`.
//!
//! A record and its page are plain files there. Nothing else is kept, so a file that is moved away or deleted is all that
//! somebody has to care about.

use std::fs::{DirBuilder, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use weighbridge_record::{Header, Line, Writer};

/// What [`entry`] finds out about a record without reading all of it into memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Path of the file.
    pub path: PathBuf,
    /// What was asked on which machine.
    pub header: Header,
    /// Cases of which a run was made.
    pub cases: usize,
    /// Did the run end as it was meant to?
    pub is_complete: bool,
}

/// A file that is not a record that this program can read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRecord {
    /// Path of the file.
    pub path: PathBuf,
    /// Why, as what follows the name of the file in a sentence.
    pub why: String,
}

/// The folder, whether it exists or not.
///
/// # Errors
/// A sentence: the environment names none.
pub fn folder() -> Result<PathBuf, String> {
    of_variables("XDG_STATE_HOME", ".local/state")
}

/// Our folder below that of a variable, or below the user's own.
fn of_variables(variable: &str, below_home: &str) -> Result<PathBuf, String> {
    // A path that is not absolute is to be ignored: XDG Base Directory Specification.
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    base.map(|base| base.join("weighbridge"))
        .ok_or_else(|| format!("neither {variable} nor HOME is the path of a folder"))
}

/// Where what can be made again is kept: `$XDG_CACHE_HOME/weighbridge`, by default `~/.cache/weighbridge`.
///
/// # Errors
/// Neither variable names a folder.
pub fn cache_folder() -> Result<PathBuf, String> {
    of_variables("XDG_CACHE_HOME", ".cache")
}

/// The folder, created where it does not exist; only its owner may look into it then.
///
/// # Errors
/// A sentence with the folder.
pub fn create_folder() -> Result<PathBuf, String> {
    let folder = folder()?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| format!("`{}` cannot be used: {error}", folder.display()))?;
    Ok(folder)
}

/// A new record in a folder: `weighbridge-YYYYMMDD-HHMMSS.jsonl`, with a number where several runs start in one second. No
/// page of its name exists.
///
/// # Errors
/// That of creating the file.
pub fn create_record(folder: &Path) -> io::Result<(PathBuf, Writer)> {
    let stem = jiff::Zoned::now().strftime("weighbridge-%Y%m%d-%H%M%S").to_string();
    let mut number = 1;
    loop {
        let name = if number == 1 { format!("{stem}.jsonl") } else { format!("{stem}-{number}.jsonl") };
        let path = folder.join(name);
        number += 1;
        if path.with_extension("html").exists() {
            continue;
        }
        match Writer::create(&path) {
            Ok(writer) => return Ok((path, writer)),
            // Another run of this second has taken the name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// The records of a folder, the oldest first, and the files with the ending of a record that are none. A folder that does
/// not exist has none.
///
/// # Errors
/// That of reading the folder.
pub fn entries(folder: &Path) -> io::Result<(Vec<Entry>, Vec<NoRecord>)> {
    let listing = match std::fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<PathBuf> = listing
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| path.as_ref().map_or(true, |path| path.extension().is_some_and(|end| end == "jsonl")))
        .collect::<io::Result<_>>()?;
    // Names of one second differ in their number.
    paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    let (mut entries, mut others) = (Vec::new(), Vec::new());
    for path in paths {
        match entry(&path) {
            Ok(entry) => entries.push(entry),
            Err(other) => others.push(other),
        }
    }
    sort(&mut entries);
    Ok((entries, others))
}

/// The oldest first; those of one second stay in their order.
pub fn sort(entries: &mut [Entry]) {
    entries.sort_by(|a, b| a.header.started.cmp(&b.header.started));
}

/// The last record of the store.
///
/// # Errors
/// A sentence with a way out: there is none.
pub fn last() -> Result<PathBuf, String> {
    let way_out = "name one, as in `weighbridge report FILE`";
    let folder = folder().map_err(|why| format!("{why}, so no last record is known; {way_out}"))?;
    let (mut entries, _) = entries(&folder)
        .map_err(|error| format!("`{}` cannot be read: {error}; {way_out}", folder.display()))?;
    let last = entries.pop().map(|entry| entry.path);
    last.ok_or_else(|| {
        format!(
            "there is no record in `{}` yet; `weighbridge run` writes one, or {way_out}",
            folder.display()
        )
    })
}

/// What a record is about.
///
/// # Errors
/// The file cannot be read, or is not a record.
pub fn entry(path: &Path) -> Result<Entry, NoRecord> {
    let no = |why: String| NoRecord { path: path.to_owned(), why };
    let cannot = |error: io::Error| no(format!("cannot be read: {error}"));
    let mut file = BufReader::new(File::open(path).map_err(cannot)?);
    let mut line = Vec::new();
    file.read_until(b'\n', &mut line).map_err(cannot)?;
    let first = weighbridge_record::read(&line[..]).map_err(cannot)?;
    let header = match (first.lines.into_iter().next(), first.problems.first()) {
        (Some(Line::Header(header)), _) => *header,
        (_, Some(problem)) if problem.is_newer() => return Err(no(format!("was {}", problem.why))),
        _ if line.is_empty() => return Err(no("is empty".into())),
        _ => return Err(no("is not a record".into())),
    };
    let (mut cases, mut is_complete) = (0, false);
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line).map_err(cannot)? == 0 {
            break;
        }
        // The kind comes first in a line; a line of a run is long, and nothing in it is of interest here.
        cases += usize::from(line.starts_with(br#"{"kind":"case","#));
        if line.starts_with(br#"{"kind":"end","#) {
            let end = weighbridge_record::read(&line[..]).map_err(cannot)?;
            is_complete = matches!(end.lines.first(), Some(Line::End(end)) if end.complete);
        }
    }
    Ok(Entry { path: path.to_owned(), header, cases, is_complete })
}
