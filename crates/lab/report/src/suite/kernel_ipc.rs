//! Round trips on one CPU of a guest: what each mechanism costs of the kernel, and kdbus of 2014 as multiples of the same pipe.

use weighbridge_record::CaseId;

use super::published::{KDBUS_2014, rows};
use super::{Found, NOT_A_RACE, Record, Section, Theirs, below, counted, reasons, table};
use crate::document::Block;
use crate::model::HARNESS;
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
    let unit = record.unit();
    let ways = ways(record);
    let here = format!("Here: {}; {unit} per round trip.", record.guest());
    let skips = ways.iter().flat_map(|way| SIZES.map(|bytes| of_way(record, way, bytes)));
    let note = format!(
        "2014: one of time; here: one of {unit}. Payload both ways; there its sender filled it by memset and no process read it, here it is written and checked."
    );
    Section::new(
        "Round trips on one CPU",
        &[
            &here,
            "Published: S. Westerfeld, systemd-devel, 15 April 2014; kdbench on an AMD Phenom 9850; round trips per second of kdbus on one CPU, and of a \
             pipe each way with poll() before each read.",
        ],
        [every_mechanism(record, &ways, unit), beside_kdbus(record), below(&note)],
        &[
            "Each figure is of a round trip: two messages, two switches between processes where the mechanism sleeps, and what the \
             program executes for them. noop is the loop alone.",
            NOT_A_RACE,
        ],
    )
    .with(reasons(skips))
}

/// A case with the mechanism and axes of `way`.
fn of_way<'a>(record: &Record<'a>, way: &CaseId, bytes: u64) -> Found<'a> {
    record.find(|id| is_way(id, way) && id.payload_bytes == bytes)
}

fn is_way(id: &CaseId, other: &CaseId) -> bool {
    id.pattern == other.pattern && id.mechanism == other.mechanism && id.axes == other.axes
}

/// A case of every mechanism with its axes, the one with the lowest cost of a byte first, and those without a figure last.
fn ways<'a>(record: &Record<'a>) -> Vec<&'a CaseId> {
    let skipped = record.skipped().map(|(case, _)| case).filter(|id| id.pattern == PATTERN);
    let measured = record.all(|id| id.pattern == PATTERN).map(|(case, _)| &case.id);
    let mut ways: Vec<&CaseId> = Vec::new();
    for id in measured.chain(skipped) {
        if !ways.iter().any(|way| is_way(id, way)) {
            ways.push(id);
        }
    }
    let cost = |way: &CaseId| of_way(record, way, SIZES[0]).value().unwrap_or(f64::INFINITY);
    ways.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    ways
}

fn every_mechanism(record: &Record<'_>, ways: &[&CaseId], unit: &str) -> Block {
    let pipes = SIZES.map(|bytes| find(record, PIPE, None, bytes));
    let row = |way: &&CaseId| {
        let cells = SIZES.into_iter().zip(pipes).flat_map(|(bytes, pipe)| {
            let found = of_way(record, way, bytes);
            let cell = found.value().map_or(found.blank(), |value| counted(Some(value), unit));
            [cell, times(record, pipe, found).map_or(String::new(), |times| format!("{times:.3}"))]
        });
        std::iter::once(way.variant()).chain(cells).collect()
    };
    let heads = SIZES.map(|bytes| format!("|{}:\n{unit}|× pipe", size(bytes))).concat();
    table(&format!("{unit} per round trip"), 1, &format!("mechanism{heads}"), ways.iter().map(row))
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
        // The loop alone does nothing that a pipe does.
        (_, Found::Value(case, _)) if case.id.mechanism == HARNESS => None,
        _ => record.ratio(pipe, found).map(|line| line.ratio),
    }
}

fn beside_kdbus(record: &Record<'_>) -> Block {
    let published = rows(KDBUS_2014);
    let published = published.iter().filter(|row| {
        (row.text("harness"), row.text("placement")) == ("kdbench", "same-cpu")
            && SIZES.iter().any(|bytes| row.text("payload_bytes") == bytes.to_string())
    });
    let mut table_rows = Vec::new();
    for row in published {
        let bytes = row.number("payload_bytes").unwrap_or(0.0) as u64;
        let pipe = find(record, PIPE, Some("poll"), bytes);
        for (name, column, mechanism) in KDBUS {
            let theirs = row.number("ibench_roundtrips_per_s").zip(row.number(column));
            let Some(value) = theirs.map(|(pipe, bus)| pipe / bus) else { continue };
            let found = find(record, mechanism, None, bytes);
            let [ours, beside] = match times(record, pipe, found) {
                None => ["not measured".into(), String::new()],
                Some(ours) => {
                    let name = format!("kdbench on one CPU, {name}, {}", size(bytes));
                    let unit = "times a pipe";
                    let theirs = Theirs { source: "S. Westerfeld, 2014", name: &name, unit, value };
                    [format!("{ours:.2}"), record.times(found, &theirs, ours)]
                }
            };
            let theirs = [format!("kdbus, {name}"), size(bytes), row.text(column).into()];
            let ours = [format!("{value:.2}"), mechanism.into(), ours, beside];
            table_rows.push(theirs.into_iter().chain(ours).collect());
        }
    }
    let heads = "2014|payload|round\ntrips/s|× pipe\nwith poll|here|× pipe\nwith poll|here/\n2014";
    table("A bus as a multiple of a pipe, 2014 and here", 2, heads, table_rows)
}
