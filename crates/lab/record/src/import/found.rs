//! What is read of one file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::Machine;
use crate::import::benchmarks::Benchmarks;
use crate::import::entry::{Entry, Outcome, Problem};

/// What a file of another tool says.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Name of the tool, as in a case's id.
    pub tool: &'static str,
    /// The path of the file.
    pub path: PathBuf,
    /// Its versions, where the file tells them.
    pub versions: BTreeSet<String>,
    /// When it measured, where the file tells it.
    pub started: Option<Started>,
    /// The machine, as far as the file tells it.
    pub machine: Option<Machine>,
    /// What was measured.
    pub benchmarks: Benchmarks,
    /// Lines that could not be used; the others are kept.
    pub problems: Vec<Problem>,
    /// Entries without a figure, and why.
    pub skipped: Vec<Problem>,
    /// Entries of the tool, whatever became of them.
    pub entries: usize,
    session: usize,
    form: &'static str,
}

/// When a tool measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Started {
    /// RFC 3339.
    pub at: String,
    /// Is that the time of a clock in a zone that the file does not tell, written as if it were UTC?
    pub is_local: bool,
}

impl Found {
    /// Of a tool, before anything of the file is read.
    pub fn new(tool: &'static str, path: &Path) -> Found {
        let mut found = Found { tool, path: path.to_owned(), ..Found::default() };
        found.session(path, 0, "");
        found
    }

    /// What follows is of another session than what was before: of a document in a file, or of a folder where the tool writes several files
    /// about one session, each in a form of its own.
    pub fn session(&mut self, place: &Path, document: usize, form: &'static str) {
        self.session = self.benchmarks.session(place, document);
        self.form = form;
    }

    /// Takes an entry.
    pub fn add(&mut self, entry: Entry) {
        self.entries += 1;
        if let Outcome::Skipped(why) = &entry.outcome {
            self.skipped.push(Problem::at(entry.line, format!("`{}`: {why}", entry.identity.name)));
        }
        self.benchmarks.add(self.tool, self.session, self.form, entry);
    }

    /// Notes an entry that could not be used.
    pub fn problem(&mut self, line: usize, why: impl Into<String>) {
        self.entries += 1;
        self.problems.push(Problem::at(line, why));
    }

    /// The file says when it was measured, in seconds since 1970; the first time counts.
    pub fn started_at(&mut self, unix_seconds: i64) {
        if let Ok(at) = jiff::Timestamp::from_second(unix_seconds) {
            self.started(Started { at: at.to_string(), is_local: false });
        }
    }

    /// The file says when it was measured; the first time counts.
    pub fn started(&mut self, started: Started) {
        self.started = self.started.take().into_iter().chain([started]).min();
    }

    /// The file says which machine measured what follows.
    ///
    /// # Errors
    /// It said something else before.
    pub fn machine(&mut self, line: usize, machine: Machine) -> Result<(), Problem> {
        let known = self.machine.get_or_insert_default();
        if let Some((here, there)) = difference(&machine, known) {
            let why = format!(
                "is of the machine `{here}`, and what is above it of `{there}`; a record is of one machine, so split the file and import the parts \
                 one by one"
            );
            return Err(Problem::at(line, why));
        }
        complete(known, &machine);
        Ok(())
    }
}

/// What two machines call themselves, where that differs.
pub fn difference(here: &Machine, there: &Machine) -> Option<(String, String)> {
    let texts = |machine: &Machine| {
        [&machine.hostname, &machine.cpu_model, &machine.os, &machine.kernel, &machine.arch]
            .map(String::clone)
    };
    // Go and `uname` have different words for the same.
    const SAME: [[&str; 2]; 3] = [["amd64", "x86_64"], ["arm64", "aarch64"], ["386", "i686"]];
    let is_same =
        |a: &str, b: &str| a.eq_ignore_ascii_case(b) || SAME.contains(&[a, b]) || SAME.contains(&[b, a]);
    let differ = |(a, b): &(String, String)| !a.is_empty() && !b.is_empty() && !is_same(a, b);
    texts(here).into_iter().zip(texts(there)).find(differ)
}

/// Adds what the other one tells besides.
pub fn complete(known: &mut Machine, other: &Machine) {
    for (text, from) in [
        (&mut known.hostname, &other.hostname),
        (&mut known.cpu_model, &other.cpu_model),
        (&mut known.os, &other.os),
        (&mut known.kernel, &other.kernel),
        (&mut known.kernel_build, &other.kernel_build),
        (&mut known.arch, &other.arch),
    ] {
        if text.is_empty() {
            text.clone_from(from);
        }
    }
    if known.caches.is_empty() {
        known.caches.clone_from(&other.caches);
    }
    known.clock.tsc_hz = known.clock.tsc_hz.or(other.clock.tsc_hz);
    let new: Vec<String> =
        other.missing.iter().filter(|what| !known.missing.contains(what)).cloned().collect();
    known.missing.extend(new);
}
