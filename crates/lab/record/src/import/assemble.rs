//! What several files say, put together and made into the lines of one record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::{
    self as record, ALTERNATIVE_TO, CaseId, Distribution, End, Header, Latencies, Line, Machine, PerOp,
    Regime, SCHEMA, Skipped, StoppedBy, Summary, Tool,
};
use weighbridge_stats::{median, run_value, summarize};

use crate::derive;
use crate::import::benchmarks::{Benchmark, Benchmarks};
use crate::import::entry::{Input, Problem, Run};
use crate::import::format::{FORMATS, read};
use crate::import::found::{Started, complete, difference};

/// What a tool does not say.
const UNKNOWN: &str = "unknown";

/// Files of other tools on their way into one record.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Each with the machine that it names.
    files: Vec<(PathBuf, Option<Machine>)>,
    tools: BTreeSet<&'static str>,
    versions: BTreeSet<String>,
    started: Option<Started>,
    benchmarks: Benchmarks,
}

/// What only the importing program knows.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Name and version of the importing program.
    pub importer: String,
    /// Its command line.
    pub command: Vec<String>,
    /// When the first file was last changed, RFC 3339: taken where no file says when it was measured.
    pub file_time: String,
    /// The commit that was measured, where the user says it.
    pub commit: Option<String>,
}

/// What became of the entries of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// How many there are.
    pub entries: usize,
    /// Those without a figure, and why; the record has them as skipped.
    pub skipped: Vec<Problem>,
    /// Those that could not be used, and why the file could not where it could not.
    pub problems: Vec<Problem>,
}

impl Import {
    /// Takes what can be used of a file.
    pub fn add(&mut self, input: Input<'_>) -> Added {
        let found = match read(input) {
            Ok(found) => found,
            Err(problem) => return Added { problems: vec![problem], ..Added::default() },
        };
        let mut added = Added { entries: found.entries, skipped: found.skipped, problems: found.problems };
        if found.benchmarks.is_empty() {
            if added.problems.is_empty() {
                added
                    .problems
                    .push(Problem::of_file(format!("is {}'s output without any benchmark", found.tool)));
            }
            return added;
        }
        let known = self.files.iter().filter_map(|(path, other)| Some((path, other.as_ref()?)));
        let differs = |(path, other)| Some((path, difference(found.machine.as_ref()?, other)?));
        if let Some((path, (here, there))) = known.filter_map(differs).next() {
            let path = path.display();
            added.problems.push(Problem::of_file(format!(
                "is of the machine `{here}`, and `{path}` of `{there}`; import each machine into a record of its own"
            )));
            return added;
        }
        self.files.push((input.path.to_owned(), found.machine));
        self.tools.insert(found.tool);
        self.versions.extend(found.versions);
        self.started = self.started.take().into_iter().chain(found.started).min();
        self.benchmarks.absorb(found.benchmarks);
        added
    }

    /// Was no file taken?
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The tools whose output was taken.
    pub fn tools(&self) -> &BTreeSet<&'static str> {
        &self.tools
    }

    /// The lines of the record, from its header to its end.
    pub fn into_lines(self, about: &About) -> impl Iterator<Item = Line> + use<> {
        let header = Line::Header(Box::new(self.header(about)));
        let mut round = 0;
        let cases = self.benchmarks.named().flat_map(move |(id, benchmark)| {
            let first_round = round;
            // No tool interleaves its runs with those of another benchmark, so none share a round.
            round += benchmark.runs.len() as u32;
            lines(&id, benchmark, first_round)
        });
        let end = Line::End(End { complete: true, elapsed_s: 0.0 });
        std::iter::once(header).chain(cases).chain([end])
    }

    fn header(&self, about: &About) -> Header {
        let joined = |texts: Vec<&str>, between: &str| texts.join(between);
        let version =
            joined(self.versions.iter().map(String::as_str).filter(|of| !of.is_empty()).collect(), ", ");
        let tool = Tool {
            name: joined(self.tools.iter().copied().collect(), ", "),
            version: if version.is_empty() { "of unknown version".into() } else { version },
            commit: about.commit.clone(),
            profile: UNKNOWN.into(),
        };
        let files: Vec<String> = self.files.iter().map(|(path, _)| path.display().to_string()).collect();
        let rules = FORMATS.iter().filter(|format| self.tools.contains(format.tool));
        let rules: BTreeSet<&str> = rules.flat_map(|format| format.rules.iter().copied()).collect();
        let mut settings = BTreeMap::from([
            ("imported-files".to_owned(), files.join(", ")),
            ("imported-with".to_owned(), about.importer.clone()),
            ("imported-units".to_owned(), joined(rules.into_iter().collect(), "; ")),
        ]);
        let doubt = match &self.started {
            None => Some("when the file was last changed; it does not say when it was measured"),
            Some(started) if started.is_local => {
                Some("by a clock whose time zone the file does not tell, read as UTC")
            }
            Some(_) => None,
        };
        settings.extend(doubt.map(|doubt| ("started".to_owned(), doubt.to_owned())));
        Header {
            schema: SCHEMA,
            tool,
            started: self.started.as_ref().map_or(&about.file_time, |started| &started.at).clone(),
            command: about.command.clone(),
            seed: 0,
            settings,
            machine: self.machine(),
            ..Header::default()
        }
    }

    /// The machine that all files tell; unknown where one does not.
    fn machine(&self) -> Machine {
        let mut machine = Machine::default();
        let silent: Vec<String> = self
            .files
            .iter()
            .filter(|(_, of)| of.is_none())
            .map(|(path, _)| format!("`{}`", path.display()))
            .collect();
        if silent.is_empty() {
            self.files.iter().filter_map(|(_, of)| of.as_ref()).for_each(|of| complete(&mut machine, of));
        } else {
            machine.missing.push(format!("machine: {} does not tell it", silent.join(", ")));
        }
        let texts = [
            &mut machine.hostname,
            &mut machine.kernel,
            &mut machine.kernel_build,
            &mut machine.arch,
            &mut machine.cpu_model,
            &mut machine.virtualisation,
        ];
        for text in texts.into_iter().filter(|text| text.is_empty()) {
            *text = UNKNOWN.into();
        }
        machine
    }
}

