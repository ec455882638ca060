//! Criterion's files: `sample.json` and `raw.csv` with the samples, `estimates.json` with what it estimated from them.
//!
//! All samples of a benchmark are of one process, so they are one run. The JSON files do not name their benchmark; the path
//! does, as in `target/criterion/copy/4096/new/sample.json`.

use std::path::Path;

use serde::Deserialize;

use super::{Format, is_json_with};
use crate::import::json::{line_of_word, parse};
use crate::import::units::ns_per;
use crate::import::{Case, Foreign, Input, Problem, Run};

pub const FORMAT: Format = Format {
    tool: "criterion",
    about: "Criterion's sample.json, raw.csv or estimates.json: one process is one run",
    accepts: |text| {
        is_json_with(text, &["iters", "times"])
            || is_json_with(text, &["point_estimate"])
            || text.starts_with("group,function,value,")
    },
    read,
};

const RULE: &str = "the time of a sample divided by its iterations is nanoseconds per iteration";

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let mut foreign = Foreign { rules: vec![RULE], ..Foreign::default() };
    if input.text.starts_with("group,") {
        csv(input.text, &mut foreign);
    } else if input.text.contains("\"iters\"") {
        foreign.cases.push(samples(input)?);
    } else {
        foreign.cases.push(estimates(input)?);
    }
    Ok(foreign)
}

#[derive(Deserialize)]
struct Samples {
    iters: Vec<f64>,
    times: Vec<f64>,
}

fn samples(input: Input<'_>) -> Result<Case, Problem> {
    let file: Samples = parse(input.text, "Criterion")?;
    if file.iters.len() != file.times.len() {
        let why = format!("has {} times for {} counts of iterations", file.times.len(), file.iters.len());
        return Err(Problem::of_file(why));
    }
    let pairs = file.times.iter().zip(&file.iters).filter(|(time, iters)| **time > 0.0 && **iters > 0.0);
    let samples: Vec<f64> = pairs.map(|(time, iters)| time / iters).collect();
    let runs = if samples.is_empty() { vec![] } else { vec![Run { samples, ..Run::default() }] };
    Ok(Case { runs, ..Case::new(name(input.path), "ns/op") })
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

fn estimates(input: Input<'_>) -> Result<Case, Problem> {
    let file: Estimates = parse(input.text, "Criterion")?;
    let median = Some(file.median.point_estimate).filter(|median| *median > 0.0);
    let note = "only the median that Criterion estimated; sample.json beside the file has the samples";
    Ok(Case::new(name(input.path), "ns/op").averages(median, note))
}

/// The folders below `criterion` without `new` or `base`; without such a folder, the one or two above the file.
fn name(path: &Path) -> String {
    let folders: Vec<String> = path
        .parent()
        .into_iter()
        .flat_map(Path::components)
        .filter_map(|part| Some(part.as_os_str().to_str()?.to_owned()))
        .collect();
    let end = match folders.last().map(String::as_str) {
        Some("new" | "base" | "change") => folders.len() - 1,
        _ => folders.len(),
    };
    let start = match folders[..end].iter().rposition(|folder| folder == "criterion") {
        Some(place) => place + 1,
        None => end.saturating_sub(1),
    };
    match folders[start..end].join("/") {
        name if name.is_empty() || name == "/" => {
            path.file_stem().map_or_else(|| "unnamed".into(), |stem| stem.to_string_lossy().into_owned())
        }
        name => name,
    }
}

#[derive(Deserialize)]
struct Row {
    group: String,
    function: Option<String>,
    value: Option<String>,
    throughput_num: Option<f64>,
    throughput_type: Option<String>,
    sample_measured_value: f64,
    unit: String,
    iteration_count: f64,
}

fn csv(text: &str, foreign: &mut Foreign) {
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    for row in rows.deserialize::<Row>() {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                let line = error.position().map(|at| at.line() as usize);
                foreign.problems.push(Problem { line, why: "no row of Criterion's raw.csv".into() });
                continue;
            }
        };
        let Some(scale) = ns_per(&row.unit) else {
            let why = format!("`{}` is not a unit of time that is known", row.unit);
            foreign.problems.push(Problem { line: line_of_word(text, &row.unit), why });
            return;
        };
        let value = row.sample_measured_value * scale / row.iteration_count;
        if !(value > 0.0 && value.is_finite()) {
            continue;
        }
        let parts = [Some(row.group), row.function, row.value];
        let name = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let place = foreign.cases.iter().position(|case| case.name == name).unwrap_or_else(|| {
            let bytes = row.throughput_type.as_deref() == Some("bytes");
            let payload_bytes = row.throughput_num.filter(|_| bytes).map_or(0, |bytes| bytes as u64);
            let runs = vec![Run::default()];
            foreign.cases.push(Case { payload_bytes, runs, ..Case::new(name, "ns/op") });
            foreign.cases.len() - 1
        });
        foreign.cases[place].runs[0].samples.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_the_benchmark() {
        for (path, expected) in [
            ("target/criterion/copy/4096/new/sample.json", "copy/4096"),
            ("/x/criterion/getppid/base/estimates.json", "getppid"),
            ("results/copy/new/sample.json", "copy"),
            ("sample.json", "sample"),
        ] {
            assert_eq!(name(Path::new(path)), expected);
        }
    }
}
