//! hyperfine's JSON (`--export-json`): each time is a process of its own, and so a run.
//!
//! Identity: the command, or the name that `--command-name` gives it, and the values of its parameters (`--parameter-scan`,
//! `--parameter-list`), as hyperfine's README says; commands that share a name differ in these alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Format, Json, each};
use crate::import::entry::{Entry, Identity, Outcome, Problem, Run};
use crate::import::found::Found;
use crate::import::json::Document;

pub const FORMAT: Format = Format {
    tool: "hyperfine",
    about: "hyperfine --export-json: each execution of the command is a run",
    rules: &["seconds become nanoseconds per command"],
    json: Some(Json { fields: &[&["results"]], read: |documents, found| each(documents, found, read) }),
    text: None,
};

/// hyperfine itself says how many times faster the fastest command of an invocation is than the others. Of more commands than this the
/// comparison of each with each says nothing that a reader can take in.
const MOST_COMPARED: usize = 64;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Command {
    command: String,
    mean: Option<f64>,
    median: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    times: Option<Vec<f64>>,
    memory_usage_byte: Option<Vec<f64>>,
    exit_codes: Option<Vec<Option<i32>>>,
    parameters: Option<BTreeMap<String, Value>>,
    /// The value of the only parameter, before there could be several.
    parameter: Option<Value>,
}

fn read(document: &Document<'_>, found: &mut Found) -> Result<(), Problem> {
    let file: File<'_> = document.parse("hyperfine")?;
    let mut results = Vec::new();
    for raw in file.results {
        match document.entry::<Command>(raw, "hyperfine") {
            Ok(command) => results.push((document.line_of(raw), command)),
            Err(problem) => found.problem(problem.line.unwrap_or(document.line), problem.why),
        }
    }
    let is_compared = (2..=MOST_COMPARED).contains(&results.len());
    let names: Vec<String> = results.iter().map(|(_, command)| command.to_string()).collect();
    let alternative_to: Option<Arc<str>> =
        is_compared.then(|| format!("one of: {}", names.join("; ")).into());
    for (line, command) in results {
        found.add(Entry { alternative_to: alternative_to.clone(), ..command.entry(line) });
    }
    Ok(())
}

/// With its parameters.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command)?;
        self.parameters().iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl Command {
    fn parameters(&self) -> BTreeMap<String, String> {
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let several = self.parameters.iter().flatten().map(|(name, value)| (name.as_str(), value));
        let all = several.chain(self.parameter.as_ref().map(|value| ("parameter", value)));
        all.map(|(name, value)| (name.to_owned(), shown(value))).collect()
    }

    fn entry(self, line: usize) -> Entry {
        let identity = Identity::new(&self.command, "ns/command").with(self.parameters());

        let times = self.times.unwrap_or_default();
        if times.is_empty() {
            let (name, seconds) = self.median.map_or(("mean", self.mean), |median| ("median", Some(median)));
            return match seconds {
                Some(seconds) => Entry::average(
                    line,
                    identity,
                    seconds * 1e9,
                    &format!("only the {name} over the executions; the file has no times"),
                ),
                None => {
                    Entry::new(line, identity, Outcome::Skipped("it has neither times nor their mean".into()))
                }
            };
        }
        let cpu_ns = self.user.zip(self.system).map(|(user, system)| (user + system) * 1e9);
        let codes = self.exit_codes.unwrap_or_default();
        let memory = self.memory_usage_byte.unwrap_or_default();
        let run = |(index, seconds): (usize, &f64)| {
            let mut run = Run { cpu_ns, ops_per_sample: 1, ..Run::of(seconds * 1e9) };
            run.anomaly = match codes.get(index) {
                Some(Some(0)) | None => None,
                Some(Some(code)) => Some(format!("the command ended with exit code {code}")),
                Some(None) => Some("the command was ended by a signal".into()),
            };
            if let Some(bytes) = memory.get(index) {
                run.further("memory_usage_byte", *bytes);
            }
            run
        };
        let runs: Vec<Run> = times.iter().enumerate().map(run).collect();
        let mut notes: Vec<String> =
            cpu_ns.map(|_| "CPU time is the mean over the executions".to_owned()).into_iter().collect();
        let zeros = times.iter().filter(|time| **time == 0.0).count();
        if zeros > 0 {
            notes.push(format!("{zeros} of {} times are 0: the command took no longer than the shell, which hyperfine subtracts", times.len()));
        }
        let outcome = match times.iter().find(|time| **time < 0.0) {
            Some(time) => Outcome::Skipped(format!("a time of {time} s is no duration")),
            None => Outcome::Runs(runs),
        };
        Entry { notes, ..Entry::new(line, identity, outcome) }
    }
}
