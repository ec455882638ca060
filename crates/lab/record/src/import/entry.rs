//! An entry of a file of another tool: which benchmark it is of, where it stands, and its values or why it has none.
//!
//! Entries of one [`Identity`] are repetitions and become one figure; entries of different identities never do.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::{Distribution, Latencies, Percentile};

/// A file of another tool.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its path. Criterion's files do not name their benchmark, their path does; nothing is opened here.
    pub path: &'a Path,
    /// Its content.
    pub text: &'a str,
}

impl<'a> Input<'a> {
    /// A file with its content, which must be UTF-8 text; a byte order mark is taken off.
    ///
    /// # Errors
    /// The content is of another encoding, or binary.
    pub fn new(path: &'a Path, content: &'a [u8]) -> Result<Input<'a>, Problem> {
        let is_utf16 = content.starts_with(&[0xff, 0xfe]) || content.starts_with(&[0xfe, 0xff]);
        // Without a mark, every other byte of ASCII text is zero.
        if is_utf16 || matches!(content, [0, 1..=255, 0, 1..=255, ..] | [1..=255, 0, 1..=255, 0, ..]) {
            return Err(Problem::of_file(
                "is UTF-16 text, and UTF-8 is needed; convert it with `iconv -f UTF-16 -t UTF-8 FILE > NEW-FILE`",
            ));
        }
        let (valid, byte) = match std::str::from_utf8(content) {
            Ok(text) => match text.find('\0') {
                None => return Ok(Input { path, text: text.strip_prefix('\u{feff}').unwrap_or(text) }),
                Some(at) => (at, 0),
            },
            Err(error) => (error.valid_up_to(), content[error.valid_up_to()]),
        };
        let line = content[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        let why = format!(
            "is not UTF-8 text: it has the byte {byte:#04x}; if it is text of another encoding, convert it, as with `iconv -f ISO-8859-1 -t UTF-8 \
             FILE > NEW-FILE`"
        );
        Err(Problem::at(line, why))
    }
}

/// Settings of a benchmark, by the names that its tool has for them. Entries share them.
pub type Settings = Arc<BTreeMap<String, String>>;

/// What tells a benchmark from all others of its tool. The reader of each format says where its documentation defines that.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The tool's own name for it.
    pub name: String,
    /// An end of the name that is shown only where measured benchmarks differ in it: `-8` of Go's `BenchmarkPut-8`.
    pub suffix: String,
    /// Settings that belong to the benchmark; shown in its name where that alone does not tell it from another.
    pub settings: Settings,
    /// Unit of the record: `ns/op`, `bytes/s`, `ops/s`, …
    pub unit: Cow<'static, str>,
}

impl Identity {
    /// Of a tool that tells benchmarks apart by their names alone.
    pub fn new(name: impl Into<String>, unit: &'static str) -> Identity {
        Identity { name: name.into(), unit: unit.into(), ..Identity::default() }
    }

    /// The same benchmark with these settings.
    pub fn with<N: Into<String>, V: Into<String>>(
        self,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Identity {
        let settings = settings.into_iter().map(|(name, value)| (name.into(), value.into()));
        Identity { settings: Arc::new(settings.collect()), ..self }
    }
}

/// One entry of a file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The line of the file on which it begins, from 1.
    pub line: usize,
    /// Which benchmark it is of.
    pub identity: Identity,
    /// What the tool says of it.
    pub outcome: Outcome,
    /// Bytes of a message or a block, where the tool says so; else 0.
    pub payload_bytes: u64,
    /// What the tool says of it besides, by its own names.
    pub facts: BTreeMap<String, String>,
    /// What a reader must know of the figure: that it is only an average, that runs are repetitions inside one process.
    pub notes: Vec<String>,
    /// Percentiles, where the tool gives them but not the observations.
    pub distribution: Option<Distribution>,
    /// What this is one of several ways to do, where the tool compares them with each other: only such cases are compared in a report.
    pub alternative_to: Option<Arc<str>>,
}

/// What a tool says of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// One for each repetition or process that the entry tells apart.
    Runs(Vec<Run>),
    /// A statistic over repetitions. It is no further measurement, and is used where their values are absent.
    Statistic(Statistic),
    /// There is no figure, and why.
    Skipped(String),
}

/// A statistic over the repetitions of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistic {
    /// The tool's name for it.
    pub name: String,
    /// Its value, where a record can hold it.
    pub value: Option<f64>,
}

impl Statistic {
    /// The median is the figure of a record, the mean the next best, and others are none.
    pub fn rank(&self) -> u8 {
        match (self.name.as_str(), self.value) {
            ("median", Some(_)) => 0,
            ("mean", Some(_)) => 1,
            _ => 2,
        }
    }
}

impl Entry {
    /// An entry of which no more is known than this.
    pub fn new(line: usize, identity: Identity, outcome: Outcome) -> Entry {
        Entry {
            line,
            identity,
            outcome,
            payload_bytes: 0,
            facts: BTreeMap::new(),
            notes: Vec::new(),
            distribution: None,
            alternative_to: None,
        }
    }

    /// An entry with one figure, of which the tool says how it came about; without a figure, why a record cannot hold it.
    pub fn average(line: usize, identity: Identity, value: f64, note: &str) -> Entry {
        match figure(value, &identity.unit) {
            Ok(value) => Entry {
                notes: vec![note.into()],
                ..Entry::new(line, identity, Outcome::Runs(vec![Run::of(value)]))
            },
            Err(why) => Entry::new(line, identity, Outcome::Skipped(why)),
        }
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
    pub latencies: Option<Box<Latencies>>,
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

    /// A further figure of the run. A record has no place for one that is not finite.
    pub fn further(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            // In the name of a series, a dot ends the name of what it is of.
            self.series.insert(name.replace('.', "_"), vec![value]);
        }
    }
}

/// A figure that a record can hold, or why it is none.
///
/// # Errors
/// It is not positive and finite.
pub fn figure(value: f64, unit: &str) -> Result<f64, String> {
    let is_figure = value > 0.0 && value.is_finite();
    if is_figure {
        Ok(value)
    } else {
        Err(format!("{value} {unit} is no figure that a record can hold: it must be above 0 and finite"))
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
