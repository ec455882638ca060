//! What several files say, put together and made into the lines of one record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{
    self as record, ALTERNATIVE_TO, CaseId, Distribution, End, Header, Latencies, Line, Machine, PerOp,
    Regime, SCHEMA, Skipped, Summary, Tool,
};
use weighbridge_stats::{median, run_value, summarize};

use crate::derive;
use crate::import::{Case, Foreign, Input, Problem, Run};

/// The pattern of every imported case.
const PATTERN: &str = "imported";
/// What a tool does not say.
const UNKNOWN: &str = "unknown";

/// Files of other tools on their way into one record.
#[derive(Clone, Debug, Default)]
pub struct Import {
    files: Vec<(PathBuf, Foreign)>,
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

impl Import {
    /// Takes a file; what of it could not be used comes back.
    ///
    /// # Errors
    /// Nothing of the file can be used, or it is of another machine than the files before it.
    pub fn add(&mut self, input: Input<'_>) -> Result<Vec<Problem>, Problem> {
        let mut foreign = crate::import::read(input)?;
        if let Some(machine) = &foreign.machine {
            let others = self.files.iter().filter_map(|(path, other)| Some((path, other.machine.as_ref()?)));
            for (path, other) in others {
                if let Some((here, there)) = difference(machine, other) {
                    let path = path.display();
                    return Err(Problem::of_file(format!(
                        "is of the machine `{here}`, and `{path}` of `{there}`; import each machine into a record of its own"
                    )));
                }
            }
        }
        let problems = std::mem::take(&mut foreign.problems);
        self.files.push((input.path.to_owned(), foreign));
        Ok(problems)
    }

    /// Was no file taken?
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// How many figures, and of which tools.
    pub fn tools(&self) -> BTreeSet<&'static str> {
        self.files.iter().map(|(_, foreign)| foreign.tool).collect()
    }

    /// The lines of the record, from its header to its end.
    pub fn lines(&self, about: &About) -> Vec<Line> {
        let mut lines = vec![Line::Header(Box::new(self.header(about)))];
        let mut round = 0;
        for (id, case) in self.cases() {
            lines.extend(case.failed.iter().map(|why| {
                let step = "import".to_owned();
                Line::Skipped(Skipped { case: id.clone(), step, why: why.clone() })
            }));
            if case.runs.is_empty() {
                continue;
            }
            lines.push(Line::Case(case_line(&id, &case)));
            let runs = case.runs.iter().enumerate().map(|(index, run)| {
                // No tool interleaves its runs with those of another benchmark, so none share a round.
                round += 1;
                run_line(&id, index as u32, round - 1, run)
            });
            let runs: Vec<record::Run> = runs.collect();
            let summary = summary(&id, &case, &runs);
            lines.extend(runs.into_iter().map(Line::Run));
            lines.push(Line::Summary(summary));
        }
        lines.push(Line::End(End { complete: true, elapsed_s: 0.0 }));
        lines
    }

    fn header(&self, about: &About) -> Header {
        let foreign = || self.files.iter().map(|(_, foreign)| foreign);
        let unique = |texts: Vec<String>| {
            let texts: BTreeSet<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            texts.into_iter().collect::<Vec<_>>().join(", ")
        };
        let version = unique(foreign().map(|foreign| foreign.version.clone()).collect());
        let tool = Tool {
            name: self.tools().into_iter().collect::<Vec<_>>().join(", "),
            version: if version.is_empty() { "of unknown version".into() } else { version },
            commit: about.commit.clone(),
            profile: UNKNOWN.into(),
        };
        let mut settings = BTreeMap::new();
        let files: Vec<String> = self.files.iter().map(|(path, _)| path.display().to_string()).collect();
        settings.insert("imported-files".into(), files.join(", "));
        settings.insert("imported-with".into(), about.importer.clone());
        let rules: BTreeSet<&str> = foreign().flat_map(|foreign| foreign.rules.iter().copied()).collect();
        settings.insert("imported-units".into(), rules.into_iter().collect::<Vec<_>>().join("; "));
        let told = foreign().filter_map(|foreign| foreign.started.clone()).min();
        if told.is_none() {
            let sentence = "when the file was last changed; it does not say when it was measured";
            settings.insert("started".into(), sentence.into());
        }
        Header {
            schema: SCHEMA,
            tool,
            started: told.unwrap_or_else(|| about.file_time.clone()),
            command: about.command.clone(),
            seed: 0,
            settings,
            machine: self.machine(),
            ..Header::default()
        }
    }

