//! Round trips on one CPU of a guest: what each mechanism costs of the kernel, and kdbus of 2014 as multiples of the same pipe.

use weighbridge_record::CaseId;

use super::kernel_slab::cell;
use super::published::{KDBUS_2014, rows};
use super::{Found, NOT_A_RACE, Record, Section, Table, Theirs, reasons};
use crate::units::size;

/// Payloads of the table, in bytes.
const SIZES: [u64; 2] = [1, 4096];
const PATTERN: &str = "roundtrip";
/// What the others are multiples of.
const PIPE: &str = "pipe";

/// What was published of kdbus, its column, and what does the same here.
const KDBUS: [(&str, &str, &str); 2] =
    [("copy", "copy_roundtrips_per_s", "causeway-sw"), ("memfd", "memfd_roundtrips_per_s", "memfd-pass")];

pub(super) fn section(record: &Record<'_>) -> Section {
    let unit = if record.header.machine.clock.counts_instructions() { "instructions" } else { "ns" };
    let append =
        record.header.settings.get("guest.append").map_or(String::new(), |append| format!(" with {append}"));
    let ways = ways(record);
    let mut notes = vec![
        "Each figure is of a round trip: two messages, two switches between processes where the mechanism sleeps, and what the \
         program executes for them. noop is the loop alone."
            .to_owned(),
        NOT_A_RACE.to_owned(),
    ];
    notes.extend(reasons(ways.iter().flat_map(|way| SIZES.map(|bytes| way.find(record, bytes)))));
    Section {
        title: "Round trips on one CPU".into(),
        about: vec![
            format!("Here: Linux {}{append}; {unit} per round trip.", record.header.machine.kernel),
            "Published: S. Westerfeld, systemd-devel, 15 April 2014; kdbench on an AMD Phenom 9850; round trips per second of kdbus on one CPU, and of a \
             pipe each way with poll() before each read."
                .into(),
        ],
        tables: vec![every_mechanism(record, &ways, unit), beside_kdbus(record, unit)],
        notes,
    }
}

/// A mechanism with the axes that are not at their default.
#[derive(Debug, PartialEq)]
struct Way<'a>(&'a CaseId);

impl<'a> Way<'a> {
    fn find(&self, record: &Record<'a>, bytes: u64) -> Found<'a> {
        record.find(|id| is_way(id, self.0) && id.payload_bytes == bytes)
    }
}

fn is_way(id: &CaseId, other: &CaseId) -> bool {
    id.pattern == other.pattern && id.mechanism == other.mechanism && id.axes == other.axes
}

/// Every way of the record, the one with the lowest cost of a byte first, and those without a figure last.
fn ways<'a>(record: &Record<'a>) -> Vec<Way<'a>> {
    let skipped = record.report.skipped.iter().filter(|skip| skip.source == record.source);
    let ids = record
        .all(|id| id.pattern == PATTERN)
        .map(|(case, _)| &case.id)
        .chain(skipped.map(|skip| &skip.what.case).filter(|id| id.pattern == PATTERN));
    let mut ways: Vec<Way<'a>> = Vec::new();
    for id in ids {
        if !ways.iter().any(|way| is_way(id, way.0)) {
            ways.push(Way(id));
        }
    }
    let cost = |way: &Way<'a>| {
        way.find(record, SIZES[0]).figure(|value| value).map_or(f64::INFINITY, |figure| figure.value)
    };
    ways.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    ways
}

fn every_mechanism(record: &Record<'_>, ways: &[Way<'_>], unit: &str) -> Table {
    let pipes = SIZES.map(|bytes| find(record, PIPE, None, bytes));
    let row = |way: &Way<'_>| {
        let mut cells = vec![way.0.variant()];
        for (bytes, pipe) in SIZES.into_iter().zip(pipes) {
            let found = way.find(record, bytes);
            cells.push(match found.figure(|value| value) {
                Some(figure) => cell(Some(figure.value), unit),
                None => found.blank(),
            });
            cells.push(times(record, pipe, found).map_or(String::new(), |times| format!("{times:.3}")));
        }
        cells
    };
    let heads = SIZES.iter().flat_map(|bytes| [format!("{}:\n{unit}", size(*bytes)), "× pipe".into()]);
    Table {
        title: format!("{unit} per round trip"),
        heads: std::iter::once("mechanism".into()).chain(heads).collect(),
        rows: ways.iter().map(row).collect(),
        labels: 1,
        after: Vec::new(),
    }
}

/// A mechanism with its defaults, or with a way to wait.
fn find<'a>(record: &Record<'a>, mechanism: &str, wait: Option<&str>, bytes: u64) -> Found<'a> {
    record.find(|id| {
        let axes = usize::from(wait.is_some());
        id.pattern == PATTERN
            && id.mechanism == mechanism
            && id.payload_bytes == bytes
            && id.axes.len() == axes
            && id.axes.get("wait").map(String::as_str) == wait
    })
}

/// How many times the cost of a pipe; nothing of the pipe itself.
fn times(record: &Record<'_>, pipe: Found<'_>, found: Found<'_>) -> Option<f64> {
    match (pipe, found) {
        (Found::Value(pipe, _), Found::Value(case, _)) if pipe.id == case.id => None,
        _ => record.ratio(pipe, found).map(|line| line.ratio),
    }
}

fn beside_kdbus(record: &Record<'_>, unit: &str) -> Table {
    let published = rows(KDBUS_2014);
    let published = published.iter().filter(|row| {
        (row.text("harness"), row.text("placement")) == ("kdbench", "same-cpu")
            && SIZES.iter().any(|bytes| row.text("payload_bytes") == bytes.to_string())
    });
    let mut table = Vec::new();
    for row in published {
        let bytes = row.number("payload_bytes").unwrap_or(0.0) as u64;
        let pipe = find(record, PIPE, Some("poll"), bytes);
        for (name, column, mechanism) in KDBUS {
            let theirs = row.number("ibench_roundtrips_per_s").zip(row.number(column));
            let Some(theirs) = theirs.map(|(pipe, bus)| pipe / bus) else { continue };
            let found = find(record, mechanism, None, bytes);
            let mut cells =
                vec![format!("kdbus, {name}"), size(bytes), row.text(column).into(), format!("{theirs:.2}")];
            cells.push(mechanism.into());
            match times(record, pipe, found) {
                None => cells.extend(["not measured".into(), String::new()]),
                Some(ours) => {
                    let name = format!("kdbench on one CPU, {name}, {}", size(bytes));
                    let theirs = Theirs {
                        source: "S. Westerfeld, 2014",
                        name: &name,
                        unit: "times a pipe",
                        value: theirs,
                    };
                    cells.extend([format!("{ours:.2}"), record.times(found, &theirs, ours)]);
                }
            }
            table.push(cells);
        }
    }
    let heads = [
        "2014",
        "payload",
        "round\ntrips/s",
        "× pipe\nwith poll",
        "here",
        "× pipe\nwith poll",
        "here/\n2014",
    ];
    Table {
        title: "A bus as a multiple of a pipe, 2014 and here".into(),
        heads: heads.map(String::from).to_vec(),
        rows: table,
        labels: 2,
        after: vec![format!(
            "2014: one of time; here: one of {unit}. Payload both ways; there its sender filled it by memset and no process read it, here it is written and checked."
        )],
    }
}
