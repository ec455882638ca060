//! What every command that measures does around its measurement: the signals that end it, the record from its header to its end, and what
//! is shown at last.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use weighbridge_harness::coordinator::Coordinator;
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::session::{Ended, Sink};
use weighbridge_record::{End, Header, Line, Machine, SCHEMA, Skipped, Tool};
use weighbridge_report::{self as report, Report};

use super::THIS_PROGRAM;
use crate::args::{COMMIT, PROFILE, typed};
use crate::destination::{Destination, write_new};
use crate::progress::{self, ProgressStyle};
use crate::recorder::Recorder;
use crate::values::Page;
use crate::{Failure, identity, labels, output, values};

/// Takes Ctrl-C and SIGTERM over. First of all, before anything may start a thread, so that no thread has these signals open.
pub fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::install().map_err(|error| Failure::new(format!("Ctrl-C cannot be handled: {error}")))
}

/// Says that figures of a debug build are none.
pub fn warn_of_debug_build() {
    if PROFILE == "debug" {
        output::warn("this is a debug build, and its numbers mean nothing; build with --release");
    }
}

/// Small enough for every reader of JSON to keep it exact.
pub fn random_seed() -> u64 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u32::from_ne_bytes(bytes).into(),
        // Only the order of runs depends on it.
        Err(_) => std::process::id().into(),
    }
}

/// Now, as a header has it.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The header of a record that is begun now, with those of the settings that have a value.
pub fn header<N: Into<String>>(
    settings: impl IntoIterator<Item = (N, String)>,
    machine: Machine,
    seed: u64,
) -> Header {
    let settings = settings.into_iter().filter(|(_, value)| !value.is_empty());
    Header {
        schema: SCHEMA,
        tool: Tool {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: COMMIT.map(str::to_owned),
            profile: PROFILE.into(),
        },
        started: now(),
        command: typed(),
        seed,
        settings: settings.map(|(name, value)| (name.into(), value)).collect(),
        machine,
        ..Header::default()
    }
}

/// Says in a header which machine this is among others, and where the session came from.
pub fn identify(header: &mut Header) {
    let identity = header.identity.get_or_insert_with(|| identity::of(&header.machine));
    if let Some(why) = identity::clock_is_wrong(&header.started, identity.booted.as_deref()) {
        output::warn(&why);
    }
    header.labels = labels::all();
    if header.provenance.is_empty() {
        header.provenance = identity::provenance();
    }
}

/// Where cases run: this machine, until the user has had enough.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    pub host: &'a Host,
    pub interrupt: &'a Interrupt,
    /// Of the order of runs.
    pub seed: u64,
    /// Is each second of a run told?
    pub is_watched: bool,
}

impl<'a> Bench<'a> {
    /// What runs cases there.
    pub fn coordinator(&self) -> Coordinator<'a> {
        let coordinator = Coordinator::new(self.host, self.interrupt, THIS_PROGRAM.into(), self.seed);
        if self.is_watched { coordinator.watched(progress::tell) } else { coordinator }
    }
}

/// A record in the making.
pub struct Measuring {
    /// Takes its lines.
    pub recorder: Recorder,
    page: Option<Page>,
    is_in_store: bool,
    is_quiet: bool,
    began: Instant,
}

impl Measuring {
    /// Begins the time that the record has at its end.
    pub fn begin(destination: Destination, is_quiet: bool) -> Measuring {
        let Destination { record, writer, page, is_in_store } = destination;
        let recorder = Recorder::new(record, writer, is_in_store, ProgressStyle::new(is_quiet));
        Measuring { recorder, page, is_in_store, is_quiet, began: Instant::now() }
    }

    /// Writes the first lines.
    pub fn open(&mut self, mut header: Header, skipped: Vec<Skipped>) -> io::Result<()> {
        identify(&mut header);
        std::iter::once(Line::Header(Box::new(header)))
            .chain(skipped.into_iter().map(Line::Skipped))
            .try_for_each(|line| self.recorder.line(line))
    }

    /// Writes the last line.
    pub fn close(mut self, ended: io::Result<Ended>) -> Closed {
        let complete = matches!(ended, Ok(Ended::Complete));
        let elapsed_s = self.began.elapsed().as_secs_f64();
        let closing = self.recorder.line(Line::End(End { complete, elapsed_s }));
        let Measuring { recorder, page, is_in_store, is_quiet, .. } = self;
        Closed {
            ended: ended.and_then(|ended| closing.map(|()| ended)),
            elapsed_s,
            files: Files { record: recorder.path.clone(), page, is_in_store, is_quiet },
            report: Report::from_reading(recorder.into_reading()),
        }
    }
}

/// A record that is whole.
pub struct Closed {
    /// How the measurement ended, or why a line of it could not be written.
    pub ended: io::Result<Ended>,
    pub elapsed_s: f64,
    /// What it found.
    pub report: Report,
    /// Where it is, and where its page will be.
    pub files: Files,
}

/// The files that a measurement leaves.
pub struct Files {
    pub record: PathBuf,
    /// The page that is wanted.
    pub page: Option<Page>,
    /// Is the record in the store? Then a page that finds no room beside it may go to the current folder.
    pub is_in_store: bool,
    /// Are their paths not to be said?
    pub is_quiet: bool,
}

/// What became of showing a report.
pub struct Told {
    /// Of standard output.
    pub printed: Result<(), Failure>,
    /// Where the page is.
    pub page: Result<Option<PathBuf>, Failure>,
}

impl Told {
    /// The first thing that went wrong.
    pub fn check(self) -> Result<(), Failure> {
        self.printed.and(self.page.map(drop))
    }
}

impl Files {
    /// Prints the text, writes the page, and says where the files are: what was measured is shown and kept before anything is said about
    /// what went wrong.
    pub fn show(&self, report: &Report, text: String) -> Told {
        let printed = output::print(text);
        let page = self.write_page(report);
        if !self.is_quiet {
            output::say(&format!("record: {}", self.record.display()));
            if let Ok(Some(page)) = &page {
                output::say(&format!("page:   {}", page.display()));
            }
        }
        Told { printed, page }
    }

    /// Writes the page that is wanted, if any. One that finds no room in the store goes to the current folder.
    fn write_page(&self, report: &Report) -> Result<Option<PathBuf>, Failure> {
        let (page, may_move) = match &self.page {
            Some(Page::None) => return Ok(None),
            Some(Page::File(page)) => (page.clone(), false),
            None => (self.record.with_extension("html"), self.is_in_store),
        };
        let html = report::html(report);
        let Err(error) = write_new(&page, html.as_bytes()) else { return Ok(Some(page)) };
        let cannot = format!("cannot create `{}`: {error}", page.display());
        if let Some(name) = page.file_name().map(Path::new).filter(|_| may_move)
            && write_new(name, html.as_bytes()).is_ok()
        {
            output::warn(&format!("{cannot}; the page is in the current folder"));
            return Ok(Some(name.into()));
        }
        // What was measured is in the record, so nothing has to be measured again.
        Err(Failure::new(format!(
            "{cannot}; `weighbridge report {} --format html --out FILE` makes the page elsewhere",
            values::quoted(&self.record)
        )))
    }
}
