//! The folder in which runs keep their records: `$XDG_STATE_HOME/weighbridge`, by default `~/.local/state/weighbridge`.
//!
//! A record and its page are plain files there. Nothing else is kept, so a file that is moved away or deleted is all that
//! somebody has to care about.

use std::fs::{DirBuilder, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use weighbridge_record::earlier::machine;
use weighbridge_record::{Earlier, Header, Line, Writer};

/// So many sessions say what a machine does between sessions; older ones are of another time.
const MOST_EARLIER: usize = 20;

/// What [`entry`] finds out about a record without reading all of it into memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub path: PathBuf,
    /// What was asked on which machine.
    pub header: Header,
    /// Cases of which a run was made.
    pub cases: usize,
    /// Did the run end as it was meant to?
    pub is_complete: bool,
    /// Does it say of a case that its figures are none?
    pub is_void: bool,
}

/// A file with the ending of a record that is none, and why, as what follows the name of the file in a sentence.
pub struct NoRecord {
    pub path: PathBuf,
    pub why: String,
}

/// The folder, whether it exists or not.
pub fn folder() -> Result<PathBuf, String> {
    of_variables("XDG_STATE_HOME", ".local/state")
}

/// Where what can be made again is kept: `$XDG_CACHE_HOME/weighbridge`, by default `~/.cache/weighbridge`.
pub fn cache_folder() -> Result<PathBuf, String> {
    of_variables("XDG_CACHE_HOME", ".cache")
}

/// Our folder below that of a variable, or below the user's own.
fn of_variables(variable: &str, below_home: &str) -> Result<PathBuf, String> {
    // A path that is not absolute is to be ignored: XDG Base Directory Specification.
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    base.map(|base| base.join("weighbridge"))
        .ok_or_else(|| format!("neither {variable} nor HOME is the path of a folder"))
}

/// The folder, created where it does not exist; only its owner may look into it then.
pub fn create_folder() -> Result<PathBuf, String> {
    let folder = folder()?;
    let created = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    created.map_err(|error| format!("`{}` cannot be used: {error}", folder.display()))?;
    Ok(folder)
}

/// A new record in a folder: `weighbridge-YYYYMMDD-HHMMSS.jsonl`, with a number where several runs start in one second. No
/// page of its name exists.
pub fn create_record(folder: &Path) -> io::Result<(PathBuf, Writer)> {
    let stem = jiff::Zoned::now().strftime("weighbridge-%Y%m%d-%H%M%S").to_string();
    let numbered = (2..).map(|number| format!("{stem}-{number}.jsonl"));
    let names = std::iter::once(format!("{stem}.jsonl")).chain(numbered);
    let mut paths = names.map(|name| folder.join(name)).filter(|path| !path.with_extension("html").exists());
    let created = paths.find_map(|path| match Writer::create(&path) {
        // Another run of this second has taken the name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        created => Some(created.map(|writer| (path, writer))),
    });
    created.expect("numbers have no end")
}

/// The records of a folder, the oldest first, and what looks like one. A folder that does not exist has none.
pub fn entries(folder: &Path) -> io::Result<(Vec<Entry>, Vec<NoRecord>)> {
    let listing = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        listing => listing?,
    };
    let mut paths: Vec<PathBuf> =
        listing.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    paths.sort_by_cached_key(|path| second_and_number(path));
    let (mut entries, mut others) = (Vec::new(), Vec::new());
    for path in paths {
        match entry(&path) {
            Ok(entry) => entries.push(entry),
            Err(why) => others.push(NoRecord { path, why }),
        }
    }
    sort(&mut entries);
    Ok((entries, others))
}

/// What the names of records order them by: the name without the number, and the number of those that began in one second, the first of
/// which has none. A session that began at the end of a second may have the name of the next one.
fn second_and_number(path: &Path) -> (PathBuf, u32) {
    let stem = path.with_extension("");
    let name = stem.to_string_lossy();
    // A time of day has six digits.
    let number = |digits: &str| digits.parse().ok().filter(|_| digits.len() < 6);
    match name.rsplit_once('-').and_then(|(of, digits)| Some((of.into(), number(digits)?))) {
        Some(numbered) => numbered,
        None => (stem, 1),
    }
}

