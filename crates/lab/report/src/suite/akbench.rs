//! akbench: latencies, then bandwidths, in its order and units.

use weighbridge_record::CaseId;

use super::published::{AKBENCH_2025, Row, rows};
use super::{NOT_A_RACE, Record, Section, Table, Theirs, reasons};
use crate::units::significant;

/// Every latency that was published sums eight durations of ten and divides by ten.
const OF_THE_TRUTH: f64 = 0.8;

/// The column that latencies alone have.
const CORRECTED: usize = 3;

/// What a line of its table is here: pattern and mechanism, an axis that tells cases apart (or must be absent), and what is
/// different nevertheless.
struct Same {
    benchmark: &'static str,
    is: fn(&CaseId) -> bool,
    differs: &'static str,
}

const fn same(benchmark: &'static str, is: fn(&CaseId) -> bool, differs: &'static str) -> Same {
    Same { benchmark, is, differs }
}

fn case(id: &CaseId, pattern: &str, mechanism: &str) -> bool {
    id.pattern == pattern && id.mechanism == mechanism
}

fn has(id: &CaseId, axis: &str, value: &str) -> bool {
    id.axes.get(axis).is_some_and(|known| known == value)
}

const SAME: &[Same] = &[
    same("atomic", |id| case(id, "pingpong", "atomic") && !id.axes.contains_key("order"), ""),
    same(
        "atomic_rel_acq",
        |id| case(id, "pingpong", "atomic") && has(id, "order", "acqrel"),
        "its store is relaxed, although its name says release; ours releases, which on x86 is the same instruction",
    ),
    same("barrier", |id| case(id, "pingpong", "barrier"), "without formatting log lines inside the barrier"),
    same("condition_variable", |id| case(id, "pingpong", "condvar"), ""),
    same(
        "semaphore",
        |id| case(id, "pingpong", "sem-posix"),
        "unnamed semaphores in shared memory; named ones there",
    ),
    same("statfs", |id| case(id, "solo", "statfs"), ""),
    same("fstatfs", |id| case(id, "solo", "fstatfs"), ""),
    same("getpid", |id| case(id, "solo", "getpid"), ""),
    same("memcpy", |id| case(id, "solo", "memcpy"), ""),
    same("memcpy_mt_1", |id| mt(id, "1"), THREADS),
    same("memcpy_mt_2", |id| mt(id, "2"), THREADS),
    same("memcpy_mt_3", |id| mt(id, "3"), THREADS),
    same("memcpy_mt_4", |id| mt(id, "4"), THREADS),
    same("tcp", |id| case(id, "stream", "tcp"), ""),
    same("uds", |id| case(id, "stream", "unix-stream"), ""),
    same("pipe", |id| case(id, "stream", "pipe"), FRESH),
    same("fifo", |id| case(id, "stream", "fifo"), FRESH),
    same("mq", |id| case(id, "stream", "mq-posix"), FRESH),
    same("mmap", |id| case(id, "stream", "buffers-barrier") && has(id, "backing", "file"), ""),
    same("shm", |id| case(id, "stream", "buffers-barrier") && has(id, "backing", "shm"), ""),
];

const THREADS: &str = "our roles are processes that run already, each with blocks of its own; the published figure includes the time to start threads";
const FRESH: &str = "the receiver copies to memory that is touched for the first time, as in akbench";

fn mt(id: &CaseId, roles: &str) -> bool {
    case(id, "parallel", "memcpy") && has(id, "roles", roles)
}

pub(super) fn section(record: &Record<'_>) -> Section {
    let mut differences = Differences::default();
    let published = rows(AKBENCH_2025);
    let tables = [("latency", "latency_all"), ("bandwidth", "bandwidth_all")];
    let tables = tables.map(|(family, title)| {
        let of_family = published.iter().filter(|row| row.text("family") == family);
        let rows = of_family.map(|row| line(record, row, &mut differences)).collect();
        let mut heads = vec![
            "benchmark",
            "2025",
            "±",
            "2025\ncorrected",
            "ours",
            "95 %\ninterval",
            "ours/\n2025",
            "note",
        ];
        if family != "latency" {
            heads.remove(CORRECTED);
        }
        let unit = if family == "latency" { "ns" } else { "GiByte/sec" };
        Table {
            title: format!("{title}, {unit}"),
            heads: heads.into_iter().map(String::from).collect(),
            rows,
            labels: 1,
            after: Vec::new(),
        }
    });
    let mut notes = vec![
        "corrected: the published latencies are 0.8 of what was measured, because eight of ten durations are added up and \
         divided by ten; the same mistake keeps their ± from ever being below 0.22 of the mean. Ratios are of the corrected \
         figures. Bandwidths are not affected."
            .to_string(),
        "Latencies are one way; below 1 ours is shorter. Bandwidths are what the receiver counts; above 1 ours is larger."
            .to_string(),
        "1 GiB through buffers of 1 MiB (8 KiB for mq): here messages come from and go to blocks of 256 MiB that both ends walk \
         over again and again, and the figure is the median of windows without a beginning and an end."
            .to_string(),
        NOT_A_RACE.to_string(),
    ];
    notes.extend(differences.0.iter().enumerate().map(|(index, text)| format!("{}: {text}.", index + 1)));
    notes.extend(reasons(SAME.iter().map(|same| record.find(same.is))));
    Section {
        title: "akbench, 2025".into(),
        about: vec![
            "Published: the slides of akbench (github.com/akawashiro/akbench), 2025; a machine with DDR4-3200 and Linux 6.8, \
             its CPU not named there. Nothing is pinned, there as here."
                .into(),
            record.machine(),
        ],
        tables: tables.into(),
        notes,
    }
}

/// What differs, each once, with its number.
#[derive(Default)]
struct Differences(Vec<&'static str>);

impl Differences {
    fn number(&mut self, text: &'static str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let known = self.0.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.0.push(text);
            self.0.len() - 1
        });
        (known + 1).to_string()
    }
}

fn line(record: &Record<'_>, row: &Row, differences: &mut Differences) -> Vec<String> {
    let benchmark = row.text("benchmark");
    let is_latency = row.text("family") == "latency";
    let mean = row.number("mean").unwrap_or(f64::NAN);
    let truth = if is_latency { mean / OF_THE_TRUTH } else { mean };
    let mut cells = vec![
        format!("{}_{benchmark}", row.text("family")),
        row.text("mean").into(),
        row.text("stddev").into(),
    ];
    if is_latency {
        cells.insert(CORRECTED, format!("{truth:.3}"));
    }
    let Some(same) = SAME.iter().find(|same| same.benchmark == benchmark) else { return cells };
    let found = record.find(same.is);
    // ns stay ns; bytes per second become GiByte per second.
    let figure = found.figure(|value| if is_latency { value } else { value / f64::from(1 << 30) });
    match figure {
        Some(figure) => {
            let unit = if is_latency { "ns" } else { "GiB/s" };
            let theirs = Theirs { source: "akbench, 2025", name: &cells[0], unit, value: truth };
            let times = record.times(found, &theirs, figure.value);
            cells.extend([significant(figure.value), figure.reach(), times]);
        }
        None => cells.extend([found.blank(), String::new(), String::new()]),
    }
    cells.push(differences.number(same.differs));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_line_has_its_case() {
        let published = rows(AKBENCH_2025);
        let names: Vec<&str> = published.iter().map(|row| row.text("benchmark")).collect();
        assert_eq!(names, SAME.iter().map(|same| same.benchmark).collect::<Vec<_>>());
    }
}
