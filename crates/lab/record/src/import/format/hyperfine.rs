//! hyperfine's JSON (`--export-json`): each time is a process of its own, and so a run.

use serde::Deserialize;

use super::{Format, is_json_with};
use crate::import::json::parse;
use crate::import::{Case, Foreign, Input, Problem, Run};

pub const FORMAT: Format = Format {
    tool: "hyperfine",
    about: "hyperfine --export-json: each execution of the command is a run",
    accepts: |text| is_json_with(text, &["results", "command"]),
    read,
};

const RULE: &str = "seconds become nanoseconds per command";

#[derive(Deserialize)]
struct File {
    results: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    command: String,
    mean: Option<f64>,
    median: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    #[serde(default)]
    times: Vec<f64>,
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
}

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let file: File = parse(input.text, "hyperfine")?;
    // The commands of one invocation are alternatives: hyperfine itself says how many times faster the fastest of them is.
    let commands: Vec<&str> = file.results.iter().map(|entry| entry.command.as_str()).collect();
    let alternative_to = (commands.len() > 1).then(|| format!("one of: {}", commands.join("; ")));
    let cases = file.results.into_iter();
    let cases = cases.map(|entry| Case { alternative_to: alternative_to.clone(), ..case(entry) }).collect();
    Ok(Foreign { rules: vec![RULE], cases, ..Foreign::default() })
}

fn case(entry: Entry) -> Case {
    let case = Case::new(&entry.command, "ns/command");
    let cpu_ns = entry.user.zip(entry.system).map(|(user, system)| (user + system) * 1e9);
    if entry.times.is_empty() {
        let (average, what) = match entry.median {
            Some(median) => (Some(median), "median"),
            None => (entry.mean, "mean"),
        };
        let note = format!("only the {what} over the executions; the file has no times");
        return case.averages(average.map(|s| s * 1e9), note);
    }
    let code = |index: usize| entry.exit_codes.get(index).copied();
    let run = |(index, seconds): (usize, &f64)| Run {
        samples: vec![seconds * 1e9],
        ops_per_sample: 1,
        cpu_ns,
        anomaly: match code(index) {
            Some(Some(0)) | None => None,
            Some(Some(code)) => Some(format!("the command ended with exit code {code}")),
            Some(None) => Some("the command was ended by a signal".into()),
        },
        ..Run::default()
    };
    let runs = entry.times.iter().enumerate().filter(|(_, time)| **time > 0.0).map(run).collect();
    let notes = cpu_ns.map(|_| "CPU time is the mean over the executions".to_owned()).into_iter().collect();
    Case { runs, notes, ..case }
}
