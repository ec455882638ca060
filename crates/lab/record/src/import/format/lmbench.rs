//! lmbench's text, as its programs print it one by one or as `lmbench-run` collects it; averages alone (medians of its
//! repetitions).
//!
//! Identity: the words before the colon; in a table its section, its heading and the first column (lmbench's manual pages of each program). Programs such as
//! `bw_mem` print two numbers and no name; so nothing tells their figures apart, and they are skipped.

use super::{Format, Text};
use crate::import::entry::{Entry, Identity, Outcome};
use crate::import::found::Found;
use crate::import::text::{Line, lines};
use crate::import::units::ns_per;

pub const FORMAT: Format = Format {
    tool: "lmbench",
    about: "lmbench, text of its programs: medians of its repetitions",
    rules: &[
        "microseconds become nanoseconds; MB/sec is 1,000,000 bytes per second",
        "what an operation is, a hop or a round trip, is as lmbench's manual says for each program",
    ],
    json: None,
    text: Some(Text {
        example: "Simple syscall: 0.1303 microseconds",
        is_line: |line| {
            line.starts_with("\"size=")
                || line.starts_with("\"stride=")
                || named(line).is_some_and(|(_, _, unit)| conversion(unit).is_some())
        },
        hint: "microseconds",
        read,
    }),
};

const NOTE: &str = "only the median over lmbench's repetitions";

fn read(text: &str, found: &mut Found) {
    let (mut section, mut heading) = (None::<String>, None);
    for line in lines(text) {
        let text = line.text.trim();
        match entry(
            &line,
            text,
            heading
                .as_ref()
                .map(|(section, heading): &(String, String)| (section.as_str(), heading.as_str())),
        ) {
            Some(Ok(entry)) => found.add(entry),
            Some(Err(why)) => found.problem(line.number, why),
            // Version and settings, in brackets, stand between the figures.
            None if text.is_empty() => (section, heading) = (None, None),
            None if text.starts_with('[') => {}
            // `lmbench-run` prints the title of a section above the heading of its tables.
            None if text.starts_with('"') => {
                let above = section.as_deref().map_or(String::new(), |section| format!("{section}/"));
                heading = Some((above, text.trim_matches('"').to_owned()));
            }
            None => {
                section = Some(text.to_owned());
                heading = Some((String::new(), text.to_owned()));
            }
        }
    }
}

/// The entry of a line; none where it has no figure. The heading of a table comes with the section around it.
fn entry(line: &Line<'_>, text: &str, heading: Option<(&str, &str)>) -> Option<Result<Entry, String>> {
    let skipped = |name: String, why: &str| {
        Ok(Entry::new(line.number, Identity::new(name, "ns/op"), Outcome::Skipped(why.into())))
    };
    let average =
        |name: String, unit, value| Ok(Entry::average(line.number, Identity::new(name, unit), value, NOTE));
    if text.starts_with('[') {
        return None;
    }
    if let Some((name, value, unit)) = named(text) {
        return Some(match conversion(unit) {
            Some((unit, factor)) => average(name.into(), unit, value * factor),
            None if ["pages", "bytes"].contains(&unit) => {
                skipped(name.into(), "it is a size, and no time or rate")
            }
            None => Err(format!("`{unit}` is not a unit that is known; `{name}` is left out")),
        });
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: &str| word.trim_end_matches(['k', 'm']).parse::<f64>().ok();
    let [first, rest @ ..] = &words[..] else { return None };
    if let (Some(_), [value, ..]) = (number(first), rest)
        && let Some(value) = number(value)
    {
        if let Err(why) = line.check_end() {
            return Some(Err(why));
        }
        let Some((section, heading)) = heading else {
            return Some(skipped(
                format!("without a name/{first}"),
                "lmbench prints neither its name nor its unit",
            ));
        };
        let unit = match rest {
            [_, unit] => conversion(unit),
            [_] => of_table(heading),
            _ => None,
        };
        let (heading, column) = match heading.split_whitespace().next() {
            // `"size=0k ovr=0.61` stands above pairs of a number of processes and microseconds.
            Some(size) if heading.starts_with("size=") => (format!("context switch/{size}"), "processes"),
            _ => (heading.to_owned(), "MB"),
        };
        let heading = format!("{section}{heading}");
        let name = format!("{heading}/{first} {column}");
        return Some(match unit {
            Some((unit, factor)) => average(name, unit, value * factor),
            None => skipped(format!("{heading}/{first}"), "lmbench prints no unit of it"),
        });
    }
    // `Avg xfer: 3.2KB, 41.8KB in 1.4040 millisecs, 29.75 MB/sec` and the like.
    let has_unit = words.windows(2).any(|pair| number(pair[0]).is_some() && conversion(pair[1]).is_some());
    has_unit
        .then(|| skipped(text.split(':').next().unwrap_or(text).into(), "it is in a form that is not known"))
}

/// `Pipe latency: 5.1234 microseconds`, `AF_UNIX sock stream bandwidth: 8000.00 MB/sec`.
fn named(line: &str) -> Option<(&str, f64, &str)> {
    let (name, rest) = line.trim().rsplit_once(": ")?;
    let mut words = rest.split_whitespace();
    let (value, unit) = (words.next()?.parse().ok()?, words.next()?);
    (words.next().is_none() && !name.starts_with('[')).then_some((name, value, unit))
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

/// The unit of a table's second column, by its heading (lat_ctx(8), lat_mem_rd(8), lat_mmap(8), bw_mem(8)).
fn of_table(heading: &str) -> Option<(&'static str, f64)> {
    if heading.starts_with("size=") || heading == "mappings" {
        Some(("ns/op", 1e3))
    } else if heading.starts_with("stride=") {
        Some(("ns/op", 1.0))
    } else if heading.ends_with("bandwidth") || heading.contains("bcopy") {
        Some(("bytes/s", 1e6))
    } else {
        None
    }
}
