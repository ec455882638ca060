//! Takes what a session tells: into the record line by line, into memory for the report, and to the progress line.

use std::io;
use std::path::PathBuf;

use weighbridge_harness::session::{Progress, Sink};
use weighbridge_record::laws::{Audit, Violation};
use weighbridge_record::{Line, Reading, Writer};

use crate::progress::ProgressStyle;
use crate::{destination, output};

/// The record in the making.
#[derive(Debug)]
pub struct Recorder {
    /// Where the record is.
    pub path: PathBuf,
    writer: Writer,
    may_move: bool,
    progress: ProgressStyle,
    lines: Vec<Line>,
    audit: Audit,
    failed: bool,
}

impl Recorder {
    /// Writes into the file at `path`. A record that `may_move` goes on in the current folder when its own has no room.
    pub fn new(path: PathBuf, writer: Writer, may_move: bool, progress: ProgressStyle) -> Recorder {
        Recorder {
            path,
            writer,
            may_move,
            progress,
            lines: Vec::new(),
            audit: Audit::default(),
            failed: false,
        }
    }

    /// What was told so far, for lines that follow from it.
    pub fn reading(&self) -> Reading {
        Reading { lines: self.lines.clone(), problems: Vec::new() }
    }

    /// What was told, for a report. The terminal is as it was.
    pub fn into_reading(self) -> Reading {
        self.progress.clear();
        Reading { lines: self.lines, problems: Vec::new() }
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let Err(error) = self.writer.write(line) else { return Ok(()) };
        if !std::mem::take(&mut self.may_move) {
            return Err(error);
        }
        let Ok((path, writer)) = destination::move_here(&self.path) else { return Err(error) };
        let (old, new) = (self.path.display(), path.display());
        output::warn(&format!(
            "cannot write to `{old}`: {error}; the record goes on as `{new}` in the current folder"
        ));
        (self.path, self.writer) = (path, writer);
        self.writer.write(line)
    }

    /// Did any case give a number?
    pub fn has_numbers(&self) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Summary(_)))
    }
}

impl Sink for Recorder {
    /// Writes the line, and behind it which laws of the record it breaks, until a line cannot be written. That one is an error, and so ends the session; the summaries that
    /// follow come from what was measured before, and are kept in memory alone.
    fn line(&mut self, mut line: Line) -> io::Result<()> {
        let broken = self.audit.line(&line);
        self.audit.amend(&mut line);
        for line in std::iter::once(line).chain(broken.iter().map(Violation::line)) {
            if !self.failed {
                self.write(&line).inspect_err(|_| self.failed = true)?;
            }
            self.lines.push(without_samples(line));
        }
        Ok(())
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.progress.update(progress);
    }
}

/// The samples are in the file; in memory, those of thousands of runs would only take room. Every case of a session that
/// has ended has its summary, so a report needs them only to draw them above the series of the same run.
fn without_samples(mut line: Line) -> Line {
    match &mut line {
        Line::ComparedSet(set) => {
            let sides = [&mut set.a, &mut set.b].into_iter().chain(&mut set.control);
            sides.for_each(|side| side.slices = None);
        }
        Line::Run(run) => {
            if run.series.is_empty() {
                run.samples = Vec::new();
            }
            run.roles = Vec::new();
            run.latencies = None;
            if let Some(slices) = &mut run.slices {
                slices.hub_roles = Vec::new();
            }
        }
        _ => {}
    }
    line
}
