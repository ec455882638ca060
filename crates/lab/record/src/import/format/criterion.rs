//! Criterion's files: `sample.json` and `raw.csv` with the samples, `estimates.json` with what it estimated from them; and the messages of
//! `cargo criterion --message-format=json`.
//!
//! All samples of a benchmark are of one process, so they are one run; files of one folder are accounts of the same process.
//!
//! Identity: group, function and value, which Criterion makes into the path (its user guide, "Command-Line Output" and "Custom Measurements"):
//! the JSON files do not name their benchmark, as in `target/criterion/copy/4096/new/sample.json`. The last folder is the baseline (`new`,
//! `base`, or that of `--save-baseline`), another measurement of the same benchmark.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Format, Json, Text};
use crate::import::entry::{Entry, Identity, Outcome, Problem, Run, Statistic, figure};
use crate::import::found::Found;
use crate::import::json::Document;
use crate::import::units::ns_per;

pub const FORMAT: Format = Format {
    tool: "criterion",
    about: "Criterion's sample.json, raw.csv or estimates.json, and cargo criterion --message-format=json: one process is one run",
    rules: &["the time of a sample divided by its iterations is nanoseconds per iteration"],
    json: Some(Json {
        fields: &[&["iters", "times"], &["mean", "median", "std_dev"], &["reason", "id", "measured_values"]],
        read,
    }),
    text: Some(Text {
        example: "group,function,value,throughput_num,…",
        is_line: |line| line.starts_with("group,function,value,"),
        hint: "criterion",
        read: csv,
    }),
};

const NAME: &str = "Criterion";

