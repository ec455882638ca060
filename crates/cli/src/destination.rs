//! Where the record and the page of a run go. Both are made sure of before anything is measured.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use weighbridge_record::Writer;

use crate::Failure;
use crate::values::Page;

/// The files of a run.
#[derive(Debug)]
pub struct Destination {
    /// The record's path.
    pub record: PathBuf,
    /// The record, open and empty.
    pub writer: Writer,
    /// The page, if one is wanted. It does not exist yet.
    pub page: Option<PathBuf>,
}

impl Destination {
    /// Chooses names where none were given, and creates the record.
    ///
    /// # Errors
    /// A file exists already or cannot be created.
    pub fn create(out: Option<&Path>, html: Option<&Page>) -> Result<Destination, Failure> {
        let record = out.map_or_else(unused_name, Path::to_owned);
        let page = match html {
            Some(Page::None) => None,
            Some(Page::File(page)) => Some(page.clone()),
            None => Some(record.with_extension("html")),
        };
        if page.as_ref() == Some(&record) {
            return Err(Failure::new(format!(
                "record and page would both be `{}`; give one of them another name, with --out or --html",
                record.display()
            )));
        }
        // The record last, so that nothing is left behind where the page cannot be.
        try_to_create(&record).map_err(|error| cannot_create(&record, "--out", &error))?;
        if let Some(page) = &page {
            try_to_create(page).map_err(|error| cannot_create(page, "--html", &error))?;
        }
        let writer = Writer::create(&record).map_err(|error| cannot_create(&record, "--out", &error))?;
        Ok(Destination { record, writer, page })
    }
}

/// Can a file of this name be created? Leaves nothing behind, so that a run that is killed leaves no empty page.
fn try_to_create(path: &Path) -> io::Result<()> {
    File::create_new(path)?;
    std::fs::remove_file(path)
}

/// `weighbridge-YYYYMMDD-HHMMSS.jsonl` in the current directory, with a number where two runs start in one second.
fn unused_name() -> PathBuf {
    let stem = jiff::Zoned::now().strftime("weighbridge-%Y%m%d-%H%M%S").to_string();
    let names = (1..).map(|number| match number {
        1 => PathBuf::from(format!("{stem}.jsonl")),
        number => PathBuf::from(format!("{stem}-{number}.jsonl")),
    });
    let is_unused = |name: &PathBuf| !name.exists() && !name.with_extension("html").exists();
    names.into_iter().find(is_unused).unwrap_or_else(|| format!("{stem}.jsonl").into())
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
