//! Where the record and the page of a run go. Both are made sure of before anything is measured.
//!
//! Without a name the record goes to the [store], and where that cannot be, to the current folder.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weighbridge_record::Writer;

use crate::values::Page;
use crate::{Failure, store};

/// The files of a run.
#[derive(Debug)]
pub struct Destination {
    /// The record's path.
    pub record: PathBuf,
    /// The record, open and empty.
    pub writer: Writer,
    /// The page.
    pub page: WantedPage,
    /// Is the record in the store? Then it may go to the current folder when the store is full.
    pub is_in_store: bool,
    /// What the user should know.
    pub note: Option<String>,
}

/// Which page is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedPage {
    /// No page is written.
    None,
    /// One of the record's name.
    OfRecord,
    /// This one. It does not exist yet.
    File(PathBuf),
}

impl Destination {
    /// Chooses names where none were given, and creates the record.
    ///
    /// # Errors
    /// A file exists already or cannot be created.
    pub fn create(out: Option<&Path>, html: Option<&Page>) -> Result<Destination, Failure> {
        let page = match html {
            Some(Page::None) => WantedPage::None,
            Some(Page::File(page)) => WantedPage::File(page.clone()),
            None => WantedPage::OfRecord,
        };
        let Some(record) = out else {
            if let WantedPage::File(page) = &page {
                try_to_create(page).map_err(|error| cannot_create(page, "--html", &error))?;
            }
            return Destination::without_name(page);
        };
        let page_path = match &page {
            WantedPage::None => None,
            WantedPage::OfRecord => Some(record.with_extension("html")),
            WantedPage::File(page) => Some(page.clone()),
        };
        if page_path.as_deref() == Some(record) {
            return Err(Failure::new(format!(
                "record and page would both be `{}`; give one of them another name, with --out or --html",
                record.display()
            )));
        }
        // The record last, so that nothing is left behind where the page cannot be.
        try_to_create(record).map_err(|error| cannot_create(record, "--out", &error))?;
        if let Some(page) = &page_path {
            try_to_create(page).map_err(|error| cannot_create(page, "--html", &error))?;
        }
        let writer = Writer::create(record).map_err(|error| cannot_create(record, "--out", &error))?;
        Ok(Destination { record: record.into(), writer, page, is_in_store: false, note: None })
    }

    /// Makes sure that a record can be created, and leaves no file: what takes minutes before it has a line to write leaves nothing
    /// behind when it is killed.
    ///
    /// # Errors
    /// As of [`create`](Self::create), without a page.
    pub fn check(out: Option<&Path>) -> Result<(), Failure> {
        let Destination { record, .. } = Destination::create(out, Some(&Page::None))?;
        std::fs::remove_file(&record).map_err(|error| {
            Failure::new(format!("`{}` was created and cannot be removed: {error}", record.display()))
        })
    }

    fn without_name(page: WantedPage) -> Result<Destination, Failure> {
        let in_store = store::create_folder().and_then(|folder| {
            store::create_record(&folder)
                .map_err(|error| format!("`{}` cannot be used: {error}", folder.display()))
        });
        let why = match in_store {
            Ok((record, writer)) => {
                return Ok(Destination { record, writer, page, is_in_store: true, note: None });
            }
            Err(why) => why,
        };
        let here = Path::new("");
        let (record, writer) = store::create_record(here).map_err(|error| {
            Failure::new(format!(
                "there is no place for the record: {why}, and in the current folder: {error}; choose another with --out"
            ))
        })?;
        let note = format!("{why}; the record goes to the current folder instead");
        Ok(Destination { record, writer, page, is_in_store: false, note: Some(note) })
    }
}

/// Takes a record of the store that cannot be written on to the current folder, with all that it holds.
///
/// # Errors
/// The current folder has no place either, or the record cannot be read. The record stays where it was.
pub fn move_here(record: &Path) -> io::Result<(PathBuf, Writer)> {
    let reading = weighbridge_record::read_file(record)?;
    let (moved, mut writer) = store::create_record(Path::new(""))?;
    match reading.lines.iter().try_for_each(|line| writer.write(line)) {
        Ok(()) => {
            // Only its copy is needed now; one that cannot be taken away is still valid.
            let _ = std::fs::remove_file(record);
            Ok((moved, writer))
        }
        Err(error) => {
            let _ = std::fs::remove_file(&moved);
            Err(error)
        }
    }
}

/// Can a file of this name be created? Leaves nothing behind, so that a run that is killed leaves no empty page.
fn try_to_create(path: &Path) -> io::Result<()> {
    File::create_new(path)?;
    std::fs::remove_file(path)
}

/// Why a file could not be created, and what to do about it.
pub fn cannot_create(path: &Path, flag: &str, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::new(match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("`{path}` exists already; move it away, or give another name with {flag}")
        }
        io::ErrorKind::NotFound => {
            format!("cannot create `{path}`: its folder does not exist; choose another with {flag}")
        }
        _ => format!("cannot create `{path}`: {error}; choose another place with {flag}"),
    })
}

/// Refuses a file that is to be written at the end, before anything is measured for it.
///
/// # Errors
/// It exists already.
pub fn refuse_existing(path: &Path, option: &str) -> Result<(), Failure> {
    if path.exists() {
        Err(Failure::new(format!("{option}: `{}` exists already; name another file", path.display())))
    } else {
        Ok(())
    }
}

/// Writes a file that must not exist yet. One that could not be written whole is taken away again.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}
