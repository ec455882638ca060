//! Records into the store: the record as it was, then its rows.
//!
//! The rows come last, so who sees rows can have the record. Both names follow from the content: to push again does nothing, and whoever
//! was killed pushes again. Rows that are there already are left: another version of this program may have written more of them.

use std::fs;
use std::path::{Path, PathBuf};

use futures::StreamExt;

use crate::failure::{Exit, Failure};
use crate::rows::Record;
use crate::store::{Store, raw_name, results_name};
use crate::table;

/// Records on their way at the same time.
const AT_ONCE: usize = 8;

/// What became of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Records that were not in the store.
    pub new: usize,
    /// Records that were.
    pub known: usize,
    /// Records that a session is still writing; the next push takes them.
    pub at_work: usize,
    /// What was not pushed, a sentence each.
    pub failures: Vec<Failure>,
}

impl Pushed {
    /// The worst of them: what may work later is not hidden by what never will.
    pub fn exit(&self) -> Exit {
        let has = |exit| self.failures.iter().any(|failure| failure.exit == exit);
        match () {
            () if has(Exit::Again) => Exit::Again,
            () if self.failures.is_empty() => Exit::Fine,
            () => Exit::Hopeless,
        }
    }
}

/// The records among these: files, and what is in folders and has the ending of a record.
///
/// # Errors
/// Where one cannot be read.
pub fn records(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let failed = |error: std::io::Error| Failure::hopeless(format!("{}: {error}", path.display()));
        if fs::metadata(path).map_err(failed)?.is_dir() {
            let mut inside =
                fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            inside.sort_by_key(fs::DirEntry::file_name);
            found.extend(
                inside
                    .into_iter()
                    .map(|entry| entry.path())
                    .filter(|path| path.extension().is_some_and(|end| end == "jsonl")),
            );
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// A record from a file.
///
/// # Errors
/// Where it cannot be read, or is none that can be stored.
pub fn read(path: &Path) -> Result<(Record, Vec<u8>), Failure> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| Failure::hopeless(format!("{name}: {error}")))?;
    Ok((Record::new(&name, &bytes)?, bytes))
}

/// Pushes all of them, and says of each that could not be why.
pub async fn push(store: &Store, paths: &[PathBuf]) -> Pushed {
    let all =
        futures::stream::iter(paths).map(|path| one(store, path)).buffered(AT_ONCE).collect::<Vec<_>>().await;
    let mut pushed = Pushed::default();
    for ended in all {
        match ended {
            Ok(Ended::New) => pushed.new += 1,
            Ok(Ended::Known) => pushed.known += 1,
            Ok(Ended::AtWork) => pushed.at_work += 1,
            Err(failure) => pushed.failures.push(failure),
        }
    }
    pushed
}

/// What became of a record.
enum Ended {
    New,
    Known,
    AtWork,
}

/// Does a session hold the part of the plan that this is an attempt at? `run --plan` locks a file beside its records while it is at work.
fn is_at_work(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|name| name.to_str()?.rsplit_once('-')).map(|(part, _)| part);
    let lock = stem.map(|part| path.with_file_name(format!(".{part}.lock")));
    let file = lock.and_then(|lock| fs::File::open(lock).ok());
    file.is_some_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

async fn one(store: &Store, path: &Path) -> Result<Ended, Failure> {
    // Asked before it is read: a session that ends meanwhile has ended its record.
    let is_at_work = is_at_work(path);
    let (record, bytes) = read(path)?;
    if is_at_work && record.ended_us.is_none() {
        return Ok(Ended::AtWork);
    }
    let (raw, results) = (raw_name(&record), results_name(&record));
    if store.size(&results).await?.is_some() {
        return Ok(Ended::Known);
    }
    let packed = zstd::bulk::compress(&bytes, 3)
        .map_err(|error| Failure::hopeless(format!("{}: {error}", path.display())))?;
    written(store, &raw, packed).await?;
    written(store, &results, table::parquet(&table::batch(&record))).await?;
    Ok(Ended::New)
}

/// Puts it and looks whether it is there as a whole: a proxy may have answered for the store.
async fn written(store: &Store, name: &str, bytes: Vec<u8>) -> Result<(), Failure> {
    let size = bytes.len() as u64;
    store.put(name, bytes).await?;
    match store.size(name).await? {
        Some(found) if found == size => Ok(()),
        found => Err(Failure::new(
            Exit::Again,
            format!(
                "{name} in {}: {size} bytes were written and {found:?} are there; push again",
                store.shown()
            ),
        )),
    }
}
