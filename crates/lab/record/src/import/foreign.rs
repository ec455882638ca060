//! What a file of another tool says, in the record's units but not yet in its lines.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::{Distribution, Latencies, Machine, Percentile};

/// A file of another tool.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its path. Criterion's files do not name their benchmark, their path does; nothing is opened here.
    pub path: &'a Path,
    /// Its content.
    pub text: &'a str,
}

/// What a file of another tool says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Foreign {
    /// Name of the tool, as in a case's id.
    pub tool: &'static str,
    /// Its version, where the file tells it; else empty.
    pub version: String,
    /// When it measured, RFC 3339, where the file tells it.
    pub started: Option<String>,
    /// The machine, as far as the file tells it.
    pub machine: Option<Machine>,
    /// The rules by which units were converted, each a sentence; the report shows them.
    pub rules: Vec<&'static str>,
    /// What was measured.
    pub cases: Vec<Case>,
    /// Lines that could not be used; the others are kept.
    pub problems: Vec<Problem>,
}

/// One figure of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// The tool's own name for it.
    pub name: String,
    /// Bytes of a message or a block, where the tool says so; else 0.
    pub payload_bytes: u64,
    /// Unit of the record: `ns/op`, `bytes/s`, `ops/s`, …
    pub unit: String,
    /// One for each repetition or process that the file tells apart.
    pub runs: Vec<Run>,
    /// Settings that the tool says it used, by its own names.
    pub facts: BTreeMap<String, String>,
    /// What a reader must know of the figure: that it is only an average, that runs are repetitions inside one process.
    pub notes: Vec<String>,
    /// Is each run only an average of what the tool timed?
    pub is_average: bool,
    /// Percentiles, where the tool gives them but not the observations.
    pub distribution: Option<Distribution>,
    /// What this is one of several ways to do, where the tool compares them with each other: only such cases are compared in a report.
    pub alternative_to: Option<String>,
    /// Why there is no figure, where the tool says that the benchmark failed.
    pub failed: Option<String>,
}

impl Case {
    /// A case without runs.
    pub fn new(name: impl Into<String>, unit: &str) -> Case {
        Case { name: name.into(), unit: unit.into(), ..Case::default() }
    }

    /// The same case, each run of which is one figure that the tool says is an average.
    pub fn averages(mut self, values: impl IntoIterator<Item = f64>, note: impl Into<String>) -> Case {
        self.runs = values.into_iter().map(Run::of).collect();
        self.is_average = true;
        self.notes.push(note.into());
        self
    }

    /// Is a larger figure better?
    pub fn higher_is_better(&self) -> bool {
        self.unit.ends_with("/s")
    }
}

/// One repetition or process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// In the case's unit, in the order of time.
    pub samples: Vec<f64>,
    /// Operations in each sample; 0 where the file does not tell, or they differ.
    pub ops_per_sample: u64,
    /// User and system time of an operation, in nanoseconds, where the tool counts it.
    pub cpu_ns: Option<f64>,
    /// What single operations took, where the tool gives a histogram.
    pub latencies: Option<Latencies>,
    /// What the tool says was wrong with this run.
    pub anomaly: Option<String>,
    /// Further figures, by name with unit.
    pub series: BTreeMap<String, Vec<f64>>,
}

impl Run {
    /// A run of one sample.
    pub fn of(value: f64) -> Run {
        Run { samples: vec![value], ..Run::default() }
    }
}

/// As few observations beyond a percentile say nothing.
const LEAST_BEYOND: f64 = 10.0;

/// The percentiles in the upper half that a tool tells (in percent, with nanoseconds) and that rest on enough observations.
pub fn told_percentiles(
    told: impl Iterator<Item = (f64, f64)>,
    observations: u64,
    max_ns: u64,
) -> Option<Distribution> {
    let percentile = |(percent, ns): (f64, f64)| {
        let p = percent / 100.0;
        let is_known = p >= 0.5 && (1.0 - p) * observations as f64 >= LEAST_BEYOND;
        is_known.then_some(Percentile { p, ns, ci95: None, pooled: true })
    };
    let mut percentiles: Vec<Percentile> = told.filter_map(percentile).collect();
    percentiles.sort_by(|a, b| a.p.total_cmp(&b.p));
    (!percentiles.is_empty()).then_some(Distribution { percentiles, observations, max_ns })
}

/// Why a file, or a line of it, could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the line, from 1; none where it is about the whole file.
    pub line: Option<usize>,
    /// Why, as what follows the name of the file in a sentence.
    pub why: String,
}

impl Problem {
    /// About the file as a whole.
    pub fn of_file(why: impl Into<String>) -> Problem {
        Problem { line: None, why: why.into() }
    }

    /// About a line, counted from 1.
    pub fn at(line: usize, why: impl Into<String>) -> Problem {
        Problem { line: Some(line), why: why.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}