    /// The machine that all files tell; unknown where one does not.
    fn machine(&self) -> Machine {
        let told: Option<Vec<&Machine>> =
            self.files.iter().map(|(_, foreign)| foreign.machine.as_ref()).collect();
        let mut machine = match told.as_deref() {
            Some([first, rest @ ..]) => {
                rest.iter().fold((*first).clone(), |known, other| completed(known, other))
            }
            _ => {
                let silent = self.files.iter().filter(|(_, foreign)| foreign.machine.is_none());
                let silent: Vec<String> = silent.map(|(path, _)| format!("`{}`", path.display())).collect();
                let missing = vec![format!("machine: {} does not tell it", silent.join(", "))];
                Machine { missing, ..Machine::default() }
            }
        };
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

    /// The figures of all files; one that several files have gets the runs of all of them.
    fn cases(&self) -> Vec<(CaseId, Case)> {
        let mut all: Vec<(&'static str, Vec<&Path>, Case)> = Vec::new();
        for (path, foreign) in &self.files {
            let folder = path.parent().unwrap_or(Path::new(""));
            for case in &foreign.cases {
                let is_same = |known: &Case| {
                    known.name == case.name
                        && known.unit == case.unit
                        && known.payload_bytes == case.payload_bytes
                };
                match all.iter_mut().find(|(tool, _, known)| *tool == foreign.tool && is_same(known)) {
                    None => all.push((foreign.tool, vec![folder], case.clone())),
                    Some((tool, folders, known)) => {
                        // Criterion writes samples and estimates of one process into one folder.
                        let same_process = *tool == "criterion" && folders.contains(&folder);
                        folders.push(folder);
                        merge(known, case, same_process);
                    }
                }
            }
        }
        let mut taken = BTreeSet::new();
        all.into_iter().map(|(tool, _, case)| (id(tool, &case, &mut taken), case)).collect()
    }
}

fn merge(known: &mut Case, case: &Case, same_process: bool) {
    match (same_process, known.is_average, case.is_average) {
        (true, true, false) => *known = case.clone(),
        (true, ..) => {}
        (false, ..) => {
            known.runs.extend(case.runs.iter().cloned());
            known.is_average |= case.is_average;
            for note in &case.notes {
                if !known.notes.contains(note) {
                    known.notes.push(note.clone());
                }
            }
            // Percentiles of several runs cannot be put together.
            known.distribution = None;
            known.failed = known.failed.take().or_else(|| case.failed.clone());
        }
    }
}

/// `imported/hyperfine:sleep_0.01/0/unknown`: no tool says where its processes ran.
fn id(tool: &str, case: &Case, taken: &mut BTreeSet<CaseId>) -> CaseId {
    let safe = |c: char| match c {
        '/' => ':',
        c if c.is_whitespace() || c.is_control() => '_',
        c => c,
    };
    let name: String = case.name.chars().map(safe).collect();
    let with = |end: &str| CaseId::new(PATTERN, &format!("{tool}:{name}{end}"), case.payload_bytes, UNKNOWN);
    let numbered = (2_u32..).map(|number| with(&format!("#{number}")));
    let id = std::iter::once(with("")).chain(numbered).find(|id| !taken.contains(id));
    let id = id.expect("numbers do not end");
    taken.insert(id.clone());
    id
}

/// What two machines call themselves, where that differs.
fn difference(here: &Machine, there: &Machine) -> Option<(String, String)> {
    let texts = |machine: &Machine| {
        [machine.hostname.clone(), machine.cpu_model.clone(), machine.kernel.clone(), machine.arch.clone()]
    };
    let differ = |(a, b): &(String, String)| !a.is_empty() && !b.is_empty() && a != b;
    texts(here).into_iter().zip(texts(there)).find(differ)
}

/// With what the other one tells besides.
fn completed(mut known: Machine, other: &Machine) -> Machine {
    for (text, from) in [
        (&mut known.hostname, &other.hostname),
        (&mut known.cpu_model, &other.cpu_model),
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
    known
}

fn case_line(id: &CaseId, case: &Case) -> record::Case {
    let notes = (!case.notes.is_empty()).then(|| case.notes.join("; "));
    let told =
        [("name", Some(case.name.clone())), (ALTERNATIVE_TO, case.alternative_to.clone()), ("note", notes)];
    let mut facts = case.facts.clone();
    facts.extend(told.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))));
    record::Case {
        case: id.clone(),
        pattern: id.pattern.clone(),
        mechanism: id.mechanism.clone(),
        payload_bytes: id.payload_bytes,
        placement: id.placement.clone(),
        resolved_placement: UNKNOWN.into(),
        unit: case.unit.clone(),
        higher_is_better: case.higher_is_better(),
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
        latencies: of.latencies.clone(),
        series: of.series.clone(),
        flags: of.anomaly.iter().map(|anomaly| format!("anomaly: {anomaly}")).collect(),
        ..record::Run::default()
    }
}

fn summary(id: &CaseId, case: &Case, runs: &[record::Run]) -> Summary {
    let samples: Vec<&[f64]> = runs.iter().map(|run| &run.samples[..]).collect();
    let summed = summarize(&samples);
    let finite = |spread: f64| if spread.is_finite() { spread } else { 0.0 };
    let cpu_ns: Vec<f64> = runs.iter().map(|run| run.per_op.cpu_ns).collect();
    let latencies: Vec<&Latencies> = runs.iter().filter_map(|run| run.latencies.as_ref()).collect();
    let anomalies: BTreeSet<String> = case.runs.iter().filter_map(|run| run.anomaly.clone()).collect();
    Summary {
        ci95: summed.ci95.map(<[f64; 2]>::from),
        range: summed.range.into(),
        spread_between: finite(summed.spread_between),
        spread_within: finite(summed.spread_within),
        per_op: PerOp { cpu_ns: median(&cpu_ns), ..PerOp::default() },
        series: derive::series_medians(runs),
        series_ci95: derive::series_intervals(runs),
        distribution: Distribution::of(&latencies, None).or_else(|| case.distribution.clone()),
        anomalies: anomalies.into_iter().collect(),
        regimes: summed.regimes.into_iter().map(Regime::from).collect(),
        ..Summary::new(id.clone(), case.unit.clone(), runs.len() as u32, summed.median)
    }
}
