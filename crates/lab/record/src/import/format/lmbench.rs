//! lmbench's text, as its programs print it one by one or as `lmbench-run` collects it; averages alone (medians of its
//! repetitions).

use super::Format;
use crate::import::text::{figure, lines};
use crate::import::units::ns_per;
use crate::import::{Case, Foreign, Input, Problem};

pub const FORMAT: Format = Format {
    tool: "lmbench",
    about: "lmbench, text of its programs: medians of its repetitions",
    accepts: |text| {
        text.lines().any(|line| entry(line).is_some_and(|(_, unit, _)| conversion(unit).is_some()))
    },
    read,
};

const RULES: [&str; 2] = [
    "microseconds become nanoseconds; MB/sec is 1,000,000 bytes per second",
    "what an operation is, a hop or a round trip, is as lmbench's manual says for each program",
];
const NOTE: &str = "only the median over lmbench's repetitions";

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let mut foreign = Foreign { rules: RULES.into(), ..Foreign::default() };
    let mut table = None;
    for (number, line) in lines(input.text) {
        if line.is_empty() {
            table = None;
            continue;
        }
        if let Some(heading) = line.strip_prefix('"') {
            // `"size=0k ovr=0.61` stands above pairs of a number of processes and microseconds.
            table = heading
                .starts_with("size=")
                .then(|| heading.split_whitespace().next().unwrap_or(heading).to_owned());
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ([processes, microseconds], Some(heading)) = (&words[..], &table)
            && let (Ok(processes), Some(value)) = (processes.parse::<u32>(), figure(microseconds))
        {
            let name = format!("context switch/{heading}/{processes} processes");
            foreign.cases.push(Case::new(name, "ns/op").averages([value * 1e3], NOTE));
            continue;
        }
        // Version, settings and headings stand between the figures.
        let Some((name, unit, value)) = entry(&line) else { continue };
        match conversion(unit) {
            Some((unit, factor)) => {
                foreign.cases.push(Case::new(name, unit).averages([value * factor], NOTE));
            }
            None => {
                let why = format!("`{unit}` is not a unit that is known; `{name}` is left out");
                foreign.problems.push(Problem::at(number, why));
            }
        }
    }
    Ok(foreign)
}

/// `Pipe latency: 5.1234 microseconds`, `AF_UNIX sock stream bandwidth: 8000.00 MB/sec`.
fn entry(line: &str) -> Option<(&str, &str, f64)> {
    let (name, rest) = line.trim().rsplit_once(": ")?;
    let mut words = rest.split_whitespace();
    let (value, unit) = (figure(words.next()?)?, words.next()?);
    let starts_well = name.starts_with(|c: char| c.is_ascii_uppercase()) && !name.contains('[');
    (words.next().is_none() && starts_well).then_some((name, unit, value))
}

fn conversion(unit: &str) -> Option<(&'static str, f64)> {
    if let Some(ns) = ns_per(unit) {
        return Some(("ns/op", ns));
    }
    match unit.strip_suffix("/sec")? {
        "MB" => Some(("bytes/s", 1e6)),
        "KB" => Some(("bytes/s", 1e3)),
        _ => None,
    }
}