/// The oldest first; those of one second stay in their order.
pub fn sort(entries: &mut [Entry]) {
    entries.sort_by(|a, b| a.header.started.cmp(&b.header.started));
}

/// What the last sessions of the machine of this header say of its yardsticks, by records of the store that were made by a build of
/// the same sort. What cannot be read says nothing: a session is measured all the same.
pub fn earlier(now: &Header) -> Earlier {
    let mut earlier = Earlier::none();
    let Ok(Ok((mut entries, _))) = folder().map(|folder| entries(&folder)) else { return earlier };
    entries.retain(|entry| {
        machine(&entry.header) == machine(now) && entry.header.tool.profile == now.tool.profile
    });
    for entry in &entries[entries.len().saturating_sub(MOST_EARLIER)..] {
        let reading = weighbridge_record::read_file(&entry.path).unwrap_or_default();
        earlier.add(&reading.lines);
    }
    earlier
}

/// The last record of the store, or a sentence with a way out.
pub fn last() -> Result<PathBuf, String> {
    let way_out = "name one, as in `weighbridge report FILE`";
    let folder = folder().map_err(|why| format!("{why}, so no last record is known; {way_out}"))?;
    let name = folder.display();
    let (mut entries, _) =
        entries(&folder).map_err(|error| format!("`{name}` cannot be read: {error}; {way_out}"))?;
    entries.pop().map(|entry| entry.path).ok_or_else(|| {
        format!("there is no record in `{name}` yet; `weighbridge run` writes one, or {way_out}")
    })
}

/// What a record is about; or why it is none, as what follows the name of the file in a sentence.
pub fn entry(path: &Path) -> Result<Entry, String> {
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    let mut file = BufReader::new(File::open(path).map_err(cannot)?);
    let mut line = Vec::new();
    file.read_until(b'\n', &mut line).map_err(cannot)?;
    let first = weighbridge_record::read(&line[..]).map_err(cannot)?;
    let header = match (first.lines.into_iter().next(), first.problems.first()) {
        (Some(Line::Header(header)), _) => *header,
        (_, Some(problem)) if problem.is_newer() => return Err(format!("was {}", problem.why)),
        _ if line.is_empty() => return Err("is empty".into()),
        _ => return Err("is not a record".into()),
    };
    let (mut cases, mut is_complete, mut is_void) = (0, false, false);
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line).map_err(cannot)? == 0 {
            return Ok(Entry { path: path.to_owned(), header, cases, is_complete, is_void });
        }
        // A line of a run is long, and nothing in it is of interest here.
        match weighbridge_record::kind(&line).as_deref() {
            Some("case") => cases += 1,
            Some("summary" | "skipped" | "end") => {
                let read = weighbridge_record::read(&line[..]).map_err(cannot)?;
                is_void |= !read.void_cases().is_empty();
                is_complete = matches!(read.lines.first(), Some(Line::End(end)) if end.complete);
            }
            // What follows is another record, which nothing that reads this one takes in.
            Some("header") => {
                return Ok(Entry { path: path.to_owned(), header, cases, is_complete, is_void });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_one_second_come_in_the_order_of_their_numbers_and_before_those_of_the_next() {
        let names =
            ["-101009.jsonl", "-101010.jsonl", "-101010-2.jsonl", "-101010-10.jsonl", "-101011.jsonl"];
        let in_order: Vec<PathBuf> =
            names.iter().map(|of| format!("store-2/weighbridge-20260926{of}").into()).collect();
        let mut paths = in_order.clone();
        paths.sort();
        assert_ne!(paths, in_order, "names alone are in another order");
        paths.sort_by_cached_key(|path| second_and_number(path));
        assert_eq!(paths, in_order);
    }
}
