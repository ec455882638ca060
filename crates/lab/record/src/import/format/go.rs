//! Go's benchmark text (`go test -bench . -count N`), also inside the events of `go test -json`: each line is a run of one average over its
//! iterations.
//!
//! Identity: the full name with its suffix, and the configuration lines above it (`pkg`, `goos`, `goarch`, `cpu` and any other), as the
//! proposal "Go Benchmark Data Format" and golang.org/x/perf/benchfmt define it. The suffix `-8` is GOMAXPROCS, which `testing` leaves out
//! where it is 1; so the end of `BenchmarkSort/size-10` is either that or part of a name. Both are told from others by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::{Format, Json, Text};
use crate::Machine;
use crate::import::entry::{Entry, Identity, Outcome, Run, Settings, figure};
use crate::import::found::Found;
use crate::import::json::Document;
use crate::import::text::{Line, lines};

pub const FORMAT: Format = Format {
    tool: "go",
    about: "go test -bench, text or -json: each line, so each of -count, is a run",
    rules: &["ns/op is taken as it is; MB/s beside it is the same figure the other way round and left out"],
    json: Some(Json {
        fields: &[&["Action", "Package"], &["Action", "Output"], &["Action", "ImportPath"]],
        read: events,
    }),
    text: Some(Text {
        example: "BenchmarkPut-8   1000   125 ns/op",
        is_line: |line| {
            let word = line.strip_prefix("--- FAIL: ").unwrap_or(line).split_whitespace().next();
            word.is_some_and(|word| name(word).is_some()) || line.starts_with("goos: ")
        },
        hint: "benchmark",
        read: text,
    }),
};

const NOTE: &str =
    "a sample is the average over the iterations of a line; the runs of -count are inside one process";
/// Units that `testing` itself prints: a line that ends in one of them is whole.
const UNITS: [&str; 4] = ["ns/op", "MB/s", "B/op", "allocs/op"];

fn text(text: &str, found: &mut Found) {
    let mut reader = Reader::default();
    for line in lines(text) {
        reader.take(&line, found);
    }
    reader.end(found);
}

/// An event of `go test -json` (`go doc test2json`).
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Package", default)]
    package: String,
    #[serde(rename = "Output")]
    output: Option<String>,
}

