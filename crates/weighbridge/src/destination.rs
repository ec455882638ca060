//! Where the record and the page of a run go. Both are made sure of before anything is measured.
//!
//! Without a name the record goes to the [store], and where that cannot be, to the current folder.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use weighbridge_record::{Line, Writer};

use crate::values::Page;
use crate::{Failure, output, store};

/// Whether files of the names that were given are replaced: `--force`.
static REPLACES: OnceLock<bool> = OnceLock::new();

/// To be called once, before any file is created.
pub fn replace_files(replaces: bool) {
    let _ = REPLACES.set(replaces);
}

/// Creates a file that a user has named. With `--force` one that is there gives way, a file and nothing else.
pub fn create_new(path: &Path) -> io::Result<File> {
    make_way(path)?;
    File::create_new(path)
}

/// Creates a record that a user has named, likewise.
pub fn create_record(path: &Path) -> io::Result<Writer> {
    make_way(path)?;
    Writer::create(path)
}

fn make_way(path: &Path) -> io::Result<()> {
    if is_replaced(path) { std::fs::remove_file(path) } else { Ok(()) }
}

fn is_replaced(path: &Path) -> bool {
    REPLACES.get() == Some(&true) && path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// The files of a run.
#[derive(Debug)]
pub struct Destination {
    pub record: PathBuf,
    /// The record, open and empty.
    pub writer: Writer,
    /// The page, which does not exist yet; where nothing was said, one of the record's name.
    pub page: Option<Page>,
    /// Is the record in the store? Then it may go to the current folder when the store is full.
    pub is_in_store: bool,
}

impl Destination {
    /// Chooses names where none were given, creates the record, and says where it is if not where it should be.
    pub fn create(out: Option<&Path>, page: Option<&Page>) -> Result<Destination, Failure> {
        let (destination, note) = Destination::find(out, page)?;
        note.iter().for_each(|note| output::warn(note));
        Ok(destination)
    }

    fn find(out: Option<&Path>, page: Option<&Page>) -> Result<(Destination, Option<String>), Failure> {
        let named = match (page, out) {
            (Some(Page::None), _) | (None, None) => None,
            (Some(Page::File(page)), _) => Some(page.clone()),
            (None, Some(record)) => Some(record.with_extension("html")),
        };
        if let Some(record) = out {
            if named.as_deref() == Some(record) {
                return Err(Failure::mistake(format!(
                    "record and page would both be `{}`; give one of them another name, with --out or --html",
                    record.display()
                )));
            }
            try_to_create(record).map_err(|error| cannot_create(record, "--out", &error))?;
        }
        if let Some(page) = &named {
            try_to_create(page).map_err(|error| cannot_create(page, "--html", &error))?;
        }
        let page = page.cloned();
        // The record last, so that nothing is left behind where the page cannot be.
        let Some(record) = out else { return Destination::without_name(page) };
        let writer = create_record(record).map_err(|error| cannot_create(record, "--out", &error))?;
        Ok((Destination { record: record.into(), writer, page, is_in_store: false }, None))
    }

    /// Makes sure that a record can be created, and leaves no file: what takes minutes before it has a line to write leaves nothing
    /// behind when it is killed.
    pub fn check(out: Option<&Path>) -> Result<(), Failure> {
        remove(&Destination::find(out, Some(&Page::None))?.0.record)
    }

    /// Writes all lines of a record.
    pub fn write(&mut self, lines: &[Line]) -> Result<(), Failure> {
        lines.iter().try_for_each(|line| self.writer.write(line)).map_err(|error| {
            let record = self.record.display();
            Failure::new(format!("cannot write to `{record}`: {error}; choose another place with --out"))
        })
    }

    fn without_name(page: Option<Page>) -> Result<(Destination, Option<String>), Failure> {
        let in_store = store::create_folder().and_then(|folder| {
            store::create_record(&folder)
                .map_err(|error| format!("`{}` cannot be used: {error}", folder.display()))
        });
        let why = match in_store {
            Ok((record, writer)) => {
                return Ok((Destination { record, writer, page, is_in_store: true }, None));
            }
            Err(why) => why,
        };
        let (record, writer) = store::create_record(Path::new("")).map_err(|error| {
            Failure::new(format!(
                "there is no place for the record: {why}, and in the current folder: {error}; choose another with --out"
            ))
        })?;
        let note = format!("{why}; the record goes to the current folder instead");
        Ok((Destination { record, writer, page, is_in_store: false }, Some(note)))
    }
}

/// Takes a record of the store that cannot be written on to the current folder, with all that it holds. On an error it stays where it was.
pub fn move_here(record: &Path) -> io::Result<(PathBuf, Writer)> {
    let reading = weighbridge_record::read_file(record)?;
    let (moved, mut writer) = store::create_record(Path::new(""))?;
    let written = reading.lines.iter().try_for_each(|line| writer.write(line));
    // The other one is a copy, or a part of one; where it cannot be taken away it is still valid.
    let _ = std::fs::remove_file(if written.is_ok() { record } else { &moved });
    written.map(|()| (moved, writer))
}

/// Can a file of this name be created? Leaves nothing behind, so that a run that is killed leaves no empty page.
fn try_to_create(path: &Path) -> io::Result<()> {
    // One that will be replaced stays until there is something to put in its place.
    if is_replaced(path) {
        return File::options().write(true).open(path).map(drop);
    }
    File::create_new(path)?;
    std::fs::remove_file(path)
}

/// Takes away what was created only to try.
pub fn remove(path: &Path) -> Result<(), Failure> {
    std::fs::remove_file(path).map_err(|error| {
        Failure::new(format!("`{}` was created and cannot be removed: {error}", path.display()))
    })
}

/// Why a file could not be created, and what to do about it.
pub fn cannot_create(path: &Path, flag: &str, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::mistake(match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("`{path}` exists already; give another name with {flag}, or replace it with --force")
        }
        io::ErrorKind::NotFound => {
            format!("cannot create `{path}`: its folder does not exist; choose another with {flag}")
        }
        _ => format!("cannot create `{path}`: {error}; choose another place with {flag}"),
    })
}

/// Refuses a file that is to be written at the end, before anything is measured for it.
pub fn refuse_existing(path: &Path, option: &str) -> Result<(), Failure> {
    let refused = |error: &io::Error| cannot_create(path, option, error);
    try_to_create(path).map_err(|error| refused(&error))
}

/// Writes a file that must not exist yet. One that could not be written whole is taken away again.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_new(path)?;
    file.write_all(bytes).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}