/// The lines of a benchmark: why entries have no figure, and its case, runs and summary.
fn lines(id: &CaseId, benchmark: Benchmark, first_round: u32) -> Vec<Line> {
    let skipped = |(why, count): (&String, &usize)| {
        let why = if *count > 1 { format!("{why} ({count} times)") } else { why.clone() };
        Line::Skipped(Skipped { case: id.clone(), step: "import".into(), why })
    };
    let mut lines: Vec<Line> = benchmark.skipped.iter().map(skipped).collect();
    if benchmark.runs.is_empty() {
        return lines;
    }
    lines.push(Line::Case(case_line(id, &benchmark)));
    let run = |(run, of): (u32, &Run)| run_line(id, run, first_round + run, of);
    let runs: Vec<record::Run> = (0..).zip(&benchmark.runs).map(run).collect();
    let summary = summary(id, &benchmark, &runs);
    lines.extend(runs.into_iter().map(Line::Run));
    lines.push(Line::Summary(summary));
    lines
}

fn case_line(id: &CaseId, benchmark: &Benchmark) -> record::Case {
    let identity = &benchmark.identity;
    let notes = (!benchmark.notes.is_empty()).then(|| benchmark.notes.join("; "));
    let told = [
        ("name", Some(format!("{}{}", identity.name, identity.suffix))),
        (ALTERNATIVE_TO, benchmark.alternative_to.as_deref().map(str::to_owned)),
        ("note", notes),
    ];
    let mut facts = benchmark.facts.clone();
    facts.extend(told.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))));
    record::Case {
        case: id.clone(),
        pattern: id.pattern.clone(),
        mechanism: id.mechanism.clone(),
        payload_bytes: id.payload_bytes,
        placement: id.placement.clone(),
        resolved_placement: UNKNOWN.into(),
        unit: identity.unit.clone().into_owned(),
        higher_is_better: identity.unit.ends_with("/s"),
        measured_alone: Some("measured by another tool, without a hub".into()),
        facts,
        ..record::Case::default()
    }
}

fn run_line(id: &CaseId, run: u32, round: u32, of: &Run) -> record::Run {
    record::Run {
        case: id.clone(),
        run,
        round,
        value: run_value(&of.samples),
        samples: of.samples.clone(),
        ops_per_sample: of.ops_per_sample,
        per_op: PerOp { cpu_ns: of.cpu_ns.unwrap_or(0.0), ..PerOp::default() },
        latencies: of.latencies.as_deref().cloned(),
        series: of.series.clone(),
        flags: of.anomaly.iter().map(|anomaly| format!("anomaly: {anomaly}")).collect(),
        ..record::Run::default()
    }
}

fn summary(id: &CaseId, benchmark: &Benchmark, runs: &[record::Run]) -> Summary {
    let samples: Vec<&[f64]> = runs.iter().map(|run| &run.samples[..]).collect();
    let summed = summarize(&samples);
    let finite = |spread: f64| if spread.is_finite() { spread } else { 0.0 };
    let cpu_ns: Vec<f64> = runs.iter().map(|run| run.per_op.cpu_ns).collect();
    let latencies: Vec<&Latencies> = runs.iter().filter_map(|run| run.latencies.as_ref()).collect();
    let anomalies: BTreeSet<String> = benchmark.runs.iter().filter_map(|run| run.anomaly.clone()).collect();
    Summary {
        ci95: summed.ci95.map(<[f64; 2]>::from),
        range: summed.range.into(),
        spread_between: finite(summed.spread_between),
        spread_within: finite(summed.spread_within),
        stopped_by: StoppedBy::Tool,
        per_op: PerOp { cpu_ns: median(&cpu_ns), ..PerOp::default() },
        series: derive::series_medians(runs),
        series_ci95: derive::series_intervals(runs),
        distribution: Distribution::of(&latencies, None).or_else(|| benchmark.distribution.clone()),
        anomalies: anomalies.into_iter().collect(),
        regimes: summed.regimes.into_iter().map(Regime::from).collect(),
        ..Summary::new(id.clone(), &*benchmark.identity.unit, runs.len() as u32, summed.median)
    }
}