/// The output of packages comes in pieces, and that of one between that of another.
fn events(documents: &[&Document<'_>], found: &mut Found) {
    let mut packages: BTreeMap<String, (Reader, usize, String)> = BTreeMap::new();
    for document in documents {
        let event: Event = match document.parse("go test -json") {
            Ok(event) => event,
            Err(problem) => {
                found.problem(problem.line.unwrap_or(document.line), problem.why);
                continue;
            }
        };
        let Some(output) = event.output else { continue };
        let (reader, number, begun) = packages.entry(event.package).or_insert_with_key(|package| {
            let mut reader = Reader::default();
            if !package.is_empty() {
                reader.configure("pkg", package);
            }
            (reader, document.line, String::new())
        });
        if begun.is_empty() {
            *number = document.line;
        }
        begun.push_str(&output);
        if begun.ends_with('\n') {
            for line in lines(&std::mem::take(begun)) {
                reader.take(&Line { number: *number, ..line }, found);
            }
        }
    }
    for (mut reader, number, begun) in packages.into_values() {
        lines(&begun).for_each(|line| reader.take(&Line { number, ..line }, found));
        reader.end(found);
    }
}

/// What the lines so far say of those that follow.
#[derive(Default)]
struct Reader {
    config: Settings,
    /// The name of a benchmark that has printed something itself before its result, and where.
    begun: Option<(usize, String)>,
    /// Has a benchmark of the package failed?
    has_failed: bool,
    /// Entries above which no line names the package: before Go 1.9 only the line below them does, `ok PACKAGE TIME`.
    unnamed: Vec<Entry>,
}

impl Reader {
    fn configure(&mut self, key: &str, value: &str) {
        let config = Arc::make_mut(&mut self.config);
        if value.is_empty() {
            config.remove(key)
        } else {
            config.insert(key.into(), value.into())
        };
    }

    fn take(&mut self, line: &Line<'_>, found: &mut Found) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let [first, rest @ ..] = &words[..] else { return };
        if let Some(name) = name(first).filter(|_| line.text.starts_with(first)) {
            if rest.first().is_some_and(|iterations| iterations.parse::<u64>().is_ok()) {
                self.end_begun(found);
                self.result(line, name, rest, found);
            } else if !rest.is_empty() || self.begun.is_none() {
                self.end_begun(found);
                // The name alone, before what the benchmark prints itself; alone it may also be the parent of others.
                self.begun = Some((if rest.is_empty() { 0 } else { line.number }, name.into()));
            }
        } else if let ["---", verdict @ ("FAIL:" | "SKIP:"), benchmark, ..] = &words[..] {
            let Some(name) = name(benchmark) else { return };
            self.begun = None;
            let why = if *verdict == "FAIL:" {
                "go test reports that it failed"
            } else {
                "go test reports that it was skipped"
            };
            self.has_failed |= *verdict == "FAIL:";
            let identity = self.identity(name, "ns/op");
            found.add(Entry::new(line.number, identity, Outcome::Skipped(why.into())));
        } else if let ["ok", package, ..] = &words[..] {
            self.name_package(Some(package), found);
        } else if let ["FAIL", package, ..] = &words[..] {
            self.name_package(Some(package), found);
            if !std::mem::take(&mut self.has_failed) {
                let why = format!(
                    "go test reports that {package} failed, and no benchmark of it; its figures are missing: `{}`",
                    line.text
                );
                found.problem(line.number, why);
            }
        } else if first.parse::<u64>().is_ok() && is_result(rest) {
            if let Some((_, name)) = self.begun.take() {
                self.result(line, &name, &words, found);
            }
        } else if let Some((key, value)) = config(&line.text) {
            self.configure(key, value);
        }
    }

    /// Adds the entries that waited for the name of their package.
    fn name_package(&mut self, package: Option<&str>, found: &mut Found) {
        for mut entry in std::mem::take(&mut self.unnamed) {
            let settings = Arc::make_mut(&mut entry.identity.settings);
            settings.extend(package.map(|package| ("pkg".to_owned(), package.to_owned())));
            found.add(entry);
        }
    }

    /// What follows the name of a result: iterations, then figures with their units.
    fn result(&mut self, line: &Line<'_>, name: &str, words: &[&str], found: &mut Found) {
        match self.entry(line, name, words) {
            Ok(entry) if !self.config.contains_key("pkg") => self.unnamed.push(entry),
            Ok(entry) => found.add(entry),
            Err(why) => return found.problem(line.number, why),
        }
        let get = |key: &str| self.config.get(key).cloned().unwrap_or_default();
        let machine =
            Machine { cpu_model: get("cpu"), arch: get("goarch"), os: get("goos"), ..Machine::default() };
        if machine != Machine::default()
            && let Err(problem) = found.machine(line.number, machine)
        {
            found.problems.push(problem);
        }
    }

    fn entry(&self, line: &Line<'_>, name: &str, words: &[&str]) -> Result<Entry, String> {
        let (iterations, pairs) = (words[0].parse().unwrap_or(0), &words[1..]);
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(format!("the line of `{name}` ends in the middle"));
        }
        if !UNITS.contains(&pairs[pairs.len() - 1]) {
            line.check_end()?;
        }
        let mut figures = Vec::new();
        for pair in pairs.chunks(2) {
            let value: f64 =
                pair[0].parse().map_err(|_| format!("`{}` of `{name}` is not a number", pair[0]))?;
            figures.push((value, pair[1]));
        }
        let main = figures.iter().position(|(_, unit)| *unit == "ns/op").unwrap_or(0);
        let (value, unit) = match figures.swap_remove(main) {
            (value, "MB/s") => (value * 1e6, "bytes/s"),
            other => other,
        };
        let mut identity = self.identity(name, "");
        identity.unit = unit.to_owned().into();
        let value = match figure(value, unit) {
            Ok(value) => value,
            Err(why) => return Ok(Entry::new(line.number, identity, Outcome::Skipped(why))),
        };
        let mut run = Run { ops_per_sample: iterations, ..Run::of(value) };
        for (value, unit) in
            figures.into_iter().filter(|(_, unit)| *unit != "MB/s" || identity.unit != "ns/op")
        {
            run.further(unit, value);
        }
        let notes = vec![NOTE.to_owned()];
        Ok(Entry { notes, ..Entry::new(line.number, identity, Outcome::Runs(vec![run])) })
    }

    /// `Copy/size=64-2`: what is behind the last dash, if it is a number, is the suffix.
    fn identity(&self, name: &str, unit: &'static str) -> Identity {
        let end = name.rfind('-').filter(|dash| {
            let digits = &name[dash + 1..];
            *dash > 0 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        let (name, suffix) = name.split_at(end.unwrap_or(name.len()));
        Identity { suffix: suffix.into(), settings: self.config.clone(), ..Identity::new(name, unit) }
    }

    /// A benchmark that printed something itself, and no result.
    fn end_begun(&mut self, found: &mut Found) {
        if let Some((line @ 1.., name)) = self.begun.take() {
            found.problem(line, format!("no result of `{name}` follows"));
        }
    }

    fn end(mut self, found: &mut Found) {
        self.end_begun(found);
        self.name_package(None, found);
    }
}

/// The name of a benchmark without its prefix; behind that, `testing` allows no lowercase letter.
fn name(word: &str) -> Option<&str> {
    word.strip_prefix("Benchmark").filter(|name| !name.starts_with(char::is_lowercase))
}

/// Are these figures with units, behind the iterations of a result?
fn is_result(words: &[&str]) -> bool {
    words.len() >= 2 && words[0].parse::<f64>().is_ok() && words[1].contains('/')
}

/// `goos: linux`, `pkg:`: a key begins with a lowercase letter and has no space or uppercase letter in it.
fn config(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key =
        key.starts_with(char::is_lowercase) && !key.contains(|c: char| c.is_whitespace() || c.is_uppercase());
    (is_key && (value.is_empty() || value.starts_with([' ', '\t']))).then(|| (key, value.trim()))
}