fn read(documents: &[&Document<'_>], found: &mut Found) {
    for (number, document) in documents.iter().enumerate() {
        let path = found.path.clone();
        let has = |field| document.fields.contains(&field);
        let entry = if has("reason") {
            found.session(&path, number, "");
            message(document)
        } else {
            let form = if has("iters") { "sample.json" } else { "estimates.json" };
            found.session(path.parent().unwrap_or(&path), number, form);
            if has("iters") { samples(document, &path) } else { estimates(document, &path) }
        };
        match entry {
            Ok(entry) => found.add(entry),
            Err(problem) => found.problem(problem.line.unwrap_or(document.line), problem.why),
        }
    }
}

#[derive(Deserialize)]
struct Samples {
    iters: Vec<f64>,
    times: Vec<f64>,
}

fn samples(document: &Document<'_>, path: &Path) -> Result<Entry, Problem> {
    let Samples { iters, times } = document.parse(NAME)?;
    Ok(Entry::new(document.line, identity(path), run(&times, &iters, 1.0)))
}

/// One run of all samples, or why they are none.
fn run(times: &[f64], iterations: &[f64], ns: f64) -> Outcome {
    if times.len() != iterations.len() || times.is_empty() {
        return Outcome::Skipped(format!(
            "it has {} times for {} counts of iterations",
            times.len(),
            iterations.len()
        ));
    }
    let samples = times.iter().zip(iterations).map(|(time, iterations)| figure(time * ns / iterations, "ns"));
    match samples.collect() {
        Ok(samples) => Outcome::Runs(vec![Run { samples, ..Run::default() }]),
        Err(why) => Outcome::Skipped(why),
    }
}

#[derive(Deserialize)]
struct Estimates {
    mean: Estimate,
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

fn estimates(document: &Document<'_>, path: &Path) -> Result<Entry, Problem> {
    let Estimates { mean, median } = document.parse(NAME)?;
    let value = |of: Estimate| figure(of.point_estimate, "ns").ok();
    let (name, value) =
        value(median).map_or_else(|| ("mean", value(mean)), |median| ("median", Some(median)));
    let statistic = Outcome::Statistic(Statistic { name: name.into(), value });
    Ok(Entry::new(document.line, identity(path), statistic))
}

#[derive(Deserialize)]
struct Message {
    id: String,
    iteration_count: Vec<f64>,
    measured_values: Vec<f64>,
    unit: String,
    #[serde(default)]
    throughput: Vec<Throughput>,
}

#[derive(Deserialize)]
struct Throughput {
    per_iteration: u64,
    unit: String,
}

fn message(document: &Document<'_>) -> Result<Entry, Problem> {
    let of: Message = document.parse("cargo criterion")?;
    let ns = ns_per(&of.unit).ok_or_else(|| unknown(document.line, &of.unit))?;
    let outcome = run(&of.measured_values, &of.iteration_count, ns);
    let bytes = of.throughput.iter().find(|of| of.unit == "bytes");
    let payload_bytes = bytes.map_or(0, |of| of.per_iteration);
    Ok(Entry { payload_bytes, ..Entry::new(document.line, Identity::new(of.id, "ns/op"), outcome) })
}

fn unknown(line: usize, unit: &str) -> Problem {
    Problem::at(line, format!("`{unit}` is not a unit of time that is known"))
}

/// The folders below `criterion` without the last; without such a folder, the one above, and the whole path as a setting.
fn identity(path: &Path) -> Identity {
    let parts = path.parent().into_iter().flat_map(Path::components);
    let folders: Vec<&str> = parts.filter_map(|part| part.as_os_str().to_str()).collect();
    let Some((baseline, above)) = folders.split_last() else {
        let name =
            path.file_stem().map_or_else(|| "unnamed".into(), |stem| stem.to_string_lossy().into_owned());
        return Identity::new(name, "ns/op");
    };
    let baseline = ("baseline", (*baseline).to_owned());
    match above.iter().rposition(|folder| *folder == "criterion") {
        Some(place) if place + 1 < above.len() => {
            Identity::new(above[place + 1..].join("/"), "ns/op").with([baseline])
        }
        _ => Identity::new(*above.last().unwrap_or(&baseline.1.as_str()), "ns/op")
            .with([("folder", above.join("/")), baseline]),
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

/// The samples of a benchmark in `raw.csv`.
#[derive(Default)]
struct Rows {
    payload_bytes: u64,
    times_ns: Vec<f64>,
    iterations: Vec<f64>,
}

/// The benchmarks below one heading, by the line of the first row, name and throughput.
type Table = BTreeMap<(usize, String, String), Rows>;

fn csv(text: &str, found: &mut Found) {
    let path = found.path.clone();
    let baseline = identity(&path).settings.get("baseline").cloned();
    let close = |number: usize, table: Table, found: &mut Found| {
        found.session(path.parent().unwrap_or(&path), number, "raw.csv");
        let names: Vec<String> = table.keys().map(|(_, name, _)| name.clone()).collect();
        for ((line, name, throughput), rows) in table {
            // The other files of a benchmark do not have it, so it counts only where it tells rows of one name apart.
            let is_one = names.iter().filter(|other| **other == name).count() == 1;
            let throughput = Some(("throughput", throughput)).filter(|_| !is_one);
            let baseline = baseline.clone().map(|baseline| ("baseline", baseline));
            let identity = Identity::new(name, "ns/op").with(baseline.into_iter().chain(throughput));
            let outcome = run(&rows.times_ns, &rows.iterations, 1.0);
            found.add(Entry { payload_bytes: rows.payload_bytes, ..Entry::new(line, identity, outcome) });
        }
    };
    let (mut number, mut table) = (0, Table::new());
    let mut firsts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut rows = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let heads = rows.headers().cloned().unwrap_or_default();
    let mut record = csv::StringRecord::new();
    // Text is valid UTF-8, so that there is no other error.
    while rows.read_record(&mut record).is_ok_and(|is_row| is_row) {
        let line = record.position().map_or(1, |at| at.line() as usize);
        if record == heads {
            // Another file was put behind this one, so another process.
            close(number, std::mem::take(&mut table), found);
            firsts.clear();
            number += 1;
            continue;
        }
        let has_end = rows.position().byte() < text.len() as u64 || text.ends_with('\n');
        let row = record.deserialize::<Row>(Some(&heads)).ok().filter(|_| has_end);
        let Some((row, ns)) = row.and_then(|row| Some((ns_per(&row.unit)?, row))).map(|(ns, row)| (row, ns))
        else {
            found.problem(line, "no row of Criterion's raw.csv, or one without an end, or in a unit of time that is not known");
            continue;
        };
        let parts = [Some(row.group), row.function, row.value];
        let name = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let throughput = row.throughput_num.map_or(String::new(), |number| {
            format!("{number} {}", row.throughput_type.as_deref().unwrap_or_default())
        });
        let first = *firsts.entry((name.clone(), throughput.clone())).or_insert(line);
        let rows = table.entry((first, name, throughput)).or_default();
        let bytes = row.throughput_num.filter(|_| row.throughput_type.as_deref() == Some("bytes"));
        rows.payload_bytes = bytes.map_or(0, |bytes| bytes as u64);
        rows.times_ns.push(row.sample_measured_value * ns);
        rows.iterations.push(row.iteration_count);
    }
    close(number, table, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_the_benchmark() {
        for (path, expected) in [
            ("target/criterion/copy/4096/new/sample.json", "copy/4096 baseline=new"),
            ("/x/criterion/getppid/base/estimates.json", "getppid baseline=base"),
            ("results/copy/new/sample.json", "copy baseline=new folder=results/copy"),
            ("new/sample.json", "new baseline=new folder="),
            ("criterion/new/sample.json", "criterion baseline=new folder=criterion"),
            ("sample.json", "sample"),
        ] {
            let Identity { mut name, settings, .. } = identity(Path::new(path));
            settings.iter().for_each(|(key, value)| name += &format!(" {key}={value}"));
            assert_eq!(name, expected);
        }
    }
}
