//! Takes what a session tells: into the record line by line, into memory for the report, and to the progress line.

use std::io;

use weighbridge_lab::session::{Progress, Sink};
use weighbridge_record::{Line, Reading, Writer};

use crate::progress::Shown;

/// The record in the making.
#[derive(Debug)]
pub struct Recorder {
    writer: Writer,
    progress: Shown,
    lines: Vec<Line>,
    failed: bool,
}

impl Recorder {
    /// Into this file.
    pub fn new(writer: Writer, progress: Shown) -> Recorder {
        Recorder { writer, progress, lines: Vec::new(), failed: false }
    }

    /// What was told, for a report, and whether the file holds all of it.
    pub fn into_reading(self) -> Reading {
        self.progress.clear();
        Reading { lines: self.lines, problems: Vec::new() }
    }

    /// Did any case give a number?
    pub fn has_numbers(&self) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Summary(_)))
    }
}

impl Sink for Recorder {
    /// Writes the line, until a line cannot be written. That one is an error, and so ends the session; the summaries that
    /// follow come from what was measured before, and are kept in memory alone.
    fn line(&mut self, line: Line) -> io::Result<()> {
        if !self.failed
            && let Err(error) = self.writer.write(&line)
        {
            self.failed = true;
            return Err(error);
        }
        self.lines.push(without_samples(line));
        Ok(())
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.progress.update(progress);
    }
}

/// The samples are in the file; in memory, those of thousands of runs would only take room. Every case of a session that
/// has ended has its summary, so a report does not need them, but for those that stand beside further series.
fn without_samples(mut line: Line) -> Line {
    if let Line::Run(run) = &mut line {
        run.roles = Vec::new();
        if run.series.is_empty() {
            run.samples = Vec::new();
        }
    }
    line
}
